# SPDX-License-Identifier: Apache-2.0
"""What the tests of sharing share: raw questions to salusd, sampling it, and starting jobs together."""

import contextlib
import json
import os
import re
import socket
import threading
import time
from pathlib import Path

JOBS = Path(__file__).parent / "jobs"
MIB = 1 << 20


def ask(daemon, op, **fields):
    """A question in the way of the `salus` command, without starting one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(30)
        s.connect(str(daemon.socket))
        s.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
        with s.makefile("rb") as answer:
            reply = json.loads(answer.readline())
    assert reply["ok"], reply
    return reply


def session_named(daemon, name):
    """That session as `ps` has it now, or None."""
    found = [s for s in ask(daemon, "ps")["sessions"] if s["name"] == name]
    assert len(found) <= 1, found
    return found[0] if found else None


class Watch(contextlib.AbstractContextManager):
    """Asks for `ps` over and over in a thread of its own, and keeps the answers."""

    def __init__(self, daemon, interval_s=0.01):
        self.daemon, self.interval_s = daemon, interval_s
        self.samples, self.error = [], None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stopped.wait(self.interval_s):
                self.samples.append(ask(self.daemon, "ps"))
        except Exception as error:  # told to whoever started us
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopped.set()
        self.thread.join()
        if kind is None and self.error:
            raise self.error

    def sessions(self):
        return (s for sample in self.samples for s in sample["sessions"])

    def states(self, name):
        return {s["state"] for s in self.sessions() if s["name"] == name}

    def check_memory(self):
        """Nothing was promised twice, and nobody had more than was promised to it."""
        assert self.samples
        for sample in self.samples:
            capacity = sample["device"]["capacity_bytes"]
            held = sum(s["held_bytes"] for s in sample["sessions"])
            lanes = sum(lane["bytes"] for lane in sample["lanes"])
            assert held + lanes <= capacity, sample
            for s in sample["sessions"]:
                assert s["persist_bytes"] <= s["held_bytes"] + s["paged_bytes"], s


def go(runs):
    """Let jobs that are ready touch the device, all at once."""
    for run in runs:
        run.wait_for("ready")
    for run in runs:
        run.say("go")


def number(run, what):
    """The number that a job printed as `what: number`."""
    return float(re.search(rf"^{what}: (\S+)$", run.stdout, re.M)[1])


def used_over(daemon, seconds, names):
    """Device time of each of those sessions over a window, and how long the window really was."""
    def look():
        answer = ask(daemon, "ps")
        used = {s["name"]: s["used_s"] for s in answer["sessions"]}
        return answer["device"]["now_s"], [used[name] for name in names]

    began, before = look()
    time.sleep(seconds)  # the window: whoever asked meanwhile would be in it
    ended, after = look()
    return [b - a for a, b in zip(before, after)], ended - began


class Holder:
    """jobs/hold.py: does what it is told, one thing at a time."""

    def __init__(self, client, name, seed=0, **env):
        self.name = name
        self.run = client.start(JOBS / "hold.py", seed, env={"SALUS_JOB_NAME": name, **env})
        self.answers = 1  # it says "ready" by itself
        self.run.wait_for("ready")

    def begin(self, verb, *args):
        """Tell it to do something; answer() waits for the end."""
        self.run.say(" ".join(map(str, (verb, *args))))

    def is_done(self):
        return self.run.stdout.count("\n") > self.answers

    def answer(self, deadline_s=60):
        wait_for(self.is_done, deadline_s, f"an answer of {self.name}", self.run)
        self.answers += 1
        return self.run.stdout.splitlines()[self.answers - 1]

    def do(self, verb, *args):
        """What it answered; fails if it says so."""
        self.begin(verb, *args)
        verb_said, _, said = self.answer().partition(": ")
        assert verb_said == verb, self.run.describe()
        return said

    def end(self):
        self.run.succeed()


def wait_for(condition, deadline_s, what, run=None):
    """Poll until the condition holds; fail after the deadline, or if the run has ended."""
    end = time.monotonic() + deadline_s * float(os.environ.get("SALUS_TEST_PATIENCE", "1"))
    while not condition():
        assert not run or run.code is None, f"ended before {what}:\n{run.describe()}"
        assert time.monotonic() < end, f"waited in vain for {what}" + \
            (f"\n{run.describe()}" if run else "")
        time.sleep(0.002)
