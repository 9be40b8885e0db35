# SPDX-License-Identifier: Apache-2.0
"""jax.profiler shows what salusd did with the job's iterations: when they ran, what they waited for, paging."""

import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sharing import Holder, session_named, wait_for

STEPS = """
import os, sys, jax, jax.numpy as jnp
def step(x): return x * 2 - x
step = jax.jit(step, donate_argnums=0)
x = step(jnp.ones((7 << 20,)))  # 28 MiB
x.block_until_ready()
print("ready", flush=True)
sys.stdin.readline()
with jax.profiler.trace(sys.argv[1]):
    for _ in range(3):
        x = step(x)
    x.block_until_ready()
    print("ran", flush=True)
    sys.stdin.readline()
    x = step(x)
    print("asked", flush=True)
    x.block_until_ready()
print(float(x[7]))
"""


def events_of(folder):
    """The events of Salus in a trace, by line: (name, begin, end, args), in microseconds."""
    found = list(folder.rglob("*.trace.json.gz"))
    assert len(found) == 1, found
    with gzip.open(found[0]) as file:
        events = json.load(file)["traceEvents"]
    planes = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    ours = [pid for pid, name in planes.items() if "Salus" in name]
    assert len(ours) == 1, planes
    lines = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name" and e["pid"] == ours[0]}
    by_line = {name: [] for name in lines.values()}
    for e in events:
        if e.get("ph") == "X" and e["pid"] == ours[0]:
            by_line[lines[e["tid"]]].append((e["name"], e["ts"], e["ts"] + e["dur"], e.get("args", {})))
    host = [e["ts"] for e in events if e.get("ph") == "X" and e["pid"] not in ours]
    return {name: sorted(at, key=lambda e: e[1]) for name, at in by_line.items()}, host


def steps_of(lines):
    return [e for e in lines["Salus: iterations"] if "step" in e[0]]


def test_a_wait_for_the_turn_is_seen(served, tmp_path):
    daemon, client = served()
    run = client.start(STEPS, tmp_path / "profile", env={"SALUS_JOB_NAME": "profiled"})
    run.wait_for("ready")
    run.say("go")
    run.wait_for("ran")
    assert daemon.salus("pause", session_named(daemon, "profiled")["id"]).returncode == 0
    run.say("go")
    run.wait_for("asked")
    wait_for(lambda: session_named(daemon, "profiled")["queued"] > 0, 30, "the iteration to arrive", run)
    assert daemon.salus("resume", session_named(daemon, "profiled")["id"]).returncode == 0
    run.succeed()
    lines, host = events_of(tmp_path / "profile")
    steps = steps_of(lines)
    assert len(steps) == 4
    assert all(s[2] <= t[1] for s, t in zip(steps, steps[1:])), steps
    # The clock is that of the host's own events.
    assert min(host) - 1e6 < steps[0][1] < steps[3][2] < max(host) + 1e6
    waits = [e for e in lines["Salus: waits"] if e[0] == "waits for its turn"]
    long = max(waits, key=lambda e: e[2] - e[1])
    assert steps[2][2] <= long[1] < long[2] <= steps[3][1], lines
    assert float(steps[3][3]["waited_us"]) >= int(long[2] - long[1]) - 1
    assert steps[3][3]["lane"] == "0"
    assert lines.get("Salus: paging", []) == []


def test_paging_is_seen(served, tmp_path):
    daemon, client = served("--memory", "72MiB")
    other = Holder(client, "other")
    run = client.start(STEPS, tmp_path / "profile", env={"SALUS_JOB_NAME": "profiled"})
    run.wait_for("ready")
    run.say("go")
    run.wait_for("ran")
    other.do("put", 40)
    wait_for(lambda: session_named(daemon, "profiled")["state"] == "paged", 60, "it to be paged out", run)
    run.say("go")
    run.wait_for("asked")
    run.succeed()
    other.end()
    lines, _ = events_of(tmp_path / "profile")
    steps = steps_of(lines)
    (out, back) = lines["Salus: paging"]
    assert (out[0], back[0]) == ("page out", "page in")
    assert steps[2][2] <= out[1] < out[2] <= back[1] < back[2] <= steps[3][1], lines
