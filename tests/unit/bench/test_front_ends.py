# SPDX-License-Identifier: Apache-2.0
"""bench/front_ends: how its jobs run, and how results are compared."""

import importlib.util
import pathlib
import sys
from importlib.machinery import SourceFileLoader

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("front_ends", str(ROOT / "bench" / "front_ends"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("front_ends", loader))
    loader.exec_module(module)
    return module


def counting(log):
    """A job whose parameter is the number of steps since it began."""
    state = {}

    def step():
        state["n"] += 1
        log.append(("step", state["n"]))
        return state["n"]

    return (lambda: state.update(n=0)), step, (lambda loss: log.append(("wait", loss))), (
        lambda: [np.array([state["n"]])])


def test_a_job_begins_afresh_and_has_some_steps_in_advance(bench):
    log = []
    job = counting(log)
    first = bench.run(job, 0, None, 6)
    assert first["steps"] == 6
    assert log[bench.AHEAD:bench.AHEAD + 3] == [("step", bench.AHEAD + 1), ("wait", 1), ("step", bench.AHEAD + 2)]
    assert bench.run(job, 0, None, 6) == first
    assert bench.run(job, 0, None, 7)["digest"] != first["digest"]


def test_a_window_that_is_over_has_no_steps(bench):
    assert bench.run(counting([]), 0, 1, -1)["steps"] == 0
