# SPDX-License-Identifier: Apache-2.0
"""Large results that a job reads in the memory of salusd, on XLA:CPU: as views in-process, and nobody else's."""

import os
import signal
import socket
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import MIB, Holder, ask, session_named, wait_for

# A job with results of SIZE MiB that it reads often enough: from then on they are in blocks of salusd.
JOB = """
import sys
import jax, jax.numpy as jnp, numpy as np

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 4
step = jax.jit(lambda x, i: x + i)
x = jnp.zeros(SIZE << 18, jnp.float32)


def result(i):
    return step(x, jnp.float32(i)).block_until_ready()


def blocks():
    return [line.split() for line in open("/proc/self/maps") if "salus-block" in line]


def is_in_place(view):
    spans = [[int(n, 16) for n in fields[0].split("-")] for fields in blocks()]
    return any(low <= view.ctypes.data < high for low, high in spans)


def read_often():
    for i in range(8):
        view = np.asarray(result(i))
        assert (view == i).all()
    assert is_in_place(view), open("/proc/self/maps").read()
    return view
"""


def job(text):
    return JOB + text


@pytest.fixture
def host_served(served):
    """As served, with a salusd that has its own malloc."""
    def start(*options):
        daemon, client = served(*options)
        if ask(daemon, "ps")["device"]["real"] is None:
            pytest.skip("this build of salusd does not have its own malloc")
        return daemon, client

    return start


def test_a_view(host_served):
    """The numbers are right, and nobody can write to them: not the job either."""
    _, client = host_served()
    client(job("""
read_often()
for i in range(100, 140):
    array = result(i)
    view = np.asarray(array)
    assert is_in_place(view) and (view == i).all(), i
    assert not view.flags.writeable
    del array, view
assert {fields[1] for fields in blocks()} == {"r--s"}, blocks()
""")).succeed()


def test_a_view_does_not_change(host_served):
    """Its array is donated, deleted or forgotten, and the next results come: the view has its numbers."""
    _, client = host_served()
    client(job("""
donate = jax.jit(lambda x: x * 2, donate_argnums=0)
read_often()
views = []
for i in range(100, 105):
    array = result(i)
    view = np.asarray(array)
    assert is_in_place(view)
    if i == 100:
        assert float(donate(array)[0]) == 2 * i
    elif i == 101:
        array.delete()
    elif i == 102:
        del array
    elif i == 103:
        for _ in range(3):
            array = donate(array)
        assert float(array[0]) == 8 * i
    views.append((i, view))
for i in range(200, 220):
    assert (np.asarray(result(i)) == i).all()
for i, view in views:
    assert (view == i).all(), (i, view)
""")).succeed()


def test_memory_of_a_deleted_array_that_is_read(host_served):
    """It counts until the view is gone."""
    daemon, client = host_served()
    run = client.start(job("""
read_often()
array = result(100)
view = np.asarray(array)
array.delete()
jax.block_until_ready(step(jnp.zeros(8), 1.0))
print("deleted", flush=True)
input()
assert (view == 100).all()
del view
jax.block_until_ready(step(jnp.zeros(8), 1.0))
print("gone", flush=True)
input()
"""), 16, env={"SALUS_JOB_NAME": "reader"})
    run.wait_for("deleted")
    assert session_named(daemon, "reader")["persist_bytes"] >= 32 * MIB
    run.say("go on")
    run.wait_for("gone")
    wait_for(lambda: session_named(daemon, "reader")["persist_bytes"] < 32 * MIB, 10, "the array to go")
    run.say("end")
    run.succeed()


def test_views_race_with_donation(host_served):
    """Threads read an array while it is donated: each gets its numbers or an error, and never those of the next step."""
    _, client = host_served()
    client(job("""
import threading

donate = jax.jit(lambda x: x + 1, donate_argnums=0)
read_often()
bad = []


def read(array, i):
    try:
        view = np.asarray(array)
        for _ in range(3):
            if not (view == i).all():
                bad.append((i, view))
    except (RuntimeError, ValueError) as error:
        if "delete" not in str(error) and "donated" not in str(error):
            bad.append(error)


for i in range(60):
    array = result(i)
    reader = threading.Thread(target=read, args=(array, i))
    reader.start()
    after = donate(array)
    for k in range(3):
        after = donate(after)
    assert (np.asarray(after) == i + 4).all()
    reader.join()
assert not bad, bad
""")).succeed()


def test_death_with_views(host_served):
    """Nothing of the job stays in salusd."""
    daemon, client = host_served()
    client("import jax.numpy as jnp; print(jnp.ones(8).sum())").succeed()
    before = daemon.holdings()
    run = client.start(job("""
read_often()
views = [np.asarray(result(i)) for i in range(10)]
print("reads", len(blocks()), flush=True)
input()
"""))
    run.wait_for("reads 1")
    assert daemon.holdings()["shared mappings"] >= before["shared mappings"] + 10
    os.killpg(run.pid, signal.SIGKILL)
    daemon.wait_holding(before, deadline_s=10)
    assert ask(daemon, "ps")["device"]["real"]["exposed_bytes"] == 0


