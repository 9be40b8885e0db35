# SPDX-License-Identifier: Apache-2.0
"""bench/evaluate: what is recorded, drawn, skipped and resumed. tests/unit/tools/test_report.py has more.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import types
import xml.etree.ElementTree as xml

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
TOOL = ROOT / "bench" / "evaluate"
LIMIT = 120 * float(os.environ.get("SALUS_TEST_PATIENCE", "1"))  # seconds; only against hanging

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "experiments")]


def load(name):
    """A program of bench/ as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(ROOT / "bench" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


report, evaluate = load("report"), load("evaluate")
kit = importlib.import_module("kit")
workload, arrivals, search, timeline = (importlib.import_module(name) for name in
                                        ("workload", "arrivals", "search", "timeline"))

FACTS = {"cores": 2, "versions": {"jax": "1.2"}}


def record_of(folder, is_full=False):
    return kit.Record(str(folder / "results.jsonl"), FACTS, is_full)


def measured(folder, experiment, fill, is_full=False):
    record = record_of(folder, is_full)
    record.begin(experiment)
    fill(record)
    record.end(3.0)
    return record


# Recording.


def report_lines(folder):
    path = folder / "results.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_what_was_skipped_is_tried_again(tmp_path):
    record = measured(tmp_path, "pytorch", lambda record: record.skip("there is none."))
    assert record.done() == {}


def test_a_measurement_has_spread_seed_and_machine(tmp_path):
    measured(tmp_path, "fair", lambda record: record.add("a", "b", [3, 1, 2, 4, 5], "ms", "<= 4", 7))
    line = json.loads(report_lines(tmp_path)[0])
    assert (line["value"], line["low"], line["high"], line["n"]) == (3, 2, 4, 5)
    assert (line["unit"], line["bar"], line["seed"], line["mode"], line["machine"]) == ("ms", "<= 4", 7, "quick", FACTS)


def test_a_line_that_was_cut_does_not_count(tmp_path):
    record = measured(tmp_path, "fair", lambda record: record.add("a", "b", 1))
    with open(record.path, "a") as file:
        file.write('{"experiment": "search", "took_s"')
    assert record.done() == {"fair": 3.0} and list(report.read(tmp_path)) == ["fair"]


def test_only_what_is_not_done_is_chosen():
    experiments = {"fair": 0, "search": 0}
    options = types.SimpleNamespace(only=None, again=False)
    assert evaluate.chosen(experiments, options, {"fair": 1.0}) == ["search"]
    options.again = True
    assert evaluate.chosen(experiments, options, {"fair": 1.0}) == ["fair", "search"]
    options.only = "nothing"
    with pytest.raises(SystemExit, match="no experiment nothing; there are fair, search"):
        evaluate.chosen(experiments, options, {})


# Reporting.


def fill_curves(record):
    record.add("srtf", "mean", [1, 2, 3], "s", ">= 3")
    record.add_series("srtf", [3, 1, 2], "jobs", "time, s")
    record.add_pairs("srtf", [[0, 1], [1, 2]], "measured", "simulated", "simulated")


def test_tables_and_plots(tmp_path):
    measured(tmp_path, "arrivals", fill_curves)
    measured(tmp_path, "timeline", lambda record: record.add_spans("long", [[0, 1], [2, 3.5]], "s"))
    runs = report.read(tmp_path)
    for experiment, lines in runs.items():
        report.plot(experiment, lines, tmp_path)
    for name in ("arrivals", "arrivals-simulated", "timeline"):
        assert xml.parse(tmp_path / f"measured-{name}.svg").getroot().tag.endswith("svg")
    text = report.update("<!-- measured arrivals -->\nold\n<!-- end -->\n<!-- measured fair -->\nstays\n<!-- end -->", runs)
    assert "| srtf | 2 s [1, 3] (**>= 3 missed**) |" in text and "old" not in text and "stays" in text
    assert "(img/measured-arrivals-simulated.svg)" in text and "`bench/evaluate --only arrivals`" in text


def test_what_was_skipped_is_said(tmp_path):
    measured(tmp_path, "pytorch", lambda record: record.skip("There is no torch."))
    assert report.section("pytorch", report.read(tmp_path)["pytorch"]) == "*Not measured: There is no torch.*"


# Workloads.


def test_jobs_are_drawn_alike_with_one_seed():
    kinds = [workload.Kind(32, 0, 0.001, 0), workload.Kind(32, 0.5, 0.002, 1)]
    jobs = workload.draw(kinds, 20, 0.1, 1.5, 5, 12)
    assert jobs == workload.draw(kinds, 20, 0.1, 1.5, 5, 12) != workload.draw(kinds, 20, 0.1, 1.5, 5, 13)
    lengths = sorted(job.alone_s for job in jobs)
    assert lengths[0] == pytest.approx(0.1, rel=0.05) and lengths[-1] == pytest.approx(1.5, rel=0.05)
    assert jobs[0].at_s == 0 and all(0 <= job.at_s <= 5 for job in jobs)


def test_half_of_the_trials_stop_early():
    kind = workload.Kind(32, 0.2, 0.01, 2)
    steps = [int(trial.argv[trial.argv.index("--steps") + 1]) for trial in search.trials(kind, 4, 40, True)]
    assert steps == [40, 10, 40, 10]
    assert len({trial.argv for trial in search.trials(kind, 4, 40, False)}) == 4  # each has settings of its own


def test_makespans_are_compared_only_if_nothing_was_lost(tmp_path, monkeypatch):
    def play(_stage, way, trials, _memory, _flags, _cache):
        took_s, lost = {"exclusive": (10, False), "free": (5, True), "pack": (4, False)}[way]
        return [types.SimpleNamespace(at_s=0, ended_s=took_s, lost=lost) for _ in trials]

    monkeypatch.setattr(search, "fill_caches", lambda *_: None)
    monkeypatch.setattr(search, "measure_kinds", lambda *_: [workload.Kind(32, 0.2, 0.01, 2)])
    monkeypatch.setattr(search, "roomy", lambda *_: kit.Memory(1 << 20, 1 << 20))
    monkeypatch.setattr(search, "play_in", play)
    record = record_of(tmp_path)
    record.begin("search")
    search.measure(types.SimpleNamespace(dir=str(tmp_path)), record, types.SimpleNamespace(pick=lambda quick, _full: quick))
    ratios = {line["row"]: line["value"] for line in record.lines if "/" in line["row"]}
    assert ratios == {"pack / exclusive, cold": 0.4, "pack / exclusive, warm, early stopping": 0.4}


def test_pieces_of_a_timeline():
    turns = [{"start": s * 1_000_000, "end": e * 1_000_000} for s, e in ((300, 310), (100, 105), (106, 120))]
    assert timeline.pieces(turns, 100_000_000) == [pytest.approx([0, 0.02]), pytest.approx([0.2, 0.21])]


def test_simulated_times_are_compared_by_job(tmp_path):
    if not (BUILD / "bin" / "salus").exists():
        pytest.skip(f"{BUILD / 'bin' / 'salus'} does not exist: build it first")
    kind = workload.Kind(32, 0, 0.01, 0)
    jobs = [kit.Arrival(f"job{i}", 0, workload.argv_of(kind, steps), steps * 0.01) for i, steps in enumerate((100, 50))]
    last_s = 1.75 + 0.25 / arrivals.CORES  # the start of the other takes one core, which is part of the device
    played = [types.SimpleNamespace(name="job0", at_s=0, ended_s=last_s, lost=False),
              types.SimpleNamespace(name="job1", at_s=0, ended_s=0.75, lost=False)]
    record = record_of(tmp_path)
    record.begin("arrivals")
    stage, util = types.SimpleNamespace(dir=str(tmp_path), build=str(BUILD)), dict.fromkeys(jobs, 1)
    arrivals.simulate(stage, record, "srtf", util, played, 0.25)
    assert arrivals.ideal_gain(stage, util) == pytest.approx(((1 + 1.5) / 2 - (0.5 + 1.5) / 2, 1.25), abs=0.02)
    ratio, *_ = (line["value"] for line in record.lines if line.get("column", "").startswith("mean completion"))
    assert ratio == pytest.approx(1, abs=0.02)
    assert record.lines[-1]["pairs"] == [pytest.approx([0.75, 0.75], abs=0.04), pytest.approx([last_s, last_s], abs=0.04)]


# The program.


def run(*args):
    return subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=LIMIT)


