# SPDX-License-Identifier: Apache-2.0
"""`salus limits`, and limits that a real salusd keeps: over one, a sentence with the number and the option."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import Stage  # noqa: E402
from liar import BUILD, RESOURCE_EXHAUSTED, U32, Client, HungUp, wait_until  # noqa: E402


@pytest.fixture
def start(tmp_path):
    made = []

    def start(*options):
        made.append(Stage(tmp_path, *options))
        return made[-1]

    yield start
    for stage in made:
        stage.close()


def row(stage, name):
    (found,) = [r for r in stage.json("limits")["limits"] if r["name"] == name]
    return found


def test_limits_are_listed_with_their_use(start):
    stage = start("--limit", "user-sessions=9", "--limit", "job-paged=none")
    stage.job("one", busy=False)
    stage.job("two", busy=False).c.grow(200 << 20)
    sessions = row(stage, "user-sessions")
    assert (sessions["limit"], sessions["used"]) == (9, 2) and sessions["by"].startswith("user ")
    arena = row(stage, "job-arena")
    assert (arena["used"], arena["by"]) == ((64 + 256) << 20, "two (id 2)")
    assert row(stage, "daemon-arena")["used"] == (64 + 64 + 256) << 20
    assert row(stage, "job-paged")["limit"] is None
    text = {line.split()[1]: line.split()[2:] for line in stage.salus("limits").splitlines() if "--limit" in line}
    assert text["user-sessions"][:4] == ["2", "9", "user", str(sessions["by"].split()[1])]
    assert text["job-arena"][0] == "320MiB"
    assert text["job-paged"][:2] == ["0B", "none"]
    assert "--memory" in stage.salus("limits")


def test_sessions_of_a_user_are_bounded(start):
    stage = start("--limit", "user-sessions=2")
    first, second = Client(stage.path), Client(stage.path)
    with pytest.raises(HungUp, match=r"user \d+ has 2 sessions, asked for 1 more, and may have 2 "
                                     r"\(salusd --limit user-sessions=N\)"):
        Client(stage.path)
    first.close()
    wait_until(lambda: row(stage, "user-sessions")["used"] == 1, 10, "the session to be gone")
    with Client(stage.path):
        assert row(stage, "daemon-sessions")["used"] == 2
    second.close()
    wait_until(lambda: row(stage, "daemon-sessions")["used"] == 0, 10, "all sessions to be gone")
    assert row(stage, "daemon-arena")["used"] == row(stage, "user-arena")["used"] == 0


def test_shared_memory_of_all_jobs_is_bounded(start):
    stage = start("--limit", "daemon-arena=256MiB")
    with Client(stage.path) as one:
        with Client(stage.path) as two:
            assert two.grow(1)[0] == 0
            assert one.grow(100 << 20)[0] == RESOURCE_EXHAUSTED
            assert one.grow(1)[0] == 0
            with pytest.raises(HungUp, match="daemon-arena=SIZE"):
                Client(stage.path)
        wait_until(lambda: row(stage, "daemon-arena")["used"] == 128 << 20, 10, "shared memory to be given back")
        assert one.grow(100 << 20)[0] == 0


@pytest.mark.parametrize("weight_milli", [1000001, U32])
def test_a_weight_is_bounded(start, weight_milli):
    stage = start()
    with pytest.raises(HungUp, match=r"a job may have 1000 \(salusd --limit job-weight=N\)"):
        Client(stage.path, weight_milli=weight_milli)
    with Client(stage.path, weight_milli=1000000, name=b"heavy"):
        assert stage.session("heavy")["weight"] == 1000
        assert "--limit job-weight=N" in stage.salus("set", "heavy", "weight=1001", status=1)
        assert stage.session("heavy")["weight"] == 1000
    assert row(stage, "daemon-sessions")["limit"] == 512  # refused or not, the books are right


def test_the_device_gets_most_of_the_memory_and_not_all(start):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    stage = start()
    memory, arena = (row(stage, name)["limit"] for name in ("memory", "daemon-arena"))
    assert 0 < memory <= 0.8 * machine
    assert abs(memory / 0.8 - 2 * arena) < 1000  # both are parts of what is allowed


def test_limits_are_in_the_configuration_file(start, tmp_path):
    config = tmp_path / "salusd.conf"
    names = [f"{scope}-{what}" for what in ("buffers", "programs", "queued-iterations", "compiles")
             for scope in ("job", "user", "daemon")]
    config.write_text("".join(f"{name} = {n}\n" for n, name in enumerate(names, 70))
                      + "limit = job-arena=128MiB\nidle-exit = 1h\n" + "cache-size = 1GiB\n" * 8)
    stage = start("--config", config)
    assert [row(stage, name)["limit"] for name in names] == list(range(70, 70 + len(names)))
    assert row(stage, "job-arena")["limit"] == 128 << 20
    assert row(stage, "cache-size")["limit"] == 1 << 30


@pytest.mark.parametrize("words, status, says", [
    (["--limit", "job-buffers"], 64, "expected NAME=VALUE"),
    (["--limit", "buffers=3"], 64, 'there is no limit "buffers"'),
    (["--limit", "job-buffers=many"], 64, "expected a number from 1 on, or none"),
    (["--limit", "job-arena=3parsec"], 64, "3parsec"),
    (["--config", "job-buffers = 0"], 78, "conf:1: "),
    (["--config", "job-bufers = 7"], 78, 'no setting "job-bufers"'),
])
def test_what_is_no_limit_is_said(tmp_path, words, status, says):
    if words[0] == "--config":
        (tmp_path / "conf").write_text(words[1] + "\n")
        words = ["--config", tmp_path / "conf"]
    done = subprocess.run([BUILD / "bin" / "salusd", "--socket", tmp_path / "s", *words], capture_output=True,
                          text=True, timeout=60)
    assert (done.returncode, says in done.stderr) == (status, True), done
