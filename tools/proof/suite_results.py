# SPDX-License-Identifier: Apache-2.0
"""Results of JAX's tests: read from lines of JSON, compared between sides, written as JSON and as a table."""

import json
import re
from collections import Counter, namedtuple
from pathlib import Path

import page

Result = namedtuple("Result", "outcome error seconds")
Rest = namedtuple("Rest", "test outcome error reason")

CRASHED = "the process ended in this test: a crash, or the limit of time"
MISSING = Result("missing", "did not run", 0)
REASONS = Path(__file__).with_name("reasons.txt")
UNEXPLAINED = "not explained yet"


def read_lines(path):
    """Test -> Result. The last line of a test counts; a test that only started has crashed."""
    results = {}
    if not path.exists():
        return results
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # cut off by a crash
            continue
        if line["outcome"] == "started":
            results[line["id"]] = Result("failed", CRASHED, 0)
        else:
            results[line["id"]] = Result(line["outcome"], line["error"], line["seconds"])
    return results


def read_count(path):
    """How many tests a file has; 0: not known."""
    return int(path.read_text(encoding="utf-8")) if path.exists() else 0


# Reasons.


def read_reasons(path=REASONS):
    """Lines "pattern<TAB>reason"; the pattern is searched in "file::test  error"."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition("\t")
            found.append((re.compile(pattern), reason.strip()))
    return found


def reason_of(reasons, name, test, error):
    where = f"{name}::{test}  {error}"
    return next((reason for pattern, reason in reasons if pattern.search(where)), UNEXPLAINED)


# Comparing.


def compare(name, results, reasons, base, whole=True):
    """One file: outcomes of every side and, of what passes on side `base`, how much passes through Salus. If the file
    was not run to its end on both sides, only tests that ran on both count."""
    passed = [test for test, r in results[base].items()
              if r.outcome == "passed" and (whole or test in results["salus"])]
    rest = []
    for test in sorted(passed):
        got = results["salus"].get(test, MISSING)
        if got.outcome != "passed":
            rest.append(Rest(test, got.outcome, got.error, reason_of(reasons, name, test, got.error)))
    return {
        "file": name,
        "counts": {side: dict(Counter(r.outcome for r in found.values())) for side, found in results.items()},
        "base": base,
        "whole": whole,
        "ran": len(results["salus"]),
        "tests": 0,  # that the file has: not known here
        "of": len(passed),
        "through": len(passed) - len(rest),
        "rest": [r._asdict() for r in rest],
    }


def share(through, of):
    """A share in percent that says 100 only if nothing is missing."""
    if of == 0:
        return "-"
    return "100 %" if through == of else f"{min(99.99, 100 * through / of):.2f} %"


def ran_of(ran, tests):
    return f"{ran} of {tests}" if tests > ran else f"{ran}"


def summary_rows(files):
    rows = [(f"`{f['file']}`" + ("" if f["whole"] else " (part)"), ran_of(f["ran"], f["tests"]), f["of"],
             f["through"], share(f["through"], f["of"])) for f in files]
    of, through = sum(f["of"] for f in files), sum(f["through"] for f in files)
    ran, tests = sum(f["ran"] for f in files), sum(max(f["ran"], f["tests"]) for f in files)
    return rows + [("all", ran_of(ran, tests), of, through, share(through, of))]


def rest_rows(files):
    """The rest by reason: reason, file, how many, the tests."""
    groups = {}
    for f in files:
        for r in f["rest"]:
            groups.setdefault((r["reason"], f["file"]), []).append(r)
    rows = []
    for (reason, name), group in groups.items():
        tests = ", ".join(f"`{r['test'].rpartition('::')[2]}`" for r in group[:20])
        more = f" and {len(group) - 20} more" if len(group) > 20 else ""
        said = f" ({page.cell(group[0]['error'])})" if reason == UNEXPLAINED else ""
        rows.append((page.cell(reason, 400) + said, f"`{name}`", len(group), page.cell(tests, 4000) + more))
    return sorted(rows + [row for f in files for row in f.get("rest_rows", ())], key=lambda row: row[:2])


def as_markdown(files, note):
    heads = ("test file", "tests run", "pass on the built-in backend", "of these pass through Salus", "share")
    text = f"{page.prose(note)}\n\n{page.table(heads, summary_rows(files))}\n"
    rows = rest_rows(files)
    if rows:
        text += "\nThe rest:\n\n" + page.table(("reason", "file", "tests", "which"), rows) + "\n"
    return text


def read_markdown(text, note):
    """The files of a table that as_markdown() wrote under the same note; [] under another one. What did not pass is
    in "rest_rows", as the table has it."""
    files = {}
    if not text.startswith(page.prose(note)):
        return []
    for row in filter(None, map(page.cells, text.splitlines())):
        found = re.fullmatch(r"`(\w+)`( \(part\))?", row[0])
        if found and len(row) == 5:
            ran, _, tests = row[1].partition(" of ")
            files[found[1]] = {"file": found[1], "whole": not found[2], "ran": int(ran), "tests": int(tests or 0),
                               "of": int(row[2]), "through": int(row[3]), "rest": [], "rest_rows": []}
        elif len(row) == 4 and row[1].strip("`") in files:
            files[row[1].strip("`")]["rest_rows"].append((row[0], row[1], int(row[2]), row[3]))
    return list(files.values())
