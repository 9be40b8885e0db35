# SPDX-License-Identifier: Apache-2.0
"""The memory that is really there, on XLA:CPU: bounded, learned, and back with the system afterwards."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import JOBS, MIB, Watch, ask, go, session_named, wait_for

CAPACITY = 200  # MiB; a convolution of 8 MiB takes 72 MiB of scratch that its program does not mention
KINDS = ["convolution", "sort"]


def real_of(daemon):
    real = ask(daemon, "ps")["device"]["real"]
    if real is None:
        pytest.skip("this build of salusd does not have its own malloc")
    return real


def work(client, kind, name, *args):
    return client.start(JOBS / "scratch.py", kind, *args, env={"SALUS_JOB_NAME": name})


def anonymous_of(daemon):
    with open(f"/proc/{daemon.pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))


def test_an_iteration_is_known_by_what_it_took(served):
    """The program mentions no scratch. The daemon has seen what it takes, and counts it."""
    daemon, client = served()
    real_of(daemon)
    run = work(client, "convolution", "conv", "--stay")
    run.wait_for("done")
    session = session_named(daemon, "conv")
    assert session["ephem_bytes"] >= 64 * MIB, session
    assert session["real_bytes"] >= 8 * MIB, session
    run.say("go")
    run.succeed()


@pytest.mark.parametrize("policy", ["fair", "pack"])
def test_real_memory_has_a_bound(policy, served):
    """Jobs that need more than there is: what they really have stays within the device, and results are the same."""
    daemon, client = served()
    real_of(daemon)
    alone = {kind: work(client, kind, "alone").succeed().digest for kind in KINDS}
    daemon, client = served("--memory", f"{CAPACITY}MiB", "--policy", policy)
    kinds = KINDS * 3
    runs = [work(client, kind, f"{kind}{i}", "--wait") for i, kind in enumerate(kinds)]
    with Watch(daemon) as watch:
        go(runs)
        for run in runs:
            run.succeed()
    watch.check_memory()
    peak = max(sample["device"]["real"]["peak_bytes"] for sample in watch.samples)
    print(f"peak {peak / MIB:.0f} MiB of {CAPACITY} MiB")
    assert 80 * MIB < peak <= 1.05 * CAPACITY * MIB + 32 * MIB
    assert [run.digest for run in runs] == [alone[kind] for kind in kinds]


def test_scratch_is_in_the_range_of_its_lane(served):
    """While iterations run, a lane's range has their scratch, as much as is counted. Between two it has no block."""
    daemon, client = served("--policy", "pack")
    real_of(daemon)
    runs = [work(client, kind, kind, "--wait", "--stay") for kind in KINDS]
    with Watch(daemon) as watch:
        go(runs)
        for run in runs:
            run.wait_for("done")
    lanes = [lane for sample in watch.samples for lane in sample["lanes"]]
    assert max(lane["real"]["used_bytes"] for lane in lanes) >= 64 * MIB  # the convolution's
    running = [lane for lane in lanes if lane["running"] is not None]
    beyond = [lane for lane in running if lane["real"]["used_bytes"] > lane["bytes"] + MIB]
    # XLA:CPU frees scratch a moment after the iteration's end. On a busy machine the next one has its own by then.
    assert len(beyond) <= len(running) / 10, beyond
    assert all(lane["real"]["used_bytes"] <= 2 * lane["bytes"] + MIB for lane in beyond), beyond

    def are_empty():
        now = ask(daemon, "ps")["lanes"]
        return now and all(lane["real"]["used_bytes"] == lane["real"]["lasting_bytes"] == 0 for lane in now)

    wait_for(are_empty, 10, "the ranges to be empty")
    for run in runs:
        run.say("go")
        run.succeed()


def test_what_can_not_fit_is_refused_once_it_is_known(served):
    """The program states no scratch, and takes more than the whole device. Its second iteration fails alone."""
    daemon, client = served("--memory", "100MiB")
    real_of(daemon)
    other = work(client, "sort", "other", "--mib", 1, "--stay")
    other.wait_for("done")
    run = work(client, "convolution", "large", "--mib", 24).finish()
    assert "RESOURCE_EXHAUSTED" in run.stderr and "most it can have is 100MiB" in run.stderr, run.describe()
    other.say("go")
    other.succeed()


def test_memory_goes_back_to_the_system(served):
    """Nothing of a job stays when it has ended, although another one goes on."""
    daemon, client = served()
    real_of(daemon)
    other = work(client, "sort", "other", "--mib", 1, "--stay")
    other.wait_for("done")
    before = anonymous_of(daemon)
    run = work(client, "convolution", "large", "--mib", 32, "--stay")
    run.wait_for("done")
    assert session_named(daemon, "large")["real_bytes"] >= 32 * MIB
    run.say("go")
    run.succeed()
    wait_for(lambda: session_named(daemon, "large") is None, 30, "the end of the session")
    wait_for(lambda: anonymous_of(daemon) < before + 48 * MIB, 30, "its memory to go back")
    other.say("go")
    other.succeed()
    wait_for(lambda: real_of(daemon)["sessions_bytes"] == real_of(daemon)["spare_bytes"] == 0, 30, "an empty heap")


def test_what_a_device_says_is_learned(served, build):
    """The device is not the host. Iterations take 48 MiB beyond what their program states: the device tells."""
    hidden = 48 * MIB
    daemon, client = served("--memory", "256MiB", "--plugin", build / "tests" / "libdiscrete_pjrt.so",
                            "--plugin-option", "platform=cpu", "--plugin-option", f"memory_limit={280 * MIB}",
                            "--plugin-option", f"hidden_scratch={hidden}")
    run = work(client, "sort", "sort", "--stay")
    run.wait_for("done")
    session = session_named(daemon, "sort")
    assert hidden <= session["ephem_bytes"] <= hidden + 32 * MIB, session
    run.say("go")
    run.succeed()
