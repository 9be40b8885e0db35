# SPDX-License-Identifier: Apache-2.0
"""Jobs with several devices: sharding, collectives and copies, as on the plugin in-process."""

from pathlib import Path

import pytest

JOB = Path(__file__).parent / "jobs" / "devices.py"
SETTINGS = {"XLA_FLAGS": {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
            "JAX_NUM_CPU_DEVICES": {"JAX_NUM_CPU_DEVICES": "4"},
            "jax.config": {"CONFIG_DEVICES": "4"}}


@pytest.mark.parametrize("n", [2, 4, 8])
def test_same_result(n, wide, direct_wide):
    """More devices than cores, too: a collective needs all of them at once."""
    run = wide(n)(JOB, deadline_s=300)
    assert run.code == 0, run.describe()
    assert run.stdout == direct_wide(JOB, n)
    assert run.stdout.startswith(f"devices: {n}\n")


def test_beside_one_device(wide, salus, direct_wide, reference, examples, daemon):
    """One grant covers all devices of a job, and a job with one device takes turns with it."""
    runs = [wide(4).start(JOB), salus.start(examples / "mlp.py"), wide(2).start(JOB), wide(4).start(JOB)]
    for run in runs:
        run.succeed(600)
    assert [run.stdout for run in (runs[0], runs[2], runs[3])] == [direct_wide(JOB, 4), direct_wide(JOB, 2), direct_wide(JOB, 4)]
    assert runs[1].digest == reference("mlp.py").digest
    assert daemon.log.count("devices=4") >= 1


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_jax(setting, salus):
    """Each of JAX's own ways to ask for several CPU devices works."""
    run = salus(JOB, "copies", env=SETTINGS[setting])
    assert run.code == 0, run.describe()
    assert run.stdout == "devices: 4\n"


def test_shardings_that_a_program_inspects(wide, builtin):
    """The plugin in-process cannot do this: the built-in backend is the measure."""
    job = JOB.with_name("shardings.py")
    run, expected = wide(4)(job, deadline_s=300), builtin(job, env={"JAX_NUM_CPU_DEVICES": "4"})
    assert run.code == 0, run.describe()
    assert expected.code == 0 and "sharding: " in expected.stdout, expected.describe()
    assert run.stdout == expected.stdout


def test_contradictions_are_refused(wide):
    run = wide(4)(JOB, "copies", env={"XLA_FLAGS": "--xla_force_host_platform_device_count=3"})
    assert run.code != 0
    assert "asks for 4 devices by --devices" in run.stderr and "3 by" in run.stderr


def test_too_many_are_refused(salus, wide):
    run = salus(JOB, "copies", env={"XLA_FLAGS": "--xla_force_host_platform_device_count=1000"})
    assert run.code != 0 and "at most 64" in run.stderr
    run = wide(65)(JOB, "copies")
    assert run.code == 64 and "expected 1 to 64" in run.stderr


def test_paged_out_and_in(start_daemon, wide_runner):
    """Two jobs that do not fit together take turns; each device's arrays come back to it."""
    daemon = start_daemon("--memory", "48MiB")
    jobs = [wide_runner(daemon, 4).start(JOB, "sharded_jit") for _ in range(2)]
    for turn in range(3):
        for job in jobs:
            job.say("again")
            job.wait_for("\n".join(["devices: 4"] + ["sharded_jit: "] * (turn == 0)), 300)
    for job in jobs:
        job.succeed(300)
        lines = job.stdout.splitlines()[1:]
        assert len(lines) == 3 and len(set(lines)) == 1, job.describe()
    assert jobs[0].stdout == jobs[1].stdout
    daemon.stop()
