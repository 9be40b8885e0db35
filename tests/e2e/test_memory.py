# SPDX-License-Identifier: Apache-2.0
"""More jobs than the device has memory for: none is lost, and each gets the results it has alone.

    SALUS_TEST_JOBS     jobs at three times the memory there is   (8)
    SALUS_TEST_MODELS   models that are served at once            (12)
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import JOBS, MIB, Holder, Watch, ask, go, session_named, wait_for

JOB_COUNT = int(os.environ.get("SALUS_TEST_JOBS", "8"))
MODEL_COUNT = int(os.environ.get("SALUS_TEST_MODELS", "12"))


# Many jobs.

NEEDS_MIB = 36  # of each job below: ballast, weights and a batch, and scratch
BALLAST_MIB = 24
KINDS = [["--seed", seed, *donate] for seed in (0, 1) for donate in ([], ["--donate"])]


def train(client, kind, name):
    return client.start(JOBS / "train.py", "--wait", "--width", 384, "--batch", 2048, "--steps", 25,
                        "--ballast", BALLAST_MIB, *kind, env={"SALUS_JOB_NAME": name})


@pytest.fixture(scope="module")
def alone():
    """Digests of the kinds of jobs, each alone; filled in by the first who needs them."""
    return []


@pytest.mark.devices
@pytest.mark.parametrize("policy", ["fair", "pack"])
def test_three_times_the_memory(policy, served, alone):
    """Jobs that need three times what there is start together, and run in one lane or in several."""
    if not alone:
        _, client = served()
        for run in [train(client, kind, "alone") for kind in KINDS]:
            go([run])
            alone.append(run.succeed().digest)

    capacity = JOB_COUNT * NEEDS_MIB // 3
    daemon, client = served("--memory", f"{capacity}MiB", "--policy", policy)
    runs = [train(client, KINDS[i % len(KINDS)], f"job{i}") for i in range(JOB_COUNT)]
    with Watch(daemon) as watch:
        go(runs)
        for run in runs:
            run.succeed()
    watch.check_memory()
    most = {s["name"]: 0 for s in watch.sessions()}
    for s in watch.sessions():
        most[s["name"]] = max(most[s["name"]], s["persist_bytes"] + s["ephem_bytes"])
    print(f"{JOB_COUNT} jobs, together {sum(most.values()) / MIB:.0f} MiB of {capacity} MiB, "
          f"{len(watch.samples)} samples, most lanes {max(len(s['lanes']) for s in watch.samples)}")
    assert sum(most.values()) >= 2.8 * capacity * MIB, "the jobs are too small for this test"
    assert "paged" in {s["state"] for s in watch.sessions()}
    assert [run.digest for run in runs] == [alone[i % len(KINDS)] for i in range(JOB_COUNT)]


def discrete(build, limit, *options):
    """Options of salusd for the discrete device, with a limit of its own."""
    return ["--plugin", build / "tests" / "libdiscrete_pjrt.so",
            *(part for option in ("platform=cpu", f"memory_limit={limit}", *options)
              for part in ("--plugin-option", option))]


def test_a_device_that_frees_late(served, build):
    """The device keeps what an iteration used for a while after its end. Salus counts it as free."""
    _, client = served("--memory", f"{3 * NEEDS_MIB}MiB", "--policy", "fair",
                       *discrete(build, 3 * NEEDS_MIB * MIB * 32 // 31 + 4096, "late_free=40"))
    runs = [train(client, KINDS[i % len(KINDS)], f"job{i}") for i in range(6)]
    go(runs)
    for run in runs:
        run.succeed()


def test_a_device_whose_memory_does_not_suffice(served, build):
    """Its refusal is final after a second, and then at once: a job that tries again and again keeps nobody waiting."""
    _, client = served("--memory", "96MiB", *discrete(build, 100 * MIB, f"hidden_scratch={90 * MIB}"))
    large = Holder(client, "large")
    start = time.monotonic()
    for _ in range(8):
        large.begin("make", 20)
        said = large.answer()
        assert said.startswith("failed: RESOURCE_EXHAUSTED"), said
    assert 1 <= time.monotonic() - start < 6
    other = Holder(client, "other")
    other.do("put", 4)
    other.do("use")
    other.end()
    large.end()


# One that is too large.


@pytest.mark.parametrize("verb", ["put", "make"])
def test_too_large_for_the_device(verb, served):
    """It is told the numbers and goes on with less; nobody else notices."""
    daemon, client = served("--memory", "96MiB")
    other, large = Holder(client, "other"), Holder(client, "large", 1)
    other.do("put", 20)
    before = other.do("use")
    large.do("put", 4)
    small = large.do("use")
    for _ in range(3):
        large.begin(verb, 200)
        said = large.answer()
        print(said)
        assert said.startswith("failed: RESOURCE_EXHAUSTED"), said
        assert re.search(r"large needs 20[4-9]\S*MiB", said), said
        assert "96MiB" in said and re.search(r"other \(\d+\) 2\d\S*MiB", said), said
    assert large.do("use") == small
    large.do("put", 30)
    large.do("use")
    assert other.do("use") == before
    assert session_named(daemon, "large")["persist_bytes"] < 40 * MIB
    other.end()
    large.end()


# What a job is told.

WATCHED = """
import json, sys
import jax, jax.numpy as jnp, numpy as np

