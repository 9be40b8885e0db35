# SPDX-License-Identifier: Apache-2.0
"""A job that waits for more than some seconds says why on its stderr, and says when it goes on."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sharing import Holder, session_named

LOOP = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x) + 1)
x = jnp.ones((64, 64))
print("ready", flush=True)
while True:
    x = step(x).block_until_ready()
"""


def test_a_job_says_why_it_waits(served, wait):
    daemon, client = served()
    loud = client.start(LOOP, env={"SALUS_JOB_NAME": "loud"})
    quiet = client.start(LOOP, env={"SALUS_JOB_NAME": "quiet", "SALUS_QUIET": "1"})
    for run in (loud, quiet):
        run.wait_for("ready")
    for name in ("loud", "quiet"):
        assert daemon.salus("pause", name).returncode == 0
    told = re.compile(r"^salus: loud \(id \d+\) is paused by the operator, .*`salus resume \d+`", re.M)
    wait(lambda: told.search(loud.stderr), 15, "loud to say why it waits")
    done = session_named(daemon, "loud")["iterations"]
    for name in ("loud", "quiet"):
        assert daemon.salus("resume", name).returncode == 0
    wait(lambda: re.search(r"^salus: loud \(id \d+\) goes on after \d+s$", loud.stderr, re.M), 15, "loud to go on")
    wait(lambda: session_named(daemon, "loud")["iterations"] > done, 10, "iterations")
    assert len(re.findall("^salus: ", loud.stderr, re.M)) == 2 and "salus: quiet" not in quiet.stderr
    for run in (loud, quiet):
        run.kill()


def test_who_has_the_memory(served, wait):
    """An upload that waits is nothing that runs, and still there is something to say. The owner is kept busy: if it
    were idle, it would be paged out."""
    daemon, client = served("--memory", "96MiB", "--policy", "fifo")
    owner, wants = Holder(client, "owner"), Holder(client, "wants", 1)
    owner.do("put", 60)
    wants.begin("put", 60)
    told = re.compile(r"^salus: wants \(id \d+\) is waiting: it needs 6\S+MiB .*; held by owner \(6\S+MiB\)", re.M)
    wait(lambda: owner.do("use") and told.search(wants.run.stderr), 15, "it to say why it waits")
    owner.end()
    wants.answer()
    wait(lambda: re.search(r"^salus: wants \(id \d+\) goes on", wants.run.stderr, re.M), 15, "it to go on")
    wants.end()
