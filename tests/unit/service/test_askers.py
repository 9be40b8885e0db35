# SPDX-License-Identifier: Apache-2.0
"""Those who ask and do not listen, say nothing, or come and go; and a log that nobody reads. Nobody else notices.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import fcntl
import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from liar import (BUILD, PATIENCE, WELCOME, Client, Daemon, HungUp, ask, connect, hello,  # noqa: E402
                  receive, wait_until)

ADD = "fake 1\noutput u8 4 = add 0 1\n"
SILENT_MAX, TAKING_MAX, FDS_MAX = 48, 96, 4  # user-strangers, user-questions; src/service/client/connections.h
MANY = [word for what in ("sessions", "arena") for scope in ("user", "daemon")
        for word in ("--limit", f"{scope}-{what}=none")]
MIB = 1 << 20


@pytest.fixture
def daemon(tmp_path):
    d = Daemon(tmp_path, *MANY)
    yield d
    d.process.kill()
    d.process.wait()
    assert "Sanitizer" not in d.log, d.log[-6000:]


@pytest.fixture
def crowd():
    """Sockets, closed at the end."""
    sockets = []
    yield sockets
    for s in sockets:
        s.close()


def join(daemon, **changes):
    """A session that does nothing: its socket."""
    s = connect(daemon.path)
    s.sendall(hello(**changes))
    fields = WELCOME.unpack(receive(s, WELCOME.size, fds := []))
    for fd in fds:
        os.close(fd)
    if fields[4]:
        s.close()
        raise HungUp(fields[-1].rstrip(b"\0").decode())
    receive(s, fields[8])
    return s


def ask_unread(daemon, op):
    """Somebody who asks and leaves the answer where it is."""
    s = connect(daemon.path)
    s.sendall(json.dumps({"op": op}).encode() + b"\n")
    return s


def question(daemon, op, **more):
    return json.loads(ask(daemon.path, json.dumps({"op": op, **more}).encode() + b"\n"))


def works(daemon):
    with Client(daemon.path) as c:
        program = c.compile(ADD)
        out = c.run(program, [c.upload(b"\1\2\3\4"), c.upload(b"\1\1\1\1")])
        return c.download(out, 4) == b"\2\3\4\5"


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def allow_files(count):
    """This process opens that many."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[0] < count:
        if limit[1] < count:
            pytest.skip("few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, limit[1]))


# Answers that nobody takes.


def test_ps_of_many_sessions_unread(daemon, crowd):
    allow_files(2000)
    for i in range(600):
        crowd.append(join(daemon, name=b"job-%d" % i))
    sessions = question(daemon, "ps")["sessions"]
    assert [s["name"] for s in sessions] == [f"job-{i}" for i in range(600)]
    files, own = descriptors(daemon), daemon.own_bytes()
    askers = [ask_unread(daemon, "ps") for _ in range(600)]
    assert question(daemon, "ping")["ok"]
    assert len(question(daemon, "ps")["sessions"]) == 600
    assert works(daemon)
    assert descriptors(daemon) - files <= TAKING_MAX + SILENT_MAX
    if PATIENCE == 1:  # a sanitizer keeps what is freed
        assert daemon.own_bytes() - own < 80 * MIB
    for s in askers:
        s.close()
    wait_until(lambda: descriptors(daemon) <= files, 5, "descriptors to be closed")


def test_an_answer_comes_in_pieces_to_who_reads_slowly(daemon, crowd):
    for i in range(300):
        crowd.append(join(daemon, name=b"x" * 100))
    s = ask_unread(daemon, "ps")
    crowd.append(s)
    assert question(daemon, "ping")["ok"]
    text = b""
    while part := s.recv(1000):
        text += part
    assert text.endswith(b"\n") and len(json.loads(text)["sessions"]) == 300
    assert len(text) > 100_000  # more than a socket takes at once


def test_a_question_before_half_a_hang_up(daemon):
    """Who says that it will say no more still gets its answer."""
    with connect(daemon.path) as s:
        s.sendall(b'{"op": "ps"}\n')
        s.shutdown(socket.SHUT_WR)
        assert json.loads(receive_all(s))["ok"]


def receive_all(s):
    text = b""
    while part := s.recv(65536):
        text += part
    return text


# Traces.


def take(s):
    """(answer, descriptor or None) of a question that was left unread; None if it was dropped."""
    s.settimeout(1 * PATIENCE)
    try:
        text, fds, _, _ = socket.recv_fds(s, 65536, 4)
    except (ConnectionResetError, TimeoutError):
        return None
    return (json.loads(text), fds[0] if fds else None) if text else None


def trace(daemon):
    """(answer, descriptor) of an honest question."""
    with ask_unread(daemon, "trace") as s:
        return take(s)


def test_traces_unread(daemon, crowd):
    """They are few, share their memory, and do not keep others from theirs."""
    assert works(daemon)
    files = descriptors(daemon)
    for _ in range(120):
        crowd.append(ask_unread(daemon, "trace"))
    assert question(daemon, "ping")["ok"]
    assert descriptors(daemon) - files <= 2 * FDS_MAX + SILENT_MAX

    def is_served():
        answer, fd = trace(daemon)
        if fd is not None:
            os.close(fd)
        assert answer["ok"] or answer["code"] == "RESOURCE_EXHAUSTED", answer
        return answer["ok"]

    wait_until(is_served, 5, "a trace")
    taken = [t for t in map(take, crowd) if t]
    fds = [fd for _, fd in taken if fd is not None]
    memory = {os.fstat(fd).st_ino for fd in fds}
    for fd in fds:
        os.close(fd)
    assert 1 <= len(memory) <= FDS_MAX
    assert all(a["ok"] or "try again" in a["error"] for a, _ in taken)
    assert any(not a["ok"] for a, _ in taken)


def test_a_trace_is_taken_back(daemon, crowd):
    """Neither one that was taken and kept nor one that was never read costs the daemon memory for long."""
    assert works(daemon)
    answer, fd = trace(daemon)
    assert answer["ok"] and os.fstat(fd).st_blocks > 0
    assert os.pread(fd, 8, 0) != bytes(8)
    unread = ask_unread(daemon, "trace")
    crowd.append(unread)
    wait_until(lambda: os.fstat(fd).st_blocks == 0, 20, "the memory to go")
    assert os.pread(fd, 8, 0) == bytes(8)  # who copies it now sees that it came too late
    os.close(fd)
    maps = f"/proc/{daemon.pid}/fd"
    wait_until(lambda: not any("salus-trace" in os.readlink(f"{maps}/{f}") for f in os.listdir(maps)), 20,
               "descriptors to be closed")
    answer, fd = trace(daemon)
    assert answer["ok"]
    os.close(fd)


# Those who say nothing.


def test_silent_connections_are_few(daemon, crowd):
    allow_files(2000)
    files = descriptors(daemon)
    for _ in range(1000):
        crowd.append(connect(daemon.path))
        if len(crowd) % 100 == 0:
            assert question(daemon, "ping")["ok"]
    wait_until(lambda: descriptors(daemon) - files <= SILENT_MAX, 5, "the oldest to be closed")
    assert works(daemon)


def test_a_question_when_no_descriptor_is_left(tmp_path, crowd):
    """Sessions have them all; one is kept for whoever looks after them."""
    d = Daemon(tmp_path)
    try:
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (descriptors(d) + 20, 4096))
        with pytest.raises(HungUp):
            while True:
                crowd.append(join(d))
        assert crowd
        for _ in range(3):
            assert len(question(d, "ps")["sessions"]) == len(crowd)
        crowd.pop().close()
        wait_until(lambda: len(question(d, "ps")["sessions"]) == len(crowd), 5, "the session to end")
    finally:
        d.process.kill()
        d.process.wait()


