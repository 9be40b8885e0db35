# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/sharing: each starts a salusd and jobs, and adds lines to the report. Not to be run by hand."""

import contextlib
import math
import time

from machine import exact_cpu_ns, median, show_time, size_for
from sharing_stage import Accounts, Lost

MIB = 1 << 20


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def ahead_of(milliseconds):
    """Number of iterations that a job submits in advance: about 30 ms, so that it always has work and can end soon."""
    return max(3, min(16, math.ceil(30 / milliseconds)))


def run_together(stage, jobs, lengths_ms, seconds):
    """All jobs run from one time on. Returns the window in which all of them ran."""
    start_ns = time.monotonic_ns() + 100_000_000
    end_ns = start_ns + int((seconds + 0.4) * 1e9)
    for (job, what), ms in zip(jobs, lengths_ms):
        job.tell("run", what, stage.products(ms), ahead_of(ms), start_ns, end_ns)
    for job, _ in jobs:
        job.answer()
    return start_ns + 200_000_000, end_ns - 200_000_000


# Whose turn.


def row_switch(stage, report, options):
    report.head("a", "Switching: from the end of one job's iteration of 2 ms to the start of the other's, which is queued")
    for model_mb in (1, 500):
        with stage.daemon("--policy", "fair", "--lanes", "1") as daemon:
            jobs = [(job, (i, model_mb, 0)) for i, job in enumerate(daemon.start_jobs("left", "right"))]
            for job, what in jobs:
                job.tell("load", *what)
            for job, _ in jobs:
                job.answer()
            run_together(stage, jobs, (2, 2), options.pick(1.5, 10))
            gaps = daemon.trace().switches()
        name = f"models of {model_mb} MB, {len(gaps)} switches"
        for percent, bar in ((50, 50e-6), (99, 1e-3)):
            value = percentile(gaps, percent)
            report.add(f"{name}, p{percent}", show_time(value), f"<= {show_time(bar)}", value <= bar)


def row_fair(stage, report, options):
    seconds = options.pick(1.3, 10)
    report.head("b", f"Fair shares, one lane, {seconds:g} s, all jobs always have work: requested and actual share "
                     "of the\n   used device time, and used time of the window")
    cases = (("50/50, iterations of 5 ms", (1, 1), (5, 5)),
             ("30/70, iterations of 5 ms", (3, 7), (5, 5)),
             ("1:2:4:8, iterations of 5 ms", (1, 2, 4, 8), (5, 5, 5, 5)),
             ("50/50, iterations of 1 ms and of 50 ms", (1, 1), (1, 50)))
    with stage.daemon("--policy", "fair", "--lanes", "1") as daemon:
        jobs = [(job, (i, 1, 0)) for i, job in enumerate(daemon.start_jobs("one", "two", "three", "four"))]
        for job, what in jobs:
            job.ask("load", *what)
        ids = [daemon.session(job) for job, _ in jobs]
        for name, weights, lengths in cases:
            for session, weight in zip(ids, weights):
                daemon.salus("set", session, f"weight={weight}")
            window = run_together(stage, jobs[:len(weights)], lengths, seconds)
            trace = daemon.trace()
            got = [trace.used(session, *window) for session in ids[:len(weights)]]
            errors = [100 * abs(g / sum(got) - w / sum(weights)) for g, w in zip(got, weights)]
            # A short window cuts iterations, so it is only as exact as one iteration.
            bar = max(1, 100 * max(lengths) / 1e3 / seconds)
            report.add(f"{name}: largest error", f"{max(errors):.2f} points", f"<= {bar:.2g}", max(errors) <= bar)
            used = sum(got) / seconds
            report.add(f"{name}: device time / wall", f"{used:.3f}", ">= 0.98", used >= 0.98)


