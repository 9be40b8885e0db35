# SPDX-License-Identifier: Apache-2.0
"""Jobs with several devices beside others: Python callbacks, death, memory, policies."""

import os
from pathlib import Path

import pytest

JOB = Path(__file__).parent / "jobs" / "devices.py"

pytestmark = pytest.mark.skipif(os.environ.get("SALUS_TEST_DEVICE", "host") != "host",
                                reason="only a host device can be divided")

HEAD = """
import sys, jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
F = jax.ShapeDtypeStruct
n = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("x",))
def on_each(f, out=P("x")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
def python(f, x): return jax.pure_callback(f, F(x.shape, x.dtype), x)
def put(a): return jax.device_put(a, NamedSharding(mesh, P("x")))
double = lambda a: np.asarray(a) * 2
"""

CALLS = HEAD + """
x = jnp.arange(4.0 * n)
print(on_each(lambda x: jax.lax.psum(python(double, x), "x"), P())(x))
print(jax.jit(lambda x: python(double, x) + 1)(put(x)))
large = np.arange(n * 60000, dtype=np.float32).reshape(n, -1)  # does not fit into a record
print(bool((on_each(lambda x: python(double, x))(large) == large * 2).all()))
print(jax.pmap(lambda x: python(double, x) + jax.lax.axis_index("i"), axis_name="i")(x.reshape(n, -1)))
seen = []
def note(i):
    seen.append(int(i))
    return np.int32(i)
noted = np.asarray(on_each(lambda x: io_callback(note, F((), jnp.int32), x[0])[None])(jnp.arange(n)))
print(noted, sorted(seen))
jax.jit(lambda x: jax.debug.print("sum {}", x.sum()))(put(x))
jax.effects_barrier()
host = lambda a: np.asarray(jnp.sin(jnp.asarray(a)) + jax.jit(lambda b: b * 2)(a))
summed, rows = on_each(lambda x: jax.lax.psum(python(host, x), "x"), P())(x), np.arange(4.0 * n).reshape(n, -1)
print(np.allclose(summed, (np.sin(rows) + 2 * rows).sum(0)))
"""
CALLED = """\
[48. 56. 64. 72.]
[ 1.  3.  5.  7.  9. 11. 13. 15. 17. 19. 21. 23. 25. 27. 29. 31.]
True
[[ 0.  2.  4.  6.]
 [ 9. 11. 13. 15.]
 [18. 20. 22. 24.]
 [27. 29. 31. 33.]]
[0 1 2 3] [0, 1, 2, 3]
sum 120.0
True
"""


def test_callbacks(wide):
    """All devices call at once. On two processors the built-in backend then has no thread left for copies, and this
    program hangs there now and then."""
    run = wide(4)(CALLS)
    assert run.code == 0, run.describe()
    assert run.stdout == CALLED, run.describe()


def test_callbacks_that_run_wide_programs(wide):
    """On the built-in backend this program hangs."""
    run = wide(4)(HEAD + """
whole = on_each(lambda x: jax.lax.psum(x, "x"), P())
sum_up = lambda a: np.asarray(whole(np.tile(np.asarray(a), n)))
kept = put(jnp.ones((n, 50000)))
def mix(a):
    moved = jax.device_put(kept, jax.devices()[1])  # copies, while all devices wait for Python
    return np.asarray(a) + np.asarray(moved).mean()
x = jnp.arange(2.0 * n)
print(on_each(lambda x: python(sum_up, x))(x), on_each(lambda x: python(mix, x))(x))
""")
    assert run.code == 0, run.describe()
    assert run.stdout == "[ 0.  4.  8. 12. 16. 20. 24. 28.] [1. 2. 3. 4. 5. 6. 7. 8.]\n"


FAILS = {
    "an exception on one device": ("""
def bad(a):
    if np.asarray(a)[0] == 0:
        raise ValueError("as told")
    return np.asarray(a)
f = on_each(lambda x: jax.lax.psum(python(bad, x), "x"), P())
""", "ValueError: as told"),
    "no callable": ("""
call = jax.ffi.ffi_call("xla_ffi_python_cpu_callback", F((1,), np.float32))
f = on_each(lambda x: jax.lax.psum(call(x, index=np.uint64(0)), "x"), P())
""", "does not serve Python callbacks"),
}


