# SPDX-License-Identifier: Apache-2.0
"""Many sessions of which 16 are active at most, in one lane: work done, switches, and the memory of salusd.

Each session belongs to a process of its own with a model on the device. Sessions that are not active are idle.
"""

import time

from kit import MIB
from machine import exact_cpu_ns, median, memory_of
from sharing_fill import work_by_window
from sharing_rows import percentile

FIGURE = "no figure of the paper"
ESTIMATE_S = (18, 180)
ACTIVE, STEP_MS, MODEL_MB = 16, 5, 1
# All sessions belong to one user. Each reserves 64 MiB of shared memory for transfers, and touches little of it.
ARENAS = ("--limit", "user-arena=none", "--limit", "daemon-arena=none")


def measure(stage, record, options):
    seconds = options.pick(1, 5)
    for count in options.pick((1, 32), (1, 8, 64, 256)):
        with stage.daemon("--policy", "fair", "--lanes", "1", *ARENAS) as daemon:
            idle = memory_of(daemon.process.pid)["VmRSS"]
            jobs = start(daemon, count)
            measure_count(stage, record, daemon, jobs, seconds, idle)


def start(daemon, count, at_once=16):
    """Some at a time: processes that start take the whole machine."""
    jobs = []
    for first in range(0, count, at_once):
        jobs += daemon.start_jobs(*[f"job{i}" for i in range(first, min(count, first + at_once))])
    return jobs


def measure_count(stage, record, daemon, jobs, seconds, idle_bytes):
    row, active = f"{len(jobs)} sessions", jobs[:ACTIVE]
    what = ("narrow", stage.products(STEP_MS), MODEL_MB, 0)
    for job in jobs:
        job.ask("steps", [what], 0, count=1)
    alone_s = min(active[0].ask("step_time", what, 10) for _ in range(3))
    before_ns = exact_cpu_ns(daemon.process.pid)[0]
    time.sleep(1)
    record.add(row, "CPU while all are idle", (exact_cpu_ns(daemon.process.pid)[0] - before_ns) / 1e7, "%")
    start_ns = time.monotonic_ns() + 200_000_000
    for job in active:
        job.tell("steps", [what], 3, start_ns, start_ns + round(seconds * 1e9))
    ends = [job.answer()["ends"][0] for job in active]
    trace = daemon.trace()
    work = [work_by_window([(alone_s, mine)], start_ns, seconds, 1)[0] for mine in ends]
    record.add(row, "work done / time", sum(work))
    record.add(row, "largest share / least", max(work) / max(1e-9, min(work)))
    gaps = trace.switches()
    if gaps:
        record.add(row, "switch, p50", median(gaps) * 1e6, "us")
        record.add(row, "switch, p99", percentile(gaps, 99) * 1e6, "us")
    asked = time.monotonic()
    daemon.view()
    record.add(row, "`salus ps`", (time.monotonic() - asked) * 1e3, "ms")
    record.add(row, "memory of salusd for a session", (memory_of(daemon.process.pid)["VmRSS"] - idle_bytes) / len(jobs) / MIB, "MiB")
