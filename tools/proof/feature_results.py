# SPDX-License-Identifier: Apache-2.0
"""Compares the results of features between sides, and writes the table."""

import math

import page

LOST = {"outcome": "fails", "error": "the process ended: a crash, or the limit of time", "result": {}}
NOT_RUN = {"outcome": "not run", "error": "", "result": {}}


def same_kind(a, b):
    return a.keys() == b.keys() and all(
        (x.get("type"), x.get("shape"), x.get("text")) == (y.get("type"), y.get("shape"), y.get("text"))
        for x, y in zip(a.values(), (b[name] for name in a)))


def is_equal(a, b):
    """Bit for bit."""
    return same_kind(a, b) and all(a[name].get("sha256") == b[name].get("sha256") for name in a)


def near(x, y, tol):
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    if math.isinf(x) or math.isinf(y):
        return x == y
    return abs(x - y) <= tol * (1 + abs(x))


def is_close(a, b, tol):
    return same_kind(a, b) and all(
        near(x, y, tol) for name in a
        for x, y in zip(a[name].get("values", ()), b[name].get("values", ())))


def verdict(builtin, direct, salus, tol):
    """(is it good, a sentence). What works on the plugin in-process is bit-equal through Salus; what the plugin
    does not have itself is as on the built-in backend."""
    if salus["outcome"] == "not run":
        return False, "not run"
    if salus["outcome"] != "works":
        works = [name for name, side in (("built-in", builtin), ("plugin", direct)) if side["outcome"] == "works"]
        return not works, page.cell(salus["error"], 120) if works else "works nowhere here"
    if direct["outcome"] == "works":
        if not is_equal(direct["result"], salus["result"]):
            return False, "differs from the plugin in-process"
        if builtin["outcome"] == "works" and not is_close(builtin["result"], salus["result"], tol):
            return True, "bit-equal to the plugin; the built-in backend differs from both"
        return True, "bit-equal to the plugin"
    if builtin["outcome"] == "works":
        if is_equal(builtin["result"], salus["result"]):
            return True, "bit-equal to the built-in backend"
        good = is_close(builtin["result"], salus["result"], tol)
        return good, f"as built-in within {tol:g}" if good else "differs from the built-in backend"
    return True, "works through Salus only"


def mark(side):
    return {"works": "yes", "fails": "no", "not run": "-"}[side["outcome"]]


def rows(features, found):
    """(good, cells) of each feature. found: side -> name -> line."""
    result = []
    for one in features:
        builtin, direct, salus = (found[side].get(one.name, NOT_RUN) for side in ("builtin", "direct", "salus"))
        good, said = verdict(builtin, direct, salus, one.tol)
        group = one.module.rpartition(".")[2]
        result.append((good, (group, page.cell(one.name), mark(builtin), mark(direct), mark(salus), said)))
    return result


def as_markdown(result, note):
    good = sum(ok for ok, _ in result)
    heads = ("group", "feature", "built-in", "plugin in-process", "Salus", "result through Salus")
    text = page.prose(f"{note} {good} of {len(result)} are as they should be.")
    return text + "\n\n" + page.table(heads, [cells for _, cells in result]) + "\n"
