# SPDX-License-Identifier: Apache-2.0
"""`salus sim --replay` over recordings written by hand, and `salus trace` with nobody to ask."""

import copy
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
SALUS = BUILD / "bin" / "salus"

TUNING = {"lanes": 1, "lane_cap": 0, "page_bytes_per_s": 0, "page_margin": 10, "anticipate_ns": 0, "short_ns": 0,
          "idle_ns": 0, "pass_bound": 64, "guess_ns": 0}
FACTS = {"kind": 0, "weight_milli": 1000, "priority": 20, "limit_bytes": 0}
COLUMNS = ["what", "lane", "reason", "now_ns", "session", "iteration", "persist_bytes", "ephem_bytes",
           "grow_bytes", "value"]
TWO_JOBS = [
    ["open", -1, 0, 10, 1, 0, 0, 0, 0, 0, {**FACTS, "name": "é"}],
    ["admit", 0, 0, 10, 1, 0, 0, 0, 0, 0],
    ["open", -1, 0, 11, 2, 0, 0, 0, 0, 0, {**FACTS, "name": "b"}],
    ["admit", 0, 0, 11, 2, 0, 0, 0, 0, 0],
    ["submit", 0, 0, 20, 2, 7, 100, 0, 0, 0],
    ["admit", 0, 0, 20, 2, 0, 100, 0, 0, 0],
    ["grant", 0, 0, 20, 2, 7, 100, 0, 0, 0],
    ["set_policy", -1, 0, 25, 0, 0, 0, 0, 0, 0, {"policy": "rr"}],
    ["done", 0, 0, 30, 2, 7, 100, 0, 0, 9, {"start_ns": 20, "end_ns": 29}],
    ["close", 0, 0, 40, 1, 0, 0, 0, 0, 0],
]


def recording(entries=None, **head):
    return {"traceEvents": [], "salus": {
        "version": 1, "capacity_bytes": 1000, "dropped": 0, "start_ns": 0, "realtime_ns": 0,
        "policy": "pack", "tuning": TUNING, "memory": [0, 0],
        "entries": copy.deepcopy(TWO_JOBS if entries is None else entries), **head}}


def salus(*args, env=None):
    return subprocess.run([str(a) for a in (SALUS, *args)], capture_output=True, text=True, timeout=60,
                          env=env, stdin=subprocess.DEVNULL)


def replay(folder, content, *args):
    path = folder / "r.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return salus("sim", "--replay", path, *args)


def test_columns_are_these(tmp_path):
    """The rows here are written in the order of the columns of a recording."""
    source = (ROOT / "src" / "recording" / "trace.c").read_text()
    assert re.findall(r"FIELD\(sal_record, (\w+)\)", source) == COLUMNS[3:]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_identical(tmp_path, version):
    run = replay(tmp_path, recording(version=version))
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    assert run.stdout == "6 events, 4 decisions, 1 of them grants: identical\n"
    run = replay(tmp_path, recording(), "--json")
    assert json.loads(run.stdout) == {"identical": True, "events": 6, "decisions": 4, "grants": 1}


def test_a_recording_of_nothing(tmp_path):
    assert replay(tmp_path, recording([])).stdout.endswith(": identical\n")


@pytest.mark.parametrize("change", [
    lambda e: e[6].__setitem__(4, 1),  # another session
    lambda e: e[6].__setitem__(1, 3),  # another lane
    lambda e: e[6].__setitem__(2, 1),  # another reason
    lambda e: e[6].__setitem__(5, 8),  # another iteration
    lambda e: e.pop(6),
    lambda e: e.insert(7, e[6]),
    lambda e: e.__setitem__(slice(5, 7), [e[6], e[5]]),  # another order
])
def test_the_first_difference_is_shown(tmp_path, change):
    changed = recording()
    change(changed["salus"]["entries"])
    run = replay(tmp_path, changed)
    assert (run.returncode, run.stderr) == (1, "")
    assert "then they differ\nentry " in run.stdout
    assert "\n  recorded " in run.stdout and "\n  replayed " in run.stdout


BAD = {
    "empty": "",
    "no JSON": "{",
    "no object": "[]",
    "no recording": {"traceEvents": []},
    "another version": recording(version=5),
    "a version before the first": recording(version=0),
    "no capacity": recording(capacity_bytes=0),
    "negative capacity": recording(capacity_bytes=-1),
    "no such policy": recording(policy="best"),
    "dropped": recording(dropped=5),
    "tuning without lanes": recording(tuning={k: v for k, v in TUNING.items() if k != "lanes"}),
    "lanes too large": recording(tuning={**TUNING, "lanes": 2**32}),
    "unknown what": recording([["dance", -1, 0, 1, 0, 0, 0, 0, 0]]),
    "short row": recording([["tick", -1, 0, 1]]),
    "no row": recording(["tick"]),
    "lane too large": recording([["tick", 64, 0, 1, 0, 0, 0, 0, 0, 0]]),
    "reason too large": recording([["tick", -1, 99, 1, 0, 0, 0, 0, 0, 0]]),
    "number as text": recording([["tick", -1, 0, "soon", 0, 0, 0, 0, 0, 0]]),
    "number too large": recording([["tick", -1, 0, "18446744073709551616", 0, 0, 0, 0, 0, 0]]),
    "unknown kind": recording([["open", -1, 0, 1, 1, 0, 0, 0, 0, 0, {**FACTS, "kind": 2}]]),
    "no facts": recording([["open", -1, 0, 1, 1, 0, 0, 0, 0, 0]]),
    "not the first session": recording([["open", -1, 0, 1, 2, 0, 0, 0, 0, 0, FACTS]]),
    "nobody's end": recording([["done", 0, 0, 1, 1, 1, 0, 0, 0, 0, {"start_ns": 0, "end_ns": 0}]]),
    "no such new policy": recording([["set_policy", -1, 0, 1, 0, 0, 0, 0, 0, 0, {"policy": "best"}]]),
    "closed twice": recording(TWO_JOBS + [TWO_JOBS[-1]]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_recordings(tmp_path, name):
    run = replay(tmp_path, BAD[name])
    assert (run.returncode, run.stdout) == (65, ""), run.stderr
    assert run.stderr.startswith("salus: ") and "r.json" in run.stderr and run.stderr.count("\n") == 1


def test_large_numbers_are_texts(tmp_path):
    huge = str(2**64 - 1)
    rows = [["open", -1, 0, 1, 1, 0, huge, 0, 0, 0, FACTS],
            ["refuse", -1, 1, 1, 1, 0, huge, 0, 0, 1000]]
    assert replay(tmp_path, recording(rows)).returncode == 0


@pytest.mark.parametrize("args", [
    "sim --replay", "sim --replay r.json --workload t.csv", "sim --replay r.json --policy fair",
    "sim --replay r.json --memory 1GiB", "trace now", "trace -o", "trace --colour"])
def test_bad_calls(args):
    run = salus(*args.split())
    assert (run.returncode, run.stdout) == (64, "")
    assert run.stderr.endswith(f"Try `salus {args.split()[0]} --help`.\n")


def test_missing_recording(tmp_path):
    assert salus("sim", "--replay", tmp_path / "none.json").returncode == 66


def test_nobody_to_ask(tmp_path):
    run = salus("trace", "-o", tmp_path / "o.json", env={"SALUS_SOCKET": str(tmp_path / "s.sock")})
    assert (run.returncode, run.stdout) == (69, "")
    assert not (tmp_path / "o.json").exists()