def ask_for_block(path, number):
    """A client that is no plugin: says hello, and asks for a block. Returns the code and the descriptors."""
    name = b"liar".ljust(128, b"\0")
    hello = struct.pack("<8sIIIIIIQQQ128sQII", b"SALUS1\0\0", 1, 8, 200, 0, 1000, 2, 0, 0, 0, name, 0, 0, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(30)
        s.connect(str(path))
        s.sendall(hello)
        welcome, fds, *_ = socket.recv_fds(s, 320, 4)
        for fd in fds:
            os.close(fd)
        facts = struct.unpack_from("<Q", welcome, 48)[0]
        while facts > 0:
            facts -= len(s.recv(facts))
        s.sendall(struct.pack("<Q", 1 << 63 | number))
        answer, fds, *_ = socket.recv_fds(s, 16, 4)
        return struct.unpack_from("<i", answer)[0], fds


def test_blocks_of_other_jobs(host_served):
    """Two jobs read results of the same size, each its own. Who asks for a block of another job gets nothing."""
    daemon, client = host_served()
    text = job("""
START = int(sys.argv[2])
read_often()
print("ready", flush=True)
input()
for i in range(START, START + 60):
    array = result(i)
    view = np.asarray(array)
    assert is_in_place(view) and (view == i).all(), i
    del array, view
print("inodes", *[fields[4] for fields in blocks()], flush=True)
input()
""")
    runs = [client.start(text, 4, start) for start in (1000, 5000)]
    for run in runs:
        run.wait_for("ready")
    for run in runs:
        run.say("go")
    for run in runs:
        run.wait_for("inodes")
    inodes = [set(run.stdout.partition("inodes ")[2].split()) for run in runs]
    assert all(inodes) and not inodes[0] & inodes[1], inodes
    for number in range(12):
        code, fds = ask_for_block(daemon.socket, number)
        assert code != 0 and not fds, number
    for run in runs:
        run.say("end")
        run.succeed()


def test_paged_out_while_it_is_read(host_served):
    """The view keeps its numbers while the job is paged out, and afterwards; so does the array."""
    daemon, client = host_served("--memory", "100MiB")
    other = Holder(client, "other")
    run = client.start(job("""
read_often()
array = result(100)
view = np.asarray(array)
assert is_in_place(view)
print("ready", flush=True)
input()
assert (view == 100).all()
print("paged", flush=True)
input()
assert float(step(array, 1.0)[5]) == 101
assert (view == 100).all() and (np.asarray(array) == 100).all()
again = read_often()
assert (view == 100).all()
"""), 16, env={"SALUS_JOB_NAME": "reader"})
    run.wait_for("ready")
    other.do("put", 70)
    wait_for(lambda: session_named(daemon, "reader")["state"] == "paged", 20, "the reader to be paged out")
    real = ask(daemon, "ps")["device"]["real"]
    assert real["exposed_bytes"] <= real["spare_bytes"], "only free blocks are exposed now"
    assert session_named(daemon, "reader")["real_bytes"] == 0
    run.say("read")
    run.wait_for("paged")
    assert session_named(daemon, "reader")["state"] == "paged", "reading brings nothing back"
    other.do("drop")
    run.say("go on")
    run.succeed()
    other.end()


def test_a_job_gives_blocks_back(host_served):
    """salusd needs the memory of free blocks: the job, which does nothing, unmaps them."""
    daemon, client = host_served("--memory", "100MiB")
    other = Holder(client, "other")
    run = client.start(job("""
import time

read_often()
print("ready", flush=True)
input()
end = time.monotonic() + 30
while blocks() and time.monotonic() < end:
    time.sleep(0.01)
assert not blocks(), blocks()
assert (read_often() == 7).all()
"""), 8, env={"SALUS_JOB_NAME": "reader"})
    run.wait_for("ready")
    other.do("make", 90)
    run.say("look")
    run.succeed()
    other.end()


def test_many_views(host_served):
    """A job that keeps all it reads has some of it in place, up to a limit with a name, and copies of the rest."""
    daemon, client = host_served("--limit", "job-exposed=8")
    run = client.start(job("""
for i in range(8):
    np.asarray(result(i))
views = [np.asarray(result(i)) for i in range(100, 200)]
print("blocks", len(blocks()), flush=True)
input()
assert all((view == 100 + i).all() for i, view in enumerate(views))
"""), 1, env={"SALUS_JOB_NAME": "keeper"})
    run.wait_for("blocks 8\n")
    limits = {limit["name"]: limit for limit in ask(daemon, "limits")["limits"]}
    assert limits["job-exposed"]["used"] == limits["job-exposed"]["limit"] == 8, limits["job-exposed"]
    assert "keeper" in limits["job-exposed"]["by"]
    run.say("end")
    run.succeed()
