# SPDX-License-Identifier: Apache-2.0
"""Who dies costs the others nothing: the daemon, a client, a compile helper, at any moment."""

import os
import re
import resource
import signal
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("SALUS_TEST_KILLS", "20"))

pytestmark = pytest.mark.skipif(bool(os.environ.get("SALUS_TEST_DIRECT")),
                                reason="needs salusd, and only the tests are being tried")

# Prints what it caught and when; the clock is the same in all processes.
PRELUDE = """
import sys, time
import jax, jax.numpy as jnp, numpy as np

def slow_to_compile(x):
    for i in range(400):
        x = jnp.sort(jnp.sin(x * i)) + jnp.cumsum(x)
    return x

@jax.jit
def iterate(x, n):
    return jax.lax.fori_loop(0, n, lambda i, x: jnp.sin(x) + 1, x)

def caught(error):
    text = " ".join(str(error).split())
    print(f"caught {time.monotonic()} {type(error).__name__}: {text}", flush=True)

def ready():
    print("ready", flush=True)

def metadata(x):
    # What JAX may not be refused: it would abort.
    return (jax.devices(), repr(jax.devices()[0]), jax.devices()[0].memory_stats(), x.shape, x.dtype,
            x.sharding, x.is_deleted(), x.devices(), jax.live_arrays() and None)

x = iterate(jnp.ones((256, 256)), 1).block_until_ready()
"""

# What a client is doing when the daemon is killed. Each must raise, then end with status 7.
PHASES = {
    "compile": "program = jax.jit(slow_to_compile).lower(jnp.ones(16)); ready(); program.compile()",
    "execute": "ready(); iterate(x, 100_000).block_until_ready()",
    "download what is being computed": "ready(); np.asarray(iterate(x, 100_000))",
    "queue": """
    ready()
    while True: x = iterate(x, 5)""",
    "wait for a long queue": """
    for _ in range(20): x = iterate(x, 5_000)
    ready()
    x.block_until_ready()""",
    "upload": """
    host = np.ones(16 << 20, np.float32)
    ready()
    while True: jax.device_put(host).block_until_ready()""",
    "download": """
    y = jnp.ones(16 << 20)
    ready()
    while True: np.asarray(y + 1)""",
    "small uploads": """
    ready()
    while True: jax.device_put(np.ones(8, np.float32)).block_until_ready()""",
    "tiny programs": """
    ready()
    while True: x = x + 1""",
}


def check_caught(run, killed_at, patience):
    """It raised UNAVAILABLE within a second of the kill, and ended by itself with its own status."""
    assert run.code == 7, run.describe()
    caught = re.findall(r"^caught ([\d.]+) (\w+): (.*)$", run.stdout, re.M)
    assert caught, run.describe()
    for moment, kind, text in caught:
        # jit's fast path makes a ValueError of whatever Execute returns.
        assert kind in ("JaxRuntimeError", "ValueError"), run.describe()
        assert "UNAVAILABLE" in text, run.describe()
    assert float(caught[0][0]) - killed_at < 1 * patience, run.describe()
    assert "Fatal" not in run.stderr and "FATAL" not in run.stderr, run.describe()


@pytest.mark.parametrize("phase", PHASES)
def test_daemon_dies_while_client_would(phase, start_daemon, client_of, patience, wait, helpers_left):
    daemon = start_daemon()
    run = client_of(daemon).start(PRELUDE + f"""
try:
    {PHASES[phase].strip()}
except Exception as error:
    caught(error)
metadata(x)
try:
    print("worked:", float(iterate(x, 2).sum()))
except Exception as error:
    caught(error)
metadata(x)
x.delete()
print("end", flush=True)
sys.exit(7)
""")
    run.wait_for("ready")
    daemon.wait_busy()
    killed_at = daemon.kill()
    wait(lambda: "end" in run.stdout or run.code is not None, 3, "the client to notice")
    run.finish(5)
    assert "worked" not in run.stdout, run.describe()
    check_caught(run, killed_at, patience)
    wait(lambda: not helpers_left(), 5, "helpers to end with their daemon")


def test_daemon_dies_while_client_idles(start_daemon, client_of, patience):
    daemon = start_daemon()
    run = client_of(daemon).start(PRELUDE + """
ready()
input()
metadata(x)
for use in (lambda: jax.device_put(np.ones(3)).block_until_ready(),
            lambda: (x + 1).block_until_ready(),
            lambda: iterate(x, 3).block_until_ready(),
            lambda: np.asarray(x),
            lambda: jax.jit(lambda x: x * 17 + 4)(x)):
    began = time.monotonic()
    while time.monotonic() - began < 5: # an upload ends when it is handed over, noticed or not
        try:
            use()
        except Exception as error:
            caught(error)
            break
y = x
del x
print(y.shape, y.is_deleted(), flush=True)
sys.exit(7)
""")
    run.wait_for("ready")
    daemon.kill()
    told_at = time.monotonic()
    run.say("")
    run.finish(10)
    assert run.stdout.count("caught") == 5, run.describe()
    check_caught(run, told_at, patience)


