# SPDX-License-Identifier: Apache-2.0
"""Every example computes through Salus, bit for bit, what it computes on the plugin in-process."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import JOBS, go, session_named, wait_for

EXAMPLES = sorted(p.name for p in (Path(__file__).parents[2] / "examples").glob("*.py")
                  if p.name not in ("common.py", "checkpoint.py"))  # test_scripts.py runs that one


def check_same(run, reference, out):
    """The same digest; if not, say which arrays differ and by how much."""
    if run.digest == reference.digest:
        return
    wrong = []
    with np.load(reference.out) as right, np.load(out) as got:
        if set(right.files) != set(got.files):
            wrong.append(f"other names: {set(right.files) ^ set(got.files)}")
        for name in set(right.files) & set(got.files):
            a, b = right[name], got[name]
            if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                wrong.append(f"{name}: {a.dtype}{a.shape} {a.ravel()[:4]}, got "
                             f"{b.dtype}{b.shape} {b.ravel()[:4]}")
    pytest.fail("results differ:\n" + "\n".join(wrong[:20]))


@pytest.mark.parametrize("example", EXAMPLES)
def test_same_result(example, salus, reference, examples, tmp_path):
    out = tmp_path / "out.npz"
    run = salus(examples / example, "--out", out)
    assert run.code == 0, run.describe()
    check_same(run, reference(example), out)


def run_together(jobs, salus, reference, examples, tmp_path):
    """Start (example, *args) all at once, then compare each with its direct run."""
    runs = [salus.start(examples / example, *args, "--out", tmp_path / f"{i}.npz")
            for i, (example, *args) in enumerate(jobs)]
    for i, ((example, *args), run) in enumerate(zip(jobs, runs)):
        run.succeed(300)
        check_same(run, reference(example, *args), tmp_path / f"{i}.npz")


@pytest.mark.parametrize("pair", [("mlp.py", "cnn.py"), ("transformer.py", "rnn.py"),
                                  ("arrays.py", "random_numbers.py"), ("threads.py", "donation.py"),
                                  ("mlp.py", "mlp.py")], ids="+".join)
def test_two_at_once(pair, salus, reference, examples, tmp_path):
    run_together([(example,) for example in pair], salus, reference, examples, tmp_path)


@pytest.mark.usefixtures("on_the_host")
def test_a_job_that_changes_its_tier(served):
    """XLA:CPU keeps packed weights of a loaded program by their address. With donated weights a program that is loaded
    again gives other results. So a job keeps its programs when it becomes the first, and when it no longer is."""
    daemon, client = served("--policy", "priority", "--lanes", "2", "--tune", "move=1ms")
    if os.geteuid() != 0:
        pytest.skip("salusd may not raise the priority of threads: see docs/ARCHITECTURE.md, Tiers")

    def start():
        return client.start(JOBS / "scratch.py", "squares", "--wait", "--mib", 4, "--steps", 40, env={"SALUS_JOB_NAME": "job"})

    alone = start()
    go([alone])
    alone.succeed(300)
    other = client.start(JOBS / "spin.py", "--trips", 300, env={"SALUS_JOB_NAME": "other"})
    job = start()
    go([other, job])
    wait_for(lambda: session_named(daemon, "job"), 60, "the job")
    tiers = set()
    while session := session_named(daemon, "job"):
        daemon.salus("set", session["id"], f"priority={10 if 'up' in tiers else 30}")
        tiers ^= {"up"}
        tiers.add(session["tier"])
    other.say("stop")
    other.succeed()
    job.succeed(300)
    assert tiers >= {0, 1}
    assert job.digest == alone.digest


@pytest.mark.devices
def test_a_search_at_once(salus, reference, examples, tmp_path):
    """Trials share their programs but not their data."""
    jobs = [("search.py", "--trial", str(i)) for i in range(6)]
    run_together(jobs, salus, reference, examples, tmp_path)
    assert len({reference(*job).digest for job in jobs}) == len(jobs)


def test_again_and_again(salus, reference, examples, tmp_path):
    """A daemon that has served a job serves it again just as well."""
    for i in range(3):
        run = salus(examples / "vae.py", "--out", tmp_path / f"{i}.npz")
        assert run.code == 0, run.describe()
        check_same(run, reference("vae.py"), tmp_path / f"{i}.npz")
