# SPDX-License-Identifier: Apache-2.0
"""The acts of tools/demo. Each runs the same jobs without Salus and with it, and returns what was measured.

Without Salus, each job has the vendor's plugin in its own process. JAX's compilation cache is on everywhere. A time is
what the user of a job sees: from the start of the process, imports included, to its end.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from statistics import median

from demo_stage import DISTURBED, ROOT, SALUS, Failed, Job, Others

sys.path.insert(0, str(ROOT / "bench"))
from capacity import Capacity, Peak, data_bytes  # noqa: E402

EQUAL = 0.03  # ratios within this of 1 are called equal
EVERY = 5  # steps between two lines of a perceptron
MIB = 1 << 20


@dataclass
class Bar:
    """One arrangement of an act, and what was measured in it."""
    label: str
    value: float
    text: str
    salus: bool = False


@dataclass
class Act:
    """What came of an act. The lower a bar the better; the last bar is Salus, gain is the best other bar / Salus."""
    title: str
    story: str
    measure: str
    bars: list = field(default_factory=list)
    result: str = ""
    price: str = ""  # where Salus loses in this act, and by how much
    picture: str = ""  # file name of the schedule under Salus

    @property
    def gain(self):
        return min(bar.value for bar in self.bars if not bar.salus) / max(self.bars[-1].value, 1e-9)

    @property
    def verdict(self):
        if abs(self.gain - 1) <= EQUAL:
            return "equal"
        return f"Salus ahead, {self.gain:.1f} times" if self.gain > 1 else f"Salus loses, by {1 / self.gain - 1:.0%}"

    def facts(self):
        return {**asdict(self), "gain": self.gain, "verdict": self.verdict}


def seconds(value):
    return f"{value:.1f} s"


def span(runs):
    """From the start of the first to the end of the last."""
    return max(run.ended for run in runs) - min(run.began for run in runs)


def price_of(what, ratio):
    """Says that something is worse with Salus, if it is. The ratio is above 1 if Salus is worse."""
    return f"Salus loses here: {what} {ratio - 1:.0%}" if ratio > 1 + EQUAL else ""


class Pace:
    """When a training job printed which step."""

    def __init__(self, run):
        self.run, self.points = run, []
        self.read()

    def read(self):
        step = int((self.run.find(r"^step +(\d+)") or [0])[-1])
        if not self.points or self.points[-1][1] != step:
            self.points.append((time.monotonic(), step))

    def rate(self, began, ended):
        """Steps a second, from the last line before one time to the last line before another."""
        (t0, first), (t1, last) = ([point for point in self.points if point[0] <= t][-1] for t in (began, ended))
        return (last - first) / max(t1 - t0, 1e-9)


class Play:
    """The jobs of the demo, and the acts."""

    def __init__(self, stage, quick):
        self.stage, self.quick = stage, quick

    def pick(self, quick, full):
        return quick if self.quick else full

    def all_at_once(self, jobs, phase, daemon=None, **how):
        return self.stage.wait([self.stage.start(job, phase, daemon, **how) for job in jobs])

    def one_by_one(self, jobs, phase, **how):
        return [self.stage.wait([self.stage.start(job, phase, **how)])[0] for job in jobs]

    def check_equal(self, *groups):
        """The results of the same jobs must be the same, bit for bit."""
        for runs in zip(*groups):
            if len({run.found(r"^digest: (\w+)") for run in runs}) != 1:
                raise Failed(f"the results of {runs[0].name} differ with and without Salus")

    # Jobs.

    def wide(self, name, seed, batch, steps):
        return Job(name, "search.py", ["--steps", str(steps), "--batch", str(batch), "--width", "2048", "--seed", str(seed)])

    def perceptron(self, name, steps, seed=0):
        return Job(name, "mlp.py", ["--steps", str(steps), "--batch", "1024", "--width", "512", "--seed", str(seed),
                                    "--every", str(EVERY)])

    def server(self, requests):
        return Job("server", "inference.py", ["--rate", "100", "--requests", str(requests)], "inference")

    def trials(self, count):
        return Job("search", "sweep.py", ["--trials", str(count), "--steps", self.pick("20", "30"), "--batch", "1024",
                                          "--width", "256"])

    def rehearse(self):
        """Compiles what acts 1, 2 and 4 need, with and without Salus, and measures the process of a job of act 1."""
        small, large = (self.wide(f"wide-{batch}", 0, batch, 4) for batch in (16, self.pick(2048, 16384)))
        others = [self.perceptron("perceptron", 2), self.server(5)]
        daemon = self.stage.start_daemon("rehearsal")
        runs = [self.stage.start(job, "rehearsal-direct") for job in (small, large, *others)]
        runs += [self.stage.start(job, "rehearsal-salus", daemon) for job in (large, *others)]
        self.stage.wait(runs[:1])
        self.host_bytes = self.peak_of(self.stage.start(small, "peak"))  # its programs are in the cache now
        self.stage.wait(runs)
        self.stage.stop_daemon()

    def peak_of(self, run):
        """Waits for a job. Returns the most memory that its process has had."""
        peak = Peak(run.process.pid)
        self.stage.wait([run])
        peak.close()
        return peak.peak_bytes

    # Act 1.

    def memory(self):
        # Memory is sampled: a peak shows if it comes often enough.
        batch, steps = self.pick((2048, 12), (16384, 6))
        jobs = [self.wide(f"job-{i}", i, batch, steps) for i in range(self.pick(2, 3))]
        queue, need_bytes = self.queue_of(jobs)
        size = max(round(1.5 * need_bytes / MIB), 64)
        act = Act("More jobs than memory",
                  f"{len(jobs)} training jobs. Each needs up to {need_bytes / MIB:.0f} MiB, and the device has {size} "
                  "MiB. Without Salus they die if they start at once, so they wait in a queue.",
                  "seconds until all have ended")
        lost, lost_s = self.too_many(jobs, size)
        daemon = self.stage.start_daemon("act1", "--policy", "pack", "--memory", f"{size}MiB")
        idle_bytes, peak = data_bytes(daemon.process.pid), Peak(daemon.process.pid)
        salus = self.all_at_once(jobs, "act1-salus", daemon)
        peak.close()
        used = (peak.peak_bytes - idle_bytes) / MIB
        self.finish(act, daemon, "act1.svg")
        self.check_equal(queue, salus)
        act.bars = [Bar("one after the other", span(queue), seconds(span(queue))),
                    Bar("Salus, pack", span(salus), seconds(span(salus)), True)]
        act.result = (f"at once without Salus, {lost} of {len(jobs)} die within {seconds(lost_s)}; one after the other they "
                      f"take {seconds(span(queue))}; at once with Salus none dies: {seconds(span(salus))}, equal results; "
                      f"salusd used {used:.0f} MiB")
        act.price = price_of("salusd used more memory than the device has, by", used / size)
        return act

    def queue_of(self, jobs):
        """Runs the jobs one after the other. Returns the runs, and the most memory of a job beyond its process."""
        runs, peaks = [], []
        for job in jobs:
            runs.append(self.stage.start(job, "act1-queue"))
            peaks.append(self.peak_of(runs[-1]))
        return runs, max(peaks) - self.host_bytes

    def too_many(self, jobs, mib):
        """Starts all jobs on a device of this size. Returns how many die, and when the last of those died."""
        capacity = Capacity(mib * MIB, self.host_bytes)
        try:
            runs = [self.stage.start(job, "act1-free", may_fail=True) for job in jobs]
            for run in runs:
                capacity.add(run.process.pid)
            self.stage.wait(runs)
        finally:
            capacity.close()
        dead = [run for run in runs if run.has_failed()]
        return len(dead), span(dead) if dead else 0

    def finish(self, act, daemon, picture):
        daemon.draw(self.stage.out / picture)
        act.picture = picture
        self.stage.stop_daemon()

    # Act 2.

    def short_job(self):
        longs = [self.perceptron(f"long-{i}", self.pick(25, 80), i) for i in self.pick((1,), (1, 2))]
        short = self.perceptron("short", self.pick(4, 30), 9)
        act = Act("A short job behind long ones",
                  f"{len(longs)} long jobs train. A short one comes when they have begun. Nobody says how long a job takes.",
                  "seconds that the short job takes, from its arrival")
        queued, queue_s = self.behind_queue(longs, short)
        free, free_s, free_all = self.beside(longs, short, "act2-direct")
        daemon = self.stage.start_daemon("act2", "--policy", "las")
        salus, salus_s, salus_all = self.beside(longs, short, "act2-salus", daemon)
        self.finish(act, daemon, "act2.svg")
        self.check_equal(queued, free, salus)
        act.bars = [Bar("one after the other", queue_s, seconds(queue_s)), Bar("all at once", free_s, seconds(free_s)),
                    Bar("Salus, las", salus_s, seconds(salus_s), True)]
        act.result = (f"the short job takes {seconds(queue_s)} in a queue, {seconds(free_s)} beside the others, "
                      f"{seconds(salus_s)} with Salus; all jobs end after {seconds(free_all)} without, "
                      f"{seconds(salus_all)} with")
        act.price = price_of("all jobs together take longer by", salus_all / free_all)
        return act

    def is_training(self, run):
        return bool(run.find(r"^step +0 "))

    def behind_queue(self, longs, short):
        """One after the other. The short job arrives when the first long one has begun."""
        first = self.stage.start(longs[0], "act2-queue")
        self.stage.until(lambda: self.is_training(first), [first])
        arrived = time.monotonic()
        self.stage.wait([first])
        rest = self.one_by_one([*longs[1:], short], "act2-queue")
        return [first, *rest], rest[-1].ended - arrived

    def beside(self, longs, short, phase, daemon=None):
        runs = [self.stage.start(job, phase, daemon) for job in longs]
        self.stage.until(lambda: all(map(self.is_training, runs)), runs)
        runs.append(self.stage.start(short, phase, daemon))
        self.stage.wait(runs)
        return runs, runs[-1].seconds, span(runs)

    # Act 3.

    def search(self):
        count = self.pick(3, 20)
        jobs = [self.trials(count)]
        act = Act(f"A search of {count} trials",
                  f"{count} trials of one model start at once, with other settings each, in processes that one script "
                  "forks. Nothing was compiled before: each process compiles, Salus compiles once.",
                  "seconds until all have ended")
        free = self.all_at_once(jobs, "act3-direct", cache="cold")
        daemon = self.stage.start_daemon("act3", "--policy", "pack", fresh=True)
        salus = self.all_at_once(jobs, "act3-salus", daemon, cache="cold")
        self.finish(act, daemon, "act3.svg")
        self.check_equal(free, salus)
        act.bars = [Bar("all at once", span(free), seconds(span(free))),
                    Bar("Salus, pack", span(salus), seconds(span(salus)), True)]
        act.result = f"{seconds(span(free))} without, {seconds(span(salus))} with Salus, equal results"
        return act

    # Act 4.

    def serving(self):
        jobs = [self.perceptron(f"training-{i}", 5000, i) for i in self.pick((1,), (1, 2, 3))]
        act = Act("A server beside training",
                  f"A server answers 100 requests a second while {len(jobs)} jobs train.",
                  "99th percentile of the latency in a second, ms; the median second")
        free, free_rate = self.serve(jobs, "act4-direct")
        daemon = self.stage.start_daemon("act4", "--policy", "mix")
        salus, salus_rate = self.serve(jobs, "act4-salus", daemon)
        self.finish(act, daemon, "act4.svg")
        self.check_equal([free], [salus])
        before, after = (self.latency(run, "p99") for run in (free, salus))
        act.bars = [Bar("all at once", before, f"{before:.1f} ms"), Bar("Salus, mix", after, f"{after:.1f} ms", True)]
        act.result = (f"p50 {self.latency(free, 'p50'):.1f} ms, p99 {before:.1f} ms in a second without; p50 "
                      f"{self.latency(salus, 'p50'):.1f} ms, p99 {after:.1f} ms with Salus; training does "
                      f"{free_rate:.0f} steps a second without, {salus_rate:.0f} with")
        act.price = price_of("training would need more time by", free_rate / max(salus_rate, 1e-9))
        return act

    def latency(self, run, rank):
        """The median of the seconds: the server prints a line for every hundred requests."""
        run.found(r"^from +0:")
        return median(float(ms) for ms in run.find(rf"^from .* {rank} ([0-9.]+) ms"))

    def serve(self, jobs, phase, daemon=None):
        """The server's run, and the steps a second of the training jobs while it answers. Training ends with the server.
        If others disturb the first turn, there is a second one, and the less disturbed of the two counts."""
        runs = [self.stage.start(job, phase, daemon, may_fail=True) for job in jobs]
        self.stage.until(lambda: any(map(self.is_training, runs)), runs)
        turns = [self.serve_once(runs, phase, daemon)]
        if turns[0][0] >= DISTURBED:
            turns.append(self.serve_once(runs, f"{phase}-again", daemon))
        for run in runs:
            if run.has_failed():
                raise Failed(f"{run.name} failed; see {run.err}")
            run.kill()
        return min(turns, key=lambda turn: turn[0])[1:]

    def serve_once(self, runs, phase, daemon):
        """The share of the machine that others use while the server answers, its run, and the rate of training."""
        server, paces = self.stage.start(self.server(self.pick(20, 500)), phase, daemon), [Pace(run) for run in runs]
        began, others = self.when(r"^request +0 ", server, paces), Others()
        ended, share = self.when("^latency", server, paces), others.share()
        self.stage.wait([server])
        return share, server, sum(pace.rate(began, ended) for pace in paces)

    def when(self, pattern, server, paces):
        """Waits until the server prints this, and reads the lines of the training jobs meanwhile."""
        def is_printed():
            for pace in paces:
                pace.read()
            return bool(server.find(pattern))

        self.stage.until(is_printed, [server, *(pace.run for pace in paces)])
        return time.monotonic()

    # Act 5.

    def virtual(self):
        act = Act("A hundred jobs in virtual time",
                  "The scheduler of salusd on a virtual clock, with the 100-job workload of the Salus paper "
                  "(reconstructed) on one device of 15.6 GiB.",
                  "minutes that a job takes on average", picture="act5.svg")
        done = subprocess.run([SALUS, "sim", "--workload", ROOT / "data" / "trace100.csv", "--policy", "fifo,srtf",
                               "--memory", "15.6GiB", "--json", "--svg", self.stage.out / act.picture],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        queue, salus = json.loads(done.stdout)["policies"]
        before, after = (policy["mean_jct_s"] / 60 for policy in (queue, salus))
        act.bars = [Bar("one after the other", before, f"{before:.0f} min"),
                    Bar("Salus, srtf", after, f"{after:.0f} min", True)]
        act.result = (f"a job takes {before:.0f} minutes on average one after the other, {after:.0f} with Salus (srtf); all "
                      f"together take {queue['makespan_s'] / 60:.0f} and {salus['makespan_s'] / 60:.0f} minutes")
        return act