def test_daemon_dies_before_client_exits(start_daemon, client_of):
    """With nothing to do but end, a client just ends."""
    daemon = start_daemon()
    run = client_of(daemon).start(PRELUDE + "ready()\ninput()\nsys.exit(7)\n")
    run.wait_for("ready")
    daemon.kill()
    run.say("")
    run.finish(5)
    assert run.code == 7, run.describe()
    assert "Traceback" not in run.stderr, run.describe()


def test_daemon_dies_while_clients_exit(start_daemon, client_of, rng):
    daemon = start_daemon()
    runner = client_of(daemon)
    runs = [runner.start(PRELUDE + "ready()\ninput()\ny = iterate(x, 50)\nsys.exit(7)\n")
            for _ in range(4)]
    for run in runs:
        run.wait_for("ready")
    for run in runs:
        run.say("")
    time.sleep(rng.uniform(0, 0.05))  # any moment will do
    daemon.kill()
    for run in runs:
        run.finish(5)
        # Whether the last line was still served depends on the moment.
        assert run.code == 7 or (run.code == 1 and "UNAVAILABLE" in run.stderr), run.describe()


def test_daemon_is_told_to_stop(start_daemon, client_of, patience):
    """SIGTERM does not wait for clients: they are told."""
    daemon = start_daemon()
    run = client_of(daemon).start(PRELUDE + """
try:
    ready()
    while True: x = iterate(x, 5)
except Exception as error:
    caught(error)
sys.exit(7)
""")
    run.wait_for("ready")
    daemon.wait_busy()
    daemon.stop()
    stopped_at = time.monotonic()
    run.finish(5)
    check_caught(run, stopped_at, patience)


def test_next_daemon_takes_the_place(start_daemon, client_of):
    """A killed daemon's socket does not stand in the way of the next one."""
    start_daemon().kill()
    daemon = start_daemon()
    run = client_of(daemon)("import jax.numpy as jnp; print(jnp.ones(3).sum())")
    assert (run.code, run.stdout) == (0, "3.0\n"), run.describe()
    daemon.stop()


def test_daemon_has_more_files_than_its_starter(start_daemon):
    """Whoever starts it first may be content with few, and others come later."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, hard), hard))
    try:
        daemon = start_daemon()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    assert int(re.search(r"Max open files +(\d+)", limits)[1]) == min(65536, hard)


def test_second_daemon_is_refused(start_daemon):
    """A daemon that lives keeps its socket."""
    daemon = start_daemon()
    with pytest.raises(AssertionError, match="salusd ended with [1-9]"):
        second = start_daemon()
        second.process.wait(10)
        second.answers()
    assert daemon.answers()
    daemon.stop()


# Clients.

# Jobs that are killed at random moments. Iterations are short: one that runs is not interrupted.
VICTIMS = {
    "compile": "ready()\nfor i in range(1000): jax.jit(lambda x: jnp.sort(x * i) + i)(x)",
    "big compile": "ready()\njax.jit(slow_to_compile)(jnp.ones(16))\ninput()",
    "queue": "ready()\nwhile True: x = iterate(x, 5)",
    "small": "ready()\nwhile True: x = x + 1; x.block_until_ready()",
    "upload": "h = np.ones(4 << 20, np.float32)\nready()\nwhile True: jax.device_put(h)",
    "download": "y = jnp.ones(4 << 20)\nready()\nwhile True: np.asarray(y + 1)",
    "memory": "keep = [jnp.ones(1 << 20) + i for i in range(50)]\nready()\ninput()",
    "exit": "ready()",
}
OTHERS = [("search.py", "--trial", "1"), ("mlp.py",), ("donation.py",)]


def test_clients_die(daemon, client, reference, examples, wait, rng):
    """Others compute what they compute alone, and nothing of the dead stays behind."""
    right = {job: reference(*job).digest for job in OTHERS}

    def start(job):
        return job, client.start(examples / job[0], *job[1:])

    def check(job, run):
        run.succeed(300)
        assert run.digest == right[job], run.describe()

    # What the daemon holds when it has served as many at once as below.
    for job, run in [start(job) for job in [*OTHERS, *OTHERS[:2]]]:
        check(job, run)
    wait(lambda: not daemon.sessions(), 5, "sessions to end")
    before = daemon.holdings()

    served, running = 0, [start(job) for job in OTHERS]
    for i in range(KILLS):
        kind = rng.choice(list(VICTIMS))
        victim = client.start(PRELUDE + VICTIMS[kind])
        if rng.random() < 0.8:
            victim.wait_for("ready")
            moment = rng.uniform(0, 0.3)
        else:
            moment = rng.uniform(0, 3)  # while it starts
        print(f"kill {i}: {kind} after {moment:.3f} s")
        time.sleep(moment)  # any moment will do
        if victim.code is None:
            os.kill(victim.pid, signal.SIGKILL)
        victim.finish(10)
        assert victim.code in (-signal.SIGKILL, 0), victim.describe()
        assert daemon.is_alive(), daemon.log[-6000:]
        for n, (job, run) in enumerate(running):
            if run.code is not None:
                check(job, run)
                served += 1
                running[n] = start(job)
    for job, run in running:
        check(job, run)
        served += 1
    print(f"{KILLS} killed, {served} others served")
    daemon.wait_holding(before)


@pytest.mark.devices
def test_client_dies_while_its_iteration_runs(daemon, client, wait):
    """The iteration ends, then all is freed; meanwhile and after others are served."""
    runner = client
    other = runner(PRELUDE + "print('first', float(x.sum()))")
    assert other.code == 0, other.describe()
    before = daemon.holdings()
    victim = runner.start(PRELUDE + "ready()\niterate(x, 10_000).block_until_ready()")
    victim.wait_for("ready")
    daemon.wait_busy()
    os.kill(victim.pid, signal.SIGKILL)
    other = runner(PRELUDE + "print('second', float(x.sum()))")
    assert other.code == 0, other.describe()
    daemon.wait_holding(before, deadline_s=30)


def test_client_stops_and_goes_on(daemon, client):
    """A client that is stopped (^Z) in the middle holds up nobody, and goes on later."""
    looping = """
