# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/sharing about filling the device: as many lanes as pay, and urgent work first. Not to be run by
hand. Rows that pass no number of lanes measure the defaults of salusd."""

import math
import os
import random
import re
import time

from arrangements import Arrival, Free, play, read_output
from machine import ROOT, exact_cpu_ns, median, show_time, size_for
from sharing_rows import percentile

SCRIPT = os.path.join(ROOT, "bench", "train_cnn.py")
LONG = 1000  # hours that a job declares which is not to be first under srtf


def at_most(report, name, value, bar, digits=3):
    report.add(name, f"{value:.{digits}f}", f"<= {bar:.{digits - 1}f}", value <= bar)


def rotated(items, number):
    """The order of a turn: each turn begins with another."""
    items = list(items)
    return items[number % len(items):] + items[:number % len(items)]


# Eight jobs.


def arrivals_of(lengths_s, within_s, step_s):
    """Jobs of these lengths in a random order, at random times, the first at once. The seed is fixed. step_s: seconds of
    a step by batch; the jobs take the batches in turn."""
    rng = random.Random(12)
    lengths_s = rng.sample(lengths_s, len(lengths_s))
    times = [0] + sorted(rng.uniform(0, within_s) for _ in lengths_s[1:])
    found = []
    for number, (at_s, length_s) in enumerate(zip(times, lengths_s)):
        batch = sorted(step_s)[number % len(step_s)]
        argv = (SCRIPT, "--steps", str(math.ceil(length_s / step_s[batch])), "--batch", str(batch))
        found.append(Arrival(f"job{number}", at_s, argv, length_s))
    return found


def script_step_s(stage, host, batch, steps):
    """Seconds of a step of the script, from its own output."""
    said = read_output(stage, host, "alone", [SCRIPT, "--steps", str(steps), "--batch", str(batch)])
    return float(re.search(r"trained for ([\d.]+) s", said)[1]) / steps


def measure_scripts(stage, batches, steps):
    """Fills the compilation caches of both plugins, then measures the steps alone on the vendor's plugin."""
    with stage.daemon() as daemon:
        for batch in batches:
            script_step_s(stage, daemon, batch, 2)
    with Free(stage) as free:
        for batch in batches:
            script_step_s(stage, free, batch, 2)
        return {batch: median([script_step_s(stage, free, batch, steps) for _ in range(3)]) for batch in batches}


def play_arrangement(stage, name, arrivals):
    if name in ("free", "one at a time"):
        with Free(stage) as free:
            return play(stage, free, arrivals, None if name == "free" else 1)
    with stage.daemon("--policy", name) as daemon:
        return play(stage, daemon, arrivals)


def row_eight(stage, report, options):
    shortest_s, longest_s, within_s = options.pick((0.3, 4, 2), (1, 14, 7))
    lengths_s = [shortest_s * (longest_s / shortest_s) ** (i / 7) for i in range(8)]
    report.head("i", f"Eight scripts that train a CNN, {shortest_s:g} to {longest_s:g} s of steps each, arrive within "
                     f"{within_s} s: mean completion and makespan / those of\n   processes of which the OS decides")
    step_s = measure_scripts(stage, (32, 64), options.pick(150, 400))
    arrivals = arrivals_of(lengths_s, within_s, step_s)
    bars = {"srtf": 0.8, "fair": 1.0, "las": 1.0}
    names = options.pick([], ["one at a time"]) + ["free", *bars]
    results = {name: [] for name in names}
    for turn in range(options.pick(1, 3)):
        for name in rotated(names, turn):
            results[name].append(play_arrangement(stage, name, arrivals))
    say_steps = ", ".join(f"{show_time(s)} at batch {batch}" for batch, s in step_s.items())
    report.add(f"a step alone: {say_steps}", "")
    gain = sum(lengths_s) / median([makespan_s for _, makespan_s in results["free"]])
    report.add("free: times alone of all jobs / makespan; overlap pays if it is well above 1", f"{gain:.2f}")
    report_eight(report, results, bars)


def report_eight(report, results, bars):
    for name, found in results.items():
        mean_s, makespan_s = (median(column) for column in zip(*found))
        report.add(f"{name}: mean completion; makespan", f"{mean_s:.1f}; {makespan_s:.1f} s")
    for name, bar in bars.items():
        pairs = list(zip(results[name], results["free"]))
        at_most(report, f"{name}: mean completion / free", median([a[0] / b[0] for a, b in pairs]), bar)
        at_most(report, f"{name}: makespan / free", median([a[1] / b[1] for a, b in pairs]), 1.05)


# Jobs that fill the device.


