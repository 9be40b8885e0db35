# SPDX-License-Identifier: Apache-2.0
"""What one job does, honest or not, beside two honest ones on the real device: these finish with the right results, and
questions are answered. How fast is for bench/attacks. Slow compiles are in test_compile.py, programs that would harm
salusd in test_checks.py, those who ask and do not listen in tests/unit/service/test_askers.py."""

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "service"))
import liar  # noqa: E402
from sharing import ask, session_named  # noqa: E402

MIB = 1 << 20
HONEST = """
import sys, jax, jax.numpy as jnp, numpy as np

@jax.jit
def step(count, x):
    return count + 1, jnp.tanh(x @ x) * 0 + x + 1

steps = int(sys.argv[1])
count, x = jnp.int32(0), jax.device_put(np.zeros((64, 64), np.float32))
for i in range(steps):
    count, x = step(count, x)
    if i % 5 == 0:
        assert int(count) == i + 1
right = int(count) == steps and (np.asarray(x) == steps).all()
print("right" if right else f"WRONG {int(count)} {np.unique(np.asarray(x))}", flush=True)
"""
# Computed inside the vendor's call, because each turn of the loop is cheap.
CHEAP = """
import jax, jax.numpy as jnp
print("begin", flush=True)
f = jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 1e38, lambda c: (c[0] + 1, c[1] * 1.0000001),
                                         (x, jnp.float32(1))))
jax.block_until_ready(f(jnp.float32(0)))
"""
# Computed by the vendor's threads. It has so many MiB beside it.
PRODUCTS = """
import sys, jax, jax.numpy as jnp, numpy as np
more = jax.device_put(np.zeros(int(sys.argv[1]) << 18, np.float32))
def endless(x):
    return jax.lax.while_loop(lambda c: c[0] < 1e38, lambda c: (c[0] + 1, jnp.tanh(c[1] @ c[1])), (x, jnp.eye(400)))
out = jax.jit(endless)(jnp.float32(0))
print("begin", flush=True)
jax.block_until_ready(out)
"""
# The number of turns is an argument: the program is known to be short until it is not.
DISGUISED = """
import jax, jax.numpy as jnp
f = jax.jit(lambda n: jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.0000001),
                                         (jnp.float32(0), jnp.float32(1))))
for i in range(200):
    jax.block_until_ready(f(jnp.float32(10)))
print("begin", flush=True)
jax.block_until_ready(f(jnp.float32(1e38)))
"""


def honest(client, steps=200):
    return [client.start(HONEST, steps, env={"SALUS_JOB_NAME": f"honest{i}"}) for i in (1, 2)]


def finish(daemon, jobs):
    """They do, and meanwhile whoever asks is answered."""
    while any(job.code is None for job in jobs):
        assert ask(daemon, "ping")["ok"] and ask(daemon, "ps")["ok"]
        time.sleep(0.05)  # between questions
    for job in jobs:
        assert "right" in job.succeed().stdout, job.describe()


def wait_running(daemon, wait, name):
    """Its iteration is the vendor's."""
    def runs():
        s = session_named(daemon, name)
        return s and s["state"] == "running" and s["program"]

    return wait(runs, 60, f"{name} to run")


@contextlib.contextmanager
def in_background(act):
    """act() over and over, in a thread; what it raises is raised at the end."""
    stopped, errors = threading.Event(), []

    def run():
        try:
            while not stopped.is_set():
                act()
        except Exception as error:  # told below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert not errors, errors


# Iterations that do not end.


@pytest.mark.parametrize("program", [CHEAP, DISGUISED], ids=["cheap", "disguised"])
def test_a_loop_that_never_ends(served, wait, program):
    daemon, client = served()
    endless = client.start(program, env={"SALUS_JOB_NAME": "endless"})
    endless.wait_for("begin")
    wait_running(daemon, wait, "endless")
    finish(daemon, honest(client))
    assert session_named(daemon, "endless")["state"] == "running"
    endless.kill()
    wait(lambda: session_named(daemon, "endless")["state"] == "closing", 10, "the end to be noticed")
    finish(daemon, honest(client))
    assert ask(daemon, "ping")["ok"]  # SIGTERM is to end it: see served


def test_two_loops_that_never_end(served, wait):
    daemon, client = served()
    for i, program in enumerate((CHEAP, PRODUCTS)):
        client.start(program, 0, env={"SALUS_JOB_NAME": f"endless{i}"}).wait_for("begin")
        wait_running(daemon, wait, f"endless{i}")
    finish(daemon, honest(client, 100))
    lanes = {session_named(daemon, f"endless{i}")["lane"] for i in (0, 1)}
    assert len(lanes) == 2


