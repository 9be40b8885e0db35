# SPDX-License-Identifier: Apache-2.0
"""The three ways in which a JAX program runs when we compare: the sides.

    builtin   the CPU backend inside jaxlib
    direct    the vendor's plugin, loaded by JAX in the program's own process
    salus     through a salusd of this run

A side gives the start of a command line and the environment. All sides get the same number of devices.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("builtin", "direct", "salus")
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "JAX_NUM_GENERATED_CASES", "JAX_SKIP_SLOW_TESTS",
             "JAX_ENABLE_X64", "SALUS_LOG")
START_S = 60  # salusd answers by then


def plugin_of(python):
    """The vendor's plugin of an interpreter."""
    code = "from importlib.util import find_spec; print(find_spec('xla_plugins.xla_cpu_pjrt').origin)"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    return Path(found.strip()).parent / "xla_cpu_pjrt.so"


def plain_env(devices):
    """The caller's environment without anything that changes what JAX does. All sides get the same
    hash seed: the programs of some libraries depend on it."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    if devices > 1:
        env["JAX_NUM_CPU_DEVICES"] = str(devices)
    return env | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Builtin:
    name = "builtin"

    def __init__(self, folder, build, plugin):
        del folder, build, plugin

    def prefix(self):
        return []

    def env(self, devices=1):
        return plain_env(devices) | {"JAX_PLATFORMS": "cpu"}

    def close(self):
        pass


class Direct(Builtin):
    name = "direct"

    def __init__(self, folder, build, plugin):
        super().__init__(folder, build, plugin)
        self.folder, self.plugin = Path(folder), plugin

    def env(self, devices=1):
        config = self.folder / f"plugin{devices}.json"
        config.write_text(json.dumps({"library_path": str(self.plugin),
                                      "create_options": {"cpu_device_count": devices}}))
        return plain_env(devices) | {"JAX_PLATFORMS": "cpu", "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{config}"}


class Salus:
    """Owns its daemon. The daemon's caches are the run's own, so that every program is compiled by this build."""

    name = "salus"

    def __init__(self, folder, build, plugin):
        self.folder, self.build = Path(folder), Path(build)
        self.own = {"SALUS_SOCKET": str(self.folder / "salusd.sock")}
        self.log = self.folder / "salusd.log"
        caches = {"XDG_CACHE_HOME": str(self.folder / "cache"), "XDG_STATE_HOME": str(self.folder / "state")}
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen(
                [self.build / "bin/salusd", "--socket", self.own["SALUS_SOCKET"], "--plugin", plugin],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **caches})
        self.wait_until_it_answers()

    def wait_until_it_answers(self):
        end = time.monotonic() + START_S
        ping = [self.build / "bin/salus", "ping"]
        while subprocess.run(ping, env={**os.environ, **self.own}, capture_output=True).returncode:
            if self.daemon.poll() is not None or time.monotonic() > end:
                said = self.log.read_text(errors="replace")[-2000:]
                self.close()
                sys.exit(f"salusd does not answer:\n{said}")
            time.sleep(0.01)

    def prefix(self):
        return [self.build / "bin/salus", "run", "--"]

    def env(self, devices=1):
        return plain_env(devices) | self.own

    def close(self):
        if self.daemon.poll() is not None:
            print(f"salusd ended early, with status {self.daemon.returncode}: see {self.log}", flush=True)
            return
        self.daemon.terminate()
        try:
            self.daemon.wait(20)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()


class Sides:
    """Sides of one run, made when they are first asked for, in a folder that ends with the run."""

    KINDS = {kind.name: kind for kind in (Builtin, Direct, Salus)}

    def __init__(self, build, plugin):
        self.build, self.plugin = build, plugin
        self.folder = tempfile.TemporaryDirectory(prefix="sides.")
        self.made = {}

    def __getitem__(self, name):
        if name not in self.made:
            folder = Path(self.folder.name) / name
            folder.mkdir()
            self.made[name] = self.KINDS[name](folder, self.build, self.plugin)
        return self.made[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.made.values():
            side.close()
        self.folder.cleanup()
