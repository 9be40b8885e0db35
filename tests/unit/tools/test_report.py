# SPDX-License-Identifier: Apache-2.0
"""bench/report and the record of bench/evaluate: what is measured is what the tables say."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FACTS = {"cores": 2, "versions": {"jax": "1.2.3"}}


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    loader = importlib.machinery.SourceFileLoader("bench_report", str(ROOT / "bench" / "report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_report", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def kit(monkeypatch):
    for folder in ("bench", "bench/experiments"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("kit")


def measure(kit, folder, experiment, is_full=False, value=1.0):
    record = kit.Record(folder / "results.jsonl", FACTS, is_full)
    record.begin(experiment)
    record.add("salus", "time", [value, value + 1, value + 2], "s", "<= 2")
    record.add("free", "time", value, "s")
    record.end(3)
    return record


def test_a_table_has_all_measurements_and_their_bars(report, kit, tmp_path):
    measure(kit, tmp_path, "one", value=1.0)
    text = report.section("one", report.read(tmp_path)["one"])
    assert "| salus | 2 s [1, 3] (<= 2) |" in text
    assert "| free | 1 s |" in text
    assert "`bench/evaluate --only one`" in text and "2 cores, jax 1.2.3" in text


@pytest.mark.parametrize("bar, value, reached", [("<= 2", 2.0, True), ("<= 2", 2.1, False), (">= 3", 3.0, True),
                                                 (">= 3", 2.9, False), (1.02, 1.02, True), (1.02, 1.03, False),
                                                 ("0.95 to 1.05", 1.0, True), ("0.95 to 1.05", 1.06, False),
                                                 ("0.95 to 1.05", 0.94, False), (None, 1.0, None)])
def test_bars(report, bar, value, reached):
    line = {"bar": bar, "value": value, "unit": "", "n": 1}
    assert report.verdict(line) is reached
    assert ("missed" in report.cell(line)) == (reached is False)


def test_the_last_run_counts_and_a_full_one_before_a_quick_one(report, kit, tmp_path):
    measure(kit, tmp_path, "one", value=5)
    measure(kit, tmp_path, "one", value=6)
    assert report.read(tmp_path)["one"][1]["value"] == 6
    measure(kit, tmp_path, "one", is_full=True, value=7)
    measure(kit, tmp_path, "one", value=8)
    assert report.read(tmp_path)["one"][1]["value"] == 7


def test_a_run_resumes_after_the_experiments_that_are_complete(kit, tmp_path):
    record = measure(kit, tmp_path, "one")
    record.begin("two")
    record.add("row", "column", 1)  # interrupted: nothing is written
    again = kit.Record(tmp_path / "results.jsonl", FACTS, False)
    assert list(again.done()) == ["one"]
    assert kit.Record(tmp_path / "results.jsonl", FACTS, True).done() == {}
    for line in again.read():
        assert line["machine"] == FACTS and line["mode"] == "quick"


def test_the_page_gets_the_tables_that_were_measured(report, kit, tmp_path):
    measure(kit, tmp_path, "one")
    before = "a\n<!-- measured one -->\nold\n<!-- end -->\nb\n<!-- measured two -->\nkept\n<!-- end -->\n"
    after = report.update(before, report.read(tmp_path))
    assert "old" not in after and "| salus |" in after and "kept" in after
    assert report.update(after, report.read(tmp_path)) == after


def test_every_experiment_has_a_place_in_the_page():
    names = {path.stem for path in (ROOT / "bench/experiments").glob("*.py")} - {"kit", "catalogue", "workload"}
    page = (ROOT / "docs/EVALUATION.md").read_text()
    catalogue = (ROOT / "bench/experiments/catalogue.py").read_text()
    for name in names:
        assert f"<!-- measured {name} -->" in page and f"import {name}\n" in catalogue
        text = (ROOT / f"bench/experiments/{name}.py").read_text()
        assert all(word in text for word in ("ESTIMATE_S = ", "FIGURE = ", "def measure(stage, record, options):"))


def test_curves_are_drawn(report, tmp_path):
    lines = [{"series": "a", "points": [[0, 1], [1, 2]], "x": "s", "y": "work"}]
    report.plot("one", lines, tmp_path)
    assert "<svg" in (tmp_path / "measured-one.svg").read_text()
    report.plot("two", [{"row": "a"}], tmp_path)
    assert not (tmp_path / "measured-two.svg").exists()
