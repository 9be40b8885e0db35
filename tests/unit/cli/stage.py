# SPDX-License-Identifier: Apache-2.0
"""What the tests of the commands share: a salusd on the fake device with jobs in it, and a terminal to watch from.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "service"))
import liar  # noqa: E402
from liar import PATIENCE, Client, Daemon, HungUp, delete_record, execute_record, wait_until  # noqa: E402, F401

BUILD = liar.BUILD
SALUS = BUILD / "bin" / "salus"
LIMIT = 30 * PATIENCE  # seconds; only against hanging


def salus(*args, socket=None, status=0, **env):
    """Run `salus ARGS`; its output. A status other than expected is a failure that shows all."""
    full = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **env}
    if socket:
        full["SALUS_SOCKET"] = str(socket)
    done = subprocess.run([str(a) for a in (SALUS, *args)], env=full, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == status, (args, done)
    assert status != 0 or not done.stderr, done
    return done.stdout if status == 0 else done.stderr


class Job:
    """A client that keeps `ahead` iterations of `ms` milliseconds queued, until it is told to stop."""

    def __init__(self, path, name, ms=5, ahead=2, temp=0, **hello):
        self.c = Client(path, name=name.encode(), **hello)
        self.id = self.c.session
        self.program = self.c.compile(f"fake 1\noutput u8 4 = fill 1\ntemp {temp}\ntime {int(ms * 1e6)}\n")
        self.ahead = ahead
        self.ended = None  # the error that ended it
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def submit(self):
        request, output = self.c.new(), self.c.new()
        self.c.send(execute_record(request, self.program, output, 1, []), delete_record(output))
        return request

    def work(self):
        pending = []
        try:
            while not self.halt.is_set():
                pending.append(self.submit())
                if len(pending) >= self.ahead:
                    self.c.answer(pending.pop(0), 60)
        except HungUp as why:
            self.ended = why

    def close(self):
        self.halt.set()
        if self.thread.is_alive():
            self.thread.join(0.2)  # one that is paused waits for an answer; the hang-up ends it
            self.c.socket.shutdown(socket.SHUT_RDWR)
            self.thread.join()
        self.c.close()


class Stage:
    """A daemon and jobs, all ended at the end."""

    def __init__(self, folder, *options):
        self.daemon = Daemon(folder, *options)
        self.path = self.daemon.path
        self.jobs = []

    def job(self, name, busy=True, **kwargs):
        job = Job(self.path, name, **kwargs)
        self.jobs.append(job)
        return job.start() if busy else job

    def salus(self, *args, **kwargs):
        return salus(*args, socket=self.path, **kwargs)

    def json(self, *args):
        return json.loads(self.salus(*args, "--json"))

    def session(self, name):
        (found,) = [s for s in self.json("ps")["sessions"] if s["name"] == name]
        return found

    def wait(self, condition, what):
        wait_until(condition, 15, what)

    def close(self):
        for job in self.jobs:
            job.close()
        if self.daemon.process.poll() is None:
            log = self.daemon.stop()
            assert "Sanitizer" not in log, log[-6000:]


class Fixed:
    """Listens on a socket and answers each question with the same object, or as a function tells."""

    def __init__(self, path, reply):
        self.path, self.reply = path, reply
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(16)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            with peer:
                question = json.loads(peer.makefile().readline() or "{}")
                reply = self.reply(question) if callable(self.reply) else self.reply
                peer.sendall(json.dumps(reply).encode() + b"\n")

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join()
        os.unlink(self.path)


# A terminal.

# Just enough for ncurses: it can only go somewhere, write, and clear.
TERMINFO = r"""salus-test|what the tests understand,
	cols#80, lines#24, cup=\E[%i%p1%d;%p2%dH, clear=\E[H\E[J, el=\E[K, ed=\E[J, cr=\r,
	rev=\E[7m, bold=\E[1m, sgr0=\E[m, smcup=\E[?1049h, rmcup=\E[?1049l, civis=\E[?25l,
	cnorm=\E[?25h, kcuu1=\E[A, kcud1=\E[B,
"""
KEYS = {"up": "\x1b[A", "down": "\x1b[B", "enter": "\r", "escape": "\x1b", "ctrl-c": "\x03"}


class Terminal:
    """A command in a terminal, and what the terminal shows."""

    def __init__(self, folder, command, columns=80, rows=24, env=None):
        source = Path(folder) / "terminfo.src"
        source.write_text(TERMINFO)
        subprocess.run(["tic", "-x", "-o", str(Path(folder) / "terminfo"), str(source)], check=True)
        full = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TERM": "salus-test",
                "TERMINFO": str(Path(folder) / "terminfo"), **(env or {})}
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.master, slave = pty.openpty()
        self.size(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(c) for c in command], stdin=slave, stdout=slave, stderr=slave,
                                        env=full, preexec_fn=own_terminal)

    def size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.x = self.y = 0
        self.alternate = getattr(self, "alternate", False)

    def resize(self, columns, rows):
        self.size(columns, rows)
        os.kill(self.process.pid, signal.SIGWINCH)

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    # What the bytes mean.

    def clear(self, whole):
        self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
        for row in range(self.y + 1, self.rows) if whole else ():
            self.cells[row] = [" "] * self.columns

    def obey(self, arguments, what):
        numbers = [int(n or 1) for n in arguments.lstrip("?").split(";")]
        if what == "H":
            self.y, self.x = numbers[0] - 1, (numbers + [1])[1] - 1
        elif what in "JK":
            self.clear(what == "J")
        elif what in "hl" and arguments == "?1049":
            self.alternate = what == "h"
        else:
            assert what == "m" or arguments == "?25", (arguments, what)

    def put(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif self.y < self.rows and self.x < self.columns:  # later than that is of before a resize
            self.cells[self.y][self.x] = char
            self.x += 1

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        while text:
            sequence = re.match(r"\x1b\[([0-9;?]*)([A-Za-z])", text)
            if sequence:
                self.obey(*sequence.groups())
                text = text[sequence.end():]
            elif text[0] == "\x1b" and len(text) < 16:
                break  # the rest is to come
            else:
                self.put(text[0])
                text = text[1:]
        self.rest = text

    def watch(self, seconds=0.05):
        """What came meanwhile; False at the end."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # nobody has it open any more
                return False
            if not data:
                return False
            self.feed(data)
            seconds = 0
        return True

    def until(self, what):
        """Until the screen shows a text, or a function of the terminal is true."""
        def shown():
            self.watch()
            return what(self) if callable(what) else what in self.text()

        try:
            wait_until(shown, 15, what)
        except liar.Silence:
            raise AssertionError(f"never saw {what!r}; status {self.process.poll()}:\n{self.text()}") from None

    def end(self):
        """Its status, after it ended; and the terminal is as it was."""
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            self.watch()
            assert time.monotonic() < deadline, self.text()
        self.watch()
        assert not self.alternate
        assert termios.tcgetattr(self.slave) == self.before
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)
