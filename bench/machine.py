# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: how much of the machine others use, sizes for steps of a given time, numbers as text. Not to
be run by hand."""

import contextlib
import glob
import os
import statistics
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count()
DISTURBED = 0.03  # the share of the machine that others use; above it a round is repeated


def median(values):
    return statistics.median(values)


def quartiles(values):
    values = sorted(values)
    return values[len(values) // 4], values[-1 - len(values) // 4]


def size_for(step, seconds, small=32, large=512, grain=8):
    """The size whose step takes this long. step(size) measures one; its time is nearly linear in the size, so two sizes
    give the line."""
    at_small, at_large = step(small), step(large)
    size = small + (seconds - at_small) * (large - small) / (at_large - at_small)
    return max(grain, int(size) // grain * grain)


def show_time(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            value = seconds * factor
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
    return ""


def stat_fields(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def family(pid):
    """pid and all its descendants."""
    below = {}
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdigit() else None
        if fields:
            below.setdefault(int(fields[1]), []).append(int(name))
    found = [pid]
    for member in found:
        found += below.get(member, [])
    return found


def cpu_seconds(pids):
    """CPU time of the processes so far, in ticks. Children that ended and were waited for count with their parent."""
    total = 0
    for pid in pids:
        fields = stat_fields(pid)
        if fields:
            total += sum(int(f) for f in fields[11:15])
    return total / TICK


def exact_cpu_ns(pid):
    """CPU time of the living threads of a process so far, and the number of switches to them."""
    used = switches = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with contextlib.suppress(OSError), open(path) as file:
            ns, _, times = file.read().split()
            used += int(ns)
            switches += int(times)
    return used, switches


def busy_seconds():
    """Busy time of all processors: without idle time and disk waits, with the time that the hypervisor took."""
    with open("/proc/stat") as file:
        n = [int(f) for f in file.readline().split()[1:9]]
    return (n[0] + n[1] + n[2] + n[5] + n[6] + n[7]) / TICK


def wait_for_quiet(budget):
    """Waits until nobody else uses the machine, or until the budget (a list of one number of seconds) is used up."""
    while budget[0] > 0:
        watch = Watch()
        time.sleep(0.3)
        if watch.others() <= DISTURBED:
            return
        budget[0] -= 0.3


class Watch:
    """Measures how much of the machine others use."""

    def __init__(self):
        self.start = time.monotonic()
        self.busy = busy_seconds()
        self.ours = cpu_seconds(family(os.getpid()))

    def others(self):
        elapsed = time.monotonic() - self.start
        foreign = busy_seconds() - self.busy - (cpu_seconds(family(os.getpid())) - self.ours)
        return max(0.0, foreign / (elapsed * CORES))


def memory_of(pid):
    """Resident memory in bytes: all, anonymous, shared."""
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file if line.startswith(("VmRSS", "Rss")))
    return {name: int(value.split()[0]) << 10 for name, value in lines.items()}


def warn_if_busy():
    """Warns if the machine is busy. Returns True if it is so busy that repeating rounds does not help."""
    load = os.getloadavg()
    watch = Watch()
    time.sleep(1)
    others = watch.others()
    print(f"{CORES} cores, load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}, "
          f"others use {others:.0%} of the machine")
    if load[0] > 0.5 or others > DISTURBED:
        print("WARNING: the machine is not idle; do not rely on the numbers below")
    return others > 0.3
