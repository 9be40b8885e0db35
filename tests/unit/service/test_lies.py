# SPDX-License-Identifier: Apache-2.0
"""Lies, told to a live salusd. Each costs the liar its request, with a sentence why, or its connection, at once;
nobody else notices. A lie is a function of the stage `s`; what it must lead to stands beside it.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import fcntl
import os
import random
import resource
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import liar  # noqa: E402
from liar import *  # noqa: E402, F403

ADD = "fake 1\noutput u8 4 = add 0 1\n"
TWO = "fake 1\noutput u8 4 = fill 1\noutput u8 4 = fill 2\n"
TAKES = "fake 1\noutput u8 4 = copy 0\ndonate 0 0\n"
SLOW = "fake 1\noutput u8 4 = fill 1\ntime 300000000\n"
FACTORS = [3, 5, 17, 257, 641, 65537, 6700417]  # of 2^64 - 1
SEGMENT = 64 << 20
RING = 4 << 20
ARENA = 256 << 20
BACKLOG = 64 << 20


# The stage.


class Stage:
    """A liar with something to lie about: a program, two arrays, and a place in the arena."""

    def __init__(self, daemon, **changes):
        self.daemon = daemon
        self.c = Client(daemon.path, **changes)
        self.program = self.c.compile(ADD)
        self.a = self.c.upload(b"\1\2\3\4")
        self.b = self.c.upload(b"\5\6\7\1")

    def new(self):
        return self.c.new()

    def send(self, *records):
        self.c.send(*records)

    def works(self):
        """All that an honest client does still goes well."""
        out = self.c.run(self.program, [self.a, self.b])
        assert self.c.download(out, 4) == b"\6\x08\x0a\5"

    def text(self, text, offset=1 << 20):
        return self.c.put(offset, text.encode() if isinstance(text, str) else text)


@pytest.fixture(scope="module")
def keeper(tmp_path_factory):
    """Keeps a daemon; a new one if a test has ruined it, so that one fault is one failure."""
    class Keeper:
        daemon = honest = baseline = None

        def open(self):
            if self.daemon and self.is_well():
                return
            self.drop()
            self.daemon = Daemon(tmp_path_factory.mktemp("d"), "--arena", str(ARENA))
            self.baseline = None
            self.honest = Stage(self.daemon, name=b"honest")

        def is_well(self):
            try:
                self.honest.works()
                return self.daemon.answers()
            except (AssertionError, OSError, Silence, HungUp, ValueError):
                return False

        def drop(self):
            if self.honest:
                self.honest.c.close()
            if self.daemon:
                self.daemon.process.kill()
                self.daemon.process.wait()
            self.daemon = self.honest = None

    assert (liar.BUILD / "bin" / "salusd").exists(), "build salusd first"
    k = Keeper()
    yield k
    if k.daemon and k.is_well():
        k.honest.c.close()
        k.honest = None
        log = k.daemon.stop()
        assert "Sanitizer" not in log, log[-6000:]
    k.drop()


@pytest.fixture
def daemon(keeper):
    """A daemon that is well before and after, with an honest client in it who notices nothing."""
    keeper.open()
    yield keeper.daemon
    keeper.honest.works()
    with Client(keeper.daemon.path, name=b"newcomer") as c:
        assert c.download(c.upload(b"new"), 3) == b"new"


def has_sanitizer():
    program = (liar.BUILD / "bin" / "salusd").read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


# Outcomes.


def gone(s, _):
    """It is disconnected within a second."""
    assert s.c.hung_up(1), "still connected"


def refused(*codes):
    """The request that the lie returned is answered with an error and a sentence; nothing else happens."""
    def check(s, request):
        _, _, code, _, text = s.c.answer(request, 3)
        assert code in (codes or range(1, 17)), (code, text)
        assert text.strip(), "no reason given"
        s.works()
    return check


def fine(s, _):
    """It is nobody's business, or it is harmless."""
    s.works()


def all_refused(s, requests):
    """So many requests, each refused with a sentence, in whatever order; then all is well."""
    for request in requests:
        _, _, code, _, text = s.c.answer(request, 20)
        assert code and text.strip()
    s.works()


# Lies in the ring: headers and indices.

LIES = []


def lie(outcome, name):
    def add(function):
        LIES.append(pytest.param(function, outcome, id=name))
        return function
    return add


for kind in (10, 11, 63, REPLY, DONE, RELEASED, 67, 77, 0xFFFF):
    lie(gone, f"type-{kind}")(lambda s, k=kind: s.send(record(k, bytes(24))))

for size in (0, 1, 4, 7, 8, 9, 12, 15, 17, 20, 24, 32, (1 << 20) + 8, 2 << 20, RING, 1 << 31, U32 - 7, U32):
    lie(gone, f"unload-of-size-{size}")(lambda s, n=size: s.send(record(UNLOAD, bytes(8), size=n)))

FIXED = {COMPILE: 88, LOAD: 48, FETCH: 56, UNLOAD: 16, UPLOAD: 56, DOWNLOAD: 56, EXECUTE: 48, DELETE: 16, COPY: 24}
for kind, size in FIXED.items():
    lie(gone, f"type-{kind}-cut-short")(lambda s, k=kind, n=size: s.send(record(k, bytes(n - 16))))
    lie(gone, f"type-{kind}-too-long")(lambda s, k=kind, n=size: s.send(record(k, bytes(n))))

for distance in (1, 4, 7, 8, RING, RING + 8, -8, -16, -RING, 1 << 62, 1 << 63, U64):
    @lie(gone, f"head-off-by-{distance}")
    def move_head(s, by=distance):
        s.c.submit.words[0] = (s.c.submit.at + by) & U64
        s.c.ring()


@lie(gone, "pad-amid-the-ring")
def _(s):
    s.send(struct.pack("<IHH", 16, 0, 0) + bytes(8))


@lie(gone, "pad-of-nothing")
def _(s):
    s.send(struct.pack("<IHH", 0, 0, 0))


@lie(gone, "pad-beyond-the-end")
def _(s):
    s.send(struct.pack("<IHH", RING, 0, 0))


