# SPDX-License-Identifier: Apache-2.0
"""bench/sharing runs, and reads traces rightly.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
TOOL = ROOT / "bench" / "sharing"
LIMIT = 120 * float(os.environ.get("SALUS_TEST_PATIENCE", "1"))  # seconds; only against hanging

sys.path.insert(0, str(ROOT / "bench"))
from sharing_rows import ahead_of, percentile  # noqa: E402
from sharing_stage import Trace  # noqa: E402

COLUMNS = ["what", "lane", "now_ns", "session", "iteration"]


def trace_of(*turns):
    """A trace of iterations: lane, session, when submitted, started, ended, in us."""
    entries = []
    for number, (lane, session, submitted, start, end) in enumerate(turns):
        entries.append(["submit", -1, submitted * 1000, session, number])
        entries.append(["done", lane, end * 1000, session, number, {"start_ns": start * 1000, "end_ns": end * 1000}])
    return Trace(json.dumps({"salus": {"dropped": 0, "columns": COLUMNS, "entries": entries}}))


def run(*args):
    return subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=LIMIT)


def test_switches_are_between_sessions_of_a_lane_and_queued():
    trace = trace_of((0, 1, 0, 10, 20), (0, 2, 5, 23, 30), (0, 2, 6, 32, 40), (0, 1, 41, 50, 60), (1, 3, 0, 61, 70))
    assert trace.switches() == pytest.approx([3e-6])


def test_used_time_is_cut_to_the_window():
    trace = trace_of((0, 1, 0, 10, 20), (0, 2, 0, 20, 40), (0, 1, 0, 40, 60))
    assert trace.used(1, 15_000, 50_000) == pytest.approx(15e-6)
    assert trace.used(2, 15_000, 50_000) == pytest.approx(20e-6)


def test_overlap_is_of_the_time_in_which_something_runs():
    trace = trace_of((0, 9, 0, 0, 5), (0, 1, 0, 10, 20), (1, 2, 0, 15, 25), (0, 1, 0, 35, 40))
    assert trace.overlap(10_000) == pytest.approx(5 / 20)


def test_percentiles_and_queues():
    assert percentile(range(1000), 50) == 500 and percentile(range(1000), 99) == 990 and percentile([7], 99) == 7
    assert [ahead_of(ms) for ms in (1, 5, 50)] == [16, 6, 3]


def test_a_row_that_does_not_exist_is_refused():
    done = run("--rows", "a,z")
    assert done.returncode == 1 and "no row z" in done.stderr


def test_the_first_row_runs(tmp_path):
    if not (BUILD / "bin" / "salusd").exists():
        pytest.skip(f"{BUILD / 'bin' / 'salusd'} does not exist: build it first")
    done = run("--rows", "a", "--quick", "--build", BUILD, "--json", tmp_path / "rows.json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["row"], row["bar"]) for row in rows] == [("a", "<= 50 us"), ("a", "<= 1 ms")] * 2
    assert all(row["reached"] in (True, False) and row["measured"] in done.stdout for row in rows)
    assert "models of 500 MB" in done.stdout and "of 4 bars reached" in done.stdout
