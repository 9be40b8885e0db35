# SPDX-License-Identifier: Apache-2.0
"""One job alone: the time of a training step through Salus / in-process, for each model."""

import contextlib

from bridge_models import MODELS
from machine import size_for

FIGURE = "figure 12"
ESTIMATE_S = (30, 280)
LENGTHS_MS = {1.5: 1.05, 5: 1.02}  # with the bars
SPAN_S = 0.06  # of a turn: the speed of a machine changes within seconds, so turns are short


def measure(stage, record, options):
    turns, lengths_ms = options.pick((15, (5,)), (55, LENGTHS_MS))
    models = options.pick(("perceptron", "cnn", "superres"), MODELS)
    with stage.daemon() as daemon, contextlib.closing(stage.inproc_job("inproc")) as inproc:
        salus = daemon.start_job("job")
        for model in models:
            for length_ms in lengths_ms:
                measure_model(record, (inproc, salus), model, length_ms, turns)


def measure_model(record, jobs, model, length_ms, turns):
    inproc, salus = jobs
    size = size_for(lambda size: min(inproc.ask("train", model, size, 20, False) for _ in range(2)), length_ms / 1e3)
    for synchronous in (False, True):
        steps = max(5, round(SPAN_S / length_ms * 1e3))
        for job in jobs:
            job.ask("train", model, size, 5, synchronous)
        pairs = []
        for turn in range(turns):
            order = jobs if turn % 2 else jobs[::-1]
            took = {job: job.ask("train", model, size, steps, synchronous) for job in order}
            pairs.append((took[inproc], took[salus]))
        row = f"{model}, about {length_ms:g} ms" + (", waited for" if synchronous else "")
        record.add(row, "in-process", [plain * 1e3 for plain, _ in pairs], "ms")
        record.add(row, "Salus / in-process", [ours / plain for plain, ours in pairs], "", LENGTHS_MS[length_ms])
