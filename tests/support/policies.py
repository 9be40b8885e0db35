# SPDX-License-Identifier: Apache-2.0
"""The policies of a build, as `salus sim --policies` lists them. A test adds this folder to sys.path."""

import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("SALUS_BUILD", Path(__file__).resolve().parents[2] / "build"))


def policies():
    """Their names, in the order of src/core/policy/list.h."""
    listed = subprocess.run([BUILD / "bin" / "salus", "sim", "--policies"], capture_output=True, text=True,
                            check=True, timeout=60)
    return [line.split()[0] for line in listed.stdout.splitlines()]
