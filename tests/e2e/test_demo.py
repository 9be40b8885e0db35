# SPDX-License-Identifier: Apache-2.0
"""`tools/demo`: it tells what it promises, and leaves nothing behind, however it ends."""

import html
import json
import os
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path

import pytest

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


class Loads(HTMLParser):
    """All that a page would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href") and not value.startswith("data:")]


def check_act(act, text, picture):
    assert len(act["bars"]) >= 2 and [bar["salus"] for bar in act["bars"]].count(True) == 1 and act["bars"][-1]["salus"]
    assert all(bar["value"] > 0 for bar in act["bars"])
    assert f"{act['title']}: {act['verdict']}" in text
    assert act["title"] in picture and {bar["text"] for bar in act["bars"]} <= picture


def check_page(out, acts):
    page = (out / "index.html").read_text()
    assert Loads(page).found == []
    assert page.count("data:image/svg+xml;base64,") == len(acts)
    for act in acts:
        xml.parse(out / act["picture"])
        assert act["title"] in page and html.escape(act["verdict"]) in page


def test_the_whole(start_demo, wait, patience):
    demo = start_demo()
    assert demo.process.wait(240 * patience) == 0
    acts = json.loads((demo.out / "results.json").read_text())["acts"]
    assert len(acts) == 5
    drawn = xml.parse(demo.out / "demo.svg").getroot()
    labels = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    for act in acts:
        check_act(act, demo.text, labels)
    check_page(demo.out, acts)
    words = " ".join(demo.text.split())
    assert "at once with Salus none dies" in words and words.count("equal results") == 2
    demo.check_clean(wait)


def test_a_memory_that_is_too_small_ends_jobs_without_salus(root, monkeypatch):
    """The limit of act 1 is real: a process that asks for more than is left gets an error."""
    monkeypatch.syspath_prepend(str(root / "bench"))
    from capacity import Capacity, data_bytes

    grab = "print('ready', flush=True); input(); a = bytearray(64 << 20)"
    outcomes = []
    for spare in (16 << 20, 256 << 20):
        child = subprocess.Popen([sys.executable, "-c", grab], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        limit = Capacity(spare, data_bytes(child.pid))
        try:
            limit.add(child.pid)
            limit.wait_for_round()
            err = child.communicate("\n")[1]
        finally:
            limit.close()
        outcomes.append((child.returncode, "MemoryError" in err))
    assert outcomes == [(1, True), (0, False)]


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
    wait(lambda: (demo.out / "rehearsal-direct-server.out").exists(), 30, "the jobs to start")
    demo.process.send_signal(number)
    assert demo.process.wait(20 * patience) != 0
    assert "Traceback" not in demo.text
    demo.check_clean(wait)
