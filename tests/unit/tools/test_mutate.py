# SPDX-License-Identifier: Apache-2.0
"""tools/mutate: every mutant of ours still applies, and what it says of a small tree is right."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "mutate"


def run(*args):
    return subprocess.run([sys.executable, str(TOOL), *map(str, args)], capture_output=True, text=True, timeout=300)


def fields(name):
    return re.findall(rf"^    {name}: (.*)$", "\n".join(
        path.read_text() for path in (ROOT / "tools" / "mutants").glob("*.txt")), re.MULTILINE)


# Ours.


def test_every_mutant_applies():
    """A change of the code that makes this fail needs a look at the mutants of what it changed."""
    result = run("--check")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_there_are_many_in_every_layer_that_has_any():
    names = run("--list").stdout.splitlines()
    layers = [name.partition("/")[0] for name in names]
    assert len(names) >= 100
    for layer in set(layers):
        assert layers.count(layer) >= 10, layer


def test_the_tests_that_they_name_exist():
    lists = (ROOT / "tests" / "CMakeLists.txt").read_text() + (ROOT / "tests" / "fuzz" / "CMakeLists.txt").read_text()
    for name in {word for line in fields("tests") for word in line.split()}:
        if ".py" in name:
            file, _, function = name.partition("::")
            text = (ROOT / file).read_text()
            assert not function or f"def {function.partition('[')[0]}(" in text, name
        else:
            part = name.rpartition("_")[2]
            assert re.search(rf"\b{name}\b", lists) or re.search(
                rf"foreach\(part IN ITEMS [^)]*\b{part}\b", lists) or f"sal_fuzz({part} " in lists, name


# A small tree.

CODE = """int twice(int x);
int never(int x);

int never(int x)
{
	return x;
}

int twice(int x)
{
	int sum = x;

	while (sum < 2 * x)
		sum++;
	return sum;
}
"""
TEST = """int twice(int x);

int main(void)
{
	return twice(3) == 6 ? 0 : 1;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.21)
project(small LANGUAGES C)
enable_testing()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
add_executable(unit_small src/base/small.c test.c)
add_test(NAME unit_small COMMAND unit_small)
"""
PRESETS = """{ "version": 3, "configurePresets": [
  { "name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build" } ] }
"""
MUTANTS = """# A comment.

killed
    file: src/base/small.c
    in: twice
    find: sum < 2 * x
    with: sum <= 2 * x
    tests: unit_small

survives-in-silence
    file: src/base/small.c
    in: never
    find: return x;
    with: return -x;
    tests: unit_small

survives-with-a-reason
    file: src/base/small.c
    in: never
    find: return x;
    with: return x + 1;
    tests: unit_small
    survives: nobody calls it,
    and nobody will

hangs
    file: src/base/small.c
    in: twice
    find: sum++;
    with: sum += 0 * sum;
    tests: unit_small

does-not-apply
    file: src/base/small.c
    in: twice
    find: sum
    with: x
    tests: unit_small

does-not-build
    file: src/base/small.c
    in: twice
    find: int sum = x; while
    with: while
    tests: unit_small
"""


def make_tree(folder, mutants):
    for name, text in {"src/base/small.c": CODE, "test.c": TEST, "CMakeLists.txt": CMAKE, "CMakePresets.json": PRESETS,
                       "tools/mutants/base.txt": mutants}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def test_outcomes(tmp_path):
    root = make_tree(tmp_path, MUTANTS)
    result = run("--root", root, "--limit", 3)
    outcomes = dict(re.findall(r"^base/([^\s:]+) +(killed|survived|hung|does not \w+)", result.stdout, re.MULTILINE))
    assert outcomes == {"killed": "killed", "survives-in-silence": "survived", "survives-with-a-reason": "survived",
                        "hangs": "hung", "does-not-apply": "does not apply", "does-not-build": "does not build"}
    assert re.search(r"^base +6 +2 +33%$", result.stdout, re.MULTILINE)
    complaints = result.stdout.partition("rate\n")[2]
    assert "survives-in-silence: survived" in complaints and "with-a-reason" not in complaints
    assert result.returncode == 1
    assert (root / "src/base/small.c").read_text() == CODE and not (root / "build").exists()


def test_all_killed_or_explained_is_fine(tmp_path):
    root = make_tree(tmp_path, MUTANTS)
    result = run("--root", root, "--only", "killed", "--only", "with-a-reason", "--jobs", 2)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_tree_whose_tests_fail_says_nothing_of_mutants(tmp_path):
    root = make_tree(tmp_path, MUTANTS)
    (root / "test.c").write_text(TEST.replace("== 6", "== 7"))
    result = run("--root", root, "--only", "killed")
    assert result.returncode == 1 and "without any mutant" in result.stderr and "killed" not in result.stdout


def test_a_test_that_is_not_there_kills_nothing(tmp_path):
    root = make_tree(tmp_path, MUTANTS.replace("unit_small", "unit_none"))
    result = run("--root", root, "--only", "killed")
    assert result.returncode == 1 and "unit_none" in result.stderr


def test_check_says_what_does_not_apply(tmp_path):
    result = run("--root", make_tree(tmp_path, MUTANTS), "--check")
    assert result.returncode == 1
    assert result.stdout == "base/does-not-apply: does not apply: its text occurs 4 times\n"


def test_a_list_that_is_wrong_is_refused(tmp_path):
    for number, (wrong, why) in enumerate([("x\n    file: a\n", "lacks in"), ("x\n    nix\n", "is not a field"),
                                           (MUTANTS + "\n" + MUTANTS, "several mutants")]):
        (folder := tmp_path / str(number)).mkdir()
        result = run("--root", make_tree(folder, wrong), "--check")
        assert result.returncode == 1 and why in result.stderr
