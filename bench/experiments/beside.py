# SPDX-License-Identifier: Apache-2.0
"""Two equal training jobs side by side: completion times in every arrangement, by the time that they spend on the host."""

from arrangements import Arrival
from kit import OTHERS, completion, lost, play_in
from workload import argv_of, fill_caches, measure_kinds, roomy

FIGURE = "figure 13"
ESTIMATE_S = (14, 265)


def measure(stage, record, options):
    batch, seconds, parts = options.pick((32, 0.8, (0.2,)), (64, 5, (0, 0.2, 0.5)))
    fill_caches(stage, (8, batch))
    memory = roomy(stage, batch, 2)
    for kind in measure_kinds(stage, (batch,), parts, options.pick(60, 300)):
        steps = max(8, round(seconds / kind.step_s))
        pair = [Arrival(f"job{i}", 0, argv_of(kind, steps), steps * kind.step_s) for i in range(2)]
        column = f"mean completion, {kind.part:.0%} on the host"
        one, = completion(play_in(stage, "free", pair[:1], memory))
        record.add("one job alone", column, one, "s")
        took = {}
        for way in options.pick(("exclusive", "free", "static", "pack"), (*OTHERS, "fair", "pack", "srtf")):
            played = play_in(stage, way, pair, memory)
            took[way] = sum(completion(played)) / max(1, len(completion(played)))
            record.add(way, column, took[way], "s")
            record.add(way, f"lost, {kind.part:.0%} on the host", lost(played), "jobs")
        record.add("pack / static", column, took["pack"] / took["static"], "", "<= 1")
        record.add("pack / free", column, took["pack"] / took["free"], "", "<= 1.05")
