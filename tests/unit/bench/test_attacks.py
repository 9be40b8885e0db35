# SPDX-License-Identifier: Apache-2.0
"""bench/attacks runs, and every row of it has an attacker.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
LIMIT = 120 * float(os.environ.get("SALUS_TEST_PATIENCE", "1"))  # seconds; only against hanging

sys.path.insert(0, str(ROOT / "bench"))
from attackers import ATTACKS  # noqa: E402


def run(*args):
    return subprocess.run([ROOT / "bench" / "attacks", "--build", BUILD, *args], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=LIMIT)


def test_rows_have_attackers():
    unknown = run("--rows", "nothing")
    assert unknown.returncode == 1 and "no row nothing" in unknown.stderr
    rows = set(unknown.stderr.partition("there are ")[2].strip().split(", "))
    assert rows == set(ATTACKS) | {"log"}  # which is the attack of another row, on another daemon


def test_a_row():
    """What is right does not depend on how fast this machine is now."""
    bench = run("--quick", "--rows", "deletes")
    assert re.search(r"^  results +right +bar right +ok$", bench.stdout, re.M), bench.stdout + bench.stderr
    assert re.search(r"^  speed of the honest jobs, in turns +\d", bench.stdout, re.M), bench.stdout
    missed = bench.stdout.count("MISSED")
    assert f"{missed} bars missed" in bench.stdout and bench.returncode == (missed > 0)