for i in range(2000):
    x = iterate(x, 2)
    if i == 100: ready()
print("sum", float(x.sum()))
"""
    stopped = client.start(PRELUDE + looping)
    stopped.wait_for("ready")
    os.kill(stopped.pid, signal.SIGSTOP)
    other = client(PRELUDE + looping)
    assert other.code == 0, other.describe()
    os.kill(stopped.pid, signal.SIGCONT)
    stopped.succeed()
    assert stopped.stdout == other.stdout


# Compile helpers.


def test_helper_dies(daemon, client):
    """One compile fails and says so; the next works, for this client and others."""
    run = client.start(PRELUDE + """
ready()
try:
    jax.jit(slow_to_compile)(jnp.ones(16))
    print("worked")
except Exception as error:
    caught(error)
print("next", float(jax.jit(lambda x: x * 17 + 4)(jnp.ones(())).sum()), flush=True)
print("again", jax.jit(slow_to_compile)(jnp.ones(16)).shape, flush=True)
""")
    run.wait_for("ready")
    daemon.wait_busy()
    helpers = daemon.helpers()
    assert helpers, "no compile helper runs"
    for pid in helpers:
        os.kill(pid, signal.SIGKILL)
    run.succeed()
    assert "worked" not in run.stdout, run.describe()
    error = re.search(r"^caught [\d.]+ JaxRuntimeError: (.*)$", run.stdout, re.M)
    assert error and "compil" in error[1], run.describe()
    assert "next 21.0" in run.stdout and "again (16,)" in run.stdout, run.describe()
    other = client("import jax.numpy as jnp; print(jnp.ones(7).sum())")
    assert (other.code, other.stdout) == (0, "7.0\n"), other.describe()


def test_others_run_while_one_compiles(daemon, client):
    """A long compile holds up nobody else's iterations: here it lasts until they have ended, for its helper is stopped."""
    script = PRELUDE + "for _ in range(50): x = iterate(x, 2).block_until_ready()\nprint('done')"
    assert client(script).code == 0  # its programs are known from now on
    compiling = client.start(PRELUDE + "ready()\njax.jit(slow_to_compile)(jnp.ones(16))\nprint('compiled')")
    compiling.wait_for("ready")
    daemon.wait_busy()
    helpers = daemon.helpers()
    try:
        for pid in helpers:
            os.kill(pid, signal.SIGSTOP)
        other = client(script)
        assert (other.code, other.stdout) == (0, "done\n"), other.describe()
        assert compiling.code is None and "compiled" not in compiling.stdout, compiling.describe()
    finally:
        for pid in helpers:
            os.kill(pid, signal.SIGCONT)
    compiling.succeed()
    assert "compiled" in compiling.stdout, compiling.describe()