@lie(gone, "record-over-the-end")
def _(s):
    """It lies across the end of the ring; all its bytes are there."""
    ring = s.c.submit
    while RING - ring.at % RING > 24:
        ring.write(unload_record(9) if RING - ring.at % RING < 4096 else record(DELETE, struct.pack("<II", 509, 0) + bytes(4072)))
        ring.show()
        s.c.ring()
        wait_until(lambda: ring.words[8] == ring.at, 5, "the daemon to follow")
    at = ring.at % RING
    data = delete_record(1, 2, 3)
    ring.data[at:] = data[:RING - at]
    ring.data[:len(data) - (RING - at)] = data[RING - at:]
    ring.at += len(data)
    ring.show()
    s.c.ring()


@lie(fine, "reserved-bits-set")
def _(s):
    s.send(record(UNLOAD, struct.pack("<Q", 999), reserved=0xFFFF))


@lie(fine, "flags-scribbled")
def _(s):
    for ring in s.c.rings:
        ring.words[1] = ring.words[9] = U64
    s.works()
    for ring in s.c.rings:
        ring.words[1], ring.words[9] = 0x123456789, 0


@lie(fine, "indices-of-the-daemon-scribbled")
def _(s):
    s.c.submit.words[8] = 0xDEADBEEF
    s.c.complete.words[0] = s.c.complete.at
    s.works()
    s.c.submit.words[8] = U64


@lie(fine, "tail-of-completions-scribbled")
def _(s):
    for nonsense in (U64, 1 << 63, s.c.complete.at + 8, s.c.complete.at + RING, 12345):
        s.c.complete.words[8] = nonsense
        request = s.new()
        s.send(download_record(request, s.a, 4))
        assert s.c.answer(request)[4] == b"\1\2\3\4"


# Lies about arrays.


def upload(*args, **changes):
    def tell(s):
        s.send(upload_record(s.new(), *args, **changes))
    return tell


for kind in (0, 23, 30, 31, -1, -(1 << 31), (1 << 31) - 1):
    lie(gone, f"upload-of-type-{kind}")(upload([4], b"1234", kind=kind))
for dims, name in (([0, -1], "nothing-hides-a-negative"), ([-1, 0], "nothing-behind-a-negative")):
    lie(gone, f"dims-{name}")(upload(dims, b""))
for dims, name in (([-1], "negative"), ([-4], "minus-four"), ([2, -2], "second-negative"), ([-2, -2], "both-negative"),
                   ([1 << 33, 1 << 33], "overflow"), ([1 << 62, 4], "overflow-to-zero"),
                   ([1 << 62, 1 << 62, 1 << 62], "overflow-thrice"), ([5], "too-few-bytes"), ([3], "too-many-bytes"),
                   ([0], "nothing-with-bytes"), ([(1 << 63) - 1], "largest")):
    lie(gone, f"dims-{name}")(upload(dims, b"1234"))
    lie(gone, f"dims-{name}-in-arena")(upload(dims, size=4, where=place(0, 0, 4)))
lie(gone, "overflow-to-four-bytes")(upload([(1 << 62) + 1, 4], b"1234", kind=S8))
lie(gone, "rank-65")(upload([1] * 64 + [4], b"1234"))
for rank in (2, 65, 1 << 29, 1 << 31, U32):
    lie(gone, f"rank-said-{rank}")(upload([4], b"1234", rank=rank))
for size in (0, 3, 5, 4097, 1 << 32, U64 - 7, U64):
    lie(gone, f"size-said-{size}")(upload([4], b"1234", size=size))
lie(gone, "inline-beyond-the-limit")(upload([4104], bytes(4104)))
lie(gone, "inline-and-in-arena")(upload([4], b"1234", where=place(0, 0, 4)))
lie(gone, "two-sizes")(upload([4], size=4, where=place(0, 0, 5)))

PLACES = {
    "segment-1": (1, 0, 4), "segment-63": (63, 0, 4), "segment-64": (64, 0, 4), "segment-max": (U32, 0, 4),
    "at-the-end": (0, SEGMENT, 4), "over-the-end": (0, SEGMENT - 3, 4), "far-behind": (0, 1 << 40, 4),
    "offset-wraps": (0, U64 - 3, 4), "offset-max": (0, U64, 4), "offset-half": (0, 1 << 63, 4),
}
for name, where in PLACES.items():
    lie(gone, f"upload-from-{name}")(upload([4], size=4, where=place(*where)))

    @lie(gone, f"download-into-{name}")
    def _(s, w=where):
        s.send(download_record(s.new(), s.a, 4, place(*w)))

    @lie(gone, f"operands-into-{name}")
    def _(s, w=where):
        s.send(operands_record(s.new(), 1, place(*w)))

    @lie(gone, f"results-from-{name}")
    def _(s, w=where):
        s.send(answer_record(1, results=place(*w)))

    @lie(gone, f"compile-from-{name}")
    def _(s, w=where):
        s.send(compile_record(s.new(), s.new(), place(*w)))

    @lie(gone, f"options-from-{name}")
    def _(s, w=where):
        s.send(compile_record(s.new(), s.new(), s.text(ADD), place(*w)))

    @lie(gone, f"load-from-{name}")
    def _(s, w=where):
        s.send(load_record(s.new(), s.new(), place(*w)))

    for what in (FACTS, OPTIMIZED, SEALED):
        @lie(gone, f"fetch-{what}-into-{name}")
        def _(s, w=where, what=what):
            s.send(fetch_record(s.new(), s.program, what, place(*w)))

for offset in (0, 1, U64):
    lie(gone, f"upload-of-everything-from-{offset}")(upload(FACTORS, size=U64, where=place(0, offset, U64)))
lie(gone, "upload-larger-than-the-segment")(upload([SEGMENT + 1], size=SEGMENT + 1, where=place(0, 0, SEGMENT + 1)))


# Lies about calls of a program.

