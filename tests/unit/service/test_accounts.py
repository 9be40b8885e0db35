# SPDX-License-Identifier: Apache-2.0
"""Whatever was refused, failed or broke off: nothing of it stays in the accounts, and whoever waits for memory gets it.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import json
import socket
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import test_lies  # noqa: E402
from liar import *  # noqa: E402, F403
from test_lies import ADD, Stage  # noqa: E402

MIB = 1 << 20
DEVICE = 32 * MIB
LARGE = 20 * MIB  # two of them do not fit
AT = 1 * MIB  # where in the arena


def accounts(daemon):
    """(the whole answer to ps, its sessions by id)"""
    answer = json.loads(ask(daemon.path, b'{"op": "ps"}\n'))
    return answer, {s["id"]: s for s in answer["sessions"]}


def of(client, daemon):
    return accounts(daemon)[1][client.session]


def is_empty(daemon):
    answer, sessions = accounts(daemon)
    return not sessions and answer["device"]["persist_bytes"] == 0 and answer["device"]["lane_sum_bytes"] == 0


def expect_empty(daemon):
    wait_until(lambda: is_empty(daemon), 10, f"an empty device: {accounts(daemon)[0]}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("d"), "--memory", "1GiB", "--arena", str(test_lies.ARENA))
    yield daemon
    expect_empty(daemon)
    daemon.stop()


@pytest.fixture
def small(tmp_path):
    daemon = Daemon(tmp_path, "--memory", str(DEVICE))
    yield daemon
    expect_empty(daemon)
    daemon.stop()


# Refusals.


def account(s):
    """What the stage has in its account with all deleted that it did not begin with, and one result."""
    own = {s.program, s.a, s.b}
    s.send(delete_record(*[i for i in range(1, 6000) if i not in own]))
    s.works()  # so much has been read by now
    mine = of(s.c, s.daemon)
    return mine["persist_bytes"], mine["buffers"], mine["queued"]


def expect_as_before(s, before):
    assert before[1:] == (3, 0)
    wait_until(lambda: account(s) == before, 3, f"the account to be as it was: {before}, {account(s)}")


REFUSALS = [case for case in test_lies.LIES
            if case.values[1] is test_lies.fine or case.values[1].__qualname__.startswith("refused")]
SLOW = {"a-hundred-thousand-arrays", "rings-without-end", "one-request-number-for-all", "compile-of-8-MiB-of-garbage",
        "grow-beyond-the-limit", "ids-that-collide", "a-chain-of-60000-copies", "waits-for-far-too-much"}


@pytest.mark.parametrize("tell, outcome", [case for case in REFUSALS if case.id not in SLOW])
def test_a_refusal_leaves_nothing(shared, tell, outcome):
    s = Stage(shared)
    try:
        before = account(s)
        outcome(s, tell(s))
        expect_as_before(s, before)
    finally:
        s.c.close()
    expect_empty(shared)


def test_there_are_many_refusals():
    """The list above is made of another, and must not become empty."""
    assert len(REFUSALS) > 60


# Iterations that fail.

FAILING = {
    "fails": "fake 1\noutput u8 4 = copy 0\noutput u8 1048576 = fill 1\nfail 13 on purpose\n",
    "refuses": "fake 1\noutput u8 4 = copy 0\noutput u8 1048576 = fill 1\nrefuse 8 on purpose\n",
    "fails-with-a-donation": "fake 1\noutput u8 4 = copy 0\ndonate 0 0\nfail 13 on purpose\n",
    "refuses-with-a-donation": "fake 1\noutput u8 4 = copy 0\ndonate 0 0\nrefuse 8 on purpose\n",
    "needs-too-much-scratch": "fake 1\noutput u8 4 = copy 0\ntemp 4294967296\n",
    "gives-too-much": "fake 1\noutput u8 4 = copy 0\noutput u8 4294967296 = fill 1\n",
}


@pytest.mark.parametrize("argument", ("fine", "failed", "missing"))
@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING.keys())
def test_a_failed_iteration_leaves_nothing(shared, text, argument):
    """Ten times, so that a leak adds up; with an argument that is there, one that failed itself, and one that never was."""
    s = Stage(shared)
    try:
        before = account(s)
        program = s.c.compile(text)
        outputs = text.count("output")
        for n in range(10):
            first, request, bad = 1000 + 10 * n, s.new(), 2000 + n
            given = s.c.upload(b"give") if argument == "fine" else bad
            if argument == "failed":
                s.send(execute_record(s.new(), s.program, bad, 1, [s.a, 4711]))
            s.send(execute_record(request, program, first, outputs, [given]))
            _, _, code, _, reason = s.c.answer(request, 3)
            assert code and reason.strip()
            with pytest.raises(ValueError):
                s.c.download(first, 4)
        s.send(unload_record(program))
        expect_as_before(s, before)
    finally:
        s.c.close()
    expect_empty(shared)


def code_of_upload(s):
    ident, request = s.c.upload(b"x" * 1000), s.new()
    s.send(download_record(request, ident, 1000))
    return s.c.answer(request, 3)[2]


def code_of_execute(s):
    request = s.new()
    s.send(execute_record(request, s.program, 1000 + request, 1, [s.a, s.b]))
    return s.c.answer(request, 3)[2]


def code_of_download(s):
    request = s.new()
    s.send(download_record(request, s.a, 4))
    return s.c.answer(request, 3)[2]


@pytest.mark.parametrize("fault, does", [("upload@4=14", code_of_upload), ("execute@2=14", code_of_execute),
                                         ("download@2=14", code_of_download)], ids=("upload", "execute", "download"))
def test_a_fault_of_the_device_leaves_nothing(tmp_path, fault, does):
    daemon = Daemon(tmp_path, "--plugin", f"fake:{fault}")
    s = Stage(daemon)
    assert sorted(does(s) for _ in range(4)) == [0, 0, 0, 14]
    with Client(daemon.path) as c:
        other = Stage.__new__(Stage)
        other.daemon, other.c = daemon, c
        other.program, other.a, other.b = c.compile(ADD), c.upload(b"\1\2\3\4"), c.upload(b"\5\6\7\1")
        expect_as_before(s, account(other))  # one whom nothing has happened to
    s.c.close()
    expect_empty(daemon)
    daemon.stop()


# Memory that others wait for.


def put_large(client, data, ident=None):
    """An upload through the arena; nobody waits for it here."""
    ident = ident or client.new()
    client.send(upload_record(ident, [len(data)], size=len(data), where=client.put(AT, data)))
    return ident


def ask_for_large(client, ident, size, offset=AT + 24 * MIB):
    """A download into the arena; the number of the request, and where the bytes will be."""
    request = client.new()
    client.send(download_record(request, ident, size, place(0, offset, size)))
    return request, offset


def take_large(client, ident, size, seconds=20):
    request, offset = ask_for_large(client, ident, size)
    _, _, code, _, reason = client.answer(request, seconds)
    assert code == 0, reason
    return bytes(client.segments[0][offset:offset + size])


def pattern(seed, size=LARGE):
    block = bytes((i * 31 + seed) % 251 for i in range(4096))
    return block * (size // 4096)


HOLDS = "fake 1\noutput u8 4 = fill 1\ntime 1000000000\n"  # for a second


def test_too_much_is_refused_and_forgotten(small):
    with Client(small.path) as c:
        for _ in range(10):
            big = put_large(c, bytes(40 * MIB))
            request, _ = ask_for_large(c, big, 1, offset=0)
            _, _, code, _, reason = c.answer(request, 5)
            assert code == RESOURCE_EXHAUSTED and reason.strip()
            c.send(delete_record(big))
        data = pattern(1)
        assert take_large(c, put_large(c, data), LARGE) == data
        assert of(c, small)["persist_bytes"] == LARGE


@pytest.mark.parametrize("end", ("shutdown", "close"))
def test_a_socket_that_ends_while_its_bell_is_open(small, end):
    """Its memory goes to whoever waits for it, though its bell is still there and is rung."""
    holder, waiter = Client(small.path, name=b"holder"), Client(small.path, name=b"waiter")
    try:
        kept = put_large(holder, pattern(1))
        program = holder.compile(HOLDS, offset=0)
        request = holder.new()
        holder.send(execute_record(request, program, 1000, 1))  # it is busy, and cannot be paged out
        wait_until(lambda: of(holder, small)["state"] == "running", 5, "the iteration to run")
        data = pattern(2)
        wanted = put_large(waiter, data)
        request, offset = ask_for_large(waiter, wanted, LARGE)
        holder.send(copy_record(kept, 1001))  # more to do when it ends
        if end == "close":
            holder.socket.close()
        else:
            holder.socket.shutdown(socket.SHUT_RDWR)
        for _ in range(1000):
            holder.ring()
        _, _, code, _, reason = waiter.answer(request, 10)
        assert code == 0, reason
        assert waiter.segments[0][offset:offset + LARGE] == data
        wait_until(lambda: set(accounts(small)[1]) == {waiter.session}, 5, "the other to be gone")
        for _ in range(1000):
            holder.ring()
        assert of(waiter, small)["persist_bytes"] == LARGE
    finally:
        holder.close()
        waiter.close()


def test_paged_out_while_a_download_is_slow(small):
    """The bytes are those that were asked for; the memory goes to the other; and they can be had again."""
    reader, runner = Client(small.path, name=b"reader"), Client(small.path, name=b"runner")
    try:
        mine, theirs = pattern(1), pattern(2)
        kept = put_large(reader, mine)
        assert take_large(reader, kept, LARGE) == mine
        program = runner.compile(HOLDS, offset=0)
        run = runner.new()
        runner.send(execute_record(run, program, 1000, 1))
        wait_until(lambda: of(runner, small)["state"] == "running", 5, "the iteration to run")
        reader.put(AT + 24 * MIB, bytes(LARGE))
        request, offset = ask_for_large(reader, kept, LARGE)  # behind an iteration of a second
        wanted = put_large(runner, theirs)
        _, _, code, _, reason = reader.answer(request, 10)
        assert code == 0, reason
        assert reader.segments[0][offset:offset + LARGE] == mine
        assert runner.answer(run, 10)[2] == 0
        assert take_large(runner, wanted, LARGE) == theirs
        wait_until(lambda: of(reader, small)["paged_bytes"] == LARGE, 10, f"the reader to be paged out: {of(reader, small)}")
        assert of(runner, small)["held_bytes"] >= LARGE and of(reader, small)["held_bytes"] < LARGE
        assert take_large(reader, kept, LARGE) == mine
        assert take_large(runner, wanted, LARGE) == theirs
    finally:
        reader.close()
        runner.close()
