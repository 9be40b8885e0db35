# SPDX-License-Identifier: Apache-2.0
"""The scripts of the experiments with whole jobs: kinds of train_cnn.py, what they need alone, and lists of arrivals. Not
to be run by hand."""

import collections
import csv
import functools
import math
import os
import random
import re

from arrangements import Arrival, Free, Scripts, read_output
from kit import MIB, Memory, peak_of
from machine import ROOT, median
from sharing_stage import DEADLINE_S

SCRIPT = os.path.join(ROOT, "bench", "train_cnn.py")

# A kind of job: its batch, and the part of its time that it spends on the host. step_s and host_ms are measured.
Kind = collections.namedtuple("Kind", "batch part step_s host_ms")


def argv_of(kind, steps, *more):
    return (SCRIPT, "--steps", str(steps), "--batch", str(kind.batch), "--host", f"{kind.host_ms:.3f}", *more)


def trained_for_s(output):
    """Seconds of the steps after the first, from the script's own output."""
    return float(re.search(r"trained for ([\d.]+) s", output)[1])


def trained_s(stage, host, argv):
    return trained_for_s(read_output(stage, host, "alone", argv))


def fill_caches(stage, batches):
    """Runs each script once, with and without Salus, so that its programs are compiled. Caches live as long as a stage."""
    for batch in batches:
        fill_cache(stage, batch)


@functools.cache
def fill_cache(stage, batch):
    argv = SCRIPT, "--steps", "2", "--batch", str(batch)
    with stage.daemon() as daemon:
        trained_s(stage, daemon, argv)
    with Free(stage) as free:
        trained_s(stage, free, argv)


@functools.cache
def step_alone_s(stage, batch, host_ms, steps):
    """Seconds of a step alone. JAX computes one step while the host prepares the next."""
    with Free(stage) as free:
        return median([trained_s(stage, free, argv_of(Kind(batch, 0, 0, host_ms), steps)) / steps for _ in range(3)])


def measure_kinds(stage, batches, parts, steps):
    """The kinds of jobs: every batch with every part of host time. step_s includes the host's time."""
    kinds = []
    for batch in batches:
        device_ms = step_alone_s(stage, batch, 0, steps) * 1e3
        for part in parts:
            host_ms = device_ms * part / (1 - part)
            kinds.append(Kind(batch, part, step_alone_s(stage, batch, host_ms, steps), host_ms))
    return kinds


def filled_by(stage, kind, steps):
    """The part of the device that a job of this kind fills, from two at once under pack: two that take as long as one
    fill half of it each."""
    argv = argv_of(kind, steps)
    with stage.daemon("--policy", "pack", "--lanes", "2") as daemon, Scripts(stage, daemon) as scripts:
        both = [Arrival(name, 0, argv, 1) for name in ("one", "other")]
        for arrival in both:
            scripts.start(arrival)
        while scripts.running:
            scripts.collect(DEADLINE_S)
        beside_s = median([trained_for_s(scripts.read(arrival)) for arrival in both]) / steps
    return min(1, max(0.1, beside_s / kind.step_s / 2))


def arrival(number, kinds, at_s, length_s):
    kind = kinds[number % len(kinds)]
    steps = max(2, math.ceil(length_s / kind.step_s))
    return Arrival(f"job{number}", at_s, argv_of(kind, steps), steps * kind.step_s)


def scaled_trace(kinds, total_s):
    """The arrivals and lengths of the paper's 100 jobs, so much shorter that one after the other they take this long."""
    with open(os.path.join(ROOT, "data", "trace100.csv"), newline="") as file:
        jobs = [(float(row["submit_s"]), int(row["iterations"]) * float(row["iter_ms"]) / 1e3) for row in csv.DictReader(file)]
    scale = total_s / sum(length_s for _, length_s in jobs)
    return [arrival(number, kinds, at_s * scale, length_s * scale) for number, (at_s, length_s) in enumerate(jobs)]


def draw(kinds, count, shortest_s, longest_s, within_s, seed):
    """Jobs whose lengths are spread evenly on a logarithmic scale, in a random order, at random times, the first at
    once."""
    rng = random.Random(seed)
    lengths = [shortest_s * (longest_s / shortest_s) ** (i / (count - 1)) for i in range(count)]
    rng.shuffle(lengths)
    times = [0] + sorted(rng.uniform(0, within_s) for _ in range(count - 1))
    return [arrival(number, kinds, at_s, length_s) for number, (at_s, length_s) in enumerate(zip(times, lengths))]


@functools.cache
def needs(stage, batch, cores=None):
    """What a job of this batch needs beyond its process, and the memory of that process, in bytes. cores: those that the
    process may use."""
    small = peak_of(stage, (SCRIPT, "--steps", "4", "--batch", "8"), cores)
    return max(peak_of(stage, (SCRIPT, "--steps", "4", "--batch", str(batch)), cores) - small, MIB), small


def roomy(stage, batch, jobs):
    """A device in which so many jobs of this batch fit side by side."""
    need, host = needs(stage, batch)
    return Memory(need * jobs + 64 * MIB, host)