def wide_of(stage, milliseconds):
    """A step that fills the device, of about this length."""
    with Free(stage) as free:
        job = free.start_job("pace")
        product_s = min(job.ask("step_time", ("wide", 4), 5) for _ in range(4)) / 4
    return "wide", max(1, round(milliseconds / 1e3 / product_s))


def cnn_of(stage, *lengths_ms):
    """Training steps of about these lengths. The time of a step is not quite linear in the batch, so each batch is
    corrected once."""
    with Free(stage) as free:
        job = free.start_job("pace")

        def step_s(batch):
            return min(job.ask("step_time", ("cnn", batch), 8) for _ in range(3))

        batches = [size_for(step_s, ms / 1e3) for ms in lengths_ms]
        return [("cnn", max(8, round(batch * ms / 1e3 / step_s(batch)))) for batch, ms in zip(batches, lengths_ms)]


def timed(job, what, count):
    """Seconds of a number of steps."""
    ran = job.ask("steps", [what], 3, count=count)
    return (ran["ended_ns"] - ran["began_ns"]) / 1e9


def cores_of(stage, what, count):
    """Processors that a step keeps busy when it is alone."""
    with Free(stage) as free:
        job = free.start_job("cores")
        timed(job, what, 2)
        before_ns = exact_cpu_ns(job.process.pid)[0]
        took_s = timed(job, what, count)
        return (exact_cpu_ns(job.process.pid)[0] - before_ns) / 1e9 / took_s


def row_full(stage, report, options):
    seconds, rounds = options.pick((0.6, 3), (4, 7))
    what = wide_of(stage, 25)
    count = round(seconds / 25e-3)
    report.head("j", f"Two jobs that each fill the device, {count} steps of 25 ms each: together / one after the other")
    report.add("cores that a step keeps busy", f"{cores_of(stage, what, 20):.2f}")
    for policy in ("srtf", "fair", "pack", "las"):
        ratios = []
        with stage.daemon("--policy", policy) as daemon:
            jobs = daemon.start_jobs("left", "right")
            for job in jobs:
                timed(job, what, 5)
            for number in range(rounds):
                took = {way: way(jobs, what, count) for way in rotated((one_by_one, together), number)}
                ratios.append(took[together] / took[one_by_one])
        at_most(report, policy, median(ratios), 1.02)


def one_by_one(jobs, what, count):
    start = time.monotonic()
    for job in jobs:
        timed(job, what, count)
    return time.monotonic() - start


def together(jobs, what, count):
    start = time.monotonic()
    for job in jobs:
        job.tell("steps", [what], 3, count=count)
    for job in jobs:
        job.answer()
    return time.monotonic() - start


# Jobs that change.


SCRATCH_MB, LATE_MB, DEVICE_MB = 32, 64, 136  # one lane fits beside the late job's model, two do not


class Changes:
    """Two jobs that fill the device half of the time. In the middle a third job comes, whose model leaves no room for
    the scratch of two lanes. Then the first job ends."""

    def __init__(self, stage, options):
        self.stage, self.window_s = stage, options.pick(3, 5)
        self.windows = options.pick(5, 9)
        self.late, self.end_first = options.pick((2, 4), (4, 7))  # the window in which this happens
        products = stage.products(25)
        self.whats = [wide_of(stage, 25), ("narrow", products, 0, SCRATCH_MB)]
        self.late_what = ("narrow", products, LATE_MB, SCRATCH_MB)
        with stage.daemon("--lanes", "1") as daemon:
            job, = daemon.start_jobs("pace")
            self.alone_s = {what: min(job.ask("step_time", what, 5) for _ in range(6))
                            for what in (*self.whats, self.late_what)}

    def tell(self, jobs, start_ns):
        """The job on the right changes half a period later than the job on the left."""
        def at(window, shift_s=0):
            return start_ns + round((window * self.window_s + shift_s) * 1e9)

        left, right, late = jobs
        period_ns = 1_000_000_000
        left.tell("steps", self.whats, 3, at(0), at(self.end_first), None, period_ns)
        right.tell("steps", self.whats[::-1], 3, at(0, 0.5), at(self.windows), None, period_ns)
        late.tell("steps", [self.late_what], 3, at(self.late), at(self.windows))

    def run(self, flags):
        """Work done in each window: time alone / time."""
        with self.stage.daemon("--policy", "fair", "--memory", f"{DEVICE_MB}MiB", *flags) as daemon:
            jobs = [*daemon.start_jobs("left"), *daemon.start_jobs("right")]  # one after the other: in lanes of their own
            for job in jobs:
                for what in self.whats:
                    job.ask("steps", [what], 0, count=2)
            jobs.append(daemon.start_job("late"))  # connects when it has something to do
            start_ns = time.monotonic_ns() + 50_000_000
            self.tell(jobs, start_ns)
            left, right, late = (job.answer()["ends"] for job in jobs)
        pairs = [*zip(self.whats, left), *zip(self.whats[::-1], right), (self.late_what, *late)]
        return work_by_window([(self.alone_s[what], ends) for what, ends in pairs], start_ns, self.window_s, self.windows)