lie(fine, "answer-to-no-call")(lambda s: s.send(answer_record(1, b"1234"), answer_record(0), answer_record(U64, b"no", code=13)))
lie(gone, "answer-longer-than-it-says")(lambda s: s.send(answer_record(1, bytes(64), tail_size=4)))
lie(gone, "answer-with-two-results")(lambda s: s.send(answer_record(1, b"1234", results=place(0, 0, 4))))
lie(gone, "answer-beyond-the-record")(lambda s: s.send(answer_record(1, bytes(4104))))


@lie(refused(INVALID_ARGUMENT), "operands-of-no-call")
def _(s):
    request = s.new()
    s.send(operands_record(request, 7, place(0, 0, 64)))
    return request


# Lies about ids.

lie(gone, "upload-as-0")(lambda s: s.send(upload_record(0, [4], b"1234")))
lie(gone, "upload-as-a-taken-id")(lambda s: s.send(upload_record(s.a, [4], b"1234")))
lie(gone, "copy-to-0")(lambda s: s.send(copy_record(s.a, 0)))
lie(gone, "copy-to-a-taken-id")(lambda s: s.send(copy_record(s.a, s.b)))
lie(gone, "copy-to-itself")(lambda s: s.send(copy_record(s.a, s.a)))


def poisoned(s, ident):
    """It has no request to answer: the copy is the error."""
    with pytest.raises(ValueError) as error:
        s.c.download(ident, 4)
    assert error.value.args[0] == INVALID_ARGUMENT and error.value.args[1].strip()
    s.works()


@lie(poisoned, "copy-of-nothing")
def _(s):
    to = s.new()
    s.send(copy_record(4711, to))
    return to


def download(find, size=4):
    def tell(s):
        request = s.new()
        s.send(download_record(request, find(s), size))
        return request
    return tell


lie(refused(INVALID_ARGUMENT), "download-of-nothing")(download(lambda s: 4711))
lie(refused(INVALID_ARGUMENT), "download-of-0")(download(lambda s: 0))
lie(refused(INVALID_ARGUMENT), "download-of-max")(download(lambda s: U64))
lie(refused(INVALID_ARGUMENT), "download-of-a-program")(download(lambda s: s.program))
lie(refused(), "download-of-less")(download(lambda s: s.a, 3))
lie(refused(), "download-of-more")(download(lambda s: s.a, 5))
lie(refused(), "download-of-0-bytes")(download(lambda s: s.a, 0))
lie(refused(), "download-of-4096-bytes")(download(lambda s: s.a, 4096))
lie(gone, "download-of-4097-bytes")(download(lambda s: s.a, 4097))
lie(gone, "download-of-2^64-1-bytes")(download(lambda s: s.a, U64))


def expose(find):
    def tell(s):
        request = s.new()
        s.send(expose_record(request, find(s)))
        return request
    return tell


lie(refused(INVALID_ARGUMENT), "expose-of-nothing")(expose(lambda s: 4711))
lie(refused(INVALID_ARGUMENT), "expose-of-0")(expose(lambda s: 0))
lie(refused(INVALID_ARGUMENT), "expose-of-a-program")(expose(lambda s: s.program))


@lie(fine, "expose-on-a-device-that-is-not-the-host")
def _(s):
    request = s.new()
    s.send(expose_record(request, s.a))
    assert s.c.answer(request)[-1] == bytes(16)


@lie(refused(), "download-of-more-into-the-arena")
def _(s):
    request = s.new()
    s.send(download_record(request, s.a, SEGMENT, place(0, 0, SEGMENT)))
    return request


@lie(gone, "download-into-another-size")
def _(s):
    s.send(download_record(s.new(), s.a, 4, place(0, 0, 5)))


@lie(refused(INVALID_ARGUMENT), "download-after-delete")
def _(s):
    ident, request = s.c.upload(b"gone"), s.new()
    s.send(delete_record(ident), download_record(request, ident, 4))
    return request


@lie(refused(INVALID_ARGUMENT), "download-of-another-session")
def _(s):
    with Client(s.daemon.path) as other:
        for _ in range(50):
            mine = other.upload(b"mine")
        assert other.download(mine, 4) == b"mine"
        request = s.new()
        s.send(download_record(request, mine, 4))
        return request


@lie(fine, "delete-of-nothing")
def _(s):
    s.send(delete_record(4711, 0, U64, s.program), delete_record())


@lie(fine, "delete-twice")
def _(s):
    ident = s.c.upload(b"once")
    s.send(delete_record(ident, ident), delete_record(ident))


for count in (0, 2, 1 << 29, 1 << 31, U32):
    lie(gone, f"delete-of-{count}-with-one-id")(lambda s, n=count: s.send(delete_record(4711, count=n)))


# Lies about iterations.


def execute(change, **counts):
    """An execute of the program, in which `change` has changed something."""
    def tell(s):
        fields = dict(request=s.new(), program=s.program, first=1000, outputs=1, args=[s.a, s.b], keep=[])
        fields.update(change(s))
        s.send(execute_record(**fields, **counts))
        return fields["request"]
    return tell


lie(refused(INVALID_ARGUMENT), "execute-of-nothing")(execute(lambda s: dict(program=4711)))
lie(refused(INVALID_ARGUMENT), "execute-of-0")(execute(lambda s: dict(program=0)))
lie(refused(INVALID_ARGUMENT), "execute-of-an-array")(execute(lambda s: dict(program=s.a)))
lie(refused(INVALID_ARGUMENT), "argument-unknown")(execute(lambda s: dict(args=[s.a, 4711])))
lie(refused(INVALID_ARGUMENT), "argument-0")(execute(lambda s: dict(args=[0, s.a])))
lie(refused(INVALID_ARGUMENT), "argument-is-own-output")(execute(lambda s: dict(args=[1000, s.a])))
lie(refused(), "arguments-missing")(execute(lambda s: dict(args=[s.a])))
lie(refused(), "no-arguments")(execute(lambda s: dict(args=[])))
lie(refused(), "an-argument-too-many")(execute(lambda s: dict(args=[s.a] * 3)))
lie(refused(), "65536-arguments")(execute(lambda s: dict(args=[s.a] * 65536)))
lie(gone, "65537-arguments")(execute(lambda s: dict(args=[s.a] * 65537)))
lie(gone, "no-outputs")(execute(lambda s: dict(outputs=0)))
lie(gone, "two-outputs")(execute(lambda s: dict(outputs=2)))
lie(gone, "65536-outputs")(execute(lambda s: dict(outputs=65536)))
lie(gone, "65537-outputs")(execute(lambda s: dict(outputs=65537)))
lie(gone, "2^32-1-outputs")(execute(lambda s: dict(outputs=U32)))
lie(gone, "output-as-0")(execute(lambda s: dict(first=0)))
lie(gone, "output-as-a-taken-id")(execute(lambda s: dict(first=s.a)))
lie(gone, "keeps-more-than-it-has")(execute(lambda s: dict(args=[s.a], keep=[0, 0])))
lie(fine, "keeps-what-is-not")(execute(lambda s: dict(keep=[99, U32])))
lie(fine, "request-0")(execute(lambda s: dict(request=0)))
for name, count in (("one-more", 3), ("one-less", 1), ("2^29", 1 << 29), ("2^32-1", U32)):
    lie(gone, f"arguments-said-{name}")(execute(lambda s: {}, arg_count=count))
