# SPDX-License-Identifier: Apache-2.0
"""A device's memory for processes that share it without Salus. Not to be run by hand.

On a GPU an allocation fails when the processes together have used up the memory. The host does not do that: this class
does. It adds up the memory of the processes, and limits each (RLIMIT_DATA) to what it has and what is left. So the
process that asks for too much gets no memory, as on a GPU. Needs no privileges.
"""

import contextlib
import os
import resource
import threading

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY_S = 2e-3  # processes that allocate within this time of each other may together exceed the capacity


def data_bytes(pid):
    """Private memory that a process may write to: what RLIMIT_DATA limits. 0 if the process has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[5]) * PAGE
    except (OSError, IndexError):
        return 0


class Capacity:
    """Runs until close(). host_bytes is the memory of a process that has no arrays on the device: that much of each
    process does not count."""

    def __init__(self, capacity_bytes, host_bytes):
        self.capacity_bytes, self.host_bytes = capacity_bytes, host_bytes
        self.pids, self.rounds, self.ended = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, pid):
        self.pids = [*self.pids, pid]

    def wait_for_round(self):
        """Returns when every process that was added has its limit."""
        rounds = self.rounds
        while self.rounds < rounds + 2:
            self.ended.wait(EVERY_S)

    def run(self):
        while not self.ended.wait(EVERY_S):
            self.rounds += 1
            data = {pid: data_bytes(pid) for pid in self.pids}
            used = sum(max(0, size - self.host_bytes) for size in data.values())
            left = max(0, self.capacity_bytes - used)
            for pid, size in data.items():
                limit = max(size, self.host_bytes) + left
                with contextlib.suppress(OSError):  # it has ended
                    resource.prlimit(pid, resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))

    def close(self):
        self.ended.set()
        self.thread.join()


class Peak:
    """Samples the memory of one process until close(). peak_bytes is the maximum."""

    def __init__(self, pid):
        self.pid, self.peak_bytes, self.ended = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(EVERY_S):
            self.peak_bytes = max(self.peak_bytes, data_bytes(self.pid))

    def close(self):
        self.ended.set()
        self.thread.join()
