# SPDX-License-Identifier: Apache-2.0
"""`salus sim --lanes auto`: lanes open where they pay, and are tried rarely where they do not."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SALUS = Path(os.environ.get("SALUS_BUILD", ROOT / "build")) / "bin" / "salus"
TRACE = ROOT / "data" / "trace100.csv"


def report(workload, policy, *options):
    run = subprocess.run([SALUS, "sim", "--workload", workload, "--memory", "15.6GiB", "--policy", policy, "--json",
                          *map(str, options)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    (result,) = json.loads(run.stdout)["policies"]
    return result


def workload_of(folder, *utils, seconds=60, iter_ms=5):
    """Equal jobs that come at once, each of which fills this part of the device."""
    path = folder / "t.csv"
    rows = [f"j{i},0,{round(seconds * 1000 / iter_ms)},{iter_ms},10,20,{util}" for i, util in enumerate(utils)]
    path.write_text("\n".join(["job,submit_s,iterations,iter_ms,persistent_mib,ephemeral_mib,util", *rows, ""]))
    return path


def crowds(folder, workload, policy):
    """When the number of iterations that run changes: pairs of a time in seconds and the number from then on."""
    path = folder / "trace.json"
    report(workload, policy, "--lanes", "auto", "--chrome", path)
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
               if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X" and threads[e["pid"], e["tid"]].startswith("lane ")]
    steps = sorted([(round(e["ts"]), 1) for e in slices] + [(round(e["ts"] + e["dur"]), -1) for e in slices])
    found, running = [], 0
    for at_us, change in steps:
        running += change
        found.append((at_us / 1e6, running))
    return found


def episodes(found, count, apart_s=0.7):
    """The times at which so many iterations or more began to run at once, after they did not for apart_s."""
    begins, last_s = [], float("-inf")
    for at_s, running in found:
        if running >= count:
            if at_s - last_s > apart_s:
                begins.append(at_s)
            last_s = at_s
    return begins


@pytest.mark.parametrize("policy", ["srtf", "fair", "las"])
def test_two_that_fit_run_side_by_side_at_once(tmp_path, policy):
    workload = workload_of(tmp_path, 0.5, 0.5, seconds=5)
    assert episodes(crowds(tmp_path, workload, policy), 2)[0] < 0.1
    assert report(workload, policy, "--lanes", "auto")["makespan_s"] <= 1.02 * 5


@pytest.mark.parametrize("policy", ["srtf", "fair", "las"])
def test_two_that_fill_the_device_are_not_paired_in_vain(tmp_path, policy):
    workload = workload_of(tmp_path, 0.97, 0.97, seconds=20)
    # The first runs of a program tell nothing about it; afterwards nobody tries.
    assert not [at_s for at_s in episodes(crowds(tmp_path, workload, policy), 2) if at_s > 0.5]
    alone = report(workload, policy, "--lanes", 1)["makespan_s"]
    assert report(workload, policy, "--lanes", "auto")["makespan_s"] <= 1.01 * alone


@pytest.mark.parametrize("policy", ["fair", "las"])
def test_a_lane_that_adds_nothing_is_tried_ever_more_rarely(tmp_path, policy):
    workload = workload_of(tmp_path, 0.6, 0.6, 0.6, seconds=60)
    begins = [at_s for at_s in episodes(crowds(tmp_path, workload, policy), 3) if at_s > 0.5]
    apart = [b - a for a, b in zip(begins, begins[1:])]
    assert 3 <= len(begins) <= 8  # after 1, 2, 4, 8, 16 and 32 s
    assert all(b > 1.5 * a for a, b in zip(apart[1:], apart[2:]))


def test_srtf_with_lanes_that_pay_on_the_100_jobs():
    one, auto = report(TRACE, "srtf", "--lanes", 1), report(TRACE, "srtf", "--lanes", "auto")
    assert auto["mean_jct_s"] <= one["mean_jct_s"]
    assert auto["makespan_s"] <= 1.01 * report(TRACE, "pack")["makespan_s"]
