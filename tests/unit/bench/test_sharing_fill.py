# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/sharing about filling the device: what they compute, and how they start and end scripts."""

import multiprocessing
import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

sys.path.insert(0, str(ROOT / "bench"))
import sharing_fill  # noqa: E402
import sharing_rows  # noqa: E402
from arrangements import Arrival, Scripts, play  # noqa: E402
from sharing_stage import Lost  # noqa: E402

S = 1_000_000_000


class Host:
    """A host of scripts that keeps what each declared."""

    def __init__(self):
        self.declared = {}

    def read_log(self):
        return "the daemon's log"

    def job_env(self, name, **wishes):
        self.declared[name] = wishes
        return {}

    def started(self, _pid, arrival):
        assert arrival.name in self.declared


def stage_of(folder, script):
    """A stage whose processes call script(argv) instead of JAX."""
    context = multiprocessing.get_context("fork")

    def process(target, args):
        assert target.__name__ == "run_script"
        return context.Process(target=script, args=(args[-1],))

    return types.SimpleNamespace(dir=str(folder), nursery=types.SimpleNamespace(Process=process))


def arrivals(*names):
    return [Arrival(name, 0, (name,), 2) for name in names]


@pytest.fixture
def board():
    """A list that scripts write to."""
    with multiprocessing.get_context("fork").Manager() as manager:
        yield manager.list()


def test_letters_are_used_once():
    assert not set(sharing_rows.ROWS) & set(sharing_fill.ROWS)


def test_arrivals_are_the_same_each_time():
    lengths = [1, 2, 3, 4]
    step_s = {32: 0.5, 64: 0.3}
    found = sharing_fill.arrivals_of(lengths, 7, step_s)
    assert found == sharing_fill.arrivals_of(lengths, 7, step_s)
    assert sorted(a.alone_s for a in found) == lengths
    assert found[0].at_s == 0 and all(0 <= a.at_s <= 7 for a in found)
    for arrival in found:
        steps, batch = int(arrival.argv[2]), int(arrival.argv[4])
        assert arrival.alone_s <= steps * step_s[batch] < arrival.alone_s + step_s[batch]


def test_work_counts_in_the_window_in_which_a_step_ends():
    ended = [(0.5, [10 * S - 1, 10 * S, 11 * S, 15 * S]), (2.0, [19 * S, 20 * S])]
    assert sharing_fill.work_by_window(ended, 10 * S, 5, 2) == pytest.approx([2 * 0.5 / 5, (0.5 + 2) / 5])


def test_each_turn_begins_with_another():
    assert [sharing_fill.rotated("abc", turn)[0] for turn in range(4)] == list("abca")
    assert sorted(sharing_fill.rotated("abc", 2)) == list("abc")


def test_a_bar_is_judged_by_the_ratio():
    said = []
    report = types.SimpleNamespace(add=lambda name, measured, bar="-", reached=None: said.append((name, bar, reached)))
    results = {"free": [(10, 20), (10, 20)], "srtf": [(7, 20), (8, 23)]}
    sharing_fill.report_eight(report, results, {"srtf": 0.8})
    judged = {name: reached for name, _, reached in said if reached is not None}
    assert judged == {"srtf: mean completion / free": True, "srtf: makespan / free": False}


def test_scripts_run_one_at_a_time(tmp_path, board):
    def script(argv):
        board.append(("began", argv[0]))
        board.append(("ended", argv[0]))

    host = Host()
    mean_s, makespan_s = play(stage_of(tmp_path, script), host, arrivals("a", "b", "c"), at_once=1)
    assert list(board) == [(what, name) for name in "abc" for what in ("began", "ended")]
    assert 0 < mean_s <= makespan_s
    assert host.declared["a"] == {"time": "2500ms"}


def test_scripts_run_all_at_once(tmp_path):
    barrier = multiprocessing.get_context("fork").Barrier(3)
    play(stage_of(tmp_path, lambda argv: barrier.wait(60)), Host(), arrivals("a", "b", "c"))


def test_a_script_that_fails_ends_the_others(tmp_path):
    forever = multiprocessing.get_context("fork").Event()

    def script(argv):
        if argv[0] == "bad":
            sys.exit(3)
        forever.wait()

    before = multiprocessing.active_children()
    with pytest.raises(Lost, match="bad: exit 3\n.*\nthe daemon's log"):
        play(stage_of(tmp_path, script), Host(), arrivals("good", "bad"))
    assert multiprocessing.active_children() == before


def test_a_log_is_of_one_run(tmp_path):
    scripts = Scripts(stage_of(tmp_path, lambda argv: None), Host())
    arrival, = arrivals("a")
    pathlib.Path(scripts.log_of(arrival)).write_text("earlier")
    with scripts:
        scripts.start(arrival)
    assert not pathlib.Path(scripts.log_of(arrival)).exists()
