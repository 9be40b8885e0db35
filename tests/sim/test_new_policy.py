# SPDX-License-Identifier: Apache-2.0
"""A new policy is one file and one line: in a copy of the tree, the lottery becomes a policy of another name.

The copy is built, and its suites, its simulator and its daemon take the policy like any other.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = "raffle"
# Every suite that goes through the list of policies and takes a few seconds.
SUITES = ["cts_core_policies", "cts_core_stuck", "cts_core_two_lanes", "sim_replay", "unit_service_admin"]
PROGRAMS = ["salus", "salusd", "salus-compile"]


def run(*command, cwd, **env):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what a build needs, with the new policy, built."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(ROOT / name, copy)
    for name in ("bench", "cmake", "data", "examples", "python", "src", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / ".venv").symlink_to(ROOT / ".venv")
    source = (ROOT / "examples" / "policy" / "lottery.c").read_text()
    (copy / "src" / "core" / "policy" / f"{NAME}.c").write_text(source.replace("lottery", NAME))
    with open(copy / "src" / "core" / "policy" / "list.h", "a", encoding="utf-8") as listed:
        listed.write(f"SAL_POLICY({NAME})\n")
    run("cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug", cwd=copy)
    run("cmake", "--build", "build", "--target", *SUITES, *PROGRAMS, cwd=copy)
    return copy


def test_the_suites_of_every_policy_pass(tree):
    shown = run("ctest", "--test-dir", "build", "-R", "^(" + "|".join(SUITES) + ")$", cwd=tree)
    assert f"0 tests failed out of {len(SUITES)}" in shown


def test_the_simulator_knows_it(tree):
    salus = tree / "build" / "bin" / "salus"
    shown = run(salus, "sim", "--help", cwd=tree)
    assert f"\n  {NAME} " in shown and f"under {NAME}:\n  seed=" in shown
    report = run(salus, "sim", "--trace", "data/fair3.csv", "--memory", "15.6GiB", "--check", "--policy",
                 f"fifo,{NAME}", "--tune", "seed=7", cwd=tree)
    assert f"\n{NAME} " in report
    assert f", {NAME}\n" in run("sh", "-c", f"{salus} sim --trace t --memory 1GiB --policy lifo 2>&1; true", cwd=tree)


def test_the_daemon_serves_jobs_with_it(tree):
    shown = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/cli/test_cli_steer.py", "-k",
                "test_policy_lists_and_chooses or test_every_policy_serves_jobs", cwd=tree,
                SALUS_BUILD=str(tree / "build"))
    assert "2 passed" in shown