for name, count in (("one", 1), ("2^30", 1 << 30), ("2^32-1", U32)):
    lie(gone, f"keep-said-{name}")(execute(lambda s: {}, retained_count=count))


@lie(gone, "outputs-wrap")
def _(s):
    program = s.c.compile(TWO)
    s.send(execute_record(s.new(), program, U64, 2))


@lie(gone, "outputs-overlap")
def _(s):
    program = s.c.compile(TWO)
    s.send(execute_record(s.new(), program, 5000, 2), execute_record(s.new(), program, 5001, 2))


@lie(refused(), "arguments-of-another-size")
def _(s):
    short, request = s.c.upload(b"123"), s.new()
    s.send(execute_record(request, s.program, 1000, 1, [short, s.a]))
    return request


@lie(refused(), "computed-from-what-failed")
def _(s):
    request = s.new()
    s.send(execute_record(s.new(), s.program, 1000, 1, [s.a, 4711]),
           execute_record(request, s.program, 1001, 1, [1000, s.a]))
    return request


@lie(refused(INVALID_ARGUMENT), "execute-after-unload")
def _(s):
    program, request = s.c.compile(TWO), s.new()
    s.send(unload_record(program), execute_record(request, program, 1000, 2))
    return request


@lie(refused(INVALID_ARGUMENT), "download-after-donation")
def _(s):
    program, given, request = s.c.compile(TAKES), s.c.upload(b"give"), s.new()
    assert s.c.download(s.c.run(program, [given]), 4) == b"give"
    s.send(download_record(request, given, 4))
    return request


@lie(refused(INVALID_ARGUMENT), "donated-twice")
def _(s):
    program, given, request = s.c.compile(TAKES), s.c.upload(b"give"), s.new()
    s.send(execute_record(s.new(), program, 1000, 1, [given]), execute_record(request, program, 1001, 1, [given]))
    return request


@lie(refused(13), "program-that-fails")
def _(s):
    program, request = s.c.compile("fake 1\noutput u8 4 = fill 1\nfail 13 on purpose\n"), s.new()
    s.send(execute_record(request, program, 1000, 1))
    return request


@lie(refused(8), "program-that-is-refused")
def _(s):
    program, request = s.c.compile("fake 1\noutput u8 4 = fill 1\nrefuse 8 too large\n"), s.new()
    s.send(execute_record(request, program, 1000, 1))
    return request


@lie(fine, "one-request-number-for-all")
def _(s):
    s.send(*[download_record(77, s.a, 4) for _ in range(100)])
    for _ in range(100):
        assert s.c.answer(77)[4] == b"\1\2\3\4"


@lie(gone, "output-id-of-a-pending-iteration")
def _(s):
    program = s.c.compile(SLOW)
    s.send(execute_record(s.new(), program, 1000, 1), upload_record(1000, [4], b"1234"))


@lie(gone, "dies-amid-its-iteration")
def _(s):
    program = s.c.compile(SLOW)
    s.send(*[execute_record(s.new(), program, 1000 + i, 1) for i in range(8)], record(77, bytes(8)))


# Lies about programs.


def compiled(text, **changes):
    def tell(s):
        request = s.new()
        s.send(compile_record(request, s.new(), s.text(text), **changes))
        return request
    return tell


lie(refused(), "compile-of-nothing")(compiled(""))
lie(refused(), "compile-of-garbage")(compiled(bytes(range(256)) * 16))
lie(refused(), "compile-of-8-MiB-of-garbage")(compiled(b"fake 1\n" + b"x" * (8 << 20)))
lie(refused(9), "compile-rejected")(compiled("fake 1\nreject 9 no\n"))
lie(refused(), "compile-crashes")(compiled("fake 1\ncrash\n"))
lie(gone, "format-without-end")(compiled(ADD, form=b"x" * 16))
lie(refused(INVALID_ARGUMENT), "format-unknown")(compiled(ADD, form=b"cobol"))


@lie(refused(INVALID_ARGUMENT), "options-garbage")
def _(s):
    request = s.new()
    s.send(compile_record(request, s.new(), s.text(ADD), s.text(b"\xff" * 100, 2 << 20)))
    return request


@lie(refused(INVALID_ARGUMENT), "options-name-a-file")
def _(s):
    def field(number, body):
        tag = number << 3 | 2
        head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
        return head + bytes([len(body)]) + body

    request = s.new()
    options = field(3, field(3, field(127, b"/etc/passwd")))
    s.send(compile_record(request, s.new(), s.text(ADD), s.text(options, 2 << 20)))
    return request


lie(gone, "compile-as-a-taken-id")(lambda s: s.send(compile_record(s.new(), s.program, s.text(ADD))))


@lie(refused(), "compile-as-0")
def _(s):
    request = s.new()
    s.send(compile_record(request, 0, s.text(ADD)))
    return request


