# SPDX-License-Identifier: Apache-2.0
"""Jobs that together need three times the memory: how many are lost."""

import os

from arrangements import Arrival, play_each
from kit import Memory, lost, makespan, play_in
from memory_sampler import Sampler
from workload import SCRIPT, fill_caches, needs

FIGURE = "no figure of the paper"
ESTIMATE_S = (34, 320)
BATCH, TIMES = 2048, 3


def measure(stage, record, options):
    count, steps = options.pick((6, 2), (20, 15))
    fill_caches(stage, (8, BATCH))
    # On one core a job needs less: no arrangement has jobs that need less than this.
    need = needs(stage, BATCH, frozenset({min(os.sched_getaffinity(0))}))[0]
    memory = Memory(count * need // TIMES, needs(stage, BATCH)[1])
    record.add("a job", "memory beyond its process", need / (1 << 20), "MiB")
    record.add("the device", "memory", memory.capacity_bytes / (1 << 20), "MiB")
    argv = (SCRIPT, "--steps", str(steps), "--batch", str(BATCH))
    arrivals = [Arrival(f"big{i}", 0, argv, 1) for i in range(count)]
    for way in ("free", "static"):
        report(record, way, play_in(stage, way, arrivals, memory, parts=count), ">= 1")
    for way in options.pick(("pack",), ("fair", "pack")):
        with stage.daemon("--policy", way, *memory.flags) as daemon:
            with Sampler(daemon) as sampler:
                report(record, way, play_each(stage, daemon, arrivals), "<= 0")
        record.add(way, "memory of salusd, more than idle, without paged-out arrays", sampler.most / (1 << 20), "MiB")


def report(record, way, played, bar):
    record.add(way, "lost", lost(played), f"of {len(played)}", bar)
    record.add(way, "makespan", makespan(played), "s")
