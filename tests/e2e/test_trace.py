# SPDX-License-Identifier: Apache-2.0
"""`salus trace` of a salusd at work: what it shows is sound, and the core decides the same again."""

import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from traces import check, replay, rows, save  # noqa: E402

JOB = """
import sys
import jax, jax.numpy as jnp
x = jnp.ones((200, 200) if int(sys.argv[1]) < 1000 else ())
step = jax.jit(lambda a: a @ a / 200 if a.ndim else a * 0.5)
for _ in range(int(sys.argv[1])):
    x = step(x)
print("sum", float(x.sum()), flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
"""
STEPS = 60
LONG_NAME = "a job whose name is too long for an entry, é 漢字"


def test_three_jobs(daemon, client, tmp_path):
    jobs = [client.start(JOB, STEPS, env={"SALUS_JOB_NAME": name}) for name in ("red", "green", LONG_NAME)]
    for job in jobs:
        job.succeed()
    root = save(daemon, tmp_path / "trace.json")
    slices = check(root)
    cut = next(name for name in slices if LONG_NAME.startswith(name))
    assert {"red", "green", cut} <= set(slices)
    lanes = [s for track, turns in slices.items() if track.startswith("lane ") for s in turns]
    for name in ("red", "green", cut):
        runs = [s for s in slices[name] if s[2].startswith("iteration ")]
        assert len(runs) >= STEPS
        assert sorted(s[:2] for s in lanes if s[2] == name) == [s[:2] for s in runs]
    granted, done = rows(root, "grant"), rows(root, "done")
    assert len(granted) == len(done) == len(lanes)
    assert len(rows(root, "open")) == len(rows(root, "close")) == 3
    # When it ran is what the device says, within what the engine was told.
    from_ns = {(g["session"], g["iteration"]): g["now_ns"] for g in granted}
    for d in done:
        assert from_ns[d["session"], d["iteration"]] <= d["start_ns"] <= d["end_ns"] <= d["now_ns"]
    told = replay(daemon, tmp_path / "trace.json")
    assert told["identical"] and told["grants"] == len(granted)
    assert told["events"] + told["decisions"] == len(root["salus"]["entries"])


def test_a_picture(daemon, client, tmp_path):
    assert daemon.salus("trace", "--svg").returncode == 1  # of nothing
    for name in ("red", "<&\a"):
        client(JOB, STEPS, env={"SALUS_JOB_NAME": name}).succeed()
    run = daemon.salus("trace", "--svg", "-o", tmp_path / "picture.svg")
    assert run.returncode == 0, run.stderr
    texts = ["".join(e.itertext()) for e in xml.parse(tmp_path / "picture.svg").getroot().iter()]
    assert {"red", "<&?", "lane 0"} <= set(texts)
    assert any(text.startswith("2 jobs on a device of ") for text in texts)
    told = next(t for t in texts if t.startswith("red\nsubmitted at 0ns"))
    assert int(told.rpartition("\n")[2].split()[0]) >= STEPS


def test_a_job_in_the_middle_of_its_life(daemon, client, tmp_path):
    job = client.start(JOB, 5, "wait", env={"SALUS_JOB_NAME": LONG_NAME})
    job.wait_for("sum")
    root = save(daemon, tmp_path / "trace.json")
    assert LONG_NAME in check(root)  # in full, as long as it is there
    assert rows(root, "open") and not rows(root, "close")
    assert replay(daemon, tmp_path / "trace.json")["identical"]
    job.succeed()


def test_records_as_objects(daemon, client, tmp_path):
    client(JOB, 3, env={"SALUS_JOB_NAME": "red"})
    run = daemon.salus("trace", "--json")
    assert run.returncode == 0, run.stderr
    listed = json.loads(run.stdout)
    whats = [e["what"] for e in listed["entries"]]
    assert len(whats) == listed["records"] and listed["dropped"] == 0
    assert f"{listed['records']} records, 0 older ones dropped" in run.stderr
    assert whats[0] == "set_policy" and listed["entries"][0]["policy"] == listed["policy"]
    assert [e["name"] for e in listed["entries"] if e["what"] == "open"] == ["red"]
    assert whats.count("submit") == whats.count("grant") == whats.count("done") >= 3


def test_when_the_ring_has_turned(daemon, client, tmp_path):
    # Each step is submitted, granted and done: enough of them to push out the first.
    client(JOB, 25000, env={"SALUS_JOB_NAME": "long"}).succeed(300)
    run = daemon.salus("trace", "-o", tmp_path / "trace.json")
    assert run.returncode == 0 and "records, 0 older" not in run.stderr, run.stderr
    root = json.loads((tmp_path / "trace.json").read_text())
    assert len(root["salus"]["entries"]) == 65536 and root["salus"]["dropped"] > 0
    check(root)
    run = daemon.salus("sim", "--replay", tmp_path / "trace.json")
    assert run.returncode == 65 and "must start from an empty engine" in run.stderr


def test_a_difference_is_told(daemon, client, tmp_path):
    client(JOB, 10)
    root = save(daemon, tmp_path / "trace.json")
    entries = root["salus"]["entries"]
    at = next(i for i, row in enumerate(entries) if row[0] == "grant")
    entries[at][5] += 1  # its iteration
    (tmp_path / "trace.json").write_text(json.dumps(root))
    run = daemon.salus("sim", "--replay", tmp_path / "trace.json")
    assert run.returncode == 1
    assert f"entry {at}\n  recorded " in run.stdout and "\n  replayed " in run.stdout
    run = daemon.salus("sim", "--replay", tmp_path / "trace.json", "--json")
    assert run.returncode == 1
    assert json.loads(run.stdout)["difference"]["entry"] == at


def test_asking_costs_the_daemon_nothing(daemon, client, tmp_path):
    client(JOB, 3)
    held = daemon.holdings()
    for _ in range(20):
        assert daemon.salus("trace", "-o", tmp_path / "trace.json").returncode == 0
    daemon.wait_holding(held, 20)  # a copy lives for 10 s