def row_srtf(stage, report, options):
    long_ms, short_ms, count = 20, 5, options.pick(100, 200)
    report.head("c", f"srtf: a job of {count} iterations of {short_ms} ms comes while a long one, {long_ms} ms each, "
                     "runs")
    with stage.daemon("--policy", "srtf", "--lanes", "1") as daemon:
        late, short = daemon.start_jobs("long", "short")
        for job, hours in ((late, 100), (short, 1)):
            daemon.salus("set", daemon.session(job), f"time={hours}h")
            job.ask("load", 0, 1, 0)
        ask = ("run", (0, 1, 0), stage.products(short_ms), ahead_of(short_ms), 0, None, count)

        def took():
            ran = short.ask(*ask)
            return ran, (ran["ended_ns"] - ran["began_ns"]) / 1e9

        alone, beside, gaps = [], [], []
        for _ in range(options.pick(2, 5)):
            alone.append(took()[1])
            end_ns = time.monotonic_ns() + int((alone[-1] + 1) * 1e9)
            late.tell("run", (0, 1, 0), stage.products(long_ms), ahead_of(long_ms), 0, end_ns)
            time.sleep(0.4)
            ran, seconds = took()
            late.answer()
            beside.append(seconds)
            gaps.append(resumes_after(daemon, daemon.session(late), daemon.session(short), ran["began_ns"]))
    ratio = (median(beside) - long_ms / 1e3) / median(alone)
    report.add(f"alone {show_time(median(alone))}, shared {show_time(median(beside))}: minus one long iteration",
               f"{ratio:.3f}", "<= 1.2", ratio <= 1.2)
    report.add("the long job continues after", show_time(median(gaps)), "<= 10 ms", median(gaps) <= 10e-3)


def resumes_after(daemon, late, short, since_ns):
    """Seconds from the end of the short job's last iteration to the next start of the long job."""
    turns = [t for t in daemon.trace().turns if t["start"] > since_ns]
    end = max(t["end"] for t in turns if t["session"] == short)
    return min((t["start"] - end for t in turns if t["session"] == late and t["start"] > end), default=1e12) / 1e9


def row_pack(stage, report, options):
    count, ms = options.pick(60, 150), 20
    report.head("d", f"pack, two lanes: two jobs of {count} iterations of {ms} ms, each on one core")
    with stage.daemon("--policy", "pack", "--lanes", "2") as daemon:
        jobs = daemon.start_jobs("left", "right")
        ask = ("run", (0, 1, 0), stage.products(ms), ahead_of(ms), 0, None, count)
        pids = [daemon.process.pid] + [job.process.pid for job in jobs]
        for job in jobs:
            job.ask("load", 0, 1, 0)
            job.ask(*ask[:-1], 5)
        ratios, cores = [], []
        for _ in range(options.pick(1, 5)):
            before, start = sum(exact_cpu_ns(pid)[0] for pid in pids), time.monotonic()
            for job in jobs:
                job.ask(*ask)
            alone = time.monotonic() - start
            cores.append((sum(exact_cpu_ns(pid)[0] for pid in pids) - before) / 1e9 / alone)
            start = time.monotonic()
            for job in jobs:
                job.tell(*ask)
            for job in jobs:
                job.answer()
            together, since_ns = time.monotonic() - start, int(start * 1e9)
            ratios.append(together / alone)
        overlap = daemon.trace().overlap(since_ns)
    report.add("CPU time / time of one alone", f"{median(cores):.2f}", "~ 1")
    report.add("together / one after the other", f"{median(ratios):.3f}", "<= 0.65", median(ratios) <= 0.65)
    report.add("share of the time in which both lanes run", f"{overlap:.0%}")


# Memory.


