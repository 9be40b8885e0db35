# SPDX-License-Identifier: Apache-2.0
"""What docs/EVALUATION.md claims of the simulated policies, and that it says what the simulator says.

The paper: Yu and Chowdhury, "Salus: Fine-Grained GPU Sharing Primitives for Deep Learning
Applications", MLSys 2020. Origin of its numbers: data/README.md.
"""

import csv
import functools
import heapq
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from policies import policies as there_are  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SALUS = Path(os.environ.get("SALUS_BUILD", ROOT / "build")) / "bin" / "salus"
DATA = ROOT / "data"
PAGE = ROOT / "docs" / "EVALUATION.md"

POLICIES = there_are()

WEIGHTS = """\
job,submit_s,iterations,iter_ms,persistent_mib,ephemeral_mib,weight
w1,0,100,388.802488,380.1828,6502.9134,1
w2,0,200,388.802488,380.1828,6502.9134,2
w4,0,400,388.802488,380.1828,6502.9134,4
"""


def salus_sim(trace, *options):
    path = trace if isinstance(trace, Path) else DATA / f"{trace}.csv"
    memory = () if "--memory" in options else ("--memory", "15.6GiB")
    run = subprocess.run([SALUS, "sim", "--workload", path, *memory, *options], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@functools.cache
def policies(trace, *options):
    """{policy: result}; --static is the policy "static"."""
    results = json.loads(salus_sim(trace, "--json", *options))["policies"]
    return {result["policy"]: result for result in results}


def minutes(trace, policy, key, *options):
    return policies(trace, "--policy", policy, *options)[policy][key] / 60


def iterations(trace, policy, scratch):
    """[(start_s, end_s, job)] of every iteration, in order, as Perfetto would show it."""
    path = scratch / "trace.json"
    salus_sim(trace, "--policy", policy, "--chrome", str(path))
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
               if e["ph"] == "M" and e["name"] == "thread_name"}
    return sorted((e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"]) for e in events
                  if e["ph"] == "X" and threads[e["pid"], e["tid"]].startswith("lane "))


# The 100-job trace.


def test_fifo_is_that_of_the_paper():
    assert minutes("trace100", "fifo", "mean_jct_s") == pytest.approx(170.6, rel=0.005)
    assert minutes("trace100", "fifo", "makespan_s") == pytest.approx(303.4, rel=0.005)


@pytest.mark.parametrize("policy, options, most_min", [
    ("srtf", ("--page-bandwidth", "12GB/s"), 36.0),
    ("srtf", ("--no-paging",), 53.4),
    ("fair", (), 88.0),
    ("las", (), 84.0),
])
def test_mean_jct(policy, options, most_min):
    assert minutes("trace100", policy, "mean_jct_s", *options) <= most_min


def test_srtf_does_not_pay_with_makespan():
    srtf = minutes("trace100", "srtf", "makespan_s", "--page-bandwidth", "12GB/s")
    assert srtf <= 1.01 * minutes("trace100", "fifo", "makespan_s")


def ideal_srtf_mean_s():
    """Shortest remaining time first with no memory limit and no iterations, worked out here."""
    with open(DATA / "trace100.csv", newline="") as table:
        jobs = [(float(row["submit_s"]), int(row["iterations"]) * float(row["iter_ms"]) / 1000)
                for row in csv.DictReader(table)]
    now, waiting, jct = 0.0, [], []
    for submit_s, next_s in zip([s for s, _ in jobs], [s for s, _ in jobs[1:]] + [float("inf")]):
        now = submit_s
        heapq.heappush(waiting, (jobs[len(jct) + len(waiting)][1], submit_s))
        while waiting and now < next_s:
            left_s, came_s = heapq.heappop(waiting)
            if now + left_s > next_s:
                heapq.heappush(waiting, (left_s - (next_s - now), came_s))
                break
            now += left_s
            jct.append(now - came_s)
    assert len(jct) == len(jobs)
    return sum(jct) / len(jct)


def test_srtf_gains_what_an_ideal_schedule_would():
    fifo = minutes("trace100", "fifo", "mean_jct_s")
    ideal = ideal_srtf_mean_s() / 60
    assert ideal == pytest.approx(32.9, abs=0.1)
    assert fifo - minutes("trace100", "srtf", "mean_jct_s") >= 0.95 * (fifo - ideal)


@pytest.mark.parametrize("policy", POLICIES)
def test_invariants_hold_after_every_event(policy):
    result = policies("trace100", "--check", "--policy", policy)[policy]
    assert result["refused"] == 0 and result == policies("trace100", "--policy", policy)[policy]


def test_the_same_command_prints_the_same_bytes():
    command = ("trace100", "--policy", ",".join(POLICIES), "--json", "--jobs")
    assert salus_sim(*command) == salus_sim(*command)


# Hyper-parameter search, inference.


@pytest.mark.parametrize("workload, most_min, least_lanes",
                         [("superres_128", 201.5, 14), ("resnet50_50", 572.5, 2)])
def test_pack_fills_the_device(workload, most_min, least_lanes):
    pack = policies(f"search_{workload}", "--policy", "pack")["pack"]
    assert pack["makespan_s"] / 60 <= most_min
    assert pack["peak_lanes"] >= least_lanes


def test_42_services_live_on_one_device():
    fair = policies("inference42", "--policy", "fair")["fair"]
    assert (fair["devices"], fair["peak_resident"], fair["refused"], fair["page_outs"]) == (1, 42, 0, 0)


def test_42_services_need_6_devices_when_partitioned():
    static = policies("inference42", "--static", "--memory", "14GiB")["static"]
    assert (static["devices"], static["refused"]) == (6, 0)


# Fairness.


def shares(spans, weights):
    """Shares of device time over the whole rounds at the beginning of spans."""
    turns = sum(weights.values())
    spans = spans[:len(spans) // turns * turns]
    assert spans, "not one whole round"
    length_s = spans[-1][1] - spans[0][0]
    return {job: sum(b - a for a, b, name in spans if name == job) / length_s for job in weights}


def test_equal_jobs_get_equal_shares_whoever_comes_or_goes(tmp_path):
    spans = iterations("fair3", "fair", tmp_path)
    jobs = json.loads(salus_sim("fair3", "--policy", "fair", "--json", "--jobs"))["policies"][0]["jobs"]
    changes = sorted({t for job in jobs for t in (job["submit_s"], job["end_s"])})
    assert len(changes) == 6
    for start_s, end_s in zip(changes, changes[1:]):
        there = [job["job"] for job in jobs if job["submit_s"] <= start_s and job["end_s"] >= end_s]
        during = [s for s in spans if s[0] >= start_s - 1e-6 and s[1] <= end_s + 1e-6]
        got = shares(during, dict.fromkeys(there, 1))
        assert got == pytest.approx(dict.fromkeys(there, 1 / len(there)), rel=0.01), (start_s, end_s)


def test_shares_follow_weights(tmp_path):
    trace = tmp_path / "weights.csv"
    trace.write_text(WEIGHTS)
    spans = iterations(trace, "fair", tmp_path)
    first_end_s = min(max(b for _, b, name in spans if name == job) for job in ("w1", "w2", "w4"))
    got = shares([s for s in spans if s[1] <= first_end_s], {"w1": 1, "w2": 2, "w4": 4})
    assert got == pytest.approx({"w1": 1 / 7, "w2": 2 / 7, "w4": 4 / 7}, rel=0.01)


# The page.


def headline_rows():
    text = PAGE.read_text().partition("<!-- table table1 -->")[2].partition("<!-- end -->")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        option = re.fullmatch(r"`--policy (\w+)( --no-paging)?`", cells[0])
        if option:
            yield option[1], option[2], cells[1:5]


def test_headline_table_is_what_the_simulator_says():
    with open(DATA / "source" / "table1_policies.csv", newline="") as table:
        paper = {row.pop("policy").lower(): list(row.values()) for row in csv.DictReader(table)}
    rows = list(headline_rows())
    assert rows and {policy for policy, _, _ in rows} <= set(POLICIES)
    for policy, no_paging, cells in rows:
        result = policies("trace100", "--policy", policy, *([no_paging.strip()] if no_paging else []))
        for key, cell, published in zip(("makespan_s", "mean_queue_s", "mean_jct_s", "p95_jct_s"), cells,
                                        paper.get(policy, ["–"] * 4), strict=True):
            left, right = cell.split(" / ")
            assert left == published, (policy, key)
            assert float(right) == pytest.approx(result[policy][key] / 60, abs=0.051), (policy, key)


def test_every_table_is_up_to_date():
    run = subprocess.run([sys.executable, ROOT / "tools" / "plot_evaluation", "--check"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_picture_is_there():
    pictures = re.findall(r"!\[[^]]+\]\((\S+)\)", PAGE.read_text())
    assert len(pictures) >= 5
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