def work_by_window(ended, start_ns, window_s, windows):
    """Work done in each window. ended: the time alone of a step, and when steps ended."""
    work = [0.0] * windows
    for alone_s, ends in ended:
        for end_ns in ends:
            number = math.floor((end_ns - start_ns) / 1e9 / window_s)
            if 0 <= number < windows:
                work[number] += alone_s / window_s
    return work


def row_change(stage, report, options):
    changes = Changes(stage, options)
    report.head("k", f"Jobs that change, windows of {changes.window_s} s after the first: work done (time alone / time), "
                     "and / that of the better\n   of one lane and two")
    flags = {"default": (), "1 lane": ("--lanes", "1"), "2 lanes": ("--lanes", "2")}
    results = {name: [] for name in flags}
    for turn in range(options.pick(1, 3)):
        for name in rotated(flags, turn):
            results[name].append(changes.run(flags[name]))
    for window in range(1, changes.windows):
        done = {name: median([run[window] for run in runs]) for name, runs in results.items()}
        ratio = done["default"] / max(done["1 lane"], done["2 lanes"])
        what = ", ".join(f"{name} {value:.2f}" for name, value in done.items())
        happens = {changes.late: ", memory gets short", changes.end_first: ", one ends"}.get(window, "")
        report.add(f"window {window + 1}{happens}: {what}", f"{ratio:.3f}", ">= 0.90", ratio >= 0.90)


# Shares.


CHUNK, CHUNKS = 4, 6  # steps alone in a row, and how often the jobs take turns at them


def row_shares(stage, report, options):
    seconds, rounds = options.pick((2.5, 4), (8, 6))
    report.head("l", "Fair shares of a job that fills the device and one that does not: error of the share of the work "
                     "done\n   (time alone)")
    whats = [wide_of(stage, 15), ("narrow", stage.products(15))]
    for what in whats:
        report.add(f"cores that a {what[0]} step keeps busy", f"{cores_of(stage, what, 40):.2f}")
    with stage.daemon("--policy", "fair") as daemon:
        jobs = daemon.start_jobs("fills", "does-not")
        for job, what in zip(jobs, whats):
            timed(job, what, 5)
        for weights in ((50, 50), (30, 70), (70, 30)):
            for job, weight in zip(jobs, weights):
                daemon.salus("set", daemon.session(job), f"weight={weight}")
            report_shares(report, weights, [share_once(daemon, jobs, whats, seconds) for _ in range(rounds)])


def report_shares(report, weights, runs):
    """The work of all windows together: the speed of the machine changes from window to window."""
    done, used = ([sum(column) for column in zip(*(run[i] for run in runs))] for i in (0, 1))
    error, own = (abs(100 * work[0] / sum(work) - weights[0]) for work in (done, used))
    name = f"{weights[0]}/{weights[1]}"
    report.add(f"{name}, work done {sum(done) / len(runs):.2f} of the time", f"{error:.2f} points", "<= 2", error <= 2)
    report.add(f"{name}, by the account of salusd", f"{own:.2f} points", "<= 2", own <= 2)


def alone_s(jobs, whats):
    """Seconds of a step alone, of each job. The jobs take turns, so both meet the same changes of the machine."""
    took = [0.0 for _ in jobs]
    for _ in range(CHUNKS):
        for number, (job, what) in enumerate(zip(jobs, whats)):
            took[number] += timed(job, what, CHUNK)
    return [seconds / CHUNK / CHUNKS for seconds in took]


def used_s(daemon, jobs):
    """Device time that salusd has charged each job with."""
    by_name = {session["name"]: session["used_s"] for session in daemon.view()["sessions"]}
    return [by_name[job.name] for job in jobs]