def row_memory(stage, report, options):
    count, capacity_mb = options.pick((6, 240), (20, 480))
    each_mb = 3 * capacity_mb // count
    whats = [(i, each_mb * 2 // 3, each_mb // 3) for i in range(count)]
    report.head("e", f"Memory: {count} jobs of {whats[0][1]} MB persistent and {whats[0][2]} MB ephemeral on a device "
                     f"of {capacity_mb} MB,\n   three times its size; a job is a process, from its start to its end")
    ask = (stage.products(10), 3, 0, None, options.pick(10, 20))
    with contextlib.closing(stage.inproc_job("reference")) as job:
        right = [job.ask("run", (what[0], 0, what[2]), *ask)["digest"] for what in whats]
    with stage.daemon("--memory", f"{capacity_mb}MiB") as daemon:
        start = time.monotonic()
        for what in whats:
            job = daemon.start_job(f"alone{what[0]}")
            job.ask("run", what, *ask)
            job.close()
        alone = time.monotonic() - start
    lost = wrong = 0
    with stage.daemon("--memory", f"{capacity_mb}MiB") as daemon, Accounts(daemon) as accounts:
        start = time.monotonic()
        jobs = [daemon.start_job(f"job{i}") for i in range(count)]
        for job, what in zip(jobs, whats):
            job.tell("run", what, *ask)
        for job, digest in zip(jobs, right):
            try:
                wrong += job.answer()["digest"] != digest
            except Lost as error:
                lost += 1
                print("  " + str(error)[:200])
            job.close()
        together = time.monotonic() - start
        pages = daemon.trace().count("page_out")
    report.add("jobs lost", lost, "0", lost == 0)
    report.add("results that differ from in-process", wrong, "0", wrong == 0)
    most = accounts.most / MIB
    report.add(f"maximum accounted for, {accounts.samples} samples", f"{most:.0f} MB", f"<= {capacity_mb} MB",
               0 < most <= capacity_mb)
    report.add("together / one after the other", f"{together / alone:.2f}")
    report.add("paged out", f"{pages} times")


def row_paging(stage, report, options):
    size_mb, rounds = 500, options.pick(3, 8)
    report.head("f", f"Paging: a session of {size_mb} MB out and in, compared with a copy of that size into new memory")
    with stage.daemon("--memory", f"{size_mb * 3 // 2}MiB", log_level="debug") as daemon:
        jobs = daemon.start_jobs("left", "right")
        copies = [jobs[0].ask("memcpy", size_mb)]
        for number in range(rounds * len(jobs)):
            jobs[number % 2].ask("run", (number % 2, size_mb, 0), stage.products(1), 1, 0, None, 1)
        copies.append(jobs[0].ask("memcpy", size_mb))
        out, back = daemon.pages("out"), daemon.pages("in")
    report.add("the copy", show_time(min(copies)))
    for name, times in (("out", out), ("in", back)):
        ratio = median(times) / min(copies) if times else math.inf
        report.add(f"paged {name}, {len(times)} times, {show_time(median(times or [0]))}", f"{ratio:.2f} x", "<= 3 x",
                   ratio <= 3)


def row_serve(stage, report, options):
    count, capacity_mb, model_mb, scratch_mb = options.pick(14, 42), 512, 2, 72
    fits = capacity_mb // (model_mb + scratch_mb)
    report.head("h", f"Inference: models of {model_mb} MB with {scratch_mb} MB of scratch each on a device of "
                     f"{capacity_mb} MB, where {fits} fit\n   without shared scratch; all stay open while all answer")
    ask = (stage.products(1), 0, 0, None, 1)
    with contextlib.closing(stage.inproc_job("reference")) as job:
        right = job.ask("run", (0, model_mb, scratch_mb), *ask)["digest"]
    took, answered = [], 0
    with stage.daemon("--memory", f"{capacity_mb}MiB") as daemon:
        jobs = daemon.start_jobs(*[f"model{i}" for i in range(count)], kind="inference")
        for job in jobs:
            job.ask("load", 0, model_mb, scratch_mb)
        for _ in range(3):
            for job in jobs:
                job.tell("run", (0, model_mb, scratch_mb), *ask)
            answers = [job.answer() for job in jobs]
            took += [(a["ended_ns"] - a["began_ns"]) / 1e9 for a in answers]
            answered = sum(a["digest"] == right for a in answers)
        trace, device = daemon.trace(), daemon.ps()["device"]
    held = (device["persist_bytes"] + device["lane_sum_bytes"]) / MIB
    report.add(f"models that fit and answer, of {count} ({held:.0f} MB in use)", answered, f">= {count}",
               answered == count)
    report.add("paged out meanwhile", f"{trace.count('page_out')} times", "0", trace.count("page_out") == 0)
    report.add("an answer when all ask at once, p50", show_time(median(took)))


# Alone.


def row_alone(stage, report, options):
    report.head("g", "One job through Salus with two idle sessions, compared with in-process: steps of 5 ms")
    rounds, span = options.pick(3, 9), options.pick(0.3, 1.0)
    with stage.daemon() as daemon, contextlib.closing(stage.inproc_job("inproc")) as inproc:
        for job in daemon.start_jobs("idle1", "idle2"):
            job.ask("load", 0, 1, 0)
        salus = daemon.start_job("job")
        batch = size_for(lambda b: min(inproc.ask("train", "perceptron", b, 30, False) for _ in range(4)), 5e-3)
        steps = int(span / 5e-3)
        for synchronous in (False, True):
            for job in (inproc, salus):
                job.ask("train", "perceptron", batch, 5, synchronous)
            ratios = []
            for number in range(rounds):
                order = (inproc, salus) if number % 2 == 0 else (salus, inproc)
                took = {job: job.ask("train", "perceptron", batch, steps, synchronous) for job in order}
                ratios.append(took[salus] / took[inproc])
            kind = "synchronous" if synchronous else "asynchronous"
            report.add(f"step of {show_time(took[inproc])}, {kind}", f"{median(ratios):.3f}", "<= 1.02",
                       median(ratios) <= 1.02)


ROWS = {"a": row_switch, "b": row_fair, "c": row_srtf, "d": row_pack, "e": row_memory, "f": row_paging, "g": row_alone,
        "h": row_serve}
