# SPDX-License-Identifier: Apache-2.0
"""`salus ps`, `why`, `policy`, `set`, `pause`, `resume`, `kill` against a real salusd with jobs that run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from policies import policies  # noqa: E402
from stage import SALUS, Stage, salus  # noqa: E402


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path, "--policy", "fair", "--memory", "1GiB", "--lanes", "1")
    yield made
    made.close()


# Looking.


def test_ps_tells_what_the_jobs_do(stage):
    stage.job("worker", ms=2, temp=4096, weight_milli=2000, priority=3, total_ns=90 * 10**9)
    stage.job("sleeper", busy=False).c.upload(bytes(1000))
    answers = [None]

    def seen():
        answers.append(stage.json("ps"))
        worker = answers[-1]["sessions"][0]
        return worker["iterations"] >= 5 and worker["state"] == "running"

    stage.wait(seen, "it to be seen running")
    answer = answers[-1]
    device = answer["device"]
    assert (device["platform"], device["policy"], device["capacity_bytes"]) == ("fake", "fair", 1 << 30)
    assert device["lane_limit"] == 1 and 0 < device["busy_s"] < device["uptime_s"]
    (lane,) = answer["lanes"]
    assert lane["index"] == 0 and lane["running"] == 1 and lane["iterations"] >= 5
    worker, sleeper = answer["sessions"]
    assert sleeper["state"] == "idle"
    assert (worker["weight"], worker["priority"], worker["total_s"]) == (2.0, 3, 90.0)
    assert (worker["kind"], worker["paused"], worker["lane"]) == ("training", False, 0)
    assert worker["used_s"] >= 0.009 and worker["waited_s"] >= 0 and worker["ephem_bytes"] == 4096
    assert worker["idle_s"] == 0 and sleeper["idle_s"] > 0
    assert (sleeper["persist_bytes"], sleeper["buffers"], sleeper["limit_bytes"]) == (1000, 1, 0)
    for key in ("held_bytes", "paged_bytes", "queued", "programs", "pid", "uid", "age_s"):
        assert isinstance(worker[key], (int, float)), key
    shown = stage.salus("ps")
    assert re.search(r"^ *1  worker +(running|ready|idle) ", shown, re.MULTILINE)
    assert re.search(r"^ *2  sleeper +idle ", shown, re.MULTILINE)


def test_why_says_what_a_job_waits_for(stage):
    stage.job("long", ms=60)
    stage.job("next", ms=60)
    stage.job("still", busy=False)
    stage.wait(lambda: stage.session("next")["iterations"] >= 2, "iterations")
    answers = [None]

    def waits():
        answers.append(stage.json("why", "next"))
        return re.fullmatch(r"ready: it waits for its turn in lane 0, where long \(id 1\) has run for \S+; "
                            r"it is next \(fair\)\.( About \S+\.)?", answers[-1]["text"])

    stage.wait(waits, "it to wait for the other")
    why = answers[-1]
    assert (why["state"], why["waits_for"]) == ("ready", "turn")
    assert [h["name"] for h in why["holders"]] == ["long"] and 0 <= why["holders"][0]["share"] <= 1
    assert why["estimate_s"] is None or 0 <= why["estimate_s"] <= 0.5
    assert stage.salus("why", "still").startswith("idle: it has submitted nothing for ")
    stage.wait(lambda: stage.salus("why", 1).startswith("running: its iteration has run for"), "it to run")


# Which job.


def test_a_job_is_named_by_id_name_or_beginning(stage):
    for name in ("train", "train.py", "größe", "twin", "twin"):
        stage.job(name, busy=False)
    for word, ident in (("train", 1), ("2", 2), ("train.", 2), ("grö", 3), ("5", 5)):
        assert stage.json("why", word)["id"] == ident
    refusal = stage.salus("pause", "t", status=1)
    assert "train (id 1), train.py (id 2), twin (id 4), twin (id 5)" in refusal
    refusal = stage.salus("kill", "twin", status=1)
    assert "twin (id 4), twin (id 5)" in refusal and "größe" not in refusal
    refusal = stage.salus("why", "vgg", status=1)
    assert 'no job "vgg"' in refusal and "größe (id 3)" in refusal
    assert len(stage.json("ps")["sessions"]) == 5  # nobody was hurt


def test_names_that_a_terminal_would_obey(stage):
    stage.job("a\u009b2J\u001b[H", busy=False)
    for command in ("why", "pause", "resume"):
        out = stage.salus(command, 1)
        assert out.isprintable() or out[:-1].isprintable()
    assert "\u009b" not in stage.salus("why", "zzz", status=1)


# Policies.


def test_policy_lists_and_chooses(stage):
    listed = stage.salus("policy").splitlines()
    end = listed.index("")
    assert [line[2:].split()[0] for line in listed[:end]] == policies()
    assert [line[2:].split()[0] for line in listed if line.startswith("*")] == ["fair"]
    assert listed[end + 1] == "fair, at most 1 lane"
    assert any(line.startswith("  guess=10min ") for line in listed[end + 2:])
    assert stage.salus("policy", "srtf") == "srtf, at most 1 lane\n"
    assert stage.json("ping")["policy"] == stage.json("policy")["policy"] == "srtf"
    stage.wait(lambda: re.search(r"policy=srtf .*by pid=", stage.daemon.log), "the log")
    refusal = stage.salus("policy", "lifo", status=1)
    assert ", ".join(policies()) in refusal
    assert stage.json("policy")["policy"] == "srtf"


def test_every_policy_serves_jobs(stage):
    stage.job("one", ms=1)
    stage.job("two", ms=1)
    for name in policies():
        stage.salus("policy", name)
        before = stage.json("ps")["device"]["iterations"]
        stage.wait(lambda: stage.json("ps")["device"]["iterations"] > before + 5, f"iterations under {name}")
        assert stage.json("policy")["policy"] == name  # it was not ejected


def test_policy_is_tuned_live(stage):
    assert stage.salus("policy", "srtf", "guess=90s", "page_margin=2").startswith(
        "srtf, at most 1 lane\n  page_margin=2 ")
    assert stage.salus("policy", "guess=2min").splitlines()[1].startswith("  guess=2min ")
    tuning = {knob["name"]: knob for knob in stage.json("policy")["tuning"]}
    assert (tuning["guess"]["value"], tuning["guess"]["default"]) == ("2min", "10min")
    assert tuning["page_margin"]["value"] == "2" and tuning["short"]["value"] == "50us"
    stage.wait(lambda: "policy=srtf lanes=1 guess=2min by pid=" in stage.daemon.log, "the log")
    # All or nothing: the policy stays, too.
    assert "guess is 2000h, expected 0ns to 1000h" in stage.salus("policy", "fair", "guess=2000h", status=1)
    assert 'tuned under srtf; what can be: ' in stage.salus("policy", "boost=1s", status=1)
    assert "expected NAME=VALUE" in stage.salus("policy", "srtf", "fair", status=64)
    assert stage.json("policy")["policy"] == "srtf"


def test_a_daemon_starts_tuned(tmp_path):
    made = Stage(tmp_path, "--tune", "guess=3h", "--policy", "srtf", "--tune", "short=0")
    try:
        tuning = {knob["name"]: knob["value"] for knob in made.json("policy")["tuning"]}
        assert (tuning["guess"], tuning["short"], tuning["idle"]) == ("3h", "0ns", "1s")
    finally:
        made.close()


def test_a_new_policy_rules_at_once(stage):
    """Under priority, the second job does not run while the first has work; under rr both do."""
    stage.job("first", ms=2, ahead=4, priority=0)
    stage.job("second", ms=2, ahead=4, priority=5)

    def gains():
        before = [stage.session(n)["iterations"] for n in ("first", "second")]
        stage.wait(lambda: stage.session("first")["iterations"] >= before[0] + 20, "twenty more")
        return [stage.session(n)["iterations"] - b for n, b in zip(("first", "second"), before)]

    stage.salus("policy", "priority")
    first, second = gains()
    assert second <= first / 4
    stage.salus("policy", "rr")
    first, second = gains()
    assert second >= first / 2
    stage.salus("policy", "priority")
    stage.salus("set", "second", "priority=0")
    stage.salus("set", "first", "priority=9")
    stage.wait(lambda: stage.session("second")["iterations"] >= 100, "it to be the more important")


def test_lanes_can_be_changed(stage):
    assert stage.salus("policy", "--lanes", "3") == "fair, at most 3 lanes\n"
    assert stage.json("ps")["device"]["lane_limit"] == 3
    assert stage.salus("policy", "--lanes", "0") == "fair, at most 1 lane (as the policy wants)\n"
    assert "(those that pay)" in stage.salus("policy", "--lanes", "auto")
    assert stage.salus("policy", "pack", "--lanes", "2") == "pack, at most 2 lanes\n"
    assert "up to 64" in stage.salus("policy", "--lanes", "65", status=1)


# Set.


def test_set_changes_what_is_asked_for_and_no_more(stage):
    stage.job("j", busy=False, weight_milli=1500, priority=4)
    out = stage.salus("set", "j", "weight=0.5", "limit=4GiB", "time=90min", "kind=inference")
    assert out == "j (id 1): weight 0.5, priority 4, limit 4GiB, time 1.5h, inference\n"
    session = stage.session("j")
    assert (session["weight"], session["priority"], session["limit_bytes"]) == (0.5, 4, 4 << 30)
    assert (session["total_s"], session["kind"]) == (5400.0, "inference")
    out = stage.salus("set", "j", "priority=7", "limit=none", "time=unknown")
    assert out == "j (id 1): weight 0.5, priority 7, limit none, time unknown, inference\n"
    assert session["deadline_s"] is None
    out = stage.salus("set", "j", "deadline=20ms")
    assert out.endswith(", inference, deadline 20ms\n")
    assert stage.session("j")["deadline_s"] == pytest.approx(0.02)
    assert stage.json("set", "j", "deadline=none")["deadline_s"] is None
    assert stage.json("set", "j", "weight=3")["weight"] == 3.0
    stage.wait(lambda: "set id=1 name=j by pid=" in stage.daemon.log, "the log")


def test_the_name_of_the_limit_before_is_understood(stage):
    stage.job("j", busy=False)
    assert "limit 4GiB" in stage.salus("set", "j", "memory=4GiB")
    assert "memory=" not in stage.salus("set", "--help")


def test_one_number_for_the_memory_of_a_job(stage):
    stage.job("j", busy=False).c.upload(bytes(1000))
    stage.wait(lambda: stage.session("j")["held_bytes"] > 0, "memory")
    session = stage.session("j")
    assert session["persist_bytes"] == 1000 < session["held_bytes"]  # salusd counts in grains
    ps = dict(zip(*(re.split("  +", line.strip()) for line in stage.salus("ps").splitlines()[:2])))
    (lanes,) = [line.split() for line in stage.salus("lanes").splitlines() if " j (id 1) " in line]
    top = stage.salus("top", "--once", "--interval", "100ms")
    assert ps["persistent"] == lanes[lanes.index("1)") + 1]
    assert f"] {ps['persistent']} P + " in top
    assert top.partition("history\n")[2].split()[7] == re.sub("iB$", "", ps["persistent"])


@pytest.mark.parametrize("wish", ["weight", "weight=", "weight=-1", "weight=1e3", "wieght=1", "priority=1.5",
                                  "limit=4Gib", "memory=4Gib", "time=soon", "kind=game", "deadline=0s", "=1", "weight=1 "])
def test_wishes_that_make_no_sense(stage, wish):
    stage.job("j", busy=False)
    assert "Try `salus set --help`" in stage.salus("set", "j", "priority=9", wish, status=64)
    assert stage.session("j")["priority"] == 0


def test_a_weight_is_a_share(stage):
    stage.job("light", ms=2, ahead=4)
    stage.job("heavy", ms=2, ahead=4)
    stage.salus("set", "heavy", "weight=8")
    before = {n: stage.session(n)["used_s"] for n in ("light", "heavy")}
    stage.wait(lambda: stage.session("heavy")["used_s"] > before["heavy"] + 0.3, "device time")
    gained = {n: stage.session(n)["used_s"] - before[n] for n in ("light", "heavy")}
    assert gained["light"] < gained["heavy"] / 3


# Pause, resume, kill.


def test_pause_and_resume(stage):
    stage.job("j", ms=2)
    stage.job("other", ms=2)
    stage.wait(lambda: stage.session("j")["iterations"] > 3, "iterations")
    assert stage.salus("pause", "j").startswith("paused j (id 1)")
    stage.wait(lambda: stage.session("j")["state"] == "paused", "it to stop")
    assert stage.salus("why", "j").startswith("paused by the operator, with ")
    still = stage.session("j")["iterations"]
    others = stage.session("other")["iterations"]
    stage.wait(lambda: stage.session("other")["iterations"] > others + 20, "the other to go on")
    assert stage.session("j")["iterations"] == still and stage.session("j")["paused"]
    assert stage.salus("resume", "j") == "resumed j (id 1)\n"
    stage.wait(lambda: stage.session("j")["iterations"] > still + 5, "it to go on")
    assert not stage.session("j")["paused"]


@pytest.mark.parametrize("ms", [2, 300])
def test_kill(stage, ms):
    victim = stage.job("victim", ms=ms)
    stage.job("other", ms=2)
    stage.wait(lambda: stage.session("other")["iterations"] > 0, "iterations")
    assert re.fullmatch(r"killed victim \(id 1\)(; its iteration of \S+ still runs in lane 0, since \S+: "
                        r"it is closing until that ends)?\n", stage.salus("kill", "victim"))
    victim.thread.join(5)
    assert victim.ended is not None  # the connection is gone, whatever it waited for
    stage.wait(lambda: [s["name"] for s in stage.json("ps")["sessions"]] == ["other"], "its end")
    stage.wait(lambda: re.search(r"killed id=1 name=victim by pid=\d+ uid=\d+", stage.daemon.log), "the log")
    others = stage.session("other")["iterations"]
    stage.wait(lambda: stage.session("other")["iterations"] > others + 5, "the other to go on")
    assert "no job" in stage.salus("kill", "victim", status=1)


# Calls.


@pytest.mark.parametrize("args", [
    ["why"], ["why", "a", "b"], ["why", "--jsn", "a"], ["pause"], ["resume"], ["kill"], ["kill", "a", "b"], ["set"],
    ["set", "a"], ["policy", "a", "b"], ["policy", "--lanes"], ["policy", "--lanes", "x"], ["policy", "--lanes", "-1"],
    ["lanes", "x"], ["lanes", "-x"], ["ps", "--socket"], ["ps", "--socket="]])
def test_bad_calls(args, tmp_path):
    assert salus(*args, socket=tmp_path / "nowhere", status=64)


def test_a_name_that_is_no_text():
    done = subprocess.run([bytes(SALUS), b"why", b"\xff\xfe"], env={}, capture_output=True)
    assert (done.returncode, done.stderr) == (64, b"salus: an argument is not UTF-8\n")


@pytest.mark.parametrize("args", [["why", "a"], ["pause", "a"], ["resume", "a"], ["kill", "a"], ["set", "a", "weight=1"],
                                  ["policy"], ["policy", "fair"], ["lanes"], ["ps"], ["top", "--once"]])
def test_nobody_there(args, tmp_path):
    assert "nowhere" in salus(*args, socket=tmp_path / "nowhere", status=69)


def test_the_socket_can_be_named(stage, tmp_path):
    for option in (["--socket", stage.path], [f"--socket={stage.path}"]):
        assert "policy fair" in salus("ps", *option, socket=tmp_path / "nowhere")
        assert "fair" in salus("policy", *option)
    assert "elsewhere" in salus("ps", "--socket", tmp_path / "elsewhere", socket=stage.path, status=69)


def test_help_is_there_for_each():
    overview = salus("--help")
    for command in ("ps", "top", "lanes", "why", "policy", "set", "pause", "resume", "kill"):
        assert f"\n  {command} " in overview
        assert salus(command, "--help").startswith(f"usage: salus {command} ")
        assert "--socket" in salus(command, "--help")