device, kept = jax.devices()[0], []  # what fails is kept, too
add = jax.jit(lambda x: x[:4] + 1)

def put(mib):
    kept.append(jax.device_put(np.ones(mib << 20, np.int8)))

def make(mib):
    kept.append(jax.jit(lambda x: jnp.zeros(mib << 20, jnp.int8) + x)(jnp.int8(1)))

def use(mib):
    put(mib)
    kept.append(add(kept[-1]))

def look():
    pass

for line in sys.stdin:
    verb, *args = line.split()
    error = None
    try:
        globals()[verb](*map(int, args))
        jax.block_until_ready(kept[-1:])
    except jax.errors.JaxRuntimeError as e:
        error = str(e)
    print(json.dumps([error, device.memory_stats()]), flush=True)
"""


class Watched:
    """The job above; each answer is its error, if any, and its memory_stats."""

    def __init__(self, client, name):
        self.run, self.answers = client.start(WATCHED, env={"SALUS_JOB_NAME": name}), 0

    def do(self, verb, *args):
        self.run.say(" ".join(map(str, (verb, *args))))
        wait_for(lambda: self.run.stdout.count("\n") > self.answers, 60, "an answer", self.run)
        self.answers += 1
        return json.loads(self.run.stdout.splitlines()[self.answers - 1])


def in_mib(stats):
    """Bytes in use, the most that were, and the limit; a few small arrays do not matter."""
    return [stats[key] // MIB for key in ("bytes_in_use", "peak_bytes_in_use", "bytes_limit")]


@pytest.mark.parametrize("verb", ["put", "make", "use"])
def test_memory_stats_without_what_was_refused(verb, served):
    """Also while the arrays that were refused are still there, and whoever finds out first."""
    _, client = served("--memory", "96MiB")
    job = Watched(client, "job")
    error, stats = job.do("put", 8)
    assert error is None and in_mib(stats) == [8, 8, 96]
    for _ in range(2):
        error, stats = job.do(verb, 200)
        assert error.startswith("RESOURCE_EXHAUSTED"), error
        assert in_mib(stats) == [8, 8, 96]
    error, stats = job.do("put", 30)
    assert error is None and in_mib(stats) == [38, 38, 96]
    job.run.succeed()


def test_memory_stats_follow_the_limit(served):
    """As soon as the operator has set it; also of a job that is paused."""
    daemon, client = served("--memory", "96MiB")
    job = Watched(client, "job")

    def steer(*args):
        done = daemon.salus(*args)
        assert done.returncode == 0, done.stderr

    assert in_mib(job.do("put", 8)[1]) == [8, 8, 96]
    steer("set", "job", "limit=64MiB")
    assert in_mib(job.do("look")[1]) == [8, 8, 64]
    error, stats = job.do("put", 60)
    assert "the job's limit" in error and in_mib(stats) == [8, 8, 64]
    steer("pause", "job")
    steer("set", "job", "limit=80MiB")
    assert in_mib(job.do("look")[1]) == [8, 8, 80]
    steer("resume", "job")
    error, stats = job.do("put", 60)
    assert error is None and in_mib(stats) == [68, 68, 80]
    steer("set", "job", "limit=none")
    assert in_mib(job.do("look")[1]) == [68, 68, 96]
    job.run.succeed()


# One that grows.


def test_one_that_grows_waits(served, direct):
    """While others hold the rest, it waits; then it has the results it would have had."""
    alone = Holder(direct, "alone", 3)
    alone.do("put", 20)
    alone.do("put", 45)
    right = alone.do("use")
    alone.end()
    daemon, client = served("--memory", "96MiB", "--policy", "fifo")
    owner, grows = Holder(client, "owner"), Holder(client, "grows", 3)
    owner.do("put", 60)
    kept = owner.do("use")
    grows.do("put", 20)
    with Watch(daemon) as watch:
        grows.begin("put", 45)
        for _ in range(5):  # while it is used, it is not idle
            assert owner.do("use") == kept
        grows.answer()
        assert grows.do("use") == right
    watch.check_memory()
    assert "waiting" in watch.states("grows")
    assert owner.do("use") == kept
    owner.end()
    grows.end()


def test_an_idle_one_gives_way(served, wait):
    """Memory of a session that has done nothing for a second goes to one that waits; then it comes back."""
    daemon, client = served("--memory", "96MiB")
    idle, wants = Holder(client, "idle"), Holder(client, "wants", 1)
    idle.do("put", 60)
    used, read = idle.do("use"), idle.do("read")
    wants.do("put", 60)
    was = session_named(daemon, "idle")
    assert was["state"] == "paged" and was["held_bytes"] == 0 and was["paged_bytes"] >= 60 * MIB
    wanted = wants.do("use")
    for _ in range(2):  # back and forth
        assert idle.do("use") == used
        assert wants.do("use") == wanted
    assert idle.do("read") == read
    again = idle.do("replace")
    assert wants.do("use") == wanted
    assert idle.do("use") == again
    idle.end()
    wants.end()
    wait(lambda: not ask(daemon, "ps")["sessions"], 10, "the sessions to end")
    assert ask(daemon, "ps")["device"]["persist_bytes"] == 0


# Many models.

BATCH = 6144
REQUESTS = ["1", "2.5", "40"]


def answers_of(run):
    return re.findall(r"^answer \S+: ([0-9a-f]+)", run.stdout, re.M)


def test_many_models_are_served(served, direct):
    """Models with few weights share one lane's scratch: far more are open than fit side by side."""
    right = []
    for seed in range(3):
        run = direct.start(JOBS / "serve.py", seed, BATCH)
        go([run])
        for request in REQUESTS:
            run.say(request)
        right.append(answers_of(run.succeed()))
        assert len(right[-1]) == len(REQUESTS)

    daemon, client = served("--memory", "176MiB")
    runs = [client.start(JOBS / "serve.py", i % 3, BATCH, env={"SALUS_JOB_NAME": f"model{i}"})
            for i in range(MODEL_COUNT)]
    go(runs)
    for run in runs:
        run.wait_for("running")
    with Watch(daemon, 0.05) as watch:
        for request in REQUESTS:
            for run in runs:
                run.say(request)
                run.wait_for(f"answer {request}:")
    watch.check_memory()
    now = ask(daemon, "ps")
    assert len(now["sessions"]) == MODEL_COUNT
    alone = [s["persist_bytes"] + s["ephem_bytes"] for s in now["sessions"]]
    fit = now["device"]["capacity_bytes"] // min(alone)
    print(f"{MODEL_COUNT} models are open; {fit} would fit side by side")
    assert fit < 8
    assert not any(s["paged_bytes"] for s in watch.sessions()), "nobody had to make room"
    for i, run in enumerate(runs):
        assert answers_of(run.succeed()) == right[i % 3], run.describe()


