# SPDX-License-Identifier: Apache-2.0
"""Policies from shared objects: `salusd --policy FILE`, `salus policy FILE` while jobs run, and replays of both."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import BUILD, LIMIT, SALUS, Stage, salus  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = BUILD / "lib" / "policy"
VARIANTS = BUILD / "tests" / "policy"

MINE = """
#include "core/policy/file.h"

static struct sal_rank mine_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = s->id };
}

static const struct sal_policy mine = { .name = "mine", .idea = IDEA, .lanes = 1, .rank = mine_rank };
SAL_POLICY_FILE(mine);
"""


def build_mine(folder, idea):
    """The command that the documents show, and an idea."""
    (folder / "mine.c").write_text(MINE)
    subprocess.run(["cc", "-shared", "-fPIC", f'-DIDEA="{idea}"', "-I", ROOT / "src", "mine.c", "-o", "mine.so"],
                   cwd=folder, check=True, timeout=LIMIT)
    (folder / "mine.so").chmod(0o755)
    return folder / "mine.so"


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path, "--policy", "fair", "--memory", "1GiB", "--lanes", "1")
    yield made
    made.close()


def policy_of(stage):
    return stage.json("policy")["policy"]


def ideas(stage):
    return {policy["name"]: policy["idea"] for policy in stage.json("policy")["policies"]}


def runs_on(stage):
    before = stage.json("ps")["device"]["iterations"]
    stage.wait(lambda: stage.json("ps")["device"]["iterations"] > before + 5, "iterations")


def test_a_daemon_starts_with_a_file(tmp_path):
    stage = Stage(tmp_path, "--policy", EXAMPLES / "mlfq.so", "--tune", "quantum=50ms")
    try:
        stage.job("one", ms=1)
        runs_on(stage)
        listed = stage.salus("policy").splitlines()
        assert [line[2:].split()[0] for line in listed if line.startswith("*")] == ["mlfq"]
        assert any(line.startswith("  quantum=50ms ") for line in listed)
        assert "policy=mlfq" in stage.daemon.log
    finally:
        stage.close()


@pytest.mark.parametrize("name, says", [
    ("none.so", "none.so: No such file"), ("built_in.so", "is called fair"), ("old.so", "version 4 of policies, expected 3"),
    ("no_symbol.so", "SAL_POLICY_FILE"), ("undefined.so", "undefined symbol: sal_engine_tick")])
def test_a_daemon_refuses_a_bad_file(tmp_path, name, says):
    run = subprocess.run([BUILD / "bin" / "salusd", "--socket", tmp_path / "s", "--plugin", "fake", "--policy",
                          VARIANTS / name], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 78 and says in run.stderr and run.stderr.count("\n") == 1


def test_a_file_is_chosen_while_jobs_run(stage):
    stage.job("one", ms=1)
    stage.job("two", ms=1)
    runs_on(stage)
    assert stage.salus("policy", VARIANTS / "good.so", "patience=5ms").startswith(
        "youngest, at most 1 lane\n  patience=5ms ")
    runs_on(stage)
    assert policy_of(stage) == "youngest" and ideas(stage)["youngest"] == "the youngest first"
    assert stage.salus("policy", "patience=7ms").splitlines()[1].startswith("  patience=7ms ")
    assert "patience is 2s, expected" in stage.salus("policy", VARIANTS / "good.so", "patience=2s", status=1)
    assert stage.salus("policy", "fair") == "fair, at most 1 lane\n"
    assert stage.salus("policy", "youngest").startswith("youngest, ")  # by its name, too
    runs_on(stage)
    stage.wait(lambda: "loaded policy=youngest file=" in stage.daemon.log, "the log")


def test_a_relative_path_is_that_of_the_asker(stage, tmp_path):
    (tmp_path / "sub").mkdir()
    shutil.copy(EXAMPLES / "slice.so", tmp_path / "sub" / "a=b.so")
    run = subprocess.run([SALUS, "policy", "./a=b.so"], cwd=tmp_path / "sub", capture_output=True, text=True,
                         env={"SALUS_SOCKET": str(stage.path)}, timeout=LIMIT)
    assert run.stdout == "slice, at most 1 lane\n", run


def test_a_file_that_was_built_again_is_new_code(stage, tmp_path):
    stage.job("one", ms=1)
    mine = build_mine(tmp_path, "the first idea")
    stage.salus("policy", mine)
    assert ideas(stage)["mine"] == "the first idea"
    build_mine(tmp_path, "another idea")
    stage.salus("policy", mine)
    assert ideas(stage)["mine"] == "another idea"
    assert [name for name in ideas(stage)].count("mine") == 1
    mine.write_bytes(b"")  # what is loaded is a copy
    runs_on(stage)
    assert policy_of(stage) == "mine"


def test_a_policy_that_misbehaves_is_ejected(stage):
    stage.job("one", ms=1)
    stage.job("two", ms=1)
    stage.salus("policy", VARIANTS / "liar.so")
    stage.wait(lambda: policy_of(stage) == "fifo", "the policy to be ejected")
    runs_on(stage)
    stage.wait(lambda: "ejected: " in stage.daemon.log, "the log")


def test_bad_files_change_nothing(stage, tmp_path):
    copy = tmp_path / "copy.so"
    shutil.copy(EXAMPLES / "slice.so", copy)
    copy.chmod(0o775)
    assert "others can write to it (mode 775)" in stage.salus("policy", copy, status=77)
    assert "No such file" in stage.salus("policy", tmp_path / "none.so", status=1)
    copy.chmod(0o755)
    copy.write_text("#!/bin/sh\n")
    assert "it is no shared object" in stage.salus("policy", copy, status=1)
    copy.write_bytes((EXAMPLES / "slice.so").read_bytes()[:3000])
    assert "its end is missing" in stage.salus("policy", copy, status=1)
    assert policy_of(stage) == "fair" and "slice" not in ideas(stage)


# A file that takes long to load.


@pytest.fixture
def brake(tmp_path, monkeypatch):
    """While this file is there, slow.so does not get loaded."""
    made = tmp_path / "brake"
    made.write_text("")
    monkeypatch.setenv("SAL_TEST_SLOW_WHILE", str(made))
    yield made
    made.unlink(missing_ok=True)


def start_load(stage):
    asker = socket.socket(socket.AF_UNIX)
    asker.settimeout(LIMIT)
    asker.connect(str(stage.path))
    asker.sendall(json.dumps({"op": "policy", "name": str(VARIANTS / "slow.so")}).encode() + b"\n")
    stage.wait(lambda: subprocess.run([SALUS, "policy", "/none.so"], capture_output=True, timeout=LIMIT,
                                      env={"SALUS_SOCKET": str(stage.path)}).returncode == 75, "the load to start")
    assert "another policy file is being loaded, " in stage.salus("policy", "/none.so", status=75)
    return asker


def test_a_slow_file_keeps_nobody_else_waiting(brake, stage):
    stage.job("one", ms=1)
    asker = start_load(stage)
    runs_on(stage)
    stage.job("two", ms=1)
    assert stage.salus("policy", "srtf").startswith("srtf, ")
    runs_on(stage)
    brake.unlink()
    with asker:
        assert json.loads(asker.makefile().readline())["policy"] == "slow"
    assert policy_of(stage) == "slow"


def test_an_asker_may_leave_before_the_file_is_loaded(brake, stage):
    start_load(stage).close()
    brake.unlink()
    stage.wait(lambda: subprocess.run([SALUS, "policy", VARIANTS / "good.so"], capture_output=True, timeout=LIMIT,
                                      env={"SALUS_SOCKET": str(stage.path)}).returncode == 0, "the next load")
    assert policy_of(stage) == "youngest"


def test_a_daemon_ends_while_a_file_is_being_loaded(brake, stage):
    with start_load(stage):
        stage.daemon.stop()


# Traces.


def take_trace(stage, path, *args):
    subprocess.run([SALUS, "trace", *args, "-o", path], env={"SALUS_SOCKET": str(stage.path)}, check=True,
                   capture_output=True, timeout=LIMIT)


def test_a_trace_names_the_policy_and_a_replay_needs_its_file(stage, tmp_path):
    stage.job("one", ms=1)
    stage.job("two", ms=1)
    runs_on(stage)
    for choice in (EXAMPLES / "lottery.so", "srtf", "lottery"):
        stage.salus("policy", choice)
        runs_on(stage)
    trace, picture = tmp_path / "t.json", tmp_path / "t.svg"
    take_trace(stage, trace)
    take_trace(stage, picture, "--svg")
    marks = [e["args"]["policy"] for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "set_policy"]
    assert marks[-3:] == ["lottery", "srtf", "lottery"]
    assert "lottery" in picture.read_text()
    refusal = salus("sim", "--replay", trace, status=65)
    assert 'made under the policy "lottery", which is not built in' in refusal and "--policy" in refusal
    shown = salus("sim", "--replay", trace, "--policy", EXAMPLES / "lottery.so")
    assert shown.endswith(": identical\n")
    assert "brings its own policy" in salus("sim", "--replay", trace, "--policy", "fair", status=64)


def test_a_trace_that_starts_under_a_file(tmp_path):
    stage = Stage(tmp_path, "--policy", EXAMPLES / "slice.so", "--lanes", "1")
    try:
        stage.job("one", ms=1)
        runs_on(stage)
        take_trace(stage, tmp_path / "t.json")
    finally:
        stage.close()
    assert '"slice"' in salus("sim", "--replay", tmp_path / "t.json", status=65)
    assert salus("sim", "--replay", tmp_path / "t.json", "--policy", EXAMPLES / "slice.so").endswith(": identical\n")


# The simulator.


def simulate(policy, *args, status=0):
    return salus("sim", "--workload", ROOT / "data" / "fair3.csv", "--memory", "15.6GiB", "--policy", policy, *args,
                 status=status)


def test_the_simulator_takes_files(tmp_path):
    report = json.loads(simulate(f"fifo,{EXAMPLES / 'slice.so'},{EXAMPLES / 'lottery.so'}", "--json", "--check",
                                 "--tune", "seed=9"))
    assert [p["policy"] for p in report["policies"]] == ["fifo", "slice", "lottery"]
    assert len({p["switches"] for p in report["policies"]}) == 3
    assert "lifo" not in simulate(build_mine(tmp_path, "mine"))
    assert "none.so: No such file" in simulate(tmp_path / "none.so", status=66)
    assert "is called fair" in simulate(VARIANTS / "built_in.so", status=65)


def test_the_simulator_ejects_a_policy_that_misbehaves(tmp_path):
    chrome = tmp_path / "c.json"
    run = subprocess.run([SALUS, "sim", "--workload", ROOT / "data" / "fair3.csv", "--memory", "15.6GiB", "--policy",
                          f"{VARIANTS / 'liar.so'},fair", "--static", "--chrome", chrome, "--json"],
                         capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0, run
    assert [e["name"] for e in json.loads(chrome.read_text())["traceEvents"]].count("eject") == 1
    reason = "picked a session that was not ready"
    assert [p["ejected"] for p in json.loads(run.stdout)["policies"]] == [{"at_s": 0.0, "reason": reason}, None, None]
    assert run.stderr == f"salus sim: at 0.0 s fifo replaced liar, which {reason}\n"
