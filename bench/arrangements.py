# SPDX-License-Identifier: Apache-2.0
"""The arrangements that bench/sharing compares: processes of which the OS decides, or one after the other, or jobs of a
salusd. Not to be run by hand.

A host gives a job its environment: Free, or the Daemon of sharing_stage.py.
"""

import collections
import contextlib
import os
import time
from multiprocessing.connection import wait

from sharing_stage import DEADLINE_S, Job, Lost


class Free:
    """Processes that each have the vendor's plugin: the OS decides. Closing it ends all of them."""

    def __init__(self, stage):
        self.stage, self.jobs = stage, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            job.close()

    def read_log(self):
        """There is no daemon, so there is no log."""
        return ""

    def started(self, _pid, _arrival):
        """Called when the process of a script has started."""

    def job_env(self, _name, **_wishes):
        return {"PJRT_NAMES_AND_LIBRARY_PATHS": "cpu:" + self.stage.vendor}

    def start_job(self, name, **wishes):
        self.jobs.append(Job(self.stage, self.job_env(name, **wishes), name))
        return self.jobs[-1]


# What a script declares, in parts of its time alone: a job that takes longer than it declared goes behind all others.
DECLARED = 1.25

# A script of an arrangement: it arrives at at_s, and its steps take alone_s. argv is a tuple.
Arrival = collections.namedtuple("Arrival", "name at_s argv alone_s")


def run_script(env, log, cache, argv):
    """The main function of a script's process. JAX is imported there, not here."""
    import fill_jobs

    fill_jobs.run_script(env, log, cache, argv)


class Scripts:
    """Processes that run scripts, each forked from one that has imported JAX. Closing it ends all of them."""

    def __init__(self, stage, host, cache="jax-cache"):
        self.stage, self.host, self.running, self.lost = stage, host, {}, []
        self.begins, self.ends = {}, {}
        self.cache = os.path.join(stage.dir, cache)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.join()

    def log_of(self, arrival):
        return os.path.join(self.stage.dir, arrival.name + ".script.log")

    def start(self, arrival):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.log_of(arrival))
        env = self.host.job_env(arrival.name, time=f"{max(1, round(arrival.alone_s * DECLARED * 1e3))}ms")
        process = self.stage.nursery.Process(target=run_script,
                                             args=(env, self.log_of(arrival), self.cache, list(arrival.argv)))
        self.begins[arrival] = time.monotonic()
        process.start()
        self.host.started(process.pid, arrival)
        self.running[process] = arrival

    def collect(self, timeout_s):
        """Waits for the end of some script, or for this time."""
        wait([process.sentinel for process in self.running], max(0, timeout_s))
        for process in [p for p in self.running if p.exitcode is not None]:
            arrival = self.running.pop(process)
            if process.exitcode != 0 and getattr(self.host, "may_lose", False):
                self.lost.append(arrival.name)
            elif process.exitcode != 0:
                raise Lost(f"{arrival.name}: exit {process.exitcode}\n{self.read(arrival)[-3000:]}\n"
                           f"{self.host.read_log()[-3000:]}")
            self.ends[arrival] = time.monotonic()

    def read(self, arrival):
        """The output of a script so far."""
        with contextlib.suppress(FileNotFoundError), open(self.log_of(arrival), errors="replace") as file:
            return file.read()
        return ""


# A script that was played. Times are seconds since the play began; lost: the script failed.
Played = collections.namedtuple("Played", "name at_s began_s ended_s lost")


def play_each(stage, host, arrivals, at_once=None, cache="jax-cache"):
    """Starts each script when it arrives, at most so many at once. Returns what became of each. JAX's compilation cache
    is in the folder of this name."""
    due = collections.deque(sorted(arrivals, key=lambda arrival: arrival.at_s))
    with Scripts(stage, host, cache) as scripts:
        start = time.monotonic()
        while due or scripts.running:
            now_s = time.monotonic() - start
            if now_s > DEADLINE_S + 10 * sum(arrival.alone_s for arrival in arrivals):
                raise Lost("scripts: not ended in time")
            may_start = due and len(scripts.running) < (at_once or len(arrivals))
            if may_start and due[0].at_s <= now_s:
                scripts.start(due.popleft())
                continue
            scripts.collect(due[0].at_s - now_s if may_start else DEADLINE_S)
    return [Played(arrival.name, arrival.at_s, scripts.begins[arrival] - start, end - start, arrival.name in scripts.lost)
            for arrival, end in scripts.ends.items()]


def play(stage, host, arrivals, at_once=None):
    """Like play_each(). Returns mean completion time and makespan; a completion time is from the arrival to the end of the
    process."""
    played = play_each(stage, host, arrivals, at_once)
    ends = [one.ended_s - one.at_s for one in played]
    return sum(ends) / len(ends), max(one.ended_s for one in played) - min(one.at_s for one in played)


def read_output(stage, host, name, argv):
    """Runs one script alone, and returns its output."""
    arrival = Arrival(name, 0, tuple(argv), 1)
    play(stage, host, [arrival])
    return Scripts(stage, host).read(arrival)
