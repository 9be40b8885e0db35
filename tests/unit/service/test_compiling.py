# SPDX-License-Identifier: Apache-2.0
"""What a session asks of the compiler, and what is left of it when the session has gone. On the fake device, whose
programs can keep the compiler busy for ever.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from liar import *  # noqa: E402, F403
from liar import TAIL, ask

ADD = "fake 1\noutput u8 4 = add 0 1\n"
ENDLESS = "fake 1\nname endless{}\nspin\n"
JOBS_MAX = 64
RESOURCE_EXHAUSTED = 8
DEADLINE_EXCEEDED = 4


@pytest.fixture
def start(tmp_path):
    """start(*options): a salusd that must end well."""
    daemons = []

    def start(*options):
        folder = tmp_path / str(len(daemons))
        folder.mkdir()
        daemons.append(Daemon(folder, *options))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.stop()


def question(daemon, **fields):
    return json.loads(ask(daemon.path, json.dumps(fields).encode() + b"\n"))


def programs(daemon):
    return question(daemon, op="ps")["programs"]


def send_endless(client, number):
    """Not waited for. Returns the request."""
    request = client.new()
    where = client.put(number * 256, ENDLESS.format(number).encode())
    client.send(compile_record(request, client.new(), where))
    return request


def children(daemon):
    return [pid for task in Path(f"/proc/{daemon.pid}/task").iterdir()
            for pid in (task / "children").read_text().split()]


def test_programs_of_a_session_are_bounded(start):
    daemon = start()
    with Client(daemon.path) as greedy, Client(daemon.path) as other:
        for number in range(JOBS_MAX):
            send_endless(greedy, number)
        wait_until(lambda: programs(daemon)["running"] == 1, 5, "the first to be compiled")
        _, _, code, _, words = greedy.answer(send_endless(greedy, JOBS_MAX), 5)
        assert code == RESOURCE_EXHAUSTED and b"wait to be compiled" in words
        other.compile(ADD)  # which 64 programs of another do not hold up
        assert programs(daemon)["running"] == 1
    wait_until(lambda: programs(daemon)["running"] == 0, 5, "its programs to go with it")
    assert programs(daemon)["compiled"] == 1


def test_nothing_is_left_of_sessions_that_leave(start):
    daemon = start()
    with Client(daemon.path) as first:
        first.compile(ADD)
    wait_until(lambda: not daemon.sessions(), 5, "the session to go")
    before = daemon.holdings()
    for _ in range(10):
        with Client(daemon.path) as a, Client(daemon.path) as b, Client(daemon.path) as cold:
            for client, number in ((a, 1), (b, 2)):
                send_endless(client, number)
            wait_until(lambda: programs(daemon)["running"] == 2, 10, "both to be compiled")
            busy = set(children(daemon))
            request = cold.new()
            cold.send(compile_record(request, cold.new(), cold.put(0, b"fake 1\noutput u8 4 = copy 0\n")))
            a.close()
            assert cold.answer(request, 10)[2] == 0
        wait_until(lambda: not busy & set(children(daemon)), 5, "the helpers to go")
    wait_until(lambda: not daemon.sessions() and len(children(daemon)) == 1, 5, "one warm helper")
    wait_until(lambda: daemon.is_back_at(before), 5, f"no more than {before}")
    assert programs(daemon)["abandoned"] == 20


def test_who_asks_and_leaves_at_once(start):
    """Whether its record has been read, or its program has reached the compiler, when its end is noticed."""
    daemon = start()
    for number in range(100):
        with Client(daemon.path) as client:
            send_endless(client, number)
    wait_until(lambda: not daemon.sessions() and programs(daemon)["running"] == 0, 10, "the compiler to be free")
    with Client(daemon.path) as client:
        client.compile(ADD)
    assert programs(daemon)["running"] == 0


def test_who_is_killed_leaves_the_compiler(start):
    daemon = start()
    with Client(daemon.path) as client:
        send_endless(client, 1)
        wait_until(lambda: programs(daemon)["running"] == 1, 5, "it to be compiled")
        assert question(daemon, op="kill", job=str(client.session))["ok"]
        wait_until(lambda: programs(daemon)["running"] == 0, 5, "the compiler to be free")


def test_the_limit_of_time(start):
    daemon = start("--compile-time", "300ms")
    with Client(daemon.path) as client:
        _, _, code, _, words = client.answer(send_endless(client, 1), 20)
        assert code == DEADLINE_EXCEEDED and b"300ms" in words and b"--compile-time" in words
    wait_until(lambda: programs(daemon)["over_limit"] == 1, 5, "it to be counted")


def sum_of_two(client, program):
    return client.download(client.run(program, [client.upload(b"\1\2"), client.upload(b"\5\6")], seconds=5), 2)


def test_a_program_is_loaded_before_it_runs(start):
    """The first load fails, and nobody hears of it: it came before the first iteration, which loads again."""
    daemon = start("--plugin", "fake:load@1=14")
    with Client(daemon.path) as client:
        assert sum_of_two(client, client.compile(ADD.replace("4", "2"))) == b"\6\10"


def test_an_iteration_waits_for_its_program(start):
    daemon = start("--plugin", "fake:slow:load@1:300")
    with Client(daemon.path) as client:
        assert sum_of_two(client, client.compile(ADD.replace("4", "2"))) == b"\6\10"


def test_programs_that_are_unloaded_at_once(start):
    """Before they are loaded, while they are, or after; and one that is being loaded when its session leaves."""
    daemon = start("--plugin", "fake:slow:load@3:20")
    with Client(daemon.path) as client:
        for _ in range(30):
            client.send(unload_record(client.compile(ADD)))
        wait_until(lambda: question(daemon, op="ps")["sessions"][0]["programs"] == 0, 5, "the programs to go")
        client.compile(ADD)
    wait_until(lambda: not daemon.sessions(), 5, "the session to go")


def long_text(number, size=40 << 20):
    """A right program after so many bytes of comment."""
    line = b"# " + b"x" * 61 + b"\n"
    return b"fake 1\n# %d\n" % number + line * (size // len(line)) + b"output u8 2 = add 0 1\n"


def test_a_long_text_is_compiled(start):
    daemon = start()
    with Client(daemon.path) as client:
        assert client.grow(64 << 20)[0] == 0
        request, program = client.new(), client.new()
        client.send(compile_record(request, program, client.put(0, long_text(0), segment=1)))
        assert client.answer(request, 30)[2] == 0
        assert sum_of_two(client, program) == b"\6\10"


def test_sessions_leave_while_their_texts_are_read(start):
    daemon = start()
    before = daemon.holdings()
    for number in range(6):
        with Client(daemon.path) as client:
            assert client.grow(64 << 20)[0] == 0
            where = client.put(0, long_text(number), segment=1)
            client.send(compile_record(client.new(), client.new(), where))
    wait_until(lambda: not daemon.sessions() and daemon.is_back_at(before), 20, "everything to be given back")


def test_salusd_ends_while_a_text_is_read(start):
    daemon = start()
    with Client(daemon.path) as client:
        assert client.grow(64 << 20)[0] == 0
        where = client.put(0, long_text(0), segment=1)
        client.send(*(compile_record(client.new(), client.new(), where) for _ in range(3)))
        daemon.stop()


def test_all_long_texts_of_a_session_are_answered(start):
    """Also those that wait for their turn. Others are served meanwhile."""
    daemon = start()
    with Client(daemon.path) as client, Client(daemon.path) as other:
        assert client.grow(64 << 20)[0] == 0
        where = client.put(0, long_text(0), segment=1)
        requests = [client.new() for _ in range(8)]
        client.send(*(compile_record(r, client.new(), where) for r in requests))
        assert sum_of_two(other, other.compile(ADD.replace("4", "2"))) == b"\6\10"
        assert [client.answer(r, 30)[2] for r in requests] == [0] * 8


def test_a_session_leaves_while_its_long_texts_wait(start):
    daemon = start()
    before = daemon.holdings()
    with Client(daemon.path) as client:
        assert client.grow(64 << 20)[0] == 0
        where = client.put(0, long_text(0), segment=1)
        client.send(*(compile_record(client.new(), client.new(), where) for _ in range(8)))
        wait_until(lambda: question(daemon, op="limits") and client.submit.at == client.submit.words[TAIL], 5,
                   "the records to be taken")
    wait_until(lambda: not daemon.sessions() and daemon.is_back_at(before), 20, "everything to be given back")
