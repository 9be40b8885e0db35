# SPDX-License-Identifier: Apache-2.0
"""Writes one part of docs/COMPATIBILITY.md. A part is the text between two marks; the rest stays as it is.

    <!-- features: begin -->
    ...
    <!-- features: end -->
"""

import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "COMPATIBILITY.md"


def marks(part):
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"


def divided(text, part):
    """The page before the body of a part, the body, and what follows."""
    begin, end = marks(part)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page needs the marks of {part!r} once")
    head, rest = text.split(begin)
    body, tail = rest.split(end)
    return head, body.strip(), tail


def replaced(text, part, body):
    """The page with the body between the marks of a part."""
    begin, end = marks(part)
    head, _, tail = divided(text, part)
    return f"{head}{begin}\n{body.strip()}\n{end}{tail}"


def read(part, page=PAGE):
    """The body of a part."""
    return divided(page.read_text(), part)[1]


def write(part, body, page=PAGE):
    page.write_text(replaced(page.read_text(), part, body))


def cell(text, most=160):
    """A text as a cell of a table: one line, no bars, no marks of HTML."""
    line = re.sub(r"\s+", " ", str(text)).strip()
    line = line if len(line) <= most else line[: most - 3] + "..."
    return line.replace("|", "\\|").replace("<", "&lt;")


def cells(line):
    """The cells of a row of a table; [] if the line is none, or the line under the heads."""
    if not line.startswith("| ") or not line.endswith(" |"):
        return []
    return [text.strip() for text in re.split(r"(?<!\\)\|", line)[1:-1]]


def prose(text):
    """A paragraph in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)
