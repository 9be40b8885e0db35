# SPDX-License-Identifier: Apache-2.0
"""Traces of a salusd: taken, checked and replayed."""

import json
from collections import defaultdict

import pytest


def save(daemon, path, *options):
    run = daemon.salus("trace", "-o", path, *options)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "" and run.stderr.endswith("records, 0 older ones dropped\n")
    return json.loads(path.read_text())


def replay(daemon, path):
    run = daemon.salus("sim", "--replay", path, "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout)


def check_slices(events):
    """{track: [(start, end, name)]} in ns; of one track they do not overlap."""
    slices = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            start = round(e["ts"] * 1000)
            assert start >= 0 and e["dur"] >= 0
            slices[e["tid"]].append((start, start + round(e["dur"] * 1000), e["name"]))
    for track, turns in slices.items():
        turns.sort()
        for (_, end, _), (start, _, _) in zip(turns, turns[1:]):
            assert start >= end, f"track {track} at {start} ns"
    return slices


def check(root):
    """What holds of every trace. Returns slices by the names of their tracks."""
    events = root["traceEvents"]
    assert {e["ph"] for e in events} <= {"M", "X", "i", "C"}
    assert all(e["ts"] >= 0 for e in events if e["ph"] != "M")
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    capacity_mib = root["salus"]["capacity_bytes"] / 2**20
    for e in events:
        if e["name"] == "memory (MiB)":
            assert min(e["args"].values()) >= 0
            assert sum(e["args"].values()) == pytest.approx(capacity_mib, abs=0.01)
    return {tracks[tid]: turns for tid, turns in check_slices(events).items()}


def rows(root, what):
    columns = root["salus"]["columns"]
    return [{**dict(zip(columns, row)), **(row[-1] if isinstance(row[-1], dict) else {})}
            for row in root["salus"]["entries"] if row[0] == what]