# The log.


def full_pipe(path):
    """A FIFO that takes nothing more."""
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 65536)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        return fd


class Reader:
    """All that has come out of a pipe."""

    def __init__(self, fd):
        self.fd, self.text = fd, b""

    def has(self, words):
        try:
            while part := os.read(self.fd, 65536):
                self.text += part
        except BlockingIOError:
            pass
        return words in self.text


@pytest.mark.parametrize("way", ["--log", "stderr"])
def test_a_log_that_nobody_reads(tmp_path, way):
    fd = full_pipe(tmp_path / "pipe")
    options = ["--log", tmp_path / "pipe"] if way == "--log" else []
    if way == "stderr":
        os.symlink("pipe", tmp_path / "log")  # the daemon's stdout and stderr
    d = Daemon(tmp_path, *options)
    try:
        for _ in range(300):
            join(d).close()
        assert works(d)
        assert question(d, "ps")["ok"]
        reader = Reader(fd)
        wait_until(lambda: reader.has(b"server: ready") and reader.has(b" left out "), 5, "the log")
        assert reader.text.startswith(b"x" * 65536)
        d.process.terminate()
        assert d.process.wait(10 * PATIENCE) == 0
    finally:
        d.process.kill()
        d.process.wait()
        os.close(fd)


def test_the_end_does_not_wait_for_the_log(tmp_path):
    fd = full_pipe(tmp_path / "pipe")
    d = Daemon(tmp_path, "--log", tmp_path / "pipe")
    try:
        assert works(d)
        d.process.terminate()
        assert d.process.wait(10 * PATIENCE) == 0
    finally:
        d.process.kill()
        d.process.wait()
        os.close(fd)


def test_who_comes_and_goes_does_not_fill_the_log(daemon):
    for _ in range(600):
        join(daemon).close()
    wait_until(lambda: " left out " in daemon.log, 5, "the count")
    assert daemon.log.count("session: opened") < 500
    assert works(daemon)


def test_the_log_is_bounded(tmp_path):
    log = tmp_path / "salusd.log"
    log.write_text("yesterday's line\n" * 5000)
    d = Daemon(tmp_path, "--log", log, "--log-size", "64KiB")
    try:
        assert question(d, "ping")["log"] == str(log)
        wait_until(lambda: "server: ready" in log.read_text(), 5, "the log")
        assert "yesterday" not in log.read_text()
        assert (tmp_path / "salusd.log.1").read_text().startswith("yesterday's line\n")
        d.process.terminate()
        assert d.process.wait(10 * PATIENCE) == 0
        assert "stopping signal=15" in log.read_text()
    finally:
        d.process.kill()
        d.process.wait()


def test_a_log_size_that_makes_no_sense(tmp_path):
    run = subprocess.run([BUILD / "bin" / "salusd", "--socket", tmp_path / "s", "--log-size", "1KiB"],
                         capture_output=True, text=True, timeout=30)
    assert run.returncode == 64 and "at least 64KiB" in run.stderr
