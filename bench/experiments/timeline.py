# SPDX-License-Identifier: Apache-2.0
"""Switching: jobs come under srtf while others run; and how long a switch takes, with small and large models."""

import time

from machine import median
from sharing_rows import percentile

FIGURE = "figure 8"
ESTIMATE_S = (8, 45)
STEP_MS = 5
# Jobs: when they come, and how long they take alone; in parts of the longest.
JOBS = {"long": (0, 1), "second": (0.1, 0.2), "third": (0.15, 0.1), "fourth": (0.5, 0.3), "fifth": (0.6, 0.08)}
NEAR_S = 0.02  # iterations of a job that are nearer than this are one piece


def measure(stage, record, options):
    slice_of_srtf(stage, record, options.pick(1.5, 10))
    for model_mb in (1, 200):
        switches(stage, record, model_mb, options.pick(0.5, 5))


def slice_of_srtf(stage, record, longest_s):
    what = ("narrow", stage.products(STEP_MS))
    with stage.daemon("--policy", "srtf", "--lanes", "1") as daemon:
        jobs = daemon.start_jobs(*JOBS)
        for job in jobs:
            job.ask("steps", [what], 0, count=2)
        start_ns = time.monotonic_ns() + 200_000_000
        for job in jobs:
            at, length = JOBS[job.name]
            daemon.salus("set", daemon.session(job), f"time={length * longest_s:.3f}s")
            job.tell("steps", [what], 3, start_ns + round(at * longest_s * 1e9), count=round(length * longest_s * 1e3 / STEP_MS))
        ended_ns = {job.name: job.answer()["ended_ns"] for job in jobs}
        sessions, trace = {job.name: daemon.session(job) for job in jobs}, daemon.trace()
    for name, (at, length) in JOBS.items():
        took_s = (ended_ns[name] - start_ns) / 1e9 - at * longest_s
        found = pieces([t for t in trace.turns if t["session"] == sessions[name] and t["start"] >= start_ns], start_ns)
        record.add(name, "takes, alone", length * longest_s, "s")
        record.add(name, "takes, beside the others", took_s, "s")
        record.add(name, "pieces", len(found))
        record.add_spans(name, found, "s")


def pieces(turns, start_ns):
    """[start, end] of the times in which a job has the device, in seconds."""
    found = []
    for turn in sorted(turns, key=lambda turn: turn["start"]):
        start, end = ((turn[key] - start_ns) / 1e9 for key in ("start", "end"))
        if found and start - found[-1][1] < NEAR_S:
            found[-1][1] = end
        else:
            found.append([start, end])
    return found


def switches(stage, record, model_mb, seconds):
    """Two jobs with iterations of 2 ms and work in advance take turns under fair."""
    what = ("narrow", stage.products(2), model_mb, 0)
    with stage.daemon("--policy", "fair", "--lanes", "1") as daemon:
        jobs = daemon.start_jobs("left", "right")
        for job in jobs:
            job.ask("steps", [what], 0, count=2)
        start_ns = time.monotonic_ns() + 100_000_000
        for job in jobs:
            job.tell("steps", [what], 6, start_ns, start_ns + round(seconds * 1e9))
        for job in jobs:
            job.answer()
        gaps = daemon.trace().switches()
    row = f"a switch, models of {model_mb} MB"
    record.add(row, "p50", median(gaps) * 1e6, "us", "<= 50")
    record.add(row, "p99", percentile(gaps, 99) * 1e6, "us", "<= 1000")
    record.add(row, "switches", len(gaps))
