# SPDX-License-Identifier: Apache-2.0
"""Jobs without Python."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
PATIENCE = float(os.environ.get("SALUS_TEST_PATIENCE", "1"))
TRAIN = BUILD / "examples" / "c" / "train"


def test_a_job_in_c(served, plugin):
    """It trains, and each number is the one that the vendor's plugin gives it without Salus."""
    daemon, _ = served()
    direct = subprocess.run([TRAIN, plugin], capture_output=True, text=True, timeout=120 * PATIENCE)
    assert direct.returncode == 0, direct.stderr
    job = daemon.salus("run", "--name", "in-c", "--", TRAIN, deadline_s=120)
    assert job.returncode == 0, job.stderr
    assert job.stdout == direct.stdout
    losses = [float(n) for n in re.findall(r"loss (\S+)", job.stdout)]
    assert len(losses) == 4 and losses[-1] < 1e-4 < losses[0]
    assert [round(float(w)) for w in job.stdout.split("weights ")[1].split()] == list(range(1, 9))


def test_a_job_in_c_is_told_why(served):
    """Its device is too small: it says so and fails."""
    daemon, _ = served("--memory", "8KiB")
    job = daemon.salus("run", "--", TRAIN, deadline_s=120)
    assert job.returncode == 1
    assert "out of memory" in job.stderr, job.stderr


def test_the_device_layer_of_salusd_as_a_job(served):
    """The code with which salusd drives a vendor's plugin drives ours, too: ours takes no handlers of custom calls."""
    daemon, _ = served()
    hops = [BUILD / "bin" / "salus-bench-hops", BUILD / "lib" / "libsalus_pjrt.so", "wait"]
    job = daemon.salus("run", "--", *hops, deadline_s=120)
    assert (job.returncode, job.stdout) == (0, "ready\n"), job.stderr
