# SPDX-License-Identifier: Apache-2.0
"""The policies of a build, by asking it. A test finds this folder through sys.path."""

import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("SALUS_BUILD", Path(__file__).resolve().parents[2] / "build"))


def policies():
    """Their names, in the order of src/core/policy/list.h."""
    listed = subprocess.run([BUILD / "bin" / "salus", "sim", "--policies"], capture_output=True, text=True,
                            check=True, timeout=60)
    return [line.split()[0] for line in listed.stdout.splitlines()]