@lie(fine, "two-compiles-as-one-id")
def _(s):
    s.send(compile_record(501, 900, s.text(ADD)), compile_record(502, 900, s.text(TWO, 2 << 20)))
    codes = sorted(s.c.answer(request, 3)[2] for request in (501, 502))
    assert codes[0] == 0 and codes[1] > 0


def loaded(change):
    """A sealed program, changed, and loaded again."""
    def tell(s):
        request = s.new()
        s.send(fetch_record(request, s.program, SEALED))
        size = s.c.answer(request, 3)[3]
        request = s.new()
        s.send(fetch_record(request, s.program, SEALED, place(0, 0, size)))
        assert s.c.answer(request, 3)[2] == 0
        blob = change(bytearray(s.c.segments[0][:size]))
        request = s.new()
        s.send(load_record(request, s.new(), s.c.put(8 << 20, bytes(blob))))
        return request
    return tell


def flip(at):
    def change(blob):
        blob[at] ^= 1
        return blob
    return change


def loads_well(s, request):
    assert s.c.answer(request, 3)[2] == 0
    s.works()


lie(loads_well, "load-of-what-was-sealed")(loaded(lambda blob: blob))
for at in (0, 8, 40, -1):
    lie(refused(), f"load-with-byte-{at}-flipped")(loaded(flip(at)))
lie(refused(), "load-cut-short")(loaded(lambda blob: blob[:-1]))
lie(refused(), "load-of-nothing")(loaded(lambda blob: b""))
lie(refused(), "load-of-one-byte")(loaded(lambda blob: b"x"))
lie(refused(), "load-of-garbage")(loaded(lambda blob: random.Random(1).randbytes(len(blob))))
lie(refused(), "load-with-more")(loaded(lambda blob: blob + b"x"))
lie(gone, "load-as-a-taken-id")(lambda s: s.send(load_record(s.new(), s.program, s.text(b"x"))))


def fetch(find, what=FACTS, into=None):
    def tell(s):
        request = s.new()
        s.send(fetch_record(request, find(s), what, into))
        return request
    return tell


for what in (FACTS, OPTIMIZED, SEALED):
    lie(refused(NOT_FOUND), f"fetch-{what}-of-nothing")(fetch(lambda s: 4711, what))
lie(gone, "fetch-of-3")(fetch(lambda s: s.program, 3))
lie(gone, "fetch-of-max")(fetch(lambda s: s.program, U32))


@lie(refused(NOT_FOUND), "fetch-before-the-compile-is-done")
def _(s):
    request = s.new()
    s.send(compile_record(s.new(), 900, s.text("fake 1\noutput u8 9 = fill 3\n")), fetch_record(request, 900, FACTS))
    return request


@lie(fine, "fetch-into-too-little")
def _(s):
    s.c.put(0, b"\xEE" * 64)
    for what in (FACTS, OPTIMIZED, SEALED):
        request = s.new()
        s.send(fetch_record(request, s.program, what, place(0, 0, 8)))
        _, _, code, size, _ = s.c.answer(request, 3)
        assert code == 0 and size > 8
    assert s.c.segments[0][:64] == b"\xEE" * 64


@lie(fine, "unload-of-nothing")
def _(s):
    s.send(unload_record(4711), unload_record(0), unload_record(U64), unload_record(s.a))


@lie(fine, "unload-twice")
def _(s):
    program = s.c.compile(TWO)
    s.send(unload_record(program), unload_record(program))


# Lies on the socket after the greeting.


def grows(size, *codes):
    def tell(s):
        code, _, got = s.c.grow(size)
        assert code in codes
        assert code or got >= size
    return tell


lie(fine, "grow-by-0")(grows(0, 0))
for size in (ARENA, 1 << 40, 1 << 62, (1 << 62) + 1, 1 << 63, 1 << 63 | 1, U64):  # with 1 << 63: a block
    lie(fine, f"grow-by-{size}")(grows(size, RESOURCE_EXHAUSTED))


@lie(fine, "grow-beyond-the-limit")
def _(s):
    codes = [s.c.grow(1)[0] for _ in range(70)]
    assert codes[:3] == [0, 0, 0] and set(codes[3:]) == {RESOURCE_EXHAUSTED}


@lie(fine, "half-a-grow")
def _(s):
    s.c.socket.sendall(struct.pack("<I", 1))
    s.works()
    s.c.socket.sendall(struct.pack("<I", 0))
    assert s.c.grown()[0] == 0


@lie(fine, "garbage-on-the-socket")
def _(s):
    """Eight bytes are a wish for so much memory, one after the other."""
    for wish in range(20):
        s.c.socket.sendall(random.Random(wish).randbytes(7) + b"\x7f")
        assert s.c.grown()[0] == RESOURCE_EXHAUSTED


@lie(fine, "hello-again")
def _(s):
    """It is taken for 23 wishes."""
    s.c.socket.sendall(hello())
    for _ in range(HELLO.size // 8):
        assert s.c.grown()[0] in (0, RESOURCE_EXHAUSTED)


@lie(fine, "question-of-a-session")
def _(s):
    """One wish, and the beginning of another."""
    s.c.socket.sendall(b'{"op": "ping"}\n')
    assert s.c.grown()[0] == RESOURCE_EXHAUSTED


@lie(gone, "asks-to-grow-and-never-listens")
def _(s):
    s.c.socket.settimeout(0.2)
    try:
        for _ in range(200):
            s.c.socket.sendall(struct.pack("<Q", U64) * 1000)
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        pass
    wait_until(lambda: s.c.hung_up(), 5, "the daemon to hang up")


@lie(fine, "half-closed-socket-is-open")
def _(s):
    s.c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)


@lie(gone, "half-closed-socket")
def _(s):
    s.c.socket.shutdown(socket.SHUT_WR)


# Greed.


