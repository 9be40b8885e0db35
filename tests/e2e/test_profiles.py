# SPDX-License-Identifier: Apache-2.0
"""Jobs that are remembered: what the first run needed is known early in the second."""

import json

import pytest

# Computes for so many seconds, at least one step; then it waits, so that it can be looked at.
JOB = """
import sys, time
import jax, jax.numpy as jnp

step = jax.jit(lambda x: jnp.tanh(x @ x) * 0.5)
x = jnp.full((700, 700), 0.01)
end = time.monotonic() + float(sys.argv[1])
x = step(x).block_until_ready()
while time.monotonic() < end:
    x = step(x).block_until_ready()
print("computed", flush=True)
sys.stdin.readline()
"""
# Uploads before it compiles anything; then it holds eight times as much.
UPLOADER = """
import sys, time
import numpy as np
import jax

x = jax.device_put(np.full((700, 700), 0.01, np.float32)).block_until_ready()
print("uploaded", flush=True)
sys.stdin.readline()
step = jax.jit(lambda x: jax.numpy.tanh(x @ x) * 0.5)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    held = [step(x).block_until_ready() for _ in range(7)]
print("computed", flush=True)
sys.stdin.readline()
"""
STATE_BYTES = 700 * 700 * 4
ENOUGH_S = 1  # to be remembered
NAMED = {"SALUS_JOB_NAME": "steps"}


@pytest.fixture
def kept(tmp_path):
    """What is on disk: the profiles by name, or None if there is no file."""
    def read():
        path = tmp_path / "cache" / "profiles.json"
        if not path.exists():
            return None
        return {p["name"]: p for p in json.loads(path.read_text())["profiles"]}

    return read


@pytest.fixture
def job(tmp_path):
    """A file: programs are told apart by where in the source they come from, too."""
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def look(daemon, client, job, seconds, env=NAMED):
    """Run the job; what `salus ps` says of it before it ends."""
    run = client.start(job, seconds, env=env)
    run.wait_for("computed")
    session, = daemon.sessions()
    run.say("go on")
    run.succeed()
    return session


def test_the_second_run_is_known(start_daemon, client_of, job, tmp_path, kept, wait):
    options = ["--cache", tmp_path / "cache"]
    daemon = start_daemon(*options)
    first = look(daemon, client_of(daemon), job, ENOUGH_S)
    assert first["name"] == "steps" and first["total_s"] == 0
    wait(kept, 10, "the profile to be saved")
    profile = kept()["steps"]
    assert profile["persist_bytes"] >= STATE_BYTES and profile["iterations"] >= 10
    paces = [p for p in profile["paces"] if p]
    assert len(profile["paces"]) == len(profile["programs"])
    assert any(p["alone_runs"] > 0 and p["alone_ns"] > 0 for p in paces), "measured alone"
    assert (tmp_path / "cache" / "profiles.json").stat().st_mode & 0o777 == 0o600
    daemon.stop()

    # Another daemon: what it knows comes from the file. The job has not run for long when it is
    # known.
    daemon = start_daemon(*options)
    second = look(daemon, client_of(daemon), job, 0)
    assert second["total_s"] == pytest.approx(profile["total_ns"] / 1e9)
    assert second["used_s"] < second["total_s"]
    # What the user says comes before what is remembered.
    told = look(daemon, client_of(daemon), job, 0, env={**NAMED, "SALUS_TIME": "7s"})
    assert told["total_s"] == 7
    # The same programs under another name are another job.
    other = look(daemon, client_of(daemon), job, 0, env={"SALUS_JOB_NAME": "other"})
    assert other["total_s"] == 0
    daemon.stop()
    assert kept() == {"steps": profile}, "runs of one iteration are not remembered"


def test_expected_by_its_name_before_it_compiles(start_daemon, client_of, job, tmp_path, kept, wait):
    """The second run has its size and length from the start, unless its programs are others."""
    uploader = tmp_path / "uploader.py"
    uploader.write_text(UPLOADER)
    daemon = start_daemon("--cache", tmp_path / "cache")
    client = client_of(daemon)

    def uploaded():
        run = client.start(uploader, ENOUGH_S, env=NAMED)
        run.wait_for("uploaded")
        session, = daemon.sessions()
        run.say("go on")
        run.wait_for("computed")
        run.say("go on")
        run.succeed()
        return session

    first = uploaded()
    assert first["total_s"] == 0 and first["held_bytes"] < 4 * STATE_BYTES
    wait(kept, 10, "the profile to be saved")
    profile = kept()["steps"]
    assert profile["persist_bytes"] >= 8 * STATE_BYTES
    second = uploaded()
    assert second["held_bytes"] >= profile["persist_bytes"]
    assert second["total_s"] == pytest.approx(profile["total_ns"] / 1e9)
    assert look(daemon, client, job, 0)["total_s"] == 0, "another script of that name"


def test_saved_when_the_daemon_ends(start_daemon, client_of, job, tmp_path, kept):
    daemon = start_daemon("--cache", tmp_path / "cache")
    run = client_of(daemon).start(job, ENOUGH_S, env=NAMED)
    run.wait_for("computed")
    daemon.stop()
    assert any(kept()["steps"]["paces"]), "its programs were still loaded"


def test_nothing_is_remembered_if_not_wanted(start_daemon, client_of, job, tmp_path, kept):
    daemon = start_daemon("--cache", tmp_path / "cache", "--no-profiles")
    for _ in range(2):
        assert look(daemon, client_of(daemon), job, ENOUGH_S)["total_s"] == 0
    daemon.stop()
    assert kept() is None
