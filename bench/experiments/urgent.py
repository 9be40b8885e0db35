# SPDX-License-Identifier: Apache-2.0
"""A server of requests of 1 ms beside training under mix, by the length of the training step."""

from arrangements import Free
from machine import median
from sharing_fill import batch_for, cnn_of, rotated, serve_once, timed

FIGURE = "no figure of the paper"
ESTIMATE_S = (26, 250)


def measure(stage, record, options):
    seconds, rounds, lengths_ms = options.pick((0.7, 2, (5, 30)), (2.5, 9, (5, 30, 150)))
    with Free(stage) as free, stage.daemon("--policy", "mix") as daemon:
        plain = free.start_job("server"), free.start_job("training")
        salus = *daemon.start_jobs("server", kind="inference"), *daemon.start_jobs("training")
        batch = batch_for(plain[0], 1e-3)
        ways = {"alone": (plain[0], None), "free": plain, "mix": salus}
        for length_ms, what in zip(lengths_ms, cnn_of(stage, *lengths_ms)):
            for job in (plain[1], salus[1]):
                timed(job, what, 3)
            found = {way: [] for way in ways}
            for turn in range(rounds):
                for way in rotated(ways, turn):
                    found[way].append(serve_once(*ways[way], what, batch, turn, seconds))
            report(record, length_ms, found)


def report(record, length_ms, found):
    for number, percent in enumerate((50, 95, 99)):
        row = f"steps of {length_ms} ms, p{percent}"
        for way, turns in found.items():
            record.add(row, way, [turn[number] * 1e3 for turn in turns], "ms")
        least = median([turn[number] for turn in found["free"]])
        record.add(row, "mix / free", median([turn[number] for turn in found["mix"]]) / least, "", "<= 1")
