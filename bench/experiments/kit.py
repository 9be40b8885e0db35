# SPDX-License-Identifier: Apache-2.0
"""What the experiments of bench/evaluate share: the record of results, and the arrangements to compare. Not to be run by
hand.

The arrangements of a workload, always the same scripts, the same plugin and the same memory:

    exclusive   one process at a time, in the order of arrival
    free        all processes at once: the OS decides
    static      as many processes as parts (one per core, if nothing else is said); each has a part of cores and memory
    lock        all processes at once; one of them may run, for a quantum, then the next (SIGSTOP and SIGCONT)
    NAME        salusd with the policy NAME
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import signal
import subprocess
import threading
import time

from arrangements import Arrival, Free, play_each
from capacity import Capacity, Peak
from machine import CORES, Watch, median, quartiles

MIB = 1 << 20
QUANTUM_S = 1.0  # of the lock
OTHERS = ("exclusive", "free", "static", "lock")


# Results.


def machine_facts(build):
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    salus = subprocess.run([os.path.join(build, "bin", "salus"), "--version"], capture_output=True, text=True)
    names = ("jax", "jaxlib", "xla-cpu-pjrt", "flax", "optax", "numpy")
    return {"cores": CORES, "cpu": model, "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "kernel": platform.release(), "python": platform.python_version(), "salus": salus.stdout.strip(),
            "versions": {name: importlib.metadata.version(name) for name in names}}


class Record:
    """A file with one JSON object per measurement. An experiment that was interrupted is measured again as a whole."""

    def __init__(self, path, facts, is_full):
        self.path, self.facts, self.mode = path, facts, "full" if is_full else "quick"
        self.experiment, self.lines, self.watch = "", [], None

    def read(self):
        with contextlib.suppress(FileNotFoundError), open(self.path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
        return []

    def done(self):
        """{experiment: seconds it took}; without those that were skipped."""
        return {line["experiment"]: line["took_s"] for line in self.read()
                if "took_s" in line and line["mode"] == self.mode and not line.get("was_skipped")}

    def begin(self, experiment):
        self.experiment, self.lines, self.watch = experiment, [], Watch()

    def end(self, took_s):
        """Writes the lines of the experiment, at once."""
        was_skipped = any("skipped" in line for line in self.lines)
        self.lines.append({"took_s": took_s, "others": self.watch.others(), "was_skipped": was_skipped})
        common = {"experiment": self.experiment, "mode": self.mode, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        with open(self.path, "a") as file:
            file.write("".join(json.dumps(common | line | {"machine": self.facts}) + "\n" for line in self.lines))
            file.flush()
            os.fsync(file.fileno())

    def add(self, row, column, values, unit="", bar=None, seed=None):
        """A measurement: its median, and its quartiles as spread. bar: what it should be at most, or at least if the bar
        is text like ">= 3"."""
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        low, high = quartiles(values)
        self.lines.append({"row": row, "column": column, "value": median(values), "low": low, "high": high,
                           "n": len(values), "unit": unit, "bar": bar, "seed": seed})
        print(f"    {row:34} {column:28} {median(values):10.4g} {unit:6}"
              + (f" [{low:.4g}, {high:.4g}]" if len(values) > 1 else "") + (f"  bar {bar}" if bar else ""), flush=True)

    def add_series(self, name, points, x, y, plot=""):
        """A curve: points, and what its axes are. plot: which plot of the experiment, if it has several."""
        self.lines.append({"series": name, "points": points, "x": x, "y": y, "plot": plot})

    def add_pairs(self, name, pairs, x, y, plot):
        """Dots, to be compared with the diagonal: two numbers that should be equal."""
        self.lines.append({"series": name, "pairs": pairs, "x": x, "y": y, "plot": plot})

    def add_spans(self, name, spans, x):
        """A row of a timeline: the [start, end] of its pieces."""
        self.lines.append({"series": name, "spans": spans, "x": x, "plot": ""})

    def skip(self, why):
        """The experiment cannot run here. why: a sentence."""
        self.lines.append({"skipped": why})
        print(f"    skipped: {why}", flush=True)


# Arrangements.


class Limited(Free):
    """Processes of which the OS decides, on a device with so much memory. A process that gets none is lost."""

    may_lose = True

    def __init__(self, stage, memory):
        super().__init__(stage)
        self.capacity = Capacity(memory.capacity_bytes, memory.host_bytes)

    def __exit__(self, *_):
        self.capacity.close()
        super().__exit__()

    def started(self, pid, _arrival):
        self.capacity.add(pid)


class Static(Free):
    """Each process has a core and an equal part of the memory. There are as many parts as processes at once."""

    may_lose = True

    def __init__(self, stage, memory, parts):
        super().__init__(stage)
        self.cores, self.limit_bytes = {}, memory.host_bytes + memory.capacity_bytes // parts

    def started(self, pid, _arrival):
        taken = [core for other, core in self.cores.items() if os.path.exists(f"/proc/{other}")]
        self.cores[pid] = min(os.sched_getaffinity(0), key=taken.count)
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, {self.cores[pid]})
            resource.prlimit(pid, resource.RLIMIT_DATA, (self.limit_bytes, resource.RLIM_INFINITY))


class Lock(Limited):
    """One process runs for a quantum, then the next. A process takes part from its first step on: its start is free."""

    def __init__(self, stage, memory):
        super().__init__(stage, memory)
        self.logs, self.ended = {}, threading.Event()
        self.thread = threading.Thread(target=self.rotate, daemon=True)
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for pid in self.logs:
            self.send(pid, signal.SIGCONT)
        super().__exit__()

    def started(self, pid, arrival):
        super().started(pid, arrival)
        self.logs[pid] = os.path.join(self.stage.dir, arrival.name + ".script.log")

    def send(self, pid, number):
        """Returns False if the process has ended."""
        with contextlib.suppress(ProcessLookupError, OSError):
            with open(f"/proc/{pid}/stat") as file:
                alive = file.read().rpartition(")")[2].split()[0] not in "ZX"
            if alive:
                os.kill(pid, number)
            return alive
        return False

    def trains(self, pid):
        with contextlib.suppress(OSError), open(self.logs[pid]) as file:
            return "step" in file.read(4096)
        return False

    def rotate(self):
        holder, until = None, 0
        while not self.ended.wait(5e-3):
            now = time.monotonic()
            ready = [pid for pid in list(self.logs) if self.trains(pid) and self.send(pid, 0)]
            if ready and (holder not in ready or now >= until):
                later = [pid for pid in ready if holder is not None and pid > holder]
                holder, until = (later or ready)[0], now + QUANTUM_S
            for pid in ready:
                self.send(pid, signal.SIGCONT if pid == holder else signal.SIGSTOP)


class Memory:
    """What a script needs beyond its process, and the capacity of the device."""

    def __init__(self, capacity_bytes, host_bytes):
        self.capacity_bytes, self.host_bytes = capacity_bytes, host_bytes

    @property
    def flags(self):
        return ("--memory", f"{self.capacity_bytes // MIB}MiB")


class Peaks(Free):
    """Measures the memory of the one script that runs."""

    peak = cores = None

    def started(self, pid, _arrival):
        if self.cores:
            os.sched_setaffinity(pid, self.cores)
        self.peak = Peak(pid)


def peak_of(stage, argv, cores=None):
    """The most memory of a script that runs alone without Salus, in bytes. Its programs must be in the cache."""
    with Peaks(stage) as host:
        host.cores = cores
        play_each(stage, host, [Arrival("peak", 0, tuple(argv), 1)])
        host.peak.close()
        return host.peak.peak_bytes


def play_in(stage, arrangement, arrivals, memory, flags=(), cache="jax-cache", parts=CORES):
    """Plays a workload in an arrangement; a name that is no arrangement is a policy of salusd. parts: of static."""
    if arrangement not in OTHERS:
        with stage.daemon("--policy", arrangement, *memory.flags, *flags) as daemon:
            return play_each(stage, daemon, arrivals, None, cache + "-salus")
    if arrangement == "static":
        with Static(stage, memory, parts) as host:
            return play_each(stage, host, arrivals, parts, cache)
    with (Lock if arrangement == "lock" else Limited)(stage, memory) as host:
        return play_each(stage, host, arrivals, 1 if arrangement == "exclusive" else None, cache)


def completion(played):
    """Completion times of the jobs that were not lost."""
    return [one.ended_s - one.at_s for one in played if not one.lost]


def makespan(played):
    return max(one.ended_s for one in played) - min(one.at_s for one in played)


def lost(played):
    return sum(one.lost for one in played)
