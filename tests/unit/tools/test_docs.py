# SPDX-License-Identifier: Apache-2.0
"""What the documents show is what the tree holds."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_example_policy_in_the_document_is_the_one_that_is_tested():
    document = (ROOT / "docs/SCHEDULING.md").read_text()
    source = (ROOT / "examples/policy/slice.c").read_text()
    shown = re.search(r"```c\n(.*?)```", document, re.DOTALL).group(1)
    assert shown in source
    lines = [line for line in shown.splitlines() if line.strip()]
    assert len(lines) <= 60


def test_every_policy_is_in_the_table_of_the_document():
    document = (ROOT / "docs/SCHEDULING.md").read_text()
    table = (ROOT / "src/core/policy.c").read_text()
    names = re.findall(r"&sal_policy_(\w+)", table)
    assert len(names) >= 8
    for name in names:
        assert f"| `{name}` |" in document


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("data/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
