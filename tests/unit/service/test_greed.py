# SPDX-License-Identifier: Apache-2.0
"""Clients that want more than their share of salusd: what they get is bounded, and those who only got ahead go on.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import os
import random
import struct
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import liar  # noqa: E402
from liar import *  # noqa: E402, F403

ADD = "fake 1\noutput u8 4 = add 0 1\n"
SLOW = "fake 1\noutput u8 4 = fill 1\ntime {}\n"
AWAIT = 10
MIB = 1 << 20
RING = 4 * MIB
AHEAD = 4096  # records that wait; then a client is not read from


def await_record(request, ident):
    return record(AWAIT, struct.pack("<QQ", request, ident))


@pytest.fixture
def start(tmp_path):
    """start(*options): a salusd that must be alive at the end."""
    daemons = []

    def begin(*options):
        daemons.append(Daemon(tmp_path, *options))
        return daemons[-1]

    yield begin
    for d in daemons:
        status = d.process.poll()
        d.process.kill()
        d.process.wait()
        assert status is None, d.log[-3000:]
        assert "Sanitizer" not in d.log, d.log[-6000:]


def works(daemon):
    with Client(daemon.path) as c:
        out = c.run(c.compile("fake 1\noutput u8 4 = fill 7\n"), [], seconds=10)
        return c.download(out, 4) == b"\7\7\7\7"


def send_quietly(c, *records):
    """As the plugin does: the bell is rung only if the daemon sleeps."""
    for data in records:
        c.submit.write(data)
    c.submit.show()
    if c.submit.words[SLEEPS]:
        c.submit.words[SLEEPS] = 0
        c.ring()


def unread(c):
    return c.submit.at - c.submit.words[TAIL]


def pour(c, data, seconds):
    """Keep the ring full with one record for so long, or until nothing of it is read for a while; how many were read."""
    end, moved, sent, before = soon(seconds), time.monotonic(), 0, 0
    while time.monotonic() < min(end, moved + 1):
        while RING - unread(c) > 2 * MIB:
            for _ in range(1000):
                c.submit.write(data)
            c.submit.show()
            c.ring()
            sent += 1000
        if unread(c) != before:
            before, moved = unread(c), time.monotonic()
    return sent - unread(c) // len(data)


LARGE = "fake 1\noutput u8 100000 = fill 1\ntime {}\n"


@pytest.mark.parametrize("what", ["download", "large download", "await"])
def test_what_waits_for_an_iteration_is_bounded(start, what):
    """Nothing limits how often a client asks for the outcome of an iteration that does not end, but its ring."""
    daemon = start()
    with Client(daemon.path) as c:
        program = c.compile((LARGE if what == "large download" else SLOW).format(10**12))
        c.send(execute_record(c.new(), program, 10**6, 1))
        wait_until(lambda: daemon.sessions()[0]["state"] == "running", 5, "the iteration to start")
        data = {"download": download_record(7, 10**6, 4), "await": await_record(7, 10**6),
                "large download": download_record(7, 10**6, 100000, place(0, 0, 100000))}[what]
        own = daemon.own_bytes()
        assert pour(c, data, 20) <= AHEAD + 64
        if PATIENCE == 1:  # a sanitizer keeps more
            assert daemon.own_bytes() - own < 8 * MIB
        assert works(daemon)


def test_a_client_that_got_ahead_is_read_again(start):
    """Enough waits for one iteration that nothing more is read. When it has ended, the client is read from again, though
    it does not ring: the daemon never told it to."""
    daemon = start()
    with Client(daemon.path) as c:
        program = c.compile(SLOW.format(300_000_000))
        first, second, third = 10**6, 10**6 + 1, 10**6 + 2
        requests = [c.new() for _ in range(AHEAD + 6)]
        send_quietly(c, *[execute_record(requests.pop(), program, out, 1) for out in (first, second)])
        for request in requests[:AHEAD - 1]:
            send_quietly(c, download_record(request, second, 4))
        wait_until(lambda: daemon.sessions()[0]["iterations"] == 1 and unread(c) == 0, 10, "the second one")
        last = requests[AHEAD - 1:]
        send_quietly(c, execute_record(last[0], program, third, 1))
        wait_until(lambda: unread(c) == 0, 5, "the third to be read")
        for request in last[1:]:
            send_quietly(c, download_record(request, third, 4))
        for request in requests:
            assert c.answer(request, 10)[2] == 0


def test_a_client_ahead_by_bytes_is_read_again(start):
    """Executions with many arguments take memory of salusd until they have ended."""
    daemon = start("--limit", "job-queued-bytes=32MiB")
    with Client(daemon.path) as c:
        program = c.compile(SLOW.format(50_000_000))
        a = c.upload(b"abcd")
        requests = [c.new() for _ in range(24)]
        for i, request in enumerate(requests):
            data = execute_record(request, program, 10**6 + i, 1, [a] * 60000)
            wait_until(lambda: RING - unread(c) > 2 * len(data), 20, "room in the ring")
            send_quietly(c, data)
        for request in requests:
            assert c.answer(request, 20)[0] == DONE


def test_death_in_the_middle_of_a_long_record(start):
    """The worker lets others have the lock while it is at a long record: the session may be told to end just then."""
    daemon = start()
    rng, big = random.Random(1), 48 * MIB
    for _ in range(60):
        child = os.fork()
        if child == 0:
            try:
                c = Client(daemon.path)
                program, array = c.compile(ADD), c.new()
                where = place(0, MIB, big)
                c.send(upload_record(array, [big], size=big, where=where))
                a = c.upload(b"abcd")
                c.send(*[download_record(c.new(), array, big, where) for _ in range(3)])
                c.send(*[execute_record(c.new(), program, 10**6 + i, 1, [a] * 65535) for i in range(6)])
                time.sleep(rng.random() * 0.03)  # where it dies is left to chance
            finally:
                os._exit(0)
        rng.random()
        os.waitpid(child, 0)
    wait_until(lambda: not daemon.sessions(), 20, "all sessions to end")
    assert works(daemon)


def test_who_goes_on_beyond_its_limit_is_ended(start):
    """The first buffers too many fail, with the reason. There is an end to that, too, and the reason is told."""
    daemon = start("--limit", "job-buffers=100")
    with Client(daemon.path) as c:
        for _ in range(100):
            c.upload(b"abcd")
        over = c.upload(b"abcd")
        with pytest.raises(ValueError, match=r"job-buffers"):
            c.download(over, 4)
        with pytest.raises(HungUp):
            for _ in range(10000):
                c.download(c.upload(b"abcd"), 4) if c.hung_up() else c.upload(b"abcd")
                if c.submit.at % (1 << 16) < 64:
                    wait_until(lambda: unread(c) == 0 or c.hung_up(), 5, "the records to be read")
            c.answer(U64, 5)
    wait_until(lambda: "beyond its limit of buffers" in daemon.log, 5, "the reason in the log")
    assert works(daemon)


def test_many_programs_at_once_do_not_keep_others_from_asking(start):
    daemon = start()
    with Client(daemon.path) as c:
        requests = [c.new() for _ in range(60)]
        c.send(*[compile_record(r, c.new(), place(0, i * 4096, 8 * MIB)) for i, r in enumerate(requests)])
        for _ in range(10):
            assert daemon.answers()
        assert works(daemon)
        for request in requests:
            assert c.answer(request, 30)[2] != 0
