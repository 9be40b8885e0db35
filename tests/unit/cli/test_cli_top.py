# SPDX-License-Identifier: Apache-2.0
"""`salus top`: one frame as text, and live in a terminal: keys, sizes, signals, and a daemon that goes away."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import SALUS, Fixed, Stage, Terminal, salus  # noqa: E402

GIB = 1 << 30


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path, "--policy", "fair", "--memory", "1GiB", "--lanes", "1")
    yield made
    made.close()


@pytest.fixture
def top(stage, tmp_path):
    """Opens `salus top` in a terminal."""
    opened = []

    def open_top(*args, columns=80, rows=24, path=None, **env):
        env = {"SALUS_SOCKET": str(path or stage.path), **env}
        opened.append(Terminal(tmp_path, [SALUS, "top", "--interval", "200ms", *args], columns, rows, env))
        return opened[-1]

    yield open_top
    for terminal in opened:
        terminal.close()


def rows_of(text):
    """The table of jobs: {name: fields}."""
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("  id name"))
    rows = [line.split() for line in lines[head + 1:] if re.match(r" *\d+ ", line)]
    return {row[1]: row for row in rows}


def rows_line(t, name):
    return next((line for line in t.lines() if f" {name} " in line), "")


# One frame.


class Counters:
    """A daemon whose counters grow by what is known: now, two of the jobs, the device, its lanes."""

    def __init__(self):
        self.looks = 0

    def __call__(self, question):
        n, self.looks = self.looks, self.looks + 1
        assert question == {"op": "ps"}
        common = {"persist_bytes": 3 * GIB, "held_bytes": 3 * GIB, "ephem_bytes": GIB // 2, "lane": 0, "queued": 1}
        return {"ok": True, "device": {
            "platform": "cpu", "policy": "fair", "lane_limit": 4, "capacity_bytes": 8 * GIB, "persist_bytes": 6 * GIB,
            "lane_sum_bytes": GIB, "now_s": 100.0 + 2 * n, "uptime_s": 60, "busy_s": 50 + 3 * n, "iterations": n,
            "gain": {"lanes": 1.5, "rate": 1.4}},
            "lanes": [{"index": 0, "bytes": GIB // 2, "running": 1, "sessions": [1, 2], "busy_s": 10 + 2 * n},
                      {"index": 1, "bytes": GIB // 2, "running": None, "sessions": [3], "busy_s": 40 + n}],
            "sessions": [
                {**common, "id": 1, "name": "resnet", "state": "running", "weight": 3, "used_s": 10 + 1.5 * n,
                 "iterations": 100 + 30 * n, "waited_s": 5},
                {**common, "id": 2, "name": "vgg", "state": "ready", "weight": 1, "used_s": 9 + 0.5 * n,
                 "iterations": 50 + n, "waited_s": 61},
                {**common, "id": 3, "name": "quiet", "state": "idle", "weight": 1, "used_s": 8, "iterations": 4,
                 "waited_s": 0, "queued": 0, "lane": -1},
                {**common, "id": 4, "name": "held", "state": "paused", "paused": True, "weight": 9, "used_s": 0,
                 "iterations": 0, "waited_s": 0}]}


def test_a_frame_is_what_the_counters_say(tmp_path):
    daemon = Fixed(tmp_path / "s", Counters())
    try:
        out = salus("top", "--once", "--interval", "100ms", socket=daemon.path)
        plain = salus("top", "--once", "--interval", "100ms", socket=daemon.path, LC_ALL="C")
    finally:
        daemon.close()
    lines = out.splitlines()
    assert lines[0] == "salus top: cpu, policy fair, 2 of 4 lanes, 4 jobs, up 1min"
    assert lines[1].startswith("busy [████████████····]  75%   memory [") and "] 6GiB P + 1GiB E of 8GiB" in lines[1]
    assert len(lines[1]) == 80
    assert lines[2] == "lane 0    512MiB E, busy 100%, 2 jobs, runs resnet"
    assert lines[3] == "lane 1    512MiB E, busy  50%, 1 job, at rest"
    assert lines[4] == "1.5 lanes side by side: 1.4x of one"
    rows = rows_of(out)
    # id name state ln got due waited P E it/s iter history
    assert rows["resnet"] == ["1", "resnet", "running", "0", "75%", "75%", "5s", "3G", "512M", "15", "50ms", "▆"]
    assert rows["vgg"] == ["2", "vgg", "ready", "0", "25%", "25%", "1.02min", "3G", "512M", "0.5", "500ms", "▂"]
    assert rows["quiet"][3:] == ["-", "0%", "-", "0ns", "3G", "512M", "0.0", "2s"]
    assert rows["held"][3:6] == ["0", "0%", "-"]  # it may not run, so it asks for nothing
    assert all(len(line) <= 80 for line in lines)
    assert plain.isascii() and "busy [############....]  75%" in plain


def test_once_needs_no_terminal_and_live_does(stage):
    assert "no jobs" in stage.salus("top", "--once", "--interval", "100ms")
    assert "there is no terminal" in stage.salus("top", status=64)
    assert json.loads(stage.salus("top", "--json"))["device"]["platform"] == "fake"


@pytest.mark.parametrize("args", [["x"], ["--interval"], ["--interval", "soon"], ["--interval", "1ms"], ["-x"]])
def test_bad_calls(args, tmp_path):
    assert "salus top" in salus("top", "--once", *args, socket=tmp_path / "nowhere", status=64)


def test_once_of_jobs_that_run(stage):
    stage.job("busy", ms=5)
    stage.job("quiet", busy=False)
    stage.wait(lambda: stage.session("busy")["iterations"] > 0, "iterations")
    rows = rows_of(stage.salus("top", "--once", "--interval", "500ms"))
    assert int(rows["busy"][4].rstrip("%")) > 30 and rows["quiet"][4] == "0%"


# Live.


@pytest.mark.parametrize("columns, rows", [(80, 24), (132, 40)])
def test_it_shows_the_jobs_and_leaves(stage, top, columns, rows):
    stage.job("worker", ms=5)
    stage.job("quiet", busy=False)
    t = top(columns=columns, rows=rows)
    t.until(lambda t: re.search(r"worker +(running|ready) .* [1-9]\d{0,2}% ", t.text()))
    assert t.alternate
    assert t.lines()[0].startswith("salus top: fake, policy fair, 1 of 1 lanes, 2 jobs")
    assert t.lines()[1].startswith("busy [") and "memory [" in t.lines()[1]
    assert t.lines()[2].startswith("lane 0")
    assert t.lines()[-1].startswith("q quit") and "? help" in t.lines()[-1]
    assert rows_of(t.text()).keys() == {"worker", "quiet"}
    t.until(lambda t: re.search("[▁▂▃▄▅▆▇█]{4}$", rows_line(t, "worker")))  # history grows
    t.press("q")
    assert t.end() == 0


@pytest.mark.parametrize("columns", [60, 45])
def test_a_narrow_terminal(stage, top, columns):
    """Memory gets a row of its own, and no row runs into the next."""
    stage.job("worker", ms=5)
    t = top(columns=columns)
    t.until(lambda t: re.search(r"worker +(running|ready)", t.text()))
    lines = t.lines()
    assert re.fullmatch(r"busy \[.{16}\] +\S+ *", lines[1])
    assert re.match(r"memory \[.*\] \S+ P \+ \S+ E of 1GiB", lines[2])
    assert lines[3].startswith("lane 0") and lines[-1].startswith("q quit") and lines[-3].strip() == ""


def test_jobs_come_and_go(stage, top):
    t = top()
    t.until("no jobs")
    job = stage.job("here", busy=False)
    t.until(" here ")
    job.c.close()
    stage.jobs.remove(job)
    t.until("no jobs")


def test_pause_resume_and_kill_by_key(stage, top):
    stage.job("one", ms=3)
    victim = stage.job("two", ms=3)
    t = top()
    t.until(" two ")
    t.press("down", "p")
    t.until("paused two (id 2)")
    t.until(lambda t: "paused" in rows_line(t, "two"))
    assert stage.session("two")["paused"] and not stage.session("one")["paused"]
    t.press("p")
    t.until("resumed two (id 2)")
    t.press("K")
    t.until("kill two (id 2)? y/n")
    t.press("n")
    t.until(lambda t: "y/n" not in t.text())
    assert len(stage.json("ps")["sessions"]) == 2
    t.press("K")
    t.until("kill two (id 2)? y/n")
    t.press("y")
    t.until("killed two (id 2)")
    t.until(lambda t: " two " not in "\n".join(t.lines()[:-2]))
    victim.thread.join(5)
    assert victim.ended is not None


def test_choosing_a_policy(stage, top):
    t = top()
    t.until("no jobs")
    t.press("o")
    t.until("> * fair")
    t.press("down")
    t.until(">   rr ")
    t.press("escape")
    t.until("no jobs")
    assert stage.json("policy")["policy"] == "fair"
    t.press("P")
    t.until("> * fair")
    t.press("k", "k")
    t.until(">   srtf ")
    t.press("enter")
    t.until("policy srtf, 0 of 1")
    assert stage.json("policy")["policy"] == "srtf"


def test_sorting_and_choosing(stage, top):
    stage.job("zeta", busy=False)
    stage.job("alpha", ms=3)
    t = top()
    t.until(" alpha ")
    assert list(rows_of(t.text())) == ["zeta", "alpha"]
    t.press("s")
    t.until("sort: share")
    t.until(lambda t: list(rows_of(t.text())) == ["alpha", "zeta"])
    t.press("s", "s", "s")
    t.until("sort: name")
    t.until(lambda t: list(rows_of(t.text())) == ["alpha", "zeta"])
    t.press("s")
    t.until("sort: id")
    t.until(lambda t: list(rows_of(t.text())) == ["zeta", "alpha"])
    t.press("j", "j", "j", "k", "k", "p")  # it stops at the ends
    t.until("paused zeta")


def test_help(stage, top):
    t = top()
    t.until("no jobs")
    t.press("?")
    t.until("choose a policy")
    t.press("x")
    t.until("no jobs")


def test_more_jobs_than_rows(stage, top):
    for i in range(12):
        stage.job(f"job{i:02}", busy=False)
    t = top(rows=12)
    t.until("job00")
    assert "job11" not in t.text()
    t.press(*["down"] * 11)
    t.until("job11")
    assert "job00" not in t.text()


def test_it_follows_the_size_of_the_terminal(stage, top):
    stage.job("j", busy=False)
    t = top()
    t.until(" j ")
    t.resize(132, 40)
    t.until(lambda t: t.lines()[39].startswith("q quit") and " j " in t.text())
    assert len(t.lines()[1]) == 132
    t.resize(30, 5)
    t.until("the window is too small")
    t.resize(80, 24)
    t.until(lambda t: t.lines()[23].startswith("q quit") and " j " in t.text())


@pytest.mark.parametrize("end", ["ctrl-c", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_it_and_the_terminal_is_as_before(stage, top, end):
    t = top()
    t.until("no jobs")
    assert t.alternate
    if end == "ctrl-c":
        t.press(end)
    else:
        os.kill(t.process.pid, end)
    assert -t.end() == (signal.SIGINT if end == "ctrl-c" else end)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_goes_away(stage, top, how):
    t = top()
    t.until("no jobs")
    stage.daemon.process.send_signal(how)
    stage.daemon.process.wait()
    assert t.end() == 69
    assert "no salusd at" in t.text() or "hung up" in t.text()


def test_nobody_there_from_the_start(top, tmp_path):
    t = top(path=tmp_path / "nowhere")
    assert t.end() == 69
    assert "no salusd at " in t.text()


def test_a_terminal_it_does_not_know(stage, top):
    t = top(TERM="no-such-terminal")
    assert t.end() == 1
    assert "--once" in t.text()


def test_plain_characters_where_the_locale_is_no_utf8(stage, top):
    stage.job("größe", busy=False)
    t = top(LC_ALL="C")
    t.until("gr??")
    assert t.text().isascii()
