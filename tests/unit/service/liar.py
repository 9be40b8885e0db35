# SPDX-License-Identifier: Apache-2.0
"""A client of salusd in a few lines of Python, honest unless told otherwise.

It speaks the protocol of docs/PROTOCOL.md with struct, mmap and nothing of ours, so that what a lie does
is what the bytes do. Layouts are written here a second time on purpose.
"""

import array
import itertools
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
PATIENCE = float(os.environ.get("SALUS_TEST_PATIENCE", "1"))

# Below we look into /proc/PID; if we are not root, salusd must let us.
VISIBLE = {} if os.geteuid() == 0 else {"SALUS_DEBUG_CORE": "1"}

MAGIC = 0x3153554C4153
MAJOR, MINOR = 1, 0

(COMPILE, LOAD, FETCH, UNLOAD, UPLOAD, DOWNLOAD, EXECUTE, DELETE, COPY) = range(1, 10)
OPERANDS, ANSWER = 11, 12
REPLY, DONE, RELEASED, REFUSED, CALL = 64, 65, 66, 67, 68
FACTS, OPTIMIZED, SEALED = 0, 1, 2
S8, S32, F32, U8 = 2, 4, 11, 6

INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 3, 5, 8, 9

U64 = (1 << 64) - 1
U32 = (1 << 32) - 1

HELLO = struct.Struct("<QIIIIIIQQQ128s")
WELCOME = struct.Struct("<QIIIiQQQQQ256s")
GROWN = struct.Struct("<iIQ")
HOLDING = struct.Struct("<QQQ40s")  # behind the rings, for clients of minor 2

# Where a ring keeps what, in words of eight bytes; the flags are 32 bits wide, and have the rest to
# themselves.
HEAD, WAITS, TAIL, SLEEPS, DATA = 0, 1, 8, 9, 128


class HungUp(Exception):
    """The daemon has ended the connection."""


class Silence(Exception):
    """Nothing came in time."""


def soon(seconds=1.0):
    return time.monotonic() + seconds * PATIENCE


def wait_until(condition, seconds, what):
    end = soon(seconds)
    while not condition():
        if time.monotonic() > end:
            raise Silence(what)
        time.sleep(0.002)


# Records.


def padded(data):
    return data + bytes(-len(data) % 8)


def record(kind, body, size=None, reserved=0):
    """A record of a body, with the size it has unless another is claimed."""
    body = padded(body)
    return struct.pack("<IHH", len(body) + 8 if size is None else size, kind, reserved) + body


def place(segment=0, offset=0, size=0):
    return struct.pack("<IIQQ", segment, 0, offset, size)


def compile_record(request, ident, program, options=None, form=b"mlir"):
    return record(COMPILE, struct.pack("<QQ", request, ident) + program + (options or place()) +
                  form.ljust(16, b"\0"))


def load_record(request, ident, blob):
    return record(LOAD, struct.pack("<QQ", request, ident) + blob)


def fetch_record(request, ident, what, into=None):
    return record(FETCH, struct.pack("<QQII", request, ident, what, 0) + (into or place()))


def unload_record(ident):
    return record(UNLOAD, struct.pack("<Q", ident))


def upload_record(ident, dims, data=b"", *, kind=U8, rank=None, size=None, where=None, **header):
    """The bytes ride along, unless there is a place in the arena for them."""
    rank = len(dims) if rank is None else rank
    size = len(data) if size is None else size
    return record(UPLOAD, struct.pack("<QiIQ", ident, kind, rank, size) + (where or place()) +
                  struct.pack(f"<{len(dims)}q", *dims) + data, **header)


def download_record(request, ident, size, into=None):
    return record(DOWNLOAD, struct.pack("<QQQ", request, ident, size) + (into or place()))


def execute_record(request, program, first, outputs, args=(), keep=(), **counts):
    body = struct.pack("<QQQIIII", request, program, first, outputs,
                       counts.get("arg_count", len(args)), counts.get("retained_count", len(keep)), 0)
    return record(EXECUTE, body + struct.pack(f"<{len(args)}Q{len(keep)}I", *args, *keep),
                  size=counts.get("size"))


def delete_record(*ids, count=None):
    return record(DELETE, struct.pack(f"<II{len(ids)}Q", len(ids) if count is None else count, 0, *ids))


def operands_record(request, call, into=None):
    return record(OPERANDS, struct.pack("<QQ", request, call) + (into or place()))


def answer_record(call, tail=b"", *, code=0, results=None, tail_size=None):
    size = len(tail) if tail_size is None else tail_size
    return record(ANSWER, struct.pack("<QiI", call, code, size) + (results or place()) + tail)


def expose_record(request, ident):
    return record(13, struct.pack("<QQ", request, ident))


def copy_record(source, to):
    return record(COPY, struct.pack("<QQ", source, to))


