# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest, for tools/jax_suite: writes each result as a line of JSON as soon as it is known.

    SUITE_LINES    the file of results: {"id", "outcome", "error", "seconds"}; {"id", "outcome": "started"} before
    SUITE_KNOWN    a file of test ids that are not run, one a line
    SUITE_SAMPLE   how many of the file's tests may run, evenly spaced, the known ones included; 0: all
    SUITE_COUNT    a file for the number of tests that there are; not needed
    SUITE_LIMIT    seconds that a test may take; then the whole process ends, and the tool starts the next one

A process that crashes in a test leaves that test "started". So the tool knows what crashed, and what is left.
"""

import faulthandler
import json
import os
import sys
import time

RANK = {"passed": 0, "skipped": 1, "failed": 2}


def short_id(nodeid):
    """Class::test of a node; the file is known."""
    return nodeid.partition("::")[2]


def first_line(report):
    """The most informative line of a failure or a skip."""
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    if crash is None and isinstance(report.longrepr, tuple):
        crash = report.longrepr[2]
    lines = [line for line in str(crash or report.longrepr or "").splitlines() if line.strip()]
    return lines[0].strip()[:300] if lines else ""


def evenly(items, count):
    """So many of the items, evenly spaced; 0: all."""
    if not 0 < count < len(items):
        return items
    return [items[i * len(items) // count] for i in range(count)]


class Lines:
    def __init__(self, out, known, sample, limit_s):
        self.out, self.known, self.sample, self.limit_s = out, known, sample, limit_s
        self.result, self.began = None, 0

    def write(self, **line):
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def pytest_collection_modifyitems(self, config, items):
        with open(os.environ.get("SUITE_COUNT", os.devnull), "w", encoding="utf-8") as file:
            file.write(f"{len(items)}\n")
        chosen = [item for item in evenly(items, self.sample) if short_id(item.nodeid) not in self.known]
        dropped = [item for item in items if item not in chosen]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = chosen

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(id="", outcome="failed", error=first_line(report), seconds=0)

    def pytest_runtest_logstart(self, nodeid):
        self.result, self.began = ("passed", ""), time.monotonic()
        self.write(id=short_id(nodeid), outcome="started")
        faulthandler.dump_traceback_later(self.limit_s, exit=True, file=sys.__stderr__)

    def pytest_runtest_logreport(self, report):
        if RANK[report.outcome] > RANK[self.result[0]]:
            self.result = (report.outcome, first_line(report))

    def pytest_runtest_logfinish(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        outcome, error = self.result
        self.write(id=short_id(nodeid), outcome=outcome, error=error,
                   seconds=round(time.monotonic() - self.began, 2))


def pytest_configure(config):
    with open(os.environ["SUITE_KNOWN"], encoding="utf-8") as file:
        known = set(file.read().splitlines())
    out = open(os.environ["SUITE_LINES"], "a", encoding="utf-8")
    config.pluginmanager.register(Lines(out, known, int(os.environ.get("SUITE_SAMPLE", 0)),
                                         float(os.environ["SUITE_LIMIT"])))
