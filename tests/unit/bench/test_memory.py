# SPDX-License-Identifier: Apache-2.0
"""bench/memory starts, and says what it does."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "bench" / "memory"


def test_help():
    done = subprocess.run([TOOL, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "--policies" in done.stdout and "anonymous memory" in done.stdout
    for scene in ("kinds", "others", "models", "surprise", "churn"):
        assert f"{scene}:" in done.stdout
