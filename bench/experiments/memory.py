# SPDX-License-Identifier: Apache-2.0
"""Memory by kind over time: what a training job keeps, what the vendor keeps for it, what an iteration takes.

The sizes are those of src/heap: what is really there, not what programs state. An iteration is so long that it is sampled
many times.
"""

import threading
import time

from bridge_models import MODELS
from kit import MIB

FIGURE = "figures 1 and 2"
ESTIMATE_S = (17, 80)
SIZES = {"perceptron": 4096, "cnn": 2048, "attention": 256, "rnn": 512, "vae": 8192, "superres": 512}
DRAWN = "superres"  # the model of the curves
EVERY_S = 1e-3


class Samples:
    """(seconds, arrays, vendor's, in all) of the only session, in bytes, again and again until it is closed."""

    def __init__(self, daemon):
        self.daemon, self.found, self.ended = daemon, [], threading.Event()
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.wait(EVERY_S):
            session, = self.daemon.view()["sessions"]
            arrays, vendors = session["persist_bytes"], session["framework_bytes"]
            self.found.append((time.monotonic() - self.began, arrays, vendors, max(session["real_bytes"], arrays + vendors)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def measure(stage, record, options):
    steps, models = options.pick((6, ("cnn", "superres")), (40, MODELS))
    for model in models:
        with stage.daemon() as daemon:
            job, = daemon.start_jobs(model)
            job.ask("train", model, SIZES[model], 5, True)  # compiles; five iterations tell what the vendor keeps
            with Samples(daemon) as samples:
                job.ask("train", model, SIZES[model], steps, True)
            stated = daemon.view()["sessions"][0]["ephem_bytes"]
        report(record, model, samples.found, stated)


def report(record, model, found, stated):
    arrays, vendors, most = (max(column) for column in list(zip(*found))[1:])
    mean = sum(sample[3] for sample in found) / len(found)
    record.add(model, "persistent", arrays / MIB, "MiB")
    record.add(model, "framework", vendors / MIB, "MiB")
    record.add(model, "ephemeral, counted", stated / MIB, "MiB")
    record.add(model, "in all, most", most / MIB, "MiB")
    record.add(model, "mean / most", mean / most)
    record.add(model, "persistent / most", arrays / most)
    if model == DRAWN:
        for name, column in (("in all", 3), ("persistent", 1), ("framework", 2)):
            record.add_series(name, [[sample[0], sample[column] / MIB] for sample in found], "s", f"MiB, {model}")