def test_kill_of_a_loop_that_never_ends(served, wait):
    daemon, client = served("--lanes", "1")
    jobs = honest(client, 2000)
    for job in (1, 2):
        wait(lambda: (session_named(daemon, f"honest{job}") or {}).get("iterations", 0) > 3, 60, "both to run")
    endless = client.start(PRODUCTS, 0, env={"SALUS_JOB_NAME": "endless"})
    endless.wait_for("begin")
    lane = wait_running(daemon, wait, "endless") and session_named(daemon, "endless")["lane"]
    killed = daemon.salus("kill", "endless")
    assert killed.returncode == 0 and re.search(
        rf"its iteration of \S*endless\S* still runs in lane {lane}, since .*closing until that ends",
        killed.stdout), killed.stdout
    endless.finish()
    assert "ended by `salus kill`" in endless.stderr, endless.describe()
    there = session_named(daemon, "endless")
    assert there["state"] == "closing" and there["lane"] == lane and "endless" in there["program"], there
    assert "endless" in daemon.salus("ps").stdout and "closing" in daemon.salus("ps").stdout
    why = daemon.salus("why", "endless")
    assert re.search(r"closing: its iteration of \S*endless", why.stdout), why.stdout
    for words in (["pause", "endless"], ["resume", "endless"], ["set", "endless", "weight=3"]):
        refused = daemon.salus(*words)
        assert refused.returncode != 0 and "is closing" in refused.stderr, refused
    assert daemon.salus("kill", "endless").returncode == 0  # once more does no harm
    finish(daemon, jobs)  # in another lane
    finish(daemon, honest(client, 20))


def test_who_waits_for_a_loop_that_never_ends_is_told(served, wait):
    """There is no memory for it beside the loop, which cannot be paged out."""
    daemon, client = served("--memory", "64MiB")
    endless = client.start(PRODUCTS, 40, env={"SALUS_JOB_NAME": "endless"})
    endless.wait_for("begin")
    wait_running(daemon, wait, "endless")
    waiting = client.start("""
        import jax, numpy as np
        x = jax.device_put(np.ones(40 << 18, np.float32))
        print("there", float(x[0]), flush=True)
    """, env={"SALUS_JOB_NAME": "waiting"})
    told = re.compile(r"^salus: waiting \(id \d+\) is .*endless \(", re.M)
    wait(lambda: told.search(waiting.stderr), 60, "it to be told")
    assert "endless" in daemon.salus("why", "waiting").stdout
    endless.kill()
    wait(lambda: session_named(daemon, "endless")["state"] == "closing", 10, "the end to be noticed")
    finish(daemon, honest(client, 20))  # small ones go on
    waiting.kill()


def test_the_limit_of_an_iteration(served, wait):
    daemon, client = served("--iteration-limit", "2s")
    endless = client.start(PRODUCTS, 0, env={"SALUS_JOB_NAME": "endless"})
    finish(daemon, honest(client))
    endless.finish(60)
    assert endless.code != 0
    assert "an iteration took longer than 2s (salusd --iteration-limit)" in endless.stderr, endless.describe()
    there = session_named(daemon, "endless")
    assert there["state"] == "closing" and "endless" in there["program"], there
    assert "its iteration runs longer than 2s" in daemon.log


@pytest.mark.parametrize("program", [CHEAP, PRODUCTS], ids=["cheap", "products"])
def test_the_end_of_salusd_while_a_loop_runs(start_daemon, client_of, wait, program, patience):
    daemon = start_daemon("--no-profiles")
    endless = client_of(daemon).start(program, 0, env={"SALUS_JOB_NAME": "endless"})
    endless.wait_for("begin")
    wait_running(daemon, wait, "endless")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(5 * patience) == 0
    assert not daemon.socket.exists()
    endless.finish(30)
    assert endless.code != 0 and "salus: salusd has stopped" in endless.stderr, endless.describe()


def test_a_second_signal_ends_salusd_at_once(start_daemon, client_of, wait, patience):
    daemon = start_daemon("--no-profiles")
    endless = client_of(daemon).start(PRODUCTS, 0, env={"SALUS_JOB_NAME": "endless"})
    endless.wait_for("begin")
    wait_running(daemon, wait, "endless")
    daemon.process.send_signal(signal.SIGTERM)
    wait(lambda: "stopping signal=15" in daemon.log, 5, "the first to be noticed")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(2 * patience) == -signal.SIGTERM
    endless.kill()


# Bells, rings, arrays.


def settled(daemon, wait, before):
    """Nothing of an attacker is left; the device may keep the lanes it has opened."""
    wait(lambda: not ask(daemon, "ps")["sessions"], 20, "all sessions to end")
    # salusd keeps the copy that a trace's askers got for 10 s.
    wait(lambda: daemon.holdings()["shared mappings"] <= before["shared mappings"] and
         daemon.holdings()["fds"] <= before["fds"], 20, f"salusd to hold no more than {before}")


def test_a_bell_that_never_stops(served, wait):
    daemon, client = served()
    finish(daemon, honest(client, 10))
    before = daemon.holdings()
    with liar.Client(daemon.socket) as c:
        os.set_blocking(c.bell, False)

        def flood():
            with contextlib.suppress(BlockingIOError):
                os.write(c.bell, bytes(65536))

        with in_background(flood):
            finish(daemon, honest(client))
        assert c.download(c.upload(b"abc"), 3, seconds=10) == b"abc"  # it is slowed down, not ended
    settled(daemon, wait, before)


