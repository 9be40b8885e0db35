# SPDX-License-Identifier: Apache-2.0
"""`tools/demo`: it tells what it promises, and leaves nothing behind, however it ends."""

import json
import os
import signal
import subprocess
import textwrap
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

JOBS = ("trial-1", "trial-2", "server")


class Demo:
    """The short demo, started in directories of its own."""

    def __init__(self, root, folder, **env):
        self.out, self.tmp, self.log = folder / "out", folder / "tmp", folder / "log"
        self.tmp.mkdir()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([root / "tools" / "demo", "--quick", "--out", self.out],
                                            env={**os.environ, "TMPDIR": str(self.tmp), **env},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, preexec_fn=take_interrupts)

    @property
    def text(self):
        return self.log.read_text()

    def processes(self):
        """All that still run and were started by it: they have its environment."""
        mark, found = f"TMPDIR={self.tmp}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(path.parent.name)
            except OSError:
                pass
        return found

    def kill(self):
        for pid in self.processes():
            os.kill(int(pid), signal.SIGKILL)
        self.process.wait()

    def check_clean(self, wait):
        wait(lambda: not self.processes(), 5, "all processes of the demo to end")
        assert list(self.tmp.iterdir()) == []


def take_interrupts():
    """What runs in the background of a shell ignores SIGINT, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start_demo(root, tmp_path):
    demos = []

    def start(**env):
        demos.append(Demo(root, tmp_path, **env))
        return demos[-1]

    yield start
    for demo in demos:
        demo.kill()
        print(demo.text)


def rows(text):
    """Of the table, by their first word."""
    table = text.partition("== What came of it")[2].partition("\n\n")[2].partition("\n\n")[0]
    return {line.split()[0]: line.split() for line in table.splitlines()}


def test_the_whole(start_demo, wait, patience):
    demo = start_demo()
    assert demo.process.wait(120 * patience) == 0
    table = rows(demo.text)
    for job in JOBS:
        assert len(table[job]) == 10 and table[job][-1] == "equal", table  # four times with units
        assert all(float(cell) > 0 for cell in table[job][1:9:2])
    assert demo.text.count("  latency, p") == 2 and "one after the other" in demo.text
    trace = json.loads((demo.out / "trace.json").read_text())
    opened = {row[-1]["name"] for row in trace["salus"]["entries"] if row[0] == "open"}
    assert opened == set(JOBS)
    picture = xml.parse(demo.out / "timeline.svg").getroot()
    labels = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {*JOBS, "lane 0", "lane 1"} <= labels
    demo.check_clean(wait)


def test_a_job_that_fails_is_named(start_demo, wait, tmp_path, patience):
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(textwrap.dedent("""
        import os, sys
        if any(word.endswith("inference.py") for word in sys.orig_argv):
            os.write(2, b"the model is gone\\n")
            os._exit(3)
    """))
    demo = start_demo(PYTHONPATH=str(hook))
    assert demo.process.wait(60 * patience) == 1
    assert "demo: server failed with 3" in demo.text and "the model is gone" in demo.text
    demo.check_clean(wait)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(start_demo, wait, number, patience):
    demo = start_demo()
    wait(lambda: (demo.out / "salus-first-server.out").exists(), 30, "the jobs to start")
    demo.process.send_signal(number)
    assert demo.process.wait(20 * patience) != 0
    assert "Traceback" not in demo.text
    demo.check_clean(wait)
