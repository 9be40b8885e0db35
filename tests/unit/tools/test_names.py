# SPDX-License-Identifier: Apache-2.0
"""What comments and documents name is there: functions, files, options, environment variables. And every option of
every command is in the documents.
"""

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(os.environ.get("SALUS_BUILD", ROOT / "build")) / "bin"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])

# Files that a build, a vendor or a user makes.
MADE_ELSEWHERE = re.compile(
    r"(pjrt_c_api\w*\.(h|so)|lib(salus|discrete)_pjrt\.so|"
    r"(train|serve|vgg16)\.py|mine\.(c|so)|(slice|lottery|mlfq)\.so|[\w-]+\.(json|svg|csv))$")
# Options of other programs, which the documents mention.
FOREIGN = {"--preset", "--test-dir"}

C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
C_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
FUNCTION = re.compile(r"\b(?:sal|svc|cli|sim|rec)_[a-z0-9_]+\b")
FILE = re.compile(r"(?<![\w./*<-])(?:[\w-]+/)*[\w-]+\.(?:c|h|py|md|so|svg|json|csv|toml|txt|sh)\b(?![\w*(/])")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]+")
VARIABLE = re.compile(r"\bSALUS_[A-Z0-9_]+\b")


@functools.cache
def tracked():
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    return [name for name in listed.split("\n") if name and (ROOT / name).is_file()]


def text_of(name):
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def sources():
    """C files, as (name, code without comments, comments)."""
    found = []
    for name in tracked():
        if name.endswith((".c", ".h")):
            text = text_of(name)
            found.append((name, C_COMMENT.sub(" ", text), C_COMMENT.findall(text)))
    return found


@functools.cache
def scripts():
    return [(name, text_of(name)) for name in tracked()
            if name.endswith((".py", ".txt", ".cmake", "Makefile")) or name.startswith(("tools/", "bench/", "examples/"))]


@functools.cache
def identifiers():
    build = [text for name, text in scripts() if name.endswith(("CMakeLists.txt", ".cmake"))]
    return {word for code in [code for _, code, _ in sources()] + build for word in re.findall(r"\w+", code)}


@functools.cache
def code_and_scripts():
    return "\n".join([code for _, code, _ in sources()]
                     + [text for name, text in scripts() if name != "tests/unit/tools/test_names.py"])


def is_file(name):
    return bool(MADE_ELSEWHERE.search(name)) or any(
        other == name or other.endswith("/" + name) for other in tracked())


def is_function(name):
    """Also the beginning of a family: sal_engine_ and so on."""
    return name in identifiers() or (name.endswith("_") and any(i.startswith(name) for i in identifiers()))


def places(texts, pattern, is_there):
    """`where: name` of each that is not there."""
    return sorted({f"{where}: {name}" for where, text in texts for name in pattern.findall(text)
                   if not is_there(name)})


def refuse(missing):
    assert not missing, "\n" + "\n".join(missing)


def comments():
    return [(name, comment) for name, _, found in sources() for comment in found]


def documents():
    return [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in DOCUMENTS]


def all_texts():
    return comments() + documents()


def test_functions_exist():
    refuse(places(all_texts(), FUNCTION, is_function))


def test_files_exist():
    refuse(places([t for t in all_texts() if t[0] != "CHANGELOG.md"], FILE, is_file))


def test_environment_variables_exist():
    known = set(VARIABLE.findall(code_and_scripts()))
    refuse(places(all_texts(), VARIABLE, known.__contains__))


@functools.cache
def helps():
    """What each program says about its options: name -> text."""
    salus = str(BIN / "salus")
    overview = subprocess.run([salus, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) ", overview, re.MULTILINE)
    assert "run" in commands and "sim" in commands
    found = {"salus": overview}
    for command in commands:
        done = subprocess.run([salus, command, "--help"], capture_output=True, text=True)
        found[f"salus {command}"] = done.stdout + done.stderr
    found["salusd"] = subprocess.run([str(BIN / "salusd"), "--help"], capture_output=True, text=True,
                                     check=True).stdout
    return found


def test_options_exist():
    known = set().union(*(OPTION.findall(text) for text in helps().values())) | FOREIGN
    known |= set(OPTION.findall("\n".join(text for _, text in scripts())))
    code = code_and_scripts()

    def exists(option):
        return option in known or f'"{option[2:]}"' in code or f'"{option}' in code
    refuse(places([t for t in all_texts() if t[0] != "CHANGELOG.md"], OPTION, exists))


@pytest.mark.parametrize("program", ["salus", "salusd"])
def test_every_option_is_documented(program):
    written = "\n".join(text for _, text in documents())
    missing = sorted({f"{name} {option}" for name, text in helps().items() if name.split()[0] == program
                      for option in OPTION.findall(text)
                      if not re.search(re.escape(option) + r"(?![\w-])", written)})
    refuse(missing)
