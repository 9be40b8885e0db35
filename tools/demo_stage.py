# SPDX-License-Identifier: Apache-2.0
"""The stage of tools/demo: jobs, daemons, and the progress on the screen.

Stage.close() ends everything that was started here, however the demo ends.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
PYTHON = ROOT / ".venv" / "bin" / "python"
SALUS = BUILD / "bin" / "salus"
LIMIT_S = 300  # time limit of a job, for jobs that hang
LINE_S = 5  # seconds between two lines if stdout is no terminal
TAIL = 8  # lines of a log
DISTURBED = 0.05  # the share of the machine that others use; from here on times are not reliable
NAMES = 6  # most names of jobs in a line

Job = namedtuple("Job", "name script options kind", defaults=("training",))


class Failed(Exception):
    """The demo cannot continue; the text is the reason."""


def tail(path):
    return "\n".join("    " + line for line in path.read_text(errors="replace").splitlines()[-TAIL:])


def busy_ticks():
    """Busy time of all processors."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + irq + softirq + steal


def our_ticks():
    """CPU time of this process and all its descendants, ended or not."""
    ticks, children = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        ticks[path.parent.name] = sum(map(int, fields[11:15]))
        children.setdefault(fields[1], []).append(path.parent.name)
    family = [str(os.getpid())]
    for pid in family:
        family += children.get(pid, [])
    return sum(ticks[pid] for pid in family)


class Others:
    """Measures the share of the machine that others use."""

    def __init__(self):
        self.ours, self.all, self.began = our_ticks(), busy_ticks(), time.monotonic()

    def share(self):
        ticks = (time.monotonic() - self.began) * os.sysconf("SC_CLK_TCK") * os.cpu_count()
        return max(0, busy_ticks() - self.all - (our_ticks() - self.ours)) / max(ticks, 1)