def share_once(daemon, jobs, whats, seconds):
    """The work that each job got done / time, and what salusd charged it with. Time alone is measured before and after."""
    before = alone_s(jobs, whats)
    lead_ns, window_ns = 1_000_000_000, round(seconds * 1e9)
    start_ns = time.monotonic_ns() + 50_000_000 + lead_ns
    for job, what in zip(jobs, whats):
        job.tell("steps", [what], 3, start_ns - lead_ns, start_ns + window_ns)
    used = []
    for moment_ns in (start_ns, start_ns + window_ns - 50_000_000):
        time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)
        used.append(used_s(daemon, jobs))
    ends = [job.answer()["ends"][0] for job in jobs]
    both_s = [(a + b) / 2 for a, b in zip(before, alone_s(jobs, whats))]
    done = [work_by_window([(s, e)], start_ns, seconds, 1)[0] for s, e in zip(both_s, ends)]
    return done, [b - a for a, b in zip(*used)]


# The first in rank.


def row_first(stage, report, options):
    seconds, rounds = options.pick((0.6, 4), (2, 9))
    report.head("m", "srtf: a step of the first in rank beside two other training jobs / alone")
    whats = cnn_of(stage, 4, 13)
    with stage.daemon("--policy", "srtf") as daemon:
        first, *others = daemon.start_jobs("first", "second", "third")
        for job, hours in ((first, 1), (others[0], LONG), (others[1], LONG)):
            daemon.salus("set", daemon.session(job), f"time={hours}h")
        for job in (first, *others):
            for what in whats:
                timed(job, what, 5)
        for what, ms in zip(whats, (4, 13)):
            for ahead, kind in ((3, "asynchronous"), (0, "synchronous")):
                count = round(seconds / ms * 1e3)
                ratios = [first_once(first, zip(others, whats), what, count, ahead) for _ in range(rounds)]
                at_most(report, f"step of {ms} ms, {kind}", median(ratios), 1.10)


def first_once(first, others, what, count, ahead):
    alone_s = first.ask("step_time", what, count, ahead)
    end_ns = time.monotonic_ns() + round((1.3 * alone_s * count + 0.25) * 1e9)
    others = list(others)
    for job, theirs in others:
        job.tell("steps", [theirs], 3, 0, end_ns)
    time.sleep(0.15)
    beside_s = first.ask("step_time", what, count, ahead)
    for job, _ in others:
        job.answer()
    return beside_s / alone_s


# A server.


def batch_for(job, seconds):
    """The batch whose request takes this long alone."""
    return size_for(lambda batch: percentile(job.ask("requests", batch, 2, 1, count=40), 50), seconds)


def row_server(stage, report, options):
    seconds, rounds = options.pick((1.0, 3), (2.5, 9))
    report.head("n", "A server of requests of 1 ms beside training under mix: latency in turns with processes of which "
                     "the OS\n   decides, and with the server alone")
    with Free(stage) as free, stage.daemon("--policy", "mix") as daemon:
        plain = free.start_job("server"), free.start_job("training")
        salus = *daemon.start_jobs("server", kind="inference"), *daemon.start_jobs("training")
        batch = batch_for(plain[0], 1e-3)
        for ms, what in zip((5, 30, 150), cnn_of(stage, 5, 30, 150)):
            for job in (plain[1], salus[1]):
                timed(job, what, 3)
            ways = {"alone": (plain[0], None), "free": plain, "salus": salus}
            found = {way: [] for way in ways}
            for turn in range(rounds):
                for way in rotated(ways, turn):
                    found[way].append(serve_once(*ways[way], what, batch, turn, seconds))
            report_server(report, ms, found)


def serve_once(server, training, what, batch, seed, seconds):
    """Percentiles 50, 95 and 99 of the latency."""
    start_ns = time.monotonic_ns() + 200_000_000
    end_ns = start_ns + round(seconds * 1e9)
    if training:
        training.tell("steps", [what], 2, 0, end_ns + 50_000_000)
    latencies = server.ask("requests", batch, 5, seed, start_ns, end_ns)
    if training:
        training.answer()
    return [percentile(latencies, percent) for percent in (50, 95, 99)]


def report_server(report, ms, found):
    columns = {way: [median(column) for column in zip(*turns)] for way, turns in found.items()}
    bounds = {50: lambda alone: alone + 1e-3, 95: lambda alone: 2 * alone + 1e-3}
    for percent, alone, free, salus in zip((50, 95, 99), *(columns[way] for way in ("alone", "free", "salus"))):
        name = f"steps of {ms} ms: p{percent}, alone {show_time(alone)}, free {show_time(free)}"
        report.add(name, show_time(salus), f"<= {show_time(free)}", salus <= free)
        if percent in bounds:
            bar = bounds[percent](alone)
            report.add(f"steps of {ms} ms: p{percent}, beside alone", show_time(salus), f"<= {show_time(bar)}", salus <= bar)


ROWS = {"i": row_eight, "j": row_full, "k": row_change, "l": row_shares, "m": row_first, "n": row_server}
