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


def replaced(text, part, body):
    """The page with the body between the marks of a part."""
    begin, end = marks(part)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page needs the marks of {part!r} once")
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n{body.strip()}\n{end}{tail}"


def write(part, body, page=PAGE):
    page.write_text(replaced(page.read_text(), part, body))


def cell(text, most=160):
    """A text as a cell of a table: one line, no bars, no marks of HTML."""
    line = re.sub(r"\s+", " ", str(text)).strip()
    line = line if len(line) <= most else line[: most - 3] + "..."
    return line.replace("|", "\\|").replace("<", "&lt;")


def prose(text):
    """A paragraph in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)
