# SPDX-License-Identifier: Apache-2.0
"""Real jobs that are looked at and steered while they run."""

import json
import re

LOOP = """
import sys, time
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x) + 1)
x = jnp.ones((256, 256))
print("ready", flush=True)
try:
    while True:
        x = step(x).block_until_ready()
except Exception as error:
    print("caught", str(error).splitlines()[0], flush=True)
    print("shape", x.shape, flush=True)
    sys.exit(7)
"""


def session_of(daemon):
    (session,) = daemon.sessions()
    return session


def test_a_job_is_paused_resumed_and_killed(start_daemon, client_of, wait):
    daemon = start_daemon()
    run = client_of(daemon).start(LOOP)
    run.wait_for("ready")
    wait(lambda: session_of(daemon)["iterations"] > 20, 20, "iterations")

    assert daemon.salus("pause", 1).returncode == 0
    wait(lambda: session_of(daemon)["state"] == "paused", 5, "it to stop")
    still = session_of(daemon)
    why = json.loads(daemon.salus("why", 1, "--json").stdout)
    assert why["waits_for"] == "operator"
    assert session_of(daemon)["iterations"] == still["iterations"]
    assert daemon.salus("policy", "srtf").returncode == 0
    assert daemon.salus("resume", 1).returncode == 0
    wait(lambda: session_of(daemon)["iterations"] > still["iterations"] + 20, 20, "it to go on")

    frame = daemon.salus("top", "--once").stdout
    assert re.search(r"policy srtf, .* 1 job,", frame) and re.search(r"^ +1 \S+ +(running|ready|idle) ", frame, re.M)
    assert daemon.salus("kill", 1).returncode == 0
    wait(lambda: "shape" in run.stdout or run.code is not None, 5, "the job to notice")
    run.finish(10)
    assert run.code == 7 and "UNAVAILABLE" in run.stdout and "salus kill" in run.stdout, run.describe()
    assert daemon.sessions() == []
