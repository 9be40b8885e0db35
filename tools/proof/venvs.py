# SPDX-License-Identifier: Apache-2.0
"""Virtual environments for heavy packages, made once and kept below .cache/."""

import hashlib
import shutil
import subprocess
import sys


def interpreter():
    """Debian's own Python if it is there: the one that tools/setup takes."""
    for candidate in ("/usr/bin/python3", sys.executable):
        if subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0:
            return candidate
    sys.exit("found no python3 with the modules venv and ensurepip")


def make(folder, *lists, packages=(), python=None):
    """The interpreter of a venv that has the packages of the lists (files for pip -r) and those by name. A stamp,
    written last, says that the venv is complete."""
    wanted = "\n".join([*packages, *(path.read_text() for path in lists)])
    stamp, text = folder / ".stamp", hashlib.sha256(wanted.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != text:
        print(f"making {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([python or interpreter(), "-m", "venv", folder], check=True)
        options = [option for path in lists for option in ("-r", str(path))]
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-input",
                        "--disable-pip-version-check", "--only-binary", ":all:", *options, *packages], check=True)
        stamp.write_text(text)
    return folder / "bin/python"


def version_of(python, package):
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
