# SPDX-License-Identifier: Apache-2.0
"""Jobs of many lengths arrive one after another: completion times and makespan in every arrangement.

The same list then runs in `salus sim`, with the measured times of the jobs alone: simulated against real completion times.
"""

import csv
import itertools
import json
import os
import subprocess

from arrangements import Arrival, Free, play_each
from kit import OTHERS, completion, lost, makespan, play_in
from machine import CORES, median
from sharing_rows import percentile
from workload import SCRIPT, draw, fill_caches, filled_by, measure_kinds, roomy, scaled_trace

FIGURE = "table 1"
ESTIMATE_S = (90, 2400)
SEED = 12  # of the quick run's list
TOTAL_S = 300  # of the full run's jobs alone
POLICIES = ("srtf", "fair", "pack")


def measure(stage, record, options):
    batches = options.pick((32,), (32, 128))
    fill_caches(stage, (8, *batches))
    kinds = measure_kinds(stage, batches, (0, 0.2, 0.5), options.pick(60, 300))
    for kind in kinds:
        record.add(f"batch {kind.batch}, {kind.part:.0%} on the host", "a step alone", kind.step_s * 1e3, "ms")
    util = [filled_by(stage, kind, options.pick(200, 600)) for kind in kinds]
    for kind, part in zip(kinds, util):
        record.add(f"batch {kind.batch}, {kind.part:.0%} on the host", "fills of the device", part * 100, "%")
    # A process needs most of a second of processor time to start. With more jobs the quick run would measure starts.
    arrivals = scaled_trace(kinds, TOTAL_S) if options.full else draw(kinds, 8, 0.3, 4, 3, SEED)
    memory = roomy(stage, max(batches), len(arrivals))
    start_s = startup_s(stage)
    record.add("start of a process", "to the end of an empty job", start_s, "s")
    results = {}
    for name in (*OTHERS, *options.pick(("srtf", "fair"), POLICIES)):
        results[name] = play_in(stage, name, arrivals, memory)
        report(record, name, results[name])
    mean = compare(record, results)
    util = dict(zip(arrivals, itertools.cycle(util)))
    ideal_s, ideal_times = ideal_gain(stage, util)
    record.add("srtf, ideal", "mean completion, times less", ideal_times)
    record.add("srtf / ideal", "gain in mean completion", (mean["exclusive"] - mean["srtf"]) / ideal_s * 100, "%", ">= 95")
    for policy in ("srtf", "fair"):
        simulate(stage, record, policy, util, results[policy], start_s)


def startup_s(stage):
    """Seconds of a process with no steps to speak of."""
    with Free(stage) as free:
        return median([one.ended_s - one.began_s for _ in range(3)
                       for one in play_each(stage, free, [Arrival("empty", 0, (SCRIPT, "--steps", "1"), 1)])])


def ideal_gain(stage, util):
    """What srtf gains over fifo in mean completion, on the same list, with no cost, no start and no limit of memory."""
    mean = {policy: sum(jobs.values()) / len(jobs)
            for policy in ("fifo", "srtf") for jobs in [simulated(stage, policy, util, 0)]}
    return mean["fifo"] - mean["srtf"], mean["fifo"] / mean["srtf"]


def report(record, name, played):
    times = completion(played)
    record.add(name, "mean completion", sum(times) / len(times), "s", seed=SEED)
    record.add(name, "p95 completion", percentile(times, 95), "s", seed=SEED)
    record.add(name, "makespan", makespan(played), "s", seed=SEED)
    record.add(name, "lost", lost(played), "jobs", seed=SEED)
    record.add_series(name, sorted(times), "jobs that ended", "completion time, s")


def compare(record, results):
    mean = {name: sum(completion(played)) / len(completion(played)) for name, played in results.items()}
    for policy in [name for name in results if name not in OTHERS]:
        for other in OTHERS:
            bar = ">= 3" if (policy, other) == ("srtf", "exclusive") else ">= 1" if policy in ("srtf", "fair", "pack") else None
            record.add(f"{policy} against {other}", "mean completion, times less", mean[other] / mean[policy], "", bar, SEED)
    record.add("srtf against exclusive", "makespan", makespan(results["srtf"]) / makespan(results["exclusive"]), "", "<= 1", SEED)
    return mean


def steps_of(one):
    return int(one.argv[one.argv.index("--steps") + 1])


def start_steps(one, part, start_s):
    """How many steps of this job do as much work as the start of its process, which keeps one core busy. A step fills a
    part of the device, which is all cores."""
    return round(start_s / CORES / part / (one.alone_s / steps_of(one)))


def start_rest_s(one, part, start_s):
    """What the start takes beyond these steps."""
    return start_s - start_steps(one, part, start_s) * one.alone_s / steps_of(one)


def simulated(stage, policy, util, start_s, *flags):
    """What `salus sim` says of each job: its completion time. Here the cores are the device, so the start of a process
    takes part of it: the job does that work as steps, too. It is submitted when the rest of the start has passed. util:
    the part of the device that each job fills."""
    path = os.path.join(stage.dir, "workload.csv")
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("job", "submit_s", "iterations", "iter_ms", "persistent_mib", "ephemeral_mib", "util"))
        for one, part in util.items():
            rows.writerow((one.name, one.at_s + start_rest_s(one, part, start_s),
                           steps_of(one) + start_steps(one, part, start_s), one.alone_s / steps_of(one) * 1e3, 1, 8,
                           round(part, 3)))
    done = subprocess.run([os.path.join(stage.build, "bin", "salus"), "sim", "--workload", path, "--policy", policy,
                           "--memory", "1000GiB", "--jobs", "--json", *flags], capture_output=True, text=True, check=True)
    found = {job["job"]: job["jct_s"] for job in json.loads(done.stdout)["policies"][0]["jobs"]}
    return {one.name: found[one.name] + start_rest_s(one, part, start_s) for one, part in util.items()}


def simulate(stage, record, policy, util, played, start_s):
    """Compares completion times with those of `salus sim`."""
    jobs = simulated(stage, policy, util, start_s, "--lanes", "auto")
    real = {one.name: one.ended_s - one.at_s for one in played if not one.lost}
    errors = [abs(jobs[name] - real[name]) / real[name] for name in real]
    mean = sum(jobs[name] for name in real) / sum(real.values())
    record.add(f"simulated, {policy}", "mean completion, simulated / real", mean, "", "0.95 to 1.05", SEED)
    record.add(f"simulated, {policy}", "error of a job, median", median(errors) * 100, "%", seed=SEED)
    record.add(f"simulated, {policy}", "error of a job, p95", percentile(errors, 95) * 100, "%", seed=SEED)
    record.add_pairs(policy, sorted([real[name], jobs[name]] for name in real), "completion time, s, measured",
                     "simulated", "simulated")
