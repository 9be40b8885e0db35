# SPDX-License-Identifier: Apache-2.0
"""A search: trials of one model, all ready at once, with early stopping and without, cold and warm."""

from arrangements import Arrival
from kit import MIB, Memory, lost, makespan, play_in
from workload import argv_of, fill_caches, measure_kinds, roomy

FIGURE = "figure 11"
ESTIMATE_S = (38, 880)
BATCH = 32
COMPILE_MB = 1024  # more than a process needs to compile the programs of a trial
WAYS = ("exclusive", "free", "pack")


def trials(kind, count, steps, stops_early):
    """With early stopping, half of the trials end after a quarter of their steps."""
    found = []
    for number in range(count):
        mine = steps // 4 if stops_early and number % 2 else steps
        argv = argv_of(kind, mine, "--rate", f"{0.5 + number / count:.3f}")
        found.append(Arrival(f"trial{number}", 0, argv, mine * kind.step_s))
    return found


def measure(stage, record, options):
    count, seconds = options.pick((5, 0.5), (60, 1.2))
    fill_caches(stage, (8, BATCH))
    kind, = measure_kinds(stage, (BATCH,), (0.2,), options.pick(60, 300))
    # Each process compiles without Salus, which takes memory of the host, not of the device.
    room = roomy(stage, BATCH, count)
    memory = Memory(room.capacity_bytes + count * COMPILE_MB * MIB, room.host_bytes)
    steps = max(8, round(seconds / kind.step_s))
    cases = options.pick((("cold", False), ("warm", True)), (("cold", False), ("warm", False), ("warm", True)))
    for state, stops_early in cases:
        took = {}
        for way in WAYS:
            # Cold: folders that nobody has used. Salus keeps compiled programs in a folder of its own.
            name = f"{state}-{way}-{stops_early}" if state == "cold" else "jax-cache"
            flags = ("--cache", f"{stage.dir}/{name}-programs") if state == "cold" else ()
            played = play_in(stage, way, trials(kind, count, steps, stops_early), memory, flags, name)
            took[way] = 0 if lost(played) else makespan(played)  # jobs that are lost take no time
            row = f"{way}, {state}" + (", early stopping" if stops_early else "")
            record.add(row, f"makespan of {count} trials", makespan(played), "s")
            record.add(row, "lost", lost(played), "jobs")
        row = state + (", early stopping" if stops_early else "")
        for other, bar in (("exclusive", "<= 0.42"), ("free", "<= 0.8")):
            if took[other] and took["pack"]:  # both lost nothing
                record.add(f"pack / {other}, {row}", "makespan", took["pack"] / took[other], "", bar)