@lie(gone, "never-reads-its-completions")
def _(s):
    """4 MiB fit into the ring and 64 MiB are kept for it; the rest is its end."""
    ident = s.c.upload(bytes(4096))
    batch = [download_record(i, ident, 4096) for i in range(1000)]
    tail = s.c.submit
    for _ in range((RING + BACKLOG) // 4096 // 1000 + 8):
        s.send(*batch)
        end = soon(5)
        while tail.words[8] != tail.at and time.monotonic() < end and not s.c.hung_up():
            time.sleep(0.001)
        if s.c.hung_up():
            return
    wait_until(lambda: s.c.ring() or s.c.hung_up(), 5, "the daemon to hang up")


def stream(s, records, batch=1000):
    """Sends many, as fast as the daemon takes them."""
    ring = s.c.submit
    for start in range(0, len(records), batch):
        s.send(*records[start:start + batch])
        wait_until(lambda: ring.words[8] == ring.at or s.c.hung_up(), 20, "the daemon to follow")


@lie(fine, "a-chain-of-60000-copies")
def _(s):
    """All wait for one iteration, each for the one before."""
    program = s.c.compile(SLOW)
    s.send(execute_record(s.new(), program, 1000, 1), execute_record(901, program, 1001, 1))
    stream(s, [copy_record(1001 + i, 1002 + i) for i in range(60000)])
    s.c.answer(901, 3)


@lie(fine, "a-hundred-thousand-arrays")
def _(s):
    """The end of a session that holds much is no burden to others."""
    with Client(s.daemon.path) as rich:
        other = Stage.__new__(Stage)
        other.c = rich
        stream(other, [upload_record(i, [1], b"x") for i in range(1, 100001)])
        rich.download(1, 1, seconds=5)
    with Client(s.daemon.path) as c:  # while the other's ends
        assert c.download(c.upload(b"now"), 3, seconds=1) == b"now"


def collisions(count):
    """Ids that an unkeyed idmap puts into one place."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)

    def undo_shift(value, by):
        result = value
        for _ in range(64 // by + 1):
            result = value ^ result >> by
        return result

    return [undo_shift(undo_shift(k << 40, 29) * inverse & U64, 31) for k in range(1, count + 1)]


@lie(fine, "ids-that-collide")
def _(s):
    start = s.daemon.cpu_seconds()
    stream(s, [upload_record(i, [1], b"x") for i in collisions(20000)])
    plain = s.daemon.cpu_seconds() - start
    start = s.daemon.cpu_seconds()
    stream(s, [upload_record(i << 40, [1], b"x") for i in range(1, 20001)])
    assert plain < 10 * (s.daemon.cpu_seconds() - start) + 0.2


@lie(all_refused, "compiles-far-too-much")
def _(s):
    """Each record names a whole segment; together they are far more than it may have copied."""
    before = s.daemon.own_bytes()
    s.c.put(0, b"fake 1\n")
    s.send(*[compile_record(i, i + 10000, place(0, 0, SEGMENT)) for i in range(500, 540)])
    with Client(s.daemon.path) as c:
        assert c.download(c.upload(b"now"), 3, seconds=2) == b"now"
    wait_until(lambda: s.c.hung_up() or s.c.submit.words[8] == s.c.submit.at, 20, "the daemon to follow")
    assert has_sanitizer() or s.daemon.own_bytes() - before < 1 << 30
    return range(500, 540)


@lie(all_refused, "waits-for-far-too-much")
def _(s):
    """Each download waits for an iteration, and would have the daemon keep a page for it."""
    program = s.c.compile(SLOW)
    before = s.daemon.own_bytes()
    s.send(*[execute_record(s.new(), program, 1000 + i, 1) for i in range(8)])
    stream(s, [download_record(1 << 40, 1007, 4096)] * 100000, batch=10000)
    assert has_sanitizer() or s.daemon.own_bytes() - before < 200 << 20
    return [1 << 40] * 100000


# Doorbells.


@lie(fine, "a-bell-that-blocks")
def _(s):
    """The daemon must not wait when it rings, whatever the client does to its end."""
    for bell in (s.c.bell, s.c.our_bell):
        fcntl.fcntl(bell, fcntl.F_SETFL, 0)
    for _ in range(70000):  # more than any pipe holds, and never read
        s.c.complete.words[9] = 1
        s.c.submit.write(download_record(1 << 40, 4711, 4))
        if s.c.submit.at - s.c.submit.words[8] > RING // 2 or s.c.submit.at % 4096 < 64:
            s.c.submit.show()
            os.write(s.c.bell, b"!")
            while s.c.submit.at != s.c.submit.words[8] and not s.c.hung_up():
                s.c.complete.words[9] = 1
            while s.c.complete.take():
                pass
    s.c.submit.show()
    s.c.ring()


@lie(gone, "a-bell-that-outlives-its-session")
def _(s):
    """Rung after the end, it wakes nobody: no thread of the daemon spins."""
    s.send(record(77, bytes(8)))
    gone(s, None)
    for _ in range(10):
        s.c.ring()
        wait_until(s.daemon.is_at_rest, 5, "all threads of salusd to be at rest")


@lie(fine, "rings-without-end")
def _(s):
    for _ in range(100000):
        s.c.ring()


@pytest.mark.parametrize("tell, outcome", LIES)
def test_lie(daemon, tell, outcome):
    s = Stage(daemon)
    try:
        outcome(s, tell(s))
    finally:
        s.c.close()


# Greetings.


def greet(daemon, data):
    """Send bytes, and say what came: ("gone"), ("welcome", code, reason), or ("silence")."""
    with connect(daemon.path) as s:
        s.settimeout(4 * PATIENCE)
        try:
            s.sendall(data)
            fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
        except (HungUp, BrokenPipeError):
            return ("gone",)
        except Silence:
            return ("silence",)
        for fd in fds:
            os.close(fd)
        return ("welcome", fields[4], fields[-1].rstrip(b"\0").decode())


GONE = {
    "wrong-magic": hello(magic=MAGIC ^ 1), "no-magic": hello(magic=0), "zeros": bytes(184),
    "size-183": hello(size=183), "size-0": hello(size=0), "name-without-end": hello(name=b"x" * 128),
    "garbage": random.Random(3).randbytes(500), "all-ones": b"\xff" * 184,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Filler: nothing\r\n" * 20 + b"\r\n",
}


@pytest.mark.parametrize("data", GONE.values(), ids=GONE.keys())
def test_no_hello(daemon, data):
    assert greet(daemon, data) == ("gone",)


def test_silence_after_a_beginning(daemon):
    """Whoever does not come to the point is hung up on, all at their time."""
    beginnings = (hello()[:92], hello()[:-1], b"S", b"", b"GET / HTTP/1.1\r\n\r\n", b'{"op": "pi', b"{",
                  hello(size=1000), b'{"op": "ping"}')
    crowd = [connect(daemon.path) for _ in beginnings]
    end = soon(4)
    for s, beginning in zip(crowd, beginnings):
        s.sendall(beginning)
    for s, beginning in zip(crowd, beginnings):
        s.settimeout(max(0.01, end - time.monotonic()))
        assert s.recv(1) == b"", beginning
        s.close()


@pytest.mark.parametrize("major", (0, 2, 77, U32))
def test_other_major(daemon, major):
    """It is told why."""
    outcome, code, reason = greet(daemon, hello(major=major))
    assert (outcome, code) == ("welcome", FAILED_PRECONDITION)
    assert str(major) in reason


WELCOME_TO = {
    "weight-0": dict(weight_milli=0), "weight-max": dict(weight_milli=1000000), "priority-max": dict(priority=U32),
    "time-max": dict(total_ns=U64), "minor-max": dict(minor=U32),
    "reserved": dict(reserved=U32), "no-name": dict(name=b""), "not-utf-8": dict(name=b"\xff\xfe\x80"),
    "longest-name": dict(name=b"x" * 127),
}


@pytest.mark.parametrize("changes", WELCOME_TO.values(), ids=WELCOME_TO.keys())
def test_odd_but_welcome(daemon, changes):
    s = Stage(daemon, **changes)
    s.works()
    assert any(x["id"] == s.c.session for x in daemon.sessions())
    s.c.close()


def test_needs_beyond_the_device(daemon):
    with pytest.raises(HungUp, match="out of memory.*all of the device"):
        Stage(daemon, persist_bytes=U64, ephem_bytes=U64)


def test_a_name_cannot_forge_the_log(daemon):
    Stage(daemon, name=b"x\n2026-01-01T00:00:00.000Z error server: forged").c.close()
    assert not any(line.endswith("forged") and line.startswith("2026-01-01") for line in daemon.log.splitlines())


@pytest.mark.parametrize("minor, size, tail, deadline_s", [
    (2, 184, b"", None), (3, 188, b"\xff" * 4, None), (3, 192, struct.pack("<Q", 20_000_000), 0.02)])
def test_hellos_of_all_lengths(daemon, minor, size, tail, deadline_s):
    """Before 1.3 a hello ended with the name."""
    with connect(daemon.path) as s:
        s.sendall(hello(minor=minor, size=size, name=b"of %d" % size) + tail)
        fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
        receive(s, fields[8], fds)
        (session,) = [each for each in daemon.sessions() if each["name"] == f"of {size}"]
        assert session["deadline_s"] == deadline_s
        assert (session["kind"], session["kind_found"]) == ("inference" if deadline_s else "training", False)
        for fd in fds:
            os.close(fd)


def test_hello_of_a_later_minor(daemon):
    """Its tail is skipped, not taken for something else."""
    with connect(daemon.path) as s:
        s.sendall(hello(minor=9, size=184 + 64) + b"\0" * 64)
        fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
        receive(s, fields[8])
        s.settimeout(0.2 * PATIENCE)
        with pytest.raises(Silence):
            receive(s, 1, fds)
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("minor, bytes_behind", [(0, 0), (1, 0), (2, 64), (77, 64)])
def test_memory_is_as_the_minor_has_it(daemon, minor, bytes_behind):
    """Clients check the size of the rings' memory, so only those get more of it who know what it is."""
    s = Stage(daemon, minor=minor)
    assert os.fstat(s.c.fds[0]).st_size == 2 * (DATA + RING) + bytes_behind
    s.works()
    s.c.close()


def test_a_holding_is_told_and_never_believed(daemon):
    with Client(daemon.path, minor=2) as c:
        def ps():
            return next(s for s in daemon.sessions() if s["id"] == c.session)

        limit, persist, peak = c.holding()
        assert limit > 0 and (persist, peak) == (0, 0)
        first, second = c.upload(b"x" * 1000), c.upload(b"y" * 3000)
        c.download(second, 3000)
        assert c.holding() == (limit, 4000, 4000)
        c.memory[c.behind:c.behind + HOLDING.size] = b"\xff" * HOLDING.size
        assert (ps()["persist_bytes"], ps()["limit_bytes"]) == (4000, 0)
        c.send(delete_record(first))
        c.download(second, 3000)
        assert c.holding() == (limit, 3000, 4000)
        answer = ask(daemon.path, json.dumps({"op": "set", "job": c.session, "memory": 1 << 21}).encode() + b"\n")
        assert json.loads(answer)["ok"], answer
        assert c.holding() == (1 << 21, 3000, 4000)


def test_hello_byte_by_byte(daemon):
    with connect(daemon.path) as s:
        for byte in hello():
            s.sendall(bytes([byte]))
        fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
        assert fields[4] == 0 and len(fds) == 4
        for fd in fds:
            os.close(fd)


def test_descriptors_are_not_taken(daemon):
    before = daemon.holdings()["descriptors"]
    with connect(daemon.path) as s, open("/dev/null") as null:
        socket.send_fds(s, [hello()[:50]], [null.fileno()] * 100)
        socket.send_fds(s, [hello()[50:]], [null.fileno()] * 100)
        fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
        assert fields[4] == 0
        assert daemon.holdings()["descriptors"] - before < 10
        for fd in fds:
            os.close(fd)


# Questions.

QUESTIONS = {
    "empty-object": (b"{}\n", "INVALID_ARGUMENT"), "only-a-brace": (b"{\n", "INVALID_ARGUMENT"),
    "op-is-a-number": (b'{"op": 5}\n', "INVALID_ARGUMENT"), "op-is-null": (b'{"op": null}\n', "INVALID_ARGUMENT"),
    "unknown-op": (b'{"op": "rm"}\n', "UNIMPLEMENTED"), "twice": (b'{"op": "ping", "op": "ps"}\n', "INVALID_ARGUMENT"),
    "not-utf-8": (b'{"op": "\xff\xfe"}\n', "INVALID_ARGUMENT"), "a-nul": (b'{"op": "ping\0"}\n', "INVALID_ARGUMENT"),
    "escaped-nul": (b'{"op": "ping\\u0000"}\n', "INVALID_ARGUMENT"), "trailing": (b'{"op": "ping"} x\n', "INVALID_ARGUMENT"),
    "deep": (b'{"op":' + b"[" * 20000 + b"]" * 20000 + b"}\n", "INVALID_ARGUMENT"),
    "binary": (b"{" + bytes(range(11, 256)) + b"\n", "INVALID_ARGUMENT"),
    "huge-number": (b'{"op": ' + b"9" * 60000 + b"}\n", "INVALID_ARGUMENT"),
    "long-line": (b'{"op": "' + b"x" * 65000 + b'"}\n', "UNIMPLEMENTED"),
}


@pytest.mark.parametrize("line, code", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_question(daemon, line, code):
    answer = json.loads(ask(daemon.path, line))
    assert answer["ok"] is False and answer["code"] == code and answer["error"]


def test_a_line_without_end(daemon):
    assert ask(daemon.path, b"{" + b"x" * (1 << 20)) == b""
    assert ask(daemon.path, b'{"op": "' + b"x" * (1 << 20) + b'"}\n') == b""


def test_one_question_one_answer(daemon):
    assert ask(daemon.path, b'{"op": "ping"}\n' * 50).count(b"\n") == 1


# Crowds.


def test_a_thousand_connections(daemon, keeper):
    """That say nothing. Others are served meanwhile."""
    crowd = []
    try:
        for _ in range(1000):
            crowd.append(connect(daemon.path))
        keeper.honest.works()
        with Client(daemon.path) as c:
            assert c.download(c.upload(b"new"), 3) == b"new"
    finally:
        for s in crowd:
            s.close()


def test_a_hundred_sessions(daemon, keeper):
    crowd = []
    try:
        for _ in range(100):
            crowd.append(Client(daemon.path))
        keeper.honest.works()
        for c in crowd[::10]:
            assert c.download(c.upload(b"new"), 3) == b"new"
    finally:
        for c in crowd:
            c.close()


def test_no_descriptors_left(tmp_path):
    """Those who come when there are none are turned away or wait; nobody spins, and it passes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, limit[1]))
    try:
        d = Daemon(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    crowd = []
    try:
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (80, 80))
        old = Stage(d)
        for _ in range(100):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.connect(str(d.path))
            crowd.append(s)
        wait_until(d.is_at_rest, 10, "all threads of salusd to be at rest")
        old.works()
        wait_until(d.is_at_rest, 10, "all threads of salusd to be at rest")
        for s in crowd:
            s.close()
        crowd = []
        old.works()
        wait_until(d.answers, 5, "salusd to recover")
        with Client(d.path) as c:
            assert c.download(c.upload(b"new"), 3) == b"new"
        old.c.close()
        d.stop()
    finally:
        for s in crowd:
            s.close()
        d.process.kill()
        d.process.wait()


@pytest.mark.parametrize("policy", ("fifo", "fair"))
def test_two_that_end_at_once(tmp_path, policy):
    """One's end gives the other its turn, and the other ends too."""
    d = Daemon(tmp_path, "--policy", policy)
    try:
        bad = record(77, bytes(8))
        for i in range(60):
            with Client(d.path, name=b"first") as a, Client(d.path, name=b"second") as b:
                program, other = a.compile(SLOW.replace("300000000", "100000")), b.compile(ADD)
                for _ in range(3):
                    a.run(program, [])
                x = b.upload(b"1234")
                b.send(*[execute_record(1000 + k, other, 1000 + k, 1, [x, x]) for k in range(3)])
                if i % 2:
                    a.socket.shutdown(socket.SHUT_RDWR)
                    b.socket.shutdown(socket.SHUT_RDWR)
                else:
                    for c in (a, b):
                        c.submit.write(bad)
                    for c in (a, b):
                        c.submit.show()
                    a.ring()
                    b.ring()
        wait_until(lambda: not d.sessions(), 5, "all sessions to end")
        with Client(d.path) as c:
            assert c.download(c.upload(b"new"), 3) == b"new"
        log = d.stop()
        assert "Sanitizer" not in log, log[-6000:]
    finally:
        d.process.kill()
        d.process.wait()


# Afterwards.


def test_all_lies_leave_nothing_behind(tmp_path):
    """Every lie in one fresh daemon: descriptors, threads, mappings and memory are as before, and its log is clean."""
    d = Daemon(tmp_path, "--arena", str(ARENA))
    greedy = {"a-chain-of-60000-copies", "compiles-far-too-much", "a-bell-that-blocks", "a-hundred-thousand-arrays",
              "never-reads-its-completions", "ids-that-collide", "waits-for-far-too-much"}
    try:
        def all_lies():
            for case in LIES:
                if case.id in greedy:
                    continue
                tell, outcome = case.values
                with Client(d.path) as c:
                    s = Stage.__new__(Stage)
                    s.daemon, s.c = d, c
                    s.program, s.a, s.b = c.compile(ADD), c.upload(b"\1\2\3\4"), c.upload(b"\5\6\7\1")
                    try:
                        outcome(s, tell(s))
                    except (AssertionError, HungUp, Silence):
                        pass  # judged elsewhere
            wait_until(lambda: not d.sessions(), 5, "all sessions to end")

        all_lies()
        before, own = d.holdings(), d.own_bytes()
        all_lies()
        wait_until(lambda: d.is_back_at(before), 5,
                   f"salusd to let go: {before}, {d.holdings()}")
        if not has_sanitizer():
            assert d.own_bytes() - own < (16 + 8) << 20  # 8: the trace's ring, as it fills
        log = d.stop()
        assert "Sanitizer" not in log, log[-6000:]
    finally:
        d.process.kill()
        d.process.wait()