# On the host.

VIEWS = """
import jax, jax.numpy as jnp, numpy as np
piece = jax.jit(lambda i: jnp.full(250000, 1, jnp.float32) * i)
views = [np.asarray(piece(i)) for i in range(600)]
wrong = [i for i, v in enumerate(views) if not (v == i).all()]
sizes = [int(end, 16) - int(start, 16) for start, end in (
    line.split()[0].split("-") for line in open("/proc/self/maps") if "salus-arena" in line)]
print("views", len(views), "wrong", wrong, "arena", sum(sizes) >> 20)
"""


def test_results_that_are_kept_leave_room_for_others(served):
    """Views of results lie in the arena only as long as they are few."""
    _, client = served()
    run = client(VIEWS).succeed()
    found = re.search(r"^views 600 wrong \[\] arena (\d+)$", run.stdout, re.M)
    assert found and 0 < int(found[1]) <= 384, run.describe()


def resident_mib(daemon):
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) >> 10


HOLD = """
import sys, jax, jax.numpy as jnp
piece = jax.jit(lambda i: jnp.full(250000, 1, jnp.float32) * i)
piece(0).block_until_ready()
print("ready", flush=True)
input()
held = []
for i in range(600):
    made = piece(i).block_until_ready()
    if i % int(sys.argv[1]) == 0:
        held.append(made)
print("holds", flush=True)
input()
"""