def need_build():
    if not (BUILD / "bin" / "salusd").exists():
        pytest.skip(f"{BUILD / 'bin' / 'salusd'} does not exist: build it first")


def test_it_runs_once_and_is_complete(tmp_path):
    need_build()
    done = run("--only", "timeline,pytorch", "--out", tmp_path, "--build", BUILD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "timeline (1 of 2; about" in done.stdout and "results:" in done.stdout
    runs = report.read(tmp_path)
    assert {line["series"] for line in runs["timeline"] if "spans" in line} == set(timeline.JOBS)
    assert all(line["machine"]["versions"]["jax"] for line in runs["timeline"])
    again = run("--only", "timeline", "--out", tmp_path, "--build", BUILD)
    assert again.returncode == 0 and "All experiments are complete" in again.stdout


def children_of(mark):
    """All processes that have this variable in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test_nothing_is_left_of_an_interrupted_run(tmp_path):
    need_build()
    tool = subprocess.Popen([TOOL, "--only", "packing", "--out", tmp_path, "--build", BUILD], text=True,
                            env=os.environ | {"BENCH_MARK": str(tmp_path)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    for line in tool.stdout:
        if line.startswith("packing"):
            break
    tool.send_signal(signal.SIGTERM)
    tool.communicate(timeout=LIMIT)
    assert tool.returncode != 0 and not (tmp_path / "results.jsonl").exists()
    assert children_of(f"BENCH_MARK={tmp_path}") == []