# Connections.


def hello(**changes):
    fields = dict(magic=MAGIC, major=MAJOR, minor=MINOR, size=HELLO.size, priority=0, weight_milli=1000,
                  reserved=0, persist_bytes=0, ephem_bytes=0, total_ns=0, name=b"liar")
    fields.update(changes)
    return HELLO.pack(*fields.values())


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(5 * PATIENCE)
    end = soon(5)
    while True:
        try:
            s.connect(str(path))
            return s
        except BlockingIOError:  # many wait already
            if time.monotonic() > end:
                raise
            time.sleep(0.001)


def receive(s, size, fds=None):
    """Exactly so many bytes; descriptors that came along go into fds."""
    data = b""
    while len(data) < size:
        room = socket.CMSG_SPACE(8 * 4) if fds is not None else 0
        try:
            part, controls, _, _ = s.recvmsg(size - len(data), room)
        except ConnectionResetError:
            part, controls = b"", []
        except TimeoutError:
            raise Silence("no bytes from the daemon") from None
        for level, kind, payload in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.extend(array.array("i", payload[:len(payload) // 4 * 4]))
        if not part:
            raise HungUp
        data += part
    return data


def ask(path, line, patience=5):
    """What the daemon answers to a line, as bytes; all until it hangs up."""
    with connect(path) as s:
        s.settimeout(patience * PATIENCE)
        try:
            s.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while part := s.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        except TimeoutError:
            raise Silence("no answer") from None
        return answer


class Ring:
    """One ring of the shared memory, as one side sees it."""

    def __init__(self, memory, at, size):
        self.size = size
        self.view = memoryview(memory)
        self.words = self.view[at:at + DATA].cast("Q")
        self.data = self.view[at + DATA:at + DATA + size]
        self.at = 0  # our own index

    def close(self):
        for view in (self.words, self.data, self.view):
            view.release()

    def write(self, data):
        """Lay bytes down at our index, with a pad where they would wrap. Nothing is shown yet."""
        at = self.at % self.size
        if at + len(data) > self.size:
            self.data[at:at + 8] = struct.pack("<IHH", self.size - at, 0, 0)
            self.at += self.size - at
            at = 0
        self.data[at:at + len(data)] = data
        self.at += len(data)

    def show(self):
        self.words[HEAD] = self.at  # one store of eight bytes

    def take(self):
        """The next record, or None."""
        while self.words[HEAD] != self.at:
            at = self.at % self.size
            size, kind, _ = struct.unpack("<IHH", self.data[at:at + 8])
            data = bytes(self.data[at:at + size])
            self.at += size
            self.words[TAIL] = self.at
            if kind:
                return data
        return None


class Client:
    """A session."""

    def __init__(self, path, **changes):
        self.socket = connect(path)
        self.fds = []
        self.memory, self.segments, self.rings = None, [], []
        self.numbers = itertools.count(1)
        self.held = []
        try:
            self.socket.sendall(hello(**changes))
            self.greeted()
        except BaseException:
            self.close()
            raise

    def greeted(self):
        fields = WELCOME.unpack(receive(self.socket, WELCOME.size, self.fds))
        (_, _, _, _, self.code, self.session, ring_bytes, segment_bytes, fact_bytes, _, reason) = fields
        self.reason = reason.rstrip(b"\0").decode()
        if self.code:
            raise HungUp(self.reason)
        self.facts = receive(self.socket, fact_bytes)
        span = DATA + ring_bytes
        self.memory = mmap.mmap(self.fds[0], 0)
        self.behind = 2 * span
        self.submit = Ring(self.memory, 0, ring_bytes)
        self.complete = Ring(self.memory, span, ring_bytes)
        self.rings = [self.submit, self.complete]
        self.bell, self.our_bell = self.fds[1], self.fds[2]  # to ring, to be rung
        self.segments.append(mmap.mmap(self.fds[3], segment_bytes))

    def holding(self):
        """(limit, persist, peak) as the daemon tells them."""
        return HOLDING.unpack_from(self.memory, self.behind)[:3]

    def close(self):
        self.socket.close()
        for ring in self.rings:
            ring.close()
        for memory in [*self.segments, self.memory]:
            if memory:
                memory.close()
        for fd in self.fds:
            os.close(fd)
        self.rings, self.segments, self.memory, self.fds = [], [], None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def new(self):
        return next(self.numbers)

    # Sending.

    def ring(self):
        try:
            os.write(self.bell, b"!")
        except (BlockingIOError, BrokenPipeError):
            pass  # it rings already, or nobody is there

    def send(self, *records):
        """Whole records, shown at once."""
        for data in records:
            self.submit.write(data)
        self.submit.show()
        self.ring()

    # Receiving.

    def hung_up(self, seconds=0):
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return bool(poll.poll(seconds * 1000 * PATIENCE))

    def answer(self, request=None, seconds=1):
        """(type, request, code, value, tail) of the next completion, or of that to a request."""
        end = soon(seconds)
        while time.monotonic() < end:
            for i, kept in enumerate(self.held):
                if request in (None, kept[1]):
                    return self.held.pop(i)
            data = self.complete.take()
            if data is None:
                if self.hung_up():
                    raise HungUp
                if self.complete.words[WAITS]:  # there is more, and now there is room for it
                    self.complete.words[WAITS] = 0
                    self.ring()
                time.sleep(0.0005)
                continue
            self.held.append(self.read(data))
        raise Silence(f"no answer to request {request}")

    @staticmethod
    def read(data):
        kind = struct.unpack_from("<IH", data)[1]
        if kind == REPLY:
            request, code, size, value = struct.unpack_from("<QiIQ", data, 8)
            return kind, request, code, value, data[32:32 + size]
        if kind == DONE:
            request, code, size = struct.unpack_from("<QiI", data, 8)
            return kind, request, code, 0, data[24:24 + size]
        return kind, None, 0, 0, data[8:32]

    # Honest work.

    def put(self, offset, data, segment=0):
        self.segments[segment][offset:offset + len(data)] = data
        return place(segment, offset, len(data))

    def compile(self, text, offset=1 << 20, seconds=5):
        """The id of a program; raises ValueError with the daemon's words."""
        request, ident = self.new(), self.new()
        self.send(compile_record(request, ident, self.put(offset, text.encode())))
        _, _, code, _, words = self.answer(request, seconds)
        if code:
            raise ValueError(code, words.decode())
        return ident

    def upload(self, data):
        ident = self.new()
        self.send(upload_record(ident, [len(data)], data))
        return ident

    def download(self, ident, size, seconds=1):
        request = self.new()
        self.send(download_record(request, ident, size))
        _, _, code, _, tail = self.answer(request, seconds)
        if code:
            raise ValueError(code, tail.decode())
        return tail

    def run(self, program, args, outputs=1, seconds=1):
        request = self.new()
        first = [self.new() for _ in range(outputs)][0] if outputs else 0
        self.send(execute_record(request, program, first, outputs, args))
        _, _, code, _, tail = self.answer(request, seconds)
        if code:
            raise ValueError(code, tail.decode())
        return first

    def grow(self, size):
        self.socket.sendall(struct.pack("<Q", size))
        return self.grown()

    def grown(self):
        """(code, segment, bytes) of an answer to grow, and its segment is mapped."""
        fds = []
        code, segment, size = GROWN.unpack(receive(self.socket, GROWN.size, fds))
        self.fds += fds
        if code == 0:
            self.segments.append(mmap.mmap(fds[0], size))
        return code, segment, size


# The daemon.


class Daemon:
    """A private salusd on the fake device; its files are in a folder of the test."""

    def __init__(self, folder, *options):
        self.folder = Path(folder)
        self.path = self.folder / "s"
        command = [BUILD / "bin" / "salusd", "--socket", self.path, "--plugin", "fake", "--cache", "none",
                   *options]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**os.environ, **VISIBLE})
        self.pid = self.process.pid
        wait_until(self.answers, 30, "salusd to answer")

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def answers(self):
        assert self.process.poll() is None, f"salusd ended with {self.process.poll()}:\n{self.log[-6000:]}"
        try:
            return json.loads(ask(self.path, b'{"op": "ping"}\n'))["ok"]
        except (OSError, ValueError):
            return False

    def sessions(self):
        return json.loads(ask(self.path, b'{"op": "ps"}\n'))["sessions"]

    def holdings(self):
        """What a leak would add to."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        return {"descriptors": len(os.listdir(f"/proc/{self.pid}/fd")),
                "threads": len(os.listdir(f"/proc/{self.pid}/task")),
                "shared mappings": maps.count("memfd:")}

    def is_back_at(self, before):
        """It holds no more than before. Some idle carriers stay, and the threads of lanes that were opened."""
        stays = {"threads": 12}
        return all(v <= before[k] + stays.get(k, 0) for k, v in self.holdings().items())

    def own_bytes(self):
        """Memory that is its own, not shared with clients."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
        return 0

    def is_at_rest(self):
        """No thread of it runs, however often we look."""
        states = [Path(f"/proc/{self.pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0]
                  for _ in range(50) for task in os.listdir(f"/proc/{self.pid}/task")]
        return set(states) == {"S"}

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """SIGTERM: it ends by itself, with status 0. Returns its log."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(20 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Silence(f"salusd ignores SIGTERM:\n{self.log[-6000:]}") from None
        assert status == 0, f"salusd ended with {status}:\n{self.log[-6000:]}"
        return self.log
