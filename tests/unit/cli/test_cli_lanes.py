# SPDX-License-Identifier: Apache-2.0
"""`salus lanes`: the picture, drawn of answers made up here; and that of a real daemon."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import Fixed, Stage, Terminal, salus, SALUS  # noqa: E402

GIB = 1 << 30


def session(ident, name, held, lane=0, state="ready", **more):
    return {"id": ident, "name": name, "held_bytes": held, "lane": lane, "state": state, **more}


def lane(index, size, ids, running=None):
    return {"index": index, "bytes": size, "sessions": ids, "running": running}


def answer(sessions, lanes, capacity=8 * GIB):
    held = sum(s["held_bytes"] for s in sessions)
    return {"ok": True, "sessions": sessions, "lanes": lanes, "policy": "fair", "device": {
        "platform": "cpu", "capacity_bytes": capacity, "persist_bytes": held, "lane_limit": 4,
        "lane_sum_bytes": sum(x["bytes"] for x in lanes)}}


@pytest.fixture
def daemon(tmp_path):
    made = Fixed(tmp_path / "s", answer(
        [session(3, "resnet", 3 * GIB, 0, "running"), session(4, "vgg", GIB, 1), session(7, "gone", 0, -1, "paged",
                                                                                       paged_bytes=2 * GIB)],
        [lane(0, GIB, [3], 3), lane(1, GIB // 2, [4, 9])]))
    yield made
    made.close()


def test_the_bar(daemon):
    """78 cells for 8 GiB: three parts of eight, one, then free, then a half and one from the right."""
    out = salus("lanes", socket=daemon.path)
    lines = out.splitlines()
    assert lines[0] == "cpu, 8GiB: 4GiB persistent, 1.5GiB in 2 lanes of at most 4, 2.5GiB free"
    assert lines[3] == "│" + "█" * 29 + "▓" * 10 + "·" * 24 + "░" * 5 + "▒" * 10 + "│"
    assert lines[2] == " a" + " " * 28 + "b" + " " * 33 + "1" + " " * 4 + "0" + " " * 9
    assert lines[4].split() == ["0", "8GiB"] and len(lines[4]) == 79
    assert max(map(len, lines)) <= 80


def test_the_legend(daemon):
    rows = [line.split() for line in salus("lanes", socket=daemon.path).splitlines()[7:]]
    assert rows == [
        ["a", "resnet", "(id", "3)", "3GiB", "37.5%", "running,", "lane", "0"],
        ["b", "vgg", "(id", "4)", "1GiB", "12.5%", "ready,", "lane", "1"],
        ["gone", "(id", "7)", "0B", "0.0%", "paged,", "2GiB", "on", "the", "host"],
        ["free", "2.5GiB", "31.2%", "·"],
        ["0", "lane", "0", "1GiB", "12.5%", "runs", "id", "3;", "of", "ids", "3"],
        ["1", "lane", "1", "512MiB", "6.2%", "at", "rest;", "of", "ids", "4,", "9"],
    ]


def test_plain_ascii_where_the_locale_is_no_utf8(daemon):
    out = salus("lanes", socket=daemon.path, LC_ALL="C")
    assert out.isascii()
    assert "|" + "#" * 29 + "%" * 10 + "." * 24 + "-" * 5 + "=" * 10 + "|" in out


@pytest.mark.parametrize("gain, line", [
    ({"lanes": 1.98, "rate": 1.71}, "2.0 lanes side by side: 1.7x of one"), ({"lanes": 1, "rate": 0.9}, "one lane at a time"),
    ({"lanes": 3.24, "rate": 1}, "3.2 lanes side by side: 1.0x of one"), (None, ""), ({"lanes": "2"}, ""), (7, "")])
def test_what_the_lanes_gain(daemon, gain, line):
    daemon.reply["device"]["gain"] = gain
    lines = salus("lanes", socket=daemon.path).splitlines()
    assert lines[1] == line and (not line or lines[2] == "")
    assert json.loads(salus("lanes", "--json", socket=daemon.path))["device"]["gain"] == gain


def test_what_is_really_there(daemon):
    assert "really" not in salus("lanes", socket=daemon.path)
    daemon.reply["device"]["real"] = {"sessions_bytes": 4 * GIB, "spare_bytes": GIB // 2, "peak_bytes": 6 * GIB}
    last = salus("lanes", socket=daemon.path).splitlines()[-1]
    assert last == "really in memory: 4GiB for jobs and 512MiB for the next iterations, at most 6GiB"


def test_json(daemon):
    shown = json.loads(salus("lanes", "--json", socket=daemon.path))
    assert shown == {k: daemon.reply[k] for k in ("ok", "device", "lanes", "sessions")}


def test_what_is_small_is_seen_all_the_same(daemon):
    daemon.reply = answer([session(i, f"j{i}", 1) for i in range(1, 61)], [lane(i, 1, []) for i in range(3)])
    bar = salus("lanes", socket=daemon.path).splitlines()[3]
    assert bar == "│" + "█▓" * 30 + "·" * 15 + "▒░▒" + "│"
    tags = salus("lanes", socket=daemon.path).splitlines()[2]
    assert tags.startswith(" abc") and tags.endswith("210") and "YZ++++++++ " in tags


@pytest.mark.parametrize("odd", [
    {"ok": True}, {"ok": True, "device": 5, "lanes": {}, "sessions": "x"},
    answer([session(1, "all", 9 * GIB)], [lane(0, 9 * GIB, [])]), answer([], [], capacity=0),
    {"ok": True, "device": {"capacity_bytes": 1e300}, "lanes": [{"index": -5, "bytes": 1}], "sessions": [{}, 7]}])
def test_odd_answers_do_no_harm(daemon, odd):
    daemon.reply = odd
    salus("lanes", socket=daemon.path)
    salus("top", "--once", "--interval", "100ms", socket=daemon.path)


@pytest.mark.parametrize("columns", [40, 132])
def test_the_bar_is_as_wide_as_the_terminal(daemon, tmp_path, columns):
    terminal = Terminal(tmp_path, [SALUS, "lanes"], columns, 40, {"SALUS_SOCKET": str(daemon.path)})
    try:
        assert terminal.end() == 0
        bar = next(line for line in terminal.lines() if line.startswith("│"))
        assert len(bar) == columns and bar.endswith("│")
    finally:
        terminal.close()


def test_ps_leaves_out_what_has_no_room(daemon, tmp_path):
    daemon.reply["sessions"] = [{
        "id": 1, "name": "train.py", "state": "running", "lane": 0, "iterations": 10, "used_s": 1.25, "waited_s": 1,
        "queued": 2, "persist_bytes": GIB, "ephem_bytes": GIB, "weight": 1, "priority": 0, "age_s": 12, "pid": 77,
        "kind": "training"}]
    for columns, heads in ((80, 9), (60, 7), (132, 15), (160, 17)):
        terminal = Terminal(tmp_path, [SALUS, "ps"], columns, 24, {"SALUS_SOCKET": str(daemon.path)})
        try:
            assert terminal.end() == 0
            assert len(terminal.lines()[0].split()) == heads
            assert len(terminal.lines()[1].split()) == heads
        finally:
            terminal.close()


def test_of_a_real_daemon(tmp_path):
    stage = Stage(tmp_path, "--memory", "1GiB")
    try:
        stage.job("j", busy=False)
        out = stage.salus("lanes")
        assert out.startswith("fake, 1GiB: ") and "j (id 1)" in out and "lane 0" in out
        shown = stage.json("lanes")
        assert shown["device"]["capacity_bytes"] == GIB and shown["lanes"][0]["sessions"] == [1]
    finally:
        stage.close()
