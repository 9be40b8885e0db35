# SPDX-License-Identifier: Apache-2.0
"""What the documents show is what the tree holds."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_example_policy_in_the_document_is_the_one_that_is_tested():
    document = (ROOT / "docs/SCHEDULING.md").read_text()
    source = (ROOT / "examples/policy/slice.c").read_text()
    shown = re.search(r"```c\n(.*?)```", document, re.DOTALL).group(1)
    assert shown in source
    lines = [line for line in shown.splitlines() if line.strip()]
    assert len(lines) <= 60


def test_the_installed_headers_suffice_for_a_policy_of_ones_own(tmp_path):
    build = (ROOT / "src/CMakeLists.txt").read_text()
    listed = re.search(r"foreach\(header IN ITEMS(.*?)\)", build, re.DOTALL).group(1).split()
    for header in listed:
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "src" / header, tmp_path / header)
    for source in sorted((ROOT / "examples/policy").glob("*.c")):
        subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", tmp_path, source,
                        "-o", tmp_path / "mine.so"], check=True)


@pytest.mark.parametrize("document", ("README.md", "docs/SCHEDULING.md"))
def test_every_policy_has_a_row_in_the_document(document):
    names = re.findall(r"^SAL_POLICY\((\w+)\)$", (ROOT / "src/core/policy/list.h").read_text(), re.M)
    assert len(names) >= 8
    table = re.search(r"^\| policy \|.*?\n\n", (ROOT / document).read_text(), re.M | re.S).group()
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(names)


def test_every_file_of_a_policy_is_in_the_list():
    listed = (ROOT / "src/core/policy/list.h").read_text()
    for path in (ROOT / "src/core/policy").glob("*.c"):
        if f"sal_policy_{path.stem} = {{" in path.read_text():
            assert f"\nSAL_POLICY({path.stem})\n" in listed


def documents():
    return [path for place in (".", "docs", "data", "examples") for path in sorted((ROOT / place).glob("*.md"))]


def test_links_between_documents_lead_somewhere():
    for document in documents():
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_prose_has_at_most_100_columns():
    """Tables, pictures and lines that are indented as code may be longer."""
    for document in documents():
        if document.name == "CHANGELOG.md":
            continue
        for number, line in enumerate(document.read_text().splitlines(), 1):
            is_prose = not line.startswith(("|", "![", "    "))
            assert len(line) <= 100 or not is_prose, f"{document.name}:{number}"


def way_of(what):
    """The files on the way of one `what`, as ARCHITECTURE.md shows it."""
    document = (ROOT / "docs/ARCHITECTURE.md").read_text()
    table = re.search(rf"\*\*The way of one {what}.*?\n\n(.*?)\n\n", document, re.S).group(1)
    return re.findall(r"`(src/[\w/]+\.c)`", table)


@pytest.mark.parametrize("what", ("Execute", "upload", "page-out"))
def test_the_ways_through_the_files_are_short_and_true(what):
    files = way_of(what)
    assert 5 <= len(set(files)) <= 15
    for file in files:
        assert (ROOT / file).is_file(), file
