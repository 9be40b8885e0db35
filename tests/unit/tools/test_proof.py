# SPDX-License-Identifier: Apache-2.0
"""The tools that compare JAX through Salus with JAX alone: reading, comparing, writing tables. None runs JAX."""

import importlib.util
import json
import math
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROOF = ROOT / "tools" / "proof"
sys.path.insert(0, str(PROOF))
import feature  # noqa: E402
import feature_results  # noqa: E402
import page  # noqa: E402
import sides  # noqa: E402
import suite_lines  # noqa: E402
import suite_results  # noqa: E402


def tool(name):
    """A script of tools/ as a module."""
    loader = SourceFileLoader(f"tool_{name}", str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


# The page.


def test_a_part_of_the_page_is_replaced_and_the_rest_stays():
    text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\nother\n<!-- y: end -->\n"
    new = page.replaced(text, "x", "one\ntwo")
    assert new == text.replace("old", "one\ntwo")
    assert page.replaced(new, "x", "one\ntwo") == new


@pytest.mark.parametrize("text", ["", "<!-- x: begin -->", "<!-- x: begin --><!-- x: end -->" * 2])
def test_a_page_without_the_marks_is_refused(text):
    with pytest.raises(ValueError):
        page.replaced(text, "x", "body")


def test_the_page_has_the_marks_of_every_tool():
    for part in ("jax_suite", "features", "versions"):
        page.replaced(page.PAGE.read_text(), part, "body")


def test_a_cell_cannot_break_its_table():
    assert page.cell("a | b\nc <d>") == "a \\| b c &lt;d>"
    assert len(page.cell("x" * 1000)) == 160
    assert page.table(("h", "i"), [(1, "b")]).splitlines() == ["| h | i |", "|---|---|", "| 1 | b |"]


# JAX's tests.


def write_lines(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def line(test, outcome, error=""):
    return {"id": test, "outcome": outcome, "error": error, "seconds": 1}


def test_a_test_that_only_started_has_crashed(tmp_path):
    path = tmp_path / "x.jsonl"
    write_lines(path, {"id": "A::a", "outcome": "started"}, line("A::a", "passed"),
                {"id": "A::b", "outcome": "started"})
    with open(path, "a") as file:
        file.write('{"id": "A::c", "outc')  # the process ended while it wrote
    found = suite_results.read_lines(path)
    assert found["A::a"].outcome == "passed"
    assert found["A::b"] == ("failed", suite_results.CRASHED, 0)
    assert set(found) == {"A::a", "A::b"}


def results(**outcomes):
    return {test: suite_results.Result(outcome, "why", 0) for test, outcome in outcomes.items()}


def test_what_does_not_pass_through_salus_is_listed_with_its_reason():
    reasons = [(re.compile("f::b .*why"), "a known reason")]
    sides = {"builtin": results(a="passed", b="passed", c="passed", d="failed", e="passed"),
             "direct": {}, "salus": results(a="passed", b="failed", c="skipped", d="failed")}
    got = suite_results.compare("f", sides, reasons, "builtin")
    assert (got["of"], got["through"]) == (4, 1)
    assert [(r["test"], r["outcome"], r["reason"]) for r in got["rest"]] == [
        ("b", "failed", "a known reason"), ("c", "skipped", suite_results.UNEXPLAINED),
        ("e", "missing", suite_results.UNEXPLAINED)]
    part = suite_results.compare("f", sides, reasons, "builtin", whole=False)
    assert (part["of"], part["through"]) == (3, 1)
    assert "| `f` (part) | 4 of 9 | 3 | 1 |" in suite_results.as_markdown([part | {"tests": 9}], "note")
    assert "| `f` (part) | 4 | 3 | 1 |" in suite_results.as_markdown([part], "note")
    text = suite_results.as_markdown([got], "note")
    assert "| `f` | 4 | 4 | 1 | 25.00 % |" in text and "a known reason" in text and "`e`" in text


def test_a_table_is_read_back():
    def file(name, **more):
        return {"file": name, "whole": True, "ran": 3, "tests": 3, "of": 3, "through": 3, "rest": []} | more

    rest = [{"test": "A::x", "error": "a | b", "reason": suite_results.UNEXPLAINED},
            {"test": "A::y", "error": "", "reason": "known"}]
    text = suite_results.as_markdown([file("b", whole=False, tests=9, through=1, rest=rest), file("a")], "note")
    found = suite_results.read_markdown(text, "note")
    assert [f["file"] for f in found] == ["b", "a"] and suite_results.as_markdown(found, "note") == text
    assert suite_results.read_markdown(text, "a note of another JAX") == []


def test_rows_of_other_files_stay_on_the_page(tmp_path, monkeypatch):
    suite = tool("jax_suite")
    path = tmp_path / "page.md"
    old = [{"file": name, "whole": True, "ran": 1, "tests": 1, "of": 1, "through": 1, "rest": []}
           for name in ("svd_test", "zzz_test", "lax_test")]
    path.write_text("<!-- jax_suite: begin -->\n" + suite_results.as_markdown(old, "note") + "<!-- jax_suite: end -->\n")
    monkeypatch.setattr(page.read, "__defaults__", (path,))
    found = suite.with_others([old[2] | {"ran": 7}, old[0] | {"file": "linalg_test"}], "note")
    assert [(f["file"], f["ran"]) for f in found] == [
        ("linalg_test", 1), ("svd_test", 1), ("lax_test", 7), ("zzz_test", 1)]


def test_a_share_says_100_only_if_nothing_is_missing():
    assert suite_results.share(100000, 100000) == "100 %"
    assert suite_results.share(99999, 100000) == "99.99 %"
    assert suite_results.share(0, 0) == "-"


def test_the_reasons_can_be_read():
    for pattern, reason in suite_results.read_reasons():
        assert reason and pattern.pattern


def test_the_plugin_of_pytest_writes_lines_and_leaves_out_what_is_known(tmp_path, pytester_run):
    tests = """
        import os
        def test_a(): pass
        def test_b(): assert 1 == 2, "so it is"
        def test_c():
            import pytest
            pytest.skip("not here")
        def test_d(): assert 0
        def test_e(): os._exit(9)
        """
    found = pytester_run(tests, known=["test_d"])
    assert {t: r.outcome for t, r in found.items()} == {
        "test_a": "passed", "test_b": "failed", "test_c": "skipped", "test_e": "failed"}
    assert "so it is" in found["test_b"].error and "not here" in found["test_c"].error
    assert found["test_e"].error == suite_results.CRASHED


def test_a_sample_is_evenly_spaced():
    assert suite_lines.evenly(list("abcdefgh"), 3) == ["a", "c", "f"]
    assert suite_lines.evenly(list("abc"), 0) == suite_lines.evenly(list("abc"), 3) == ["a", "b", "c"]


def test_the_plugin_of_pytest_runs_a_sample(pytester_run):
    tests = "\n".join(f"def test_{i}(): pass" for i in range(10))
    assert set(pytester_run(tests, known=["test_0"], sample=2)) == {"test_5"}


def test_a_test_that_hangs_costs_that_test(pytester_run):
    found = pytester_run("""
        import threading
        def test_a(): threading.Event().wait()
        """, limit=1)
    assert found["test_a"].error == suite_results.CRASHED


@pytest.fixture
def pytester_run(tmp_path):
    """Runs source text under the plugin, as tools/jax_suite does, and returns the results."""
    import subprocess
    import textwrap

    def run(source, known=(), limit=600, sample=0):
        (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
        (tmp_path / "known").write_text("\n".join(known))
        env = {**os.environ, "PYTHONPATH": str(PROOF), "SUITE_LINES": str(tmp_path / "lines"),
               "SUITE_KNOWN": str(tmp_path / "known"), "SUITE_LIMIT": str(limit),
               "SUITE_SAMPLE": str(sample)}
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler",
                        "-p", "suite_lines", "--rootdir", tmp_path, tmp_path / "test_it.py"], env=env,
                       capture_output=True, timeout=600)
        return suite_results.read_lines(tmp_path / "lines")

    return run


def test_a_file_gets_the_devices_that_it_asks_for(tmp_path):
    suite = tool("jax_suite")
    (tmp_path / "a.py").write_text("x = 1\njtu.request_cpu_devices(8)\n")
    (tmp_path / "b.py").write_text("# jtu.request_cpu_devices(8)\n")
    assert (suite.devices_of(tmp_path / "a.py"), suite.devices_of(tmp_path / "b.py")) == (8, 1)


def test_a_run_again_forgets_only_what_it_should(tmp_path):
    suite, path = tool("jax_suite"), tmp_path / "x.jsonl"
    write_lines(path, line("a", "passed"), line("b", "failed"), {"id": "c", "outcome": "started"})
    suite.forget(path, ("failed",))
    assert set(suite_results.read_lines(path)) == {"a"}
    suite.forget(path, ("passed", "failed", "skipped"))
    assert suite_results.read_lines(path) == {}


def test_the_limit_of_a_file_does_not_blame_the_test_that_ran(tmp_path):
    suite, path = tool("jax_suite"), tmp_path / "x.jsonl"
    write_lines(path, line("a", "passed"), {"id": "b", "outcome": "started"})
    suite.forget_started(path)
    assert set(suite_results.read_lines(path)) == {"a"}
    suite.forget_started(path)
    assert set(suite_results.read_lines(path)) == {"a"}


# Features.


def works(*values, kind="float32", sha="1"):
    return {"outcome": "works", "error": "",
            "result": {"x": {"type": kind, "shape": [len(values)], "sha256": sha, "values": list(values)}}}


FAILS = {"outcome": "fails", "error": "ValueError: no", "result": {}}


@pytest.mark.parametrize("builtin, direct, salus, good, said", [
    (works(1.0), works(1.0), works(1.0), True, "bit-equal to the plugin"),
    (works(1.0), works(1.0), works(1.00001, sha="2"), False, "differs from the plugin"),
    (works(2.0, sha="3"), works(1.0), works(1.0), True, "built-in backend differs from both"),
    (works(1.0), FAILS, works(1.00001, sha="2"), True, "within"),
    (works(1.0), FAILS, works(1.0), True, "bit-equal to the built-in"),
    (works(1.0), FAILS, works(1.1, sha="2"), False, "differs from the built-in"),
    (works(1.0), FAILS, works(1.0, kind="float64"), False, "differs from the built-in"),
    (works(math.nan), FAILS, works(0.0, sha="2"), False, "differs from the built-in"),
    (works(1.0), FAILS, works(math.inf, sha="2"), False, "differs from the built-in"),
    (works(1.0), works(1.0), FAILS, False, "ValueError: no"),
    (works(1.0), FAILS, FAILS, False, "ValueError: no"),
    (FAILS, FAILS, FAILS, True, "nowhere"),
    (works(1.0), works(1.0), feature_results.NOT_RUN, False, "not run"),
])
def test_the_verdict_on_a_feature(builtin, direct, salus, good, said):
    got, sentence = feature_results.verdict(builtin, direct, salus, 1e-4)
    assert got is good and said in sentence


def test_texts_must_be_equal():
    one, two = ({"x": {"text": t}} for t in ("a", "b"))
    assert feature_results.is_close(one, dict(one), 1) and not feature_results.is_close(one, two, 1)


def test_the_features_have_different_names_and_are_many():
    names = [f.name for group in tool("features").GROUPS for f in feature.load(group)]
    assert len(names) == len(set(names)) >= 90


def test_every_file_of_features_is_a_group():
    assert {path.stem for path in (PROOF / "features").glob("*.py")} == set(tool("features").GROUPS)


def test_features_share_a_process_unless_they_need_their_own():
    made = [SimpleNamespace(name=n, module=m, devices=d, alone=a) for n, m, d, a in (
        ("a", "m", 1, False), ("b", "m", 1, False), ("c", "m", 1, True), ("d", "m", 4, False), ("e", "n", 4, False))]
    got = [[one.name for one in batch] for batch in tool("features").batches(made)]
    assert got == [["a", "b"], ["c"], ["d"], ["e"]]


def test_the_sides_have_the_same_hash_seed(tmp_path):
    envs = [sides.Builtin(tmp_path, tmp_path, "p").env(), sides.Direct(tmp_path, tmp_path, "p").env(4)]
    assert {env["PYTHONHASHSEED"] for env in envs} == {"0"}


# Versions.


@pytest.mark.parametrize("builtin, salus, good", [
    ((True, "1\n", ""), (True, "1\n", "a warning"), True), ((True, "1\n", ""), (True, "2\n", ""), False),
    ((True, "1\n", ""), (False, "1\n", "an error"), False), ((False, "", "an error"), (True, "1\n", ""), False)])
def test_the_verdict_on_a_version(builtin, salus, good):
    assert tool("versions").verdict(builtin, salus)[0] is good


def test_salus_runs_the_program_but_jupyter_itself_for_notebooks():
    versions, side = tool("versions"), SimpleNamespace(prefix=lambda: ["salus", "run", "--"])
    script = PROOF / "versions" / "train.py"
    assert versions.command_of(side, "python", "train") == ["salus", "run", "--", "python", script]
    notebooks = versions.command_of(side, "python", versions.NOTEBOOKS)
    assert notebooks == ["python", PROOF / "versions" / "notebooks.py", "salus", "run", "--"]
    for program in (*versions.PROGRAMS, versions.NOTEBOOKS):
        assert (PROOF / "versions" / f"{program}.py").exists()


def test_an_old_jax_skips_what_it_cannot_do():
    versions = tool("versions")
    assert "devices" not in versions.programs_for("0.5.3") and "train" in versions.programs_for("0.5.3")
    assert versions.programs_for("0.10.2") == list(versions.PROGRAMS)
    row = versions.as_markdown({"0.5.3": {"train": (True, "equal")}}).splitlines()[-1]
    assert row == "| 0.5.3 | equal | not run | not run | not run |"


def test_the_line_of_an_error_is_found_above_hints():
    line = tool("versions").error_line
    assert line("Traceback\n  x\nValueError: no\n-----\nFor simplicity, ...\n") == "ValueError: no"
    assert (line("only this\n"), line("")) == ("only this", "")


def test_the_first_line_of_an_error():
    assert feature.first_line(ValueError("\n one\ntwo")) == "ValueError: one"
    report = SimpleNamespace(longrepr=("file", 3, "Skipped: not here"))
    assert suite_lines.first_line(report) == "Skipped: not here"