def test_a_ring_that_is_always_full(served, wait):
    daemon, client = served()
    finish(daemon, honest(client, 10))
    before = daemon.holdings()
    data = liar.delete_record() * 4096
    with liar.Client(daemon.socket) as c:
        def fill():
            if (4 << 20) - (c.submit.at - c.submit.words[liar.TAIL]) > 2 * len(data):
                c.submit.write(data)
                c.submit.show()
            c.ring()

        with in_background(fill):
            finish(daemon, honest(client))
        assert not c.hung_up()
    settled(daemon, wait, before)


def own_bytes(daemon):
    found = re.search(r"^Anonymous:\s+(\d+)", Path(f"/proc/{daemon.pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) << 10


def test_empty_arrays_that_are_never_freed(served, wait):
    """They are counted, refused at the limit with its name, and cost salusd little; the device's memory is charged."""
    daemon, client = served("--limit", "job-buffers=20000")
    finish(daemon, honest(client, 10))
    before, own = daemon.holdings(), own_bytes(daemon)
    with liar.Client(daemon.socket) as c:
        jobs = honest(client)
        ids = []
        for _ in range(20100):
            liar.wait_until(lambda: (4 << 20) - (c.submit.at - c.submit.words[liar.TAIL]) > 4096, 30, "room")
            ids.append(c.new())
            c.send(liar.upload_record(ids[-1], [0], b"", kind=liar.F32))
        assert c.download(ids[0], 0, seconds=30) == b""
        with pytest.raises(ValueError, match=r"20000.*job-buffers") as refused:
            c.download(ids[-1], 0, seconds=10)
        assert refused.value.args[0] == liar.RESOURCE_EXHAUSTED
        held = session_named(daemon, "liar")["held_bytes"]
        assert held >= 20000 * 2048, held
        assert own_bytes(daemon) - own < 120 * MIB
        finish(daemon, jobs)
    settled(daemon, wait, before)


def test_arrays_of_a_job_that_keeps_them(served):
    """What an honest job that forgets to free sees."""
    daemon, client = served("--limit", "job-buffers=500")
    greedy = client.start("""
        import jax, numpy as np
        kept = []
        try:
            for i in range(2000):
                kept.append(jax.device_put(np.zeros(0, np.float32)))
                kept[-1].block_until_ready()
        except Exception as error:
            print("caught", error, flush=True)
        del kept[:]
        print(float(jax.device_put(np.float32(4)) + 1), flush=True)
    """)
    finish(daemon, honest(client, 20))
    greedy.succeed()
    assert re.search(r"caught RESOURCE_EXHAUSTED: .*500.*job-buffers", greedy.stdout), greedy.describe()
    assert "5.0" in greedy.stdout


# Weights, logs, answers.


def test_a_weight_of_everything(served, wait):
    daemon, client = served("--policy", "fair")
    with pytest.raises(liar.HungUp, match=r"1000.*job-weight"):
        liar.Client(daemon.socket, weight_milli=liar.U32)
    with liar.Client(daemon.socket, weight_milli=1000_000, name=b"heavy"):
        assert session_named(daemon, "heavy")["weight"] == 1000
        refused = daemon.salus("set", "heavy", "weight=1001")
        assert refused.returncode != 0 and "1000" in refused.stderr, refused
    spin = client.start(Path(__file__).parent / "jobs" / "spin.py", "--trips", 2000,
                        env={"SALUS_JOB_NAME": "spin", "SALUS_WEIGHT": "1000"})
    spin.wait_for("ready")
    spin.say("go")
    wait(lambda: (session_named(daemon, "spin") or {}).get("iterations", 0) > 3, 60, "the heavy one to run")
    finish(daemon, honest(client, 50))  # the least share is not nothing
    spin.say("enough")
    spin.succeed()


def test_a_log_that_is_an_unread_pipe(served, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    fd = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(fd, b"x" * 4096)
        daemon, client = served("--log", tmp_path / "pipe")
        for _ in range(100):
            liar.Client(daemon.socket).close()
        finish(daemon, honest(client))
    finally:
        with contextlib.suppress(BlockingIOError):
            while os.read(fd, 65536):
                pass
        os.close(fd)


def test_answers_and_traces_that_nobody_reads(served, wait):
    daemon, client = served()
    finish(daemon, honest(client, 10))
    before = daemon.holdings()
    jobs, askers = honest(client), []
    try:
        for op in ["trace", "ps"] * 60:
            askers.append(liar.connect(daemon.socket))
            askers[-1].sendall(json.dumps({"op": op}).encode() + b"\n")
        finish(daemon, jobs)
    finally:
        for s in askers:
            s.close()
    settled(daemon, wait, before)
