# SPDX-License-Identifier: Apache-2.0
"""Inference models on one device: how many fit, and their latency against alone."""

import contextlib

from sharing_rows import percentile

FIGURE = "figure 10"
ESTIMATE_S = (9, 60)
MODEL_MB, SCRATCH_MB, CAPACITY_MB = 2, 72, 512


def took_ms(answers):
    return [(a["ended_ns"] - a["began_ns"]) / 1e6 for a in answers]


def measure(stage, record, options):
    count, rounds = options.pick((36, 4), (42, 30))
    apart = CAPACITY_MB // (MODEL_MB + SCRATCH_MB)
    what, ask = (0, MODEL_MB, SCRATCH_MB), (stage.products(1), 0, 0, None, 1)
    with contextlib.closing(stage.inproc_job("alone")) as job:
        job.ask("load", *what)
        right = job.ask("run", what, *ask)["digest"]
        alone = took_ms([job.ask("run", what, *ask) for _ in range(30)])
    with stage.daemon("--memory", f"{CAPACITY_MB}MiB") as daemon:
        jobs = daemon.start_jobs(*[f"model{i}" for i in range(count)], kind="inference")
        for job in jobs:
            job.ask("load", *what)
        in_turn = [job.ask("run", what, *ask) for _ in range(rounds) for job in jobs]
        answered = sum(a["digest"] == right for a in in_turn[-count:])
        paged = daemon.trace().count("page_out")
    record.add("models that fit", "static shares", apart, "models")
    record.add("models that fit", "Salus", answered, "models")
    record.add("models that fit", "Salus / static shares", answered / apart, "", ">= 6")
    record.add("paged out meanwhile", "Salus", paged, "times", "<= 0")
    for percent in (50, 99):
        record.add(f"latency, p{percent}", "alone", percentile(alone, percent), "ms")
        record.add(f"latency, p{percent}", "Salus", percentile(took_ms(in_turn), percent), "ms")
