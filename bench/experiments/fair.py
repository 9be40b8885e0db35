# SPDX-License-Identifier: Apache-2.0
"""Three equal jobs come and go under fair: work done over time."""

import time

from machine import median
from sharing_fill import work_by_window

FIGURE = "figure 9"
ESTIMATE_S = (10, 85)
STEP_MS = 10


def measure(stage, record, options):
    phase_s = options.pick(1.5, 15)
    what = ("narrow", stage.products(STEP_MS))
    with stage.daemon("--policy", "fair", "--lanes", "1") as daemon:
        jobs = daemon.start_jobs("first", "second", "third")
        alone_s = median([job.ask("step_time", what, 20) for job in jobs])
        start_ns = time.monotonic_ns() + 100_000_000
        for number, job in enumerate(jobs):
            begin, end = number, 5 - number  # phases in which the job is there: one job, two, three, two, one
            job.tell("steps", [what], 3, start_ns + round(begin * phase_s * 1e9), start_ns + round(end * phase_s * 1e9))
        ends = [job.answer()["ends"][0] for job in jobs]
    windows = 5 * 10
    for job, mine in zip(jobs, ends):
        work = work_by_window([(alone_s, mine)], start_ns, phase_s / 10, windows)
        record.add_series(job.name, [[(i + 0.5) * phase_s / 10, share] for i, share in enumerate(work)], "s",
                          "work done / time")
    for number, present in enumerate((1, 2, 3, 2, 1)):
        shares = [work_by_window([(alone_s, mine)], start_ns + round(number * phase_s * 1e9), phase_s, 1)[0] for mine in ends]
        some = [share for job, share in enumerate(shares) if job <= number <= 4 - job]  # those that are there
        record.add(f"phase {number + 1}: {present} jobs", "work done / time", sum(shares))
        record.add(f"phase {number + 1}: {present} jobs", "largest share / least", max(some) / min(some))
