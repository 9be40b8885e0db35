# SPDX-License-Identifier: Apache-2.0
"""How much memory salusd really uses while jobs run."""

import threading

SAMPLE_S = 0.01


def exposed_of(pid):
    """Resident memory in blocks that jobs can read: it is shared, so it is not anonymous."""
    with open(f"/proc/{pid}/maps") as file:
        if "memfd:salus-block" not in file.read():
            return 0
    total, is_block = 0, False
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            if line[0] in "0123456789abcdef":
                is_block = "memfd:salus-block" in line
            elif is_block and line.startswith("Rss:"):
                total += int(line.split()[1]) << 10
    return total


def anonymous_of(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        anonymous = next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))
    return anonymous + exposed_of(pid)


def is_boundary(view):
    return (all(lane["running"] is None for lane in view["lanes"]) and
            not any(session["state"] in ("paging in", "paging out", "closing") for session in view["sessions"]))


def progress_of(view):
    """Nothing has changed between two views with the same progress."""
    return is_boundary(view), [(s["id"], s["iterations"], s["persist_bytes"], s["state"]) for s in view["sessions"]]


class Sampler:
    """The most anonymous memory beyond that before the first job and beyond copies of paged-out arrays; and the most
    that the daemon counts. Samples in which copies come or go are left out."""

    def __init__(self, daemon):
        self.daemon, self.ended = daemon, threading.Event()
        self.base, self.copies = anonymous_of(daemon.process.pid), self.other_bytes()
        self.most = self.counted = self.samples = 0
        self.above = self.below = self.boundaries = 0
        self.thread = threading.Thread(target=self.sample)

    def other_bytes(self):
        """Large blocks of the daemon that are no job's: copies of paged-out arrays, above all."""
        device = self.daemon.view()["device"]
        return (device.get("real") or {}).get("other_bytes", 0)

    def sample(self):
        while not self.ended.wait(SAMPLE_S):
            before = self.other_bytes()
            real = anonymous_of(self.daemon.process.pid) - self.base
            view = self.daemon.view()
            device = view["device"]
            self.counted = max(self.counted, device["persist_bytes"] + device["lane_sum_bytes"])
            self.compare(view)
            if device.get("real") is None:
                real -= sum(s.get("paged_bytes", 0) for s in view["sessions"])
            elif device["real"]["other_bytes"] == before:
                real -= before - self.copies
            else:
                continue
            self.most = max(self.most, real)
            self.samples += 1

    def compare(self, view):
        """At a boundary of all lanes, while no job comes, goes or is paged: what is counted for arrays and kept memory,
        and what the jobs really have, with their uploads. The most by which the second is above and below the first,
        beyond 5 %."""
        device = view["device"]
        if device.get("real") is None or not is_boundary(view) or progress_of(self.daemon.view()) != progress_of(view):
            return
        counted = device["persist_bytes"]
        real = device["real"]["sessions_bytes"] + device["real"]["arena_bytes"]
        self.boundaries += 1
        self.above = max(self.above, real - 1.05 * counted)
        self.below = max(self.below, 0.95 * counted - real)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