def test_what_a_job_held_goes_back_to_the_system(served, wait):
    """The allocator would keep the pages of a device that is the host, between those that others hold."""
    daemon, client = served("--policy", "rr")
    most, few = runs = [client.start(HOLD, 1), client.start(HOLD, 20)]
    for run in runs:
        run.wait_for("ready")
    before = resident_mib(daemon)
    for run in runs:
        run.say("")
    for run in runs:
        run.wait_for("holds")
    assert resident_mib(daemon) > before + 500
    most.say("")
    most.succeed()
    wait(lambda: resident_mib(daemon) < before + 200, 5, "its memory to go")
    few.say("")
    few.succeed()


# Arrays in the host's memory.

KINDS_JOB = """
import json, sys, jax, numpy as np
from jax.sharding import SingleDeviceSharding
device = jax.devices()[0]
on_host = SingleDeviceSharding(device, memory_kind="pinned_host")
on_device = SingleDeviceSharding(device, memory_kind="device")
arrays = [np.random.default_rng(i).random((2 << 20,), np.float32) for i in range(16)]
kept = [jax.device_put(a, on_host) for a in arrays]
jax.block_until_ready(kept)
used = device.memory_stats()["bytes_in_use"]
double = jax.jit(lambda x: x * 2)
for i, a in enumerate(kept):
    assert a.sharding.memory_kind == "pinned_host"
    there = jax.device_put(a, on_device)
    assert there.sharding.memory_kind == "device"
    back = jax.device_put(double(there), on_host)
    assert back.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(back), arrays[i] * 2)
    there.delete(), back.delete()
np.testing.assert_array_equal(np.asarray(double(kept[3])), arrays[3] * 2)
print(json.dumps(used), flush=True)
sys.stdin.readline()
try:
    more = [jax.device_put(a, on_host) for a in arrays]
    jax.block_until_ready(more)
except Exception as error:
    print(error)
"""


@pytest.mark.devices
def test_arrays_on_the_host_are_not_the_devices(served):
    """128 MiB of them beside a device of 48 MiB, up to a limit of their own."""
    daemon, client = served("--memory", "48MiB", "--limit", "job-host=192MiB")
    run = client.start(KINDS_JOB, env={"SALUS_JOB_NAME": "job"})
    wait_for(lambda: "\n" in run.stdout, 60, "the first part", run)
    assert json.loads(run.stdout) < MIB
    limits = {row["name"]: row for row in ask(daemon, "limits")["limits"]}
    assert limits["job-host"]["used"] == 128 * MIB
    run.say("")
    run.succeed()
    assert "job-host" in run.stdout.splitlines()[1], run.stdout


PLACED_JOB = """
import json, sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import SingleDeviceSharding
device = jax.devices()[0]
on_host, on_device = (SingleDeviceSharding(device, memory_kind=kind) for kind in ("pinned_host", "device"))
to_host = jax.jit(lambda x: (x * 2, x.sum()), out_shardings=(on_host, None))
back = jax.jit(lambda x: jax.device_put(x, on_device) + 1)
inside = jax.jit(lambda x: jax.device_put(jax.device_put(x * 3, on_host), on_device) + 1)
x = jnp.arange(2 << 20, dtype=jnp.float32)
kept = [to_host(x + i) for i in range(16)]
jax.block_until_ready(kept)
used = device.memory_stats()["bytes_in_use"]
for i, (a, total) in enumerate(kept):
    assert a.sharding.memory_kind == "pinned_host" and total.sharding.memory_kind == "device"
    there = back(a)
    assert there.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(there), (np.asarray(x) + i) * 2 + 1)
np.testing.assert_array_equal(np.asarray(inside(x)), np.asarray(x) * 3 + 1)
print(json.dumps(used), flush=True)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("on_the_host")
def test_a_program_puts_its_outputs_on_the_host(served, wide_runner):
    """128 MiB of outputs beside a device of 48 MiB: the programs name the memory kind of their outputs."""
    daemon, _ = served("--memory", "48MiB", "--limit", "job-host=192MiB")
    run = wide_runner(daemon, 1).start(PLACED_JOB)
    wait_for(lambda: "\n" in run.stdout, 120, "the first part", run)
    assert json.loads(run.stdout) < 32 * MIB
    limits = {row["name"]: row for row in ask(daemon, "limits")["limits"]}
    assert limits["job-host"]["used"] == 128 * MIB
    run.say("")
    run.succeed()
