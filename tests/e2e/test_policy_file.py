# SPDX-License-Identifier: Apache-2.0
"""Real jobs under a policy from a shared object, chosen while they run, and ejected when it misbehaves."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))

TRAIN = """
import hashlib, sys
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x) * 0.5 + 1)
x = jnp.ones((128, 128)) * float(sys.argv[1])
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    x = step(x).block_until_ready()
print("digest:", hashlib.sha256(jax.device_get(x).tobytes()).hexdigest(), flush=True)
"""
STEPS = 3000


def iterations_of(daemon):
    return json.loads(daemon.salus("ps", "--json").stdout)["device"]["iterations"]


def policy_of(daemon):
    return json.loads(daemon.salus("policy", "--json").stdout)["policy"]


def test_the_policy_changes_under_running_jobs_and_no_result_does(start_daemon, client_of, direct, wait):
    seeds = ("0.25", "0.75")
    expected = [direct(TRAIN, seed, STEPS).succeed().digest for seed in seeds]
    daemon = start_daemon("--policy", BUILD / "lib" / "policy" / "slice.so", "--lanes", "1")
    client = client_of(daemon)
    endless = client.start(TRAIN, "0.5", 10**9)
    runs = [client.start(TRAIN, seed, STEPS) for seed in seeds]
    for run in (endless, *runs):
        run.wait_for("ready")
    assert policy_of(daemon) == "slice"
    for file, name in (("lib/policy/lottery.so", "lottery"), ("lib/policy/mlfq.so", "mlfq"), ("tests/policy/liar.so", "fifo")):
        before = iterations_of(daemon)
        shown = daemon.salus("policy", BUILD / file)
        assert shown.returncode == 0, shown.stderr
        wait(lambda: iterations_of(daemon) > before + 20, 60, f"iterations under {file}")
        assert policy_of(daemon) == name
    assert daemon.salus("policy", BUILD / "lib" / "policy" / "slice.so").returncode == 0
    assert [run.succeed().digest for run in runs] == expected
    endless.kill()
    wait(lambda: "ejected: " in daemon.log, 10, "the log")
    daemon.stop()
