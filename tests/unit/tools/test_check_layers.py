# SPDX-License-Identifier: Apache-2.0
"""tools/check_layers finds what it is for, and says so the way editors understand."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_layers"


def run(*args):
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, args)], capture_output=True, text=True
    )


def test_self_test():
    result = run("--self-test")
    assert result.returncode == 0, result.stdout + result.stderr


def test_reports_file_and_line(tmp_path):
    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src" / "base" / "err.c").write_text('\n#include "core/lane.h"\n')
    result = run("--root", tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith("src/base/err.c:2: base must not include core/lane.h")


def test_clean_tree_is_silent(tmp_path):
    (tmp_path / "src" / "core").mkdir(parents=True)
    (tmp_path / "src" / "core" / "lane.c").write_text('#include "base/err.h"\n')
    result = run("--root", tmp_path)
    assert (result.returncode, result.stdout) == (0, "")


def test_missing_archive_is_an_error(tmp_path):
    assert run("--archive", tmp_path / "none.a").returncode != 0


def test_this_tree():
    result = run()
    assert result.returncode == 0, result.stdout
