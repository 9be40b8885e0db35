# SPDX-License-Identifier: Apache-2.0
"""A search: trials of one model, all ready at once, with early stopping and without, cold and warm."""

from arrangements import Arrival
from kit import lost, makespan, play_in
from workload import argv_of, fill_caches, measure_kinds, roomy

FIGURE = "figure 11"
ESTIMATE_S = (45, 1000)
BATCH = 32
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
    count, seconds = options.pick((6, 0.5), (60, 2))
    fill_caches(stage, (8, BATCH))
    kind, = measure_kinds(stage, (BATCH,), (0.2,), options.pick(60, 300))
    memory, steps = roomy(stage, BATCH, count), max(8, round(seconds / kind.step_s))
    cases = options.pick((("cold", False), ("warm", True)), (("cold", False), ("warm", False), ("warm", True)))
    for state, stops_early in cases:
        took = {}
        for way in WAYS:
            # Cold: folders that nobody has used. Salus keeps compiled programs in a folder of its own.
            name = f"{state}-{way}-{stops_early}" if state == "cold" else "jax-cache"
            flags = ("--cache", f"{stage.dir}/{name}-programs") if state == "cold" else ()
            played = play_in(stage, way, trials(kind, count, steps, stops_early), memory, flags, name)
            took[way] = makespan(played)
            row = f"{way}, {state}" + (", early stopping" if stops_early else "")
            record.add(row, f"makespan of {count} trials", took[way], "s")
            record.add(row, "lost", lost(played), "jobs")
        row = state + (", early stopping" if stops_early else "")
        record.add(f"pack / exclusive, {row}", "makespan", took["pack"] / took["exclusive"], "", "<= 0.42")
        record.add(f"pack / free, {row}", "makespan", took["pack"] / took["free"], "", "<= 0.8")
