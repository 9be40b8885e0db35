# SPDX-License-Identifier: Apache-2.0
"""The products as the linker left them, and what the running ones let others see.

    SALUS_BUILD   build directory   (build)
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "tests" / "unit" / "service"))
import liar  # noqa: E402

PROGRAMS = ["bin/salusd", "bin/salus", "bin/salus-compile"]
PRODUCTS = [*PROGRAMS, "lib/libsalus_pjrt.so"]


def readelf(product, *options):
    return subprocess.run(["readelf", "-W", *options, str(BUILD / product)], capture_output=True, text=True,
                          check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def segment_flags(product, name):
    """Of the program header of that name: what its memory may be used for, as "RW"."""
    (line,) = [line for line in readelf(product, "-l").splitlines() if line.split()[:1] == [name]]
    return re.search(r"0x[0-9a-f]+ +([RWE ]+?) +0x[0-9a-f]+$", line).group(1).replace(" ", "")


@pytest.mark.parametrize("product", PRODUCTS)
def test_addresses_are_random(product):
    assert re.search(r"Type: +DYN ", readelf(product, "-h"))


@pytest.mark.parametrize("product", PROGRAMS)
def test_programs_are_position_independent(product):
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf(product, "-d"))


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_the_linker_writes_is_read_only(product):
    assert segment_flags(product, "GNU_RELRO") == "R"
    dynamic = readelf(product, "-d")
    assert re.search(r"\(FLAGS_1\).*\bNOW\b", dynamic)
    assert "(TEXTREL)" not in dynamic


@pytest.mark.parametrize("product", PRODUCTS)
def test_nothing_is_written_and_executed(product):
    assert segment_flags(product, "GNU_STACK") == "RW"
    loaded = [line for line in readelf(product, "-l").splitlines() if line.split()[:1] == ["LOAD"]]
    assert loaded and not any("RWE" in line for line in loaded)


@pytest.mark.parametrize("product", PRODUCTS)
def test_overruns_are_found(product):
    symbols = readelf(product, "--dyn-syms")
    if re.search(r"__(asan|tsan|ubsan)_", symbols):
        pytest.skip("a sanitizer looks for them")
    assert "__stack_chk_fail" in symbols
    assert re.search(r"\b__(memcpy|snprintf|vsnprintf)_chk\b", symbols)


# What the running ones let others see.


def core_limit(pid):
    (line,) = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "core file" in line]
    return line.split()[4:6]


def owner(pid):
    """Of files in /proc: the process's user, or root if it cannot be dumped."""
    return os.stat(f"/proc/{pid}/environ").st_uid


def helpers(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


OTHER_USER = 12345


def start_as_other(folder, debug):
    """A salusd of an ordinary user that may make core dumps, as far as we are concerned."""

    def drop():
        resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
        os.setgid(OTHER_USER)
        os.setuid(OTHER_USER)

    os.chown(folder, OTHER_USER, OTHER_USER)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **({"SALUS_DEBUG_CORE": "1"} if debug else {})}
    return subprocess.Popen([str(BUILD / "bin" / "salusd"), "--socket", "s", "--plugin", "fake", "--cache", "none"],
                            env=env, cwd=folder, preexec_fn=drop, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def reachable_by_others():
    return all(p.stat().st_mode & 0o001 for p in BUILD.resolve().parents)


def is_listening(path):
    """The socket is there a moment before salusd listens."""
    try:
        liar.connect(path).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user other than the tests'")
@pytest.mark.parametrize("debug", [False, True])
def test_memory_of_others_is_not_dumped(debug):
    if not reachable_by_others():
        pytest.skip("another user cannot reach the build")
    folder = Path(tempfile.mkdtemp(prefix="salus-hard-"))
    daemon = start_as_other(folder, debug)
    path = folder / "s"
    try:
        liar.wait_until(lambda: daemon.poll() is not None or is_listening(path), 30, "salusd to be there")
        assert daemon.poll() is None
        with liar.Client(path) as client:
            client.compile("fake 1\noutput u8 4 = fill 1\n")  # there is a helper now
            pids = [daemon.pid, *helpers(daemon.pid)]
            assert len(pids) >= 2
            for pid in pids:
                assert core_limit(pid) == (["1048576", "1048576"] if debug else ["0", "0"])
                assert owner(pid) == (OTHER_USER if debug else 0)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
