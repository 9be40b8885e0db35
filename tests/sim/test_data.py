# SPDX-License-Identifier: Apache-2.0
"""The traces in data/: reproducible from data/source, well-formed, and true to the published sums."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
TOOL = ROOT / "tools" / "make_workloads"

JOBS = {
    "trace100": 100,
    "search_superres_128": 300,
    "search_resnet50_50": 300,
    "inference42": 42,
    "fair3": 3,
    "equal20": 20,
    "tiresias60": 60,
}
NUMBERS = {"submit_s", "duration_s", "iterations", "iter_ms", "persistent_mib", "ephemeral_mib",
           "util", "weight", "priority", "requests_per_s", "deadline_ms"}
COLUMNS = NUMBERS | {"job", "kind"}
P100_MIB = 16 * 1024


def read_csv(path):
    with open(path, newline="") as table:
        return list(csv.DictReader(table))


def read_trace(name):
    return read_csv(DATA / f"{name}.csv")


def read_source(name):
    return read_csv(DATA / "source" / f"{name}.csv")


def make_workloads(*args):
    return subprocess.run([sys.executable, TOOL, *map(str, args)], capture_output=True, text=True)


def seconds(job):
    return int(job["iterations"]) * float(job["iter_ms"]) / 1000


def column_sum(jobs, column):
    return sum(float(job[column]) for job in jobs)


def test_tool_reproduces_the_committed_traces(tmp_path):
    assert os.access(TOOL, os.X_OK)
    run = make_workloads("-o", tmp_path)
    assert run.returncode == 0, run.stderr
    assert {p.stem for p in tmp_path.iterdir()} == set(JOBS) == {p.stem for p in DATA.glob("*.csv")}
    for name in JOBS:
        made, committed = tmp_path / f"{name}.csv", DATA / f"{name}.csv"
        assert made.read_bytes() == committed.read_bytes(), name


def test_another_seed_changes_the_workloads_only(tmp_path):
    run = make_workloads("--seed", 7, "-o", tmp_path, "trace100")
    assert run.returncode == 0, run.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["trace100.csv"]
    ours, other = read_trace("trace100"), read_csv(tmp_path / "trace100.csv")
    assert [job["job"] for job in ours] != [job["job"] for job in other]
    assert [job["submit_s"] for job in ours] == [job["submit_s"] for job in other]
    assert [seconds(job) for job in other] == pytest.approx([seconds(job) for job in ours], abs=1e-3)


def test_another_seed_never_overwrites_data():
    assert make_workloads("--seed", 7).returncode == 2


@pytest.mark.parametrize("name", JOBS)
def test_trace_is_well_formed(name):
    jobs = read_trace(name)
    assert len(jobs) == JOBS[name]
    assert len({job["job"] for job in jobs}) == len(jobs)
    for job in jobs:
        check_job(job)


def check_job(job):
    assert None not in job and None not in job.values(), "ragged row"
    assert set(job) <= COLUMNS
    assert job["job"] and job["job"] == job["job"].strip()
    assert job.get("kind", "") in ("", "training", "inference")
    values = {name: float(job[name]) for name in NUMBERS & set(job) if job[name] != ""}
    assert values["submit_s"] >= 0
    assert job["iterations"].isdigit() and values["iterations"] >= 1 and values["iter_ms"] > 0
    assert 0 < values.get("util", 1) <= 1
    assert 0 < values["persistent_mib"] + values["ephemeral_mib"] <= P100_MIB


def test_workloads_are_the_45_of_the_paper():
    rows = read_source("workloads")
    assert len(rows) == 45 and len({row["model"] for row in rows}) == 15
    assert sum(row["iter_ms"] == "" for row in rows) == 12


def test_trace100_keeps_arrivals_and_durations():
    jobs, arrivals = read_trace("trace100"), read_source("arrivals100")
    for job, arrival in zip(jobs, arrivals, strict=True):
        assert int(job["job"][1:4]) == int(arrival["job"])
        assert float(job["submit_s"]) == float(arrival["submit_s"])
        assert seconds(job) == pytest.approx(float(arrival["duration_s"]), abs=1e-3)
    total_s = sum(seconds(job) for job in jobs)
    assert total_s == pytest.approx(18203.4, abs=0.01)
    assert round(total_s / 60, 1) == 303.4  # FIFO makespan of Table 1


def test_trace100_replayed_in_order_gives_the_published_fifo():
    now, jct = 0.0, []
    for job in read_trace("trace100"):
        submit_s = float(job["submit_s"])
        now = max(now, submit_s) + seconds(job)
        jct.append(now - submit_s)
    published = [float(row["fifo_s"]) for row in read_source("fig7_jct")]
    assert sorted(jct) == pytest.approx(published, abs=0.7)
    assert sum(jct) / len(jct) / 60 == pytest.approx(170.6, abs=0.1)


@pytest.mark.parametrize("name, iter_ms, util",
                         [("superres_128", "183.04", "0.42"), ("resnet50_50", "225.722", "0.93")])
def test_search_jobs_are_equal(name, iter_ms, util):
    jobs = read_trace(f"search_{name}")
    assert len({tuple(list(job.values())[1:]) for job in jobs}) == 1
    assert (jobs[0]["submit_s"], jobs[0]["iterations"]) == ("0", "500")
    assert (jobs[0]["iter_ms"], jobs[0]["util"]) == (iter_ms, util)


def test_inference42_memory_is_the_worked_example():
    jobs = read_trace("inference42")
    assert len({job["job"].split("-")[1] for job in jobs}) == 14
    assert round(column_sum(jobs, "persistent_mib")) == 9758
    assert round(max(float(job["ephemeral_mib"]) for job in jobs)) == 3271
    for job in jobs:
        assert (job["kind"], job["iterations"], job["requests_per_s"]) == ("inference", "500", "0.1")


def test_fair3_runs_at_the_rate_of_figure_9():
    jobs = read_trace("fair3")
    assert [job["iterations"] for job in jobs] == ["145", "75", "35"]
    assert [job["submit_s"] for job in jobs] == ["0", "15", "30"]
    alone = [float(row["images_per_s"]) for row in read_source("fig9_fair_throughput")
             if row["series"] == "job1" and 1 < float(row["time_s"]) < 15]
    assert 50 * 1000 / float(jobs[0]["iter_ms"]) == pytest.approx(sum(alone) / len(alone), rel=0.005)
    last_s = max(float(row["time_s"]) for row in read_source("fig9_fair_throughput"))
    assert sum(map(seconds, jobs)) == pytest.approx(last_s, rel=0.01)


def test_equal20_jobs_are_equal_and_take_a_minute():
    jobs = read_trace("equal20")
    assert len({tuple(list(job.values())[1:]) for job in jobs}) == 1
    assert seconds(jobs[0]) == pytest.approx(60, abs=0.05)


def test_tiresias60_keeps_the_published_jobs():
    for job, row in zip(read_trace("tiresias60"), read_source("tiresias60"), strict=True):
        assert job["job"] == f"t{int(row['job']):02d}-{row['model']}_50"
        assert (job["submit_s"], job["iterations"]) == (row["submit_s"], row["iterations"])
        assert seconds(job) == pytest.approx(float(row["duration_s"]), abs=0.01)