@pytest.mark.parametrize("what", FAILS)
def test_a_failed_call_ends_its_iteration_on_all_devices(what, wide):
    """The other devices wait for the one that failed, in a collective: they must not wait for ever."""
    make, text = FAILS[what]
    run = wide(4)(HEAD + make + """
for i in range(3):
    try:
        print("result", f(jnp.arange(1.0 * n)).block_until_ready())
    except Exception as error:
        print("caught", " ".join(str(error).split()))
print(on_each(lambda x: jax.lax.psum(x, "x"), P())(jnp.arange(1.0 * n)), flush=True)
import os
os._exit(0)  # JAX would say it again
""")
    assert run.code == 0, run.describe()
    lines = run.stdout.splitlines()
    assert [text in line for line in lines] == [True] * 3 + [False], run.describe()
    assert lines[-1] == "[6.]"


# What a job is doing when it is killed.
MOMENTS = {
    "collectives": """
@jax.jit
def step(x):
    return jax.lax.fori_loop(0, 50, lambda i, x: jnp.tanh(x @ x.T @ x / 100), x)
x = put(jnp.ones((64 * n, 128)))
x = step(x)
print("ready", flush=True)
while True:
    x = step(x)
""",
    "Python": """
import time
def sleep(a):
    print("ready", flush=True)
    time.sleep(3600)
    return np.asarray(a)
print(on_each(lambda x: jax.lax.psum(python(sleep, x), "x"), P())(jnp.arange(1.0 * n)))
""",
    "uploads and copies": """
host = np.ones((n, 1 << 20), np.float32)
print("ready", flush=True)
while True:
    jax.device_put(put(host), NamedSharding(mesh, P(None, "x"))).block_until_ready()
""",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed(moment, daemon, wide, direct_wide, wait):
    neighbour = wide(4).start(JOB)
    for n in 2, 4:
        job = wide(n).start(HEAD + MOMENTS[moment])
        job.wait_for("ready", 120)
        job.kill()
    neighbour.succeed(300)
    assert neighbour.stdout == direct_wide(JOB, 4)
    wait(lambda: not daemon.sessions(), 120, "all sessions to end")
    wait(lambda: daemon.log.count("closed devices=2") == 1, 60, "the streams of two devices to close")


def test_memory(start_daemon, wide_runner):
    """All devices share one memory. What does not fit is refused, and donated arrays are still there."""
    daemon = start_daemon("--memory", "64MiB")
    run = wide_runner(daemon, 4)(HEAD + """
p = put(np.ones((n, 1 << 18), np.float32))
def attempt(times):
    step = jax.jit(lambda p: (p + 1, jnp.tile(p, (1, times))), donate_argnums=0)
    try:
        return float(step(p)[0].sum())
    except Exception as error:
        return " ".join(str(error).split())
print(attempt(64), p.is_deleted())
print(attempt(2), p.is_deleted())
try:
    print(put(np.ones((n, 1 << 23), np.float32)).sum())
except Exception as error:
    print(" ".join(str(error).split()))
""")
    assert run.code == 0, run.describe()
    lines = run.stdout.splitlines()
    assert "RESOURCE_EXHAUSTED" in lines[0] and "264MiB (260MiB kept" in lines[0] and lines[0].endswith("False")
    assert lines[1] == "2097152.0 True"
    assert "RESOURCE_EXHAUSTED" in lines[2], run.describe()
    daemon.stop()


@pytest.mark.parametrize("policy", ["srtf", "pack"])
def test_policies(policy, start_daemon, wide_runner, direct_wide, salus_runner, reference, examples):
    """Jobs with several devices, of two numbers, take turns with a job of one."""
    daemon = start_daemon("--policy", policy)
    runs = [wide_runner(daemon, n).start(JOB) for n in (4, 4, 2)]
    one = salus_runner(daemon).start(examples / "mlp.py")
    for run, n in zip(runs, (4, 4, 2)):
        assert run.succeed(600).stdout == direct_wide(JOB, n)
    assert one.succeed(600).digest == reference("mlp.py").digest
    daemon.stop()


def test_a_device_that_cannot_be_divided(start_daemon, wide_runner, root):
    build = Path(os.environ.get("SALUS_BUILD", root / "build"))
    daemon = start_daemon("--plugin-option", "platform=cpu", "--plugin-option", "memory_limit=1000000000",
                          plugin=build / "tests" / "libdiscrete_pjrt.so")
    run = wide_runner(daemon, 4)("import jax; jax.devices()")
    assert run.code != 0 and "cannot" in run.stderr and "devices" in run.stderr, run.describe()
    run = wide_runner(daemon, 1)("import jax; print(len(jax.devices()))")
    assert run.code == 0 and run.stdout == "1\n", run.describe()
    daemon.stop()