class Screen:
    """Stdout. On a terminal, lines that are not final are drawn again in place."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.drawn = 0

    def draw(self, text):
        """Shows a few lines until the next call; only on a terminal."""
        if not self.live:
            return
        size = shutil.get_terminal_size()
        lines = [line[:size.columns - 1] for line in text.splitlines()[:size.lines - 2]]
        self.wipe()
        print("\n".join(lines), flush=True)
        self.drawn = len(lines)

    def wipe(self):
        if self.drawn:
            print(f"\x1b[{self.drawn}A\x1b[J", end="")
        self.drawn = 0

    def say(self, text=""):
        self.wipe()
        print(text, flush=True)


class Run:
    """A started job: its process, its end and its output."""

    def __init__(self, name, command, env, base, may_fail):
        self.name, self.may_fail = name, may_fail
        self.out, self.err = base.with_suffix(".out"), base.with_suffix(".err")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True)
        self.began, self.seconds = time.monotonic(), None
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        self.process.wait()
        self.seconds = time.monotonic() - self.began

    @property
    def ended(self):
        return self.began + self.seconds

    def has_failed(self):
        return self.process.poll() not in (None, 0)

    def find(self, pattern):
        """All that the job has printed so far and matches."""
        return re.findall(pattern, self.out.read_text(errors="replace"), re.M)

    def found(self, pattern):
        matches = self.find(pattern)
        if not matches:
            raise Failed(f"{self.name} ended without printing {pattern!r}; see {self.out}")
        return matches[0]

    def check(self):
        if self.seconds is None and time.monotonic() - self.began > LIMIT_S:
            raise Failed(f"{self.name} still runs after {LIMIT_S} s; see {self.err}")
        if self.seconds is not None and self.process.returncode != 0 and not self.may_fail:
            raise Failed(f"{self.name} failed with {self.process.returncode}; the end of {self.err}:\n{tail(self.err)}")

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Daemon:
    """A salusd with its own socket. It shares its program cache with the next one, unless that is fresh."""

    def __init__(self, stage, name, fresh, options):
        self.log = stage.out / f"salusd-{name}.log"
        folder = stage.runtime / name
        folder.mkdir()
        self.env = {**stage.env, "SALUS_SOCKET": str(folder / "s")}
        cache = folder / "programs" if fresh else stage.runtime / "programs"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin" / "salusd", "--socket", folder / "s", "--cache", cache, "--no-profiles",
                 "--plugin", stage.plugin, *options], env=self.env, stdout=log, stderr=log, start_new_session=True)

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"salusd ended with {self.process.returncode}; the end of {self.log}:\n{tail(self.log)}")

    def ask(self, *args):
        """The output of `salus ARGS`; None if it fails."""
        done = subprocess.run([SALUS, *args], env=self.env, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def draw(self, path):
        """Writes the picture of the schedule so far."""
        if self.ask("trace", "--svg", "-o", path) is None:
            raise Failed(f"`salus trace` could not write {path}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Stage:
    """A temporary directory, an environment without the caller's settings, and everything that runs."""

    def __init__(self, out):
        found = list(ROOT.glob(".venv/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"))
        if not found or not SALUS.exists():
            raise Failed("Salus is not built yet: run `make`")
        self.out, self.daemon, self.runs, self.screen = out, None, [], Screen()
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        self.runtime = Path(tempfile.mkdtemp(prefix="salus-demo-"))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SALUS_", "JAX_", "XLA_", "PJRT_"))}
        self.env = {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1",
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
        self.plugin = found[0]
        direct = self.runtime / "plugin.json"
        direct.write_text(json.dumps({"library_path": str(self.plugin), "create_options": {"cpu_device_count": 1}}))
        self.direct = {"JAX_PLATFORMS": "cpu", "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{direct}"}

    def start_daemon(self, name, *options, fresh=False):
        self.daemon = Daemon(self, name, fresh, options)
        while self.daemon.ask("ping") is None:
            self.daemon.check()
            time.sleep(0.05)
        return self.daemon

    def stop_daemon(self):
        if self.daemon:
            self.daemon.stop()
        self.daemon = None

    def start(self, job, phase, daemon=None, cache="jax", may_fail=False):
        """Starts a job: through a daemon, or with the vendor's plugin in its own process. JAX's compilation cache is on
        in both; `cache` names its folder."""
        script = [PYTHON, ROOT / "examples" / job.script, *job.options]
        through = [SALUS, "run", "--name", job.name, "--kind", job.kind, "--"] if daemon else []
        env = {**(daemon.env if daemon else {**self.env, **self.direct}),
               "JAX_COMPILATION_CACHE_DIR": str(self.runtime / (f"{cache}-salus" if daemon else cache))}
        self.runs.append(Run(job.name, through + script, env, self.out / f"{phase}-{job.name}", may_fail))
        return self.runs[-1]

    def until(self, condition, runs):
        """Waits for a condition, and shows which jobs run meanwhile. Jobs must not fail, unless they may."""
        began = told = time.monotonic()
        while not condition():
            for run in runs:
                run.check()
            if self.daemon:
                self.daemon.check()
            now = time.monotonic()
            left = [run.name for run in runs if run.seconds is None]
            names = ", ".join(left[:NAMES]) + (f" and {len(left) - NAMES} more" if len(left) > NAMES else "")
            line = f"    {now - began:3.0f} s, running: {names}"
            self.screen.draw(line)
            if not self.screen.live and now - told >= LINE_S:
                self.screen.say(line)
                told = now
            time.sleep(0.02)
        for run in runs:
            run.check()

    def wait(self, runs):
        """Waits until all have ended."""
        self.until(lambda: all(run.seconds is not None for run in runs), runs)
        return runs

    def close(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.screen.wipe()
        for run in self.runs:
            if run.process.poll() is None:
                run.kill()
        self.stop_daemon()
        shutil.rmtree(self.runtime, ignore_errors=True)
