# SPDX-License-Identifier: Apache-2.0
"""Programs that call Python: jax.debug.print, pure_callback, io_callback, checkify. The vendor plugin has none of
them in-process, so JAX's built-in backend is the other side."""

import json

import pytest

HEAD = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
F = jax.ShapeDtypeStruct
def scalar(function, x): return jax.pure_callback(function, F((), jnp.float32), x)
"""

SAME = {
    "print": """
def body(c, x):
    jax.debug.print("c {c} x {x}", c=c, x=x, ordered=True)
    return c + x, c * x
print(jax.jit(lambda: jax.lax.scan(body, 0.0, jnp.arange(20.0)))())
jax.effects_barrier()
jax.jit(lambda x: jax.debug.print("large {}", x.sum()))(jnp.ones((600, 600)))
jax.effects_barrier()
""",
    "values": """
double = lambda a: np.asarray(a) * 2
for shape in (), (3,), (0, 3), (5, 7), (70, 60), (500, 400):
    x = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    y = jax.jit(lambda x: jax.pure_callback(double, F(x.shape, x.dtype), x) + 1)(x)
    print(shape, y.shape, bool((y == x * 2 + 1).all()))
for kind in "bool_ int8 uint16 int32 uint32 float16 bfloat16 complex64 float8_e4m3fn".split():
    x = jnp.ones((3, 2), getattr(jnp, kind))
    y = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a), F(x.shape, x.dtype), x))(x)
    print(y.dtype, bool((x == y).all()))
for kind in "int4 uint4 int2 uint2".split():
    x = jnp.arange(15).astype(getattr(jnp, kind)).reshape(5, 3)
    y = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a), F(x.shape, x.dtype), x))(x)
    print(kind, np.asarray(y).astype(int).tolist())
two = lambda a, b: (np.asarray(a) + b, np.asarray(a) - b)
print(jax.jit(lambda x, y: jax.pure_callback(two, (F((4,), jnp.float32),) * 2, x, y))(jnp.arange(4.0), jnp.ones(4)))
""",
    "order": """
seen = []
def note(i):
    seen.append(int(i))
    return np.int32(i * 2)
def run(n):
    step = lambda i, sum: sum + io_callback(note, F((), jnp.int32), i, ordered=True)
    return jax.lax.fori_loop(0, n, step, jnp.int32(0))
print(jax.jit(run)(50), seen)
""",
    "shapes of programs": """
each = lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, F(x.shape, x.dtype), x, vmap_method="sequential")
whole = lambda x: jax.pure_callback(lambda a: np.asarray(a) * 3, F(x.shape, x.dtype), x, vmap_method="expand_dims")
print(jax.vmap(each)(jnp.arange(3.0)), jax.jit(jax.vmap(whole))(jnp.arange(3.0)))
branch = jax.jit(lambda x: jax.lax.cond(x > 0, lambda: scalar(lambda a: a + 1, x), lambda: x))
print(branch(1.0), branch(-1.0))
print(jax.jit(lambda: jax.lax.while_loop(lambda x: x < 100, lambda x: scalar(lambda a: np.float32(a) * 2, x), 1.0))())
@jax.custom_vjp
def sine(x): return scalar(lambda a: np.sin(a), x)
sine.defvjp(lambda x: (sine(x), x), lambda x, g: (scalar(lambda a: np.cos(a), x) * g,))
print(jax.jit(jax.grad(lambda x: sine(x) ** 2))(1.0))
from jax.experimental import checkify
def positive(x):
    checkify.check(x > 0, "must be positive: {x}", x=x)
    return jnp.log(x)
print(jax.jit(checkify.checkify(positive))(-1.0)[0].get())
""",
    "kept arguments": """
kept = []
keep = jax.jit(lambda x: (jax.debug.callback(lambda a: kept.append(a), x), x + 1)[1])
for i in range(30):
    keep(jnp.full((3000,), float(i)))
jax.effects_barrier()
print([float(np.asarray(a)[7]) for a in kept])
""",
    "small arguments": """
kept = []
def keep(a):
    kept.append(a)
    return np.float32(a)
f = jax.jit(lambda x: scalar(keep, x) + 1)
print([float(f(float(i))) for i in range(5)])
print([float(a) for a in kept], (kept[0] + kept[1]) * 2, kept[2].devices() == f(9.0).devices())
print(jax.jit(lambda a, b: a - b)(kept[3], kept[4]), jax.device_put(kept[4], may_alias=False), kept[4].copy())
gone = jax.jit(lambda a: a * 3, donate_argnums=0)(kept[1])
kept[2].delete()
print(gone, kept[1].is_deleted(), kept[2].is_deleted(), float(kept[3] + 0.5))
whole = []
rows = jax.jit(lambda x: (jax.debug.callback(whole.append, x), x.sum())[1])
for n in (0, 1, 1023, 1024, 1025):
    rows(jnp.arange(n, dtype=jnp.float32))
jax.effects_barrier()
print([(a.shape, float(a.sum()), np.asarray(a)[-1:].tolist()) for a in whole])
print(whole[2].unsafe_buffer_pointer() % 64, np.from_dlpack(whole[2])[:3], bool((jnp.asarray(whole[2]) == whole[2]).all()))
""",
    "Python that runs JAX": """
host = lambda x: np.asarray(jnp.sin(jnp.asarray(x)) + jax.jit(lambda a: a * 2)(x))
outer = jax.jit(lambda x: scalar(host, x) + 1)
print(outer(1.0), outer(2.0))
W = jnp.ones((300, 300))
heavy = lambda x: np.asarray(W @ jnp.asarray(x))
product = jax.jit(lambda x, w: jax.pure_callback(heavy, F((300, 300), jnp.float32), (x @ x) / 300) + w)
print(product(W, W).sum(), product(W, W).sum(), (W + 1).sum())
inner = lambda x: np.asarray(jax.jit(lambda a: scalar(lambda b: np.asarray(b) * 10, a) + 1)(jnp.asarray(x)))
print(jax.jit(lambda x: scalar(inner, x) + 1)(1.0))
def chain(x):
    y = jax.jit(lambda a: scalar(lambda b: np.asarray(b) + 1, a))(jnp.asarray(x))
    return np.asarray(jax.jit(lambda a: a * a)(y))
print(jax.jit(lambda x: scalar(chain, x) + 1)(2.0))
""",
}


@pytest.mark.parametrize("what", SAME)
def test_the_output_is_that_of_the_built_in_backend(what, builtin, salus):
    expected, run = builtin(HEAD + SAME[what]), salus(HEAD + SAME[what])
    assert expected.code == 0, expected.describe()
    assert run.code == 0, run.describe()
    assert run.stdout == expected.stdout, run.describe()


def test_a_callback_without_a_callable(salus):
    """A program may call although its client has nothing to be called. It fails, and the daemon lives on."""
    run = salus("""
import jax, jax.numpy as jnp, numpy as np
call = jax.ffi.ffi_call("xla_ffi_python_cpu_callback", jax.ShapeDtypeStruct((), np.float32))
try:
    jax.jit(lambda x: call(x, index=np.uint64(0)))(jnp.float32(1)).block_until_ready()
except Exception as error:
    print(error)
print(float(jnp.ones(3).sum()))
""")
    assert run.code == 0, run.describe()
    said, total = run.stdout.splitlines()[0], run.stdout.splitlines()[-1]
    assert "does not serve Python callbacks" in said and total == "3.0", run.describe()


def test_an_exception_is_the_error_of_the_iteration(builtin, salus):
    """The frames of the callback and the message are the same; frames above it are those of a thread."""
    program = HEAD + """
def attempt(function):
    try:
        print(np.asarray(function()))
    except jax.errors.JaxRuntimeError as error:
        lines = str(error).splitlines()
        print(lines[0], "|", lines[-2].split()[-1], "|", len(lines[-1]), lines[-1][:100])
def bad(x): raise ValueError("as told")
def worse(x): raise KeyError("long " * 5000)
attempt(lambda: jax.jit(lambda x: scalar(bad, x))(1.0))
attempt(lambda: jax.jit(lambda x: scalar(worse, x))(1.0))
attempt(lambda: jax.jit(lambda x: scalar(lambda a: np.zeros(3, np.float32), x))(1.0))
attempt(lambda: jax.jit(lambda x: jax.pure_callback(bad, F((500, 500), jnp.float32), x @ x))(jnp.ones((500, 500))))
print(jax.jit(lambda x: scalar(lambda a: np.float32(a), x))(4.0))
"""
    expected, run = builtin(program), salus(program)
    assert run.code == 0, run.describe()
    assert run.stdout == expected.stdout, run.describe()
    assert "ValueError: as told" in run.stdout and run.stdout.endswith("4.0\n")


SLEEPER = HEAD + """
import sys, time
def sleep(x):
    print("sleeping", flush=True)
    time.sleep(3600)
    return np.float32(x)
try:
    print(jax.jit(lambda x: scalar(sleep, x))(1.0))
except Exception as error:
    print("caught", str(error).splitlines()[0], flush=True)
    sys.stdout.flush()
    import os
    os._exit(7)  # the callback sleeps on
"""
STEPS = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x) + 1)
x = jnp.ones((64, 64))
for i in range(300):
    x = step(x).block_until_ready()
print("stepped", flush=True)
"""


def test_who_waits_for_python_holds_up_nobody_and_can_be_killed(served, wait):
    daemon, client = served("--lanes", "1")
    sleeper = client.start(SLEEPER)
    sleeper.wait_for("sleeping")
    why = json.loads(daemon.salus("why", 1, "--json").stdout)
    assert why["waits_for"] == "python" and "its own Python" in why["text"]
    client(STEPS, deadline_s=120).succeed()
    assert sleeper.code is None
    assert daemon.salus("kill", 1).returncode == 0
    sleeper.finish(60)
    assert sleeper.code == 7 and "caught UNAVAILABLE" in sleeper.stdout, sleeper.describe()
    wait(lambda: not daemon.sessions(), 60, "the session to end")
    client(STEPS).succeed()


ENTANGLED = HEAD + """
import os, threading
started, later = threading.Event(), []
def needs_what_comes_later(x):
    started.wait()
    print("calling", flush=True)
    return np.float32(later[0] + 1)
try:
    first = jax.jit(lambda x: scalar(needs_what_comes_later, x))(1.0)
    later.append(jax.jit(lambda x: x * 2)(3.0))
    started.set()
    print(first)
except Exception as error:
    print("caught", str(error).splitlines()[0], flush=True)
    os._exit(7)
"""


def test_a_callback_that_waits_for_what_waits_for_it_is_told_so(served, wait):
    daemon, client = served()
    job = client.start(ENTANGLED)
    job.wait_for("calling")
    hint = "1 more is queued behind it: a callback that needs their results waits until the job is killed"
    wait(lambda: hint in daemon.salus("why", 1).stdout.replace("\n", " "), 60, "salus why to tell")
    wait(lambda: hint in job.stderr, 60, "the job to be told")
    assert daemon.salus("kill", 1).returncode == 0
    job.finish(60)
    assert job.code == 7 and "caught UNAVAILABLE" in job.stdout, job.describe()
    client(STEPS).succeed()


AHEAD = HEAD + """
seen = []
@jax.jit
def step(w):
    jax.debug.callback(lambda x: seen.append(1), w[0])
    return w + 1
try:
    w = jnp.zeros(4)
    for _ in range(COUNT):
        w = step(w)
    print(w[0])
    jax.effects_barrier()
    print(len(seen), flush=True)
except Exception as error:
    print("caught", str(error).splitlines()[0], flush=True)
"""


def test_a_loop_runs_ahead_of_its_callbacks(served):
    """Python is slower than the loop: without a bound, the answers would wait behind more steps than a queue takes."""
    run = served()[1](AHEAD.replace("COUNT", "5000")).succeed(300)
    assert run.stdout == "5000.0\n5000\n", run.describe()


def test_a_queue_that_is_too_short_for_callbacks_says_so(served):
    run = served("--limit", "job-queued-iterations=40")[1](AHEAD.replace("COUNT", "5000")).succeed(300)
    assert "caught" in run.stdout and "job-queued-iterations" in run.stdout, run.describe()


TOO_MUCH = HEAD + """
import threading
MB = 1 << 18
asked, go = threading.Event(), threading.Event()
def slow(x):
    asked.set()
    go.wait()
    return np.float32(x + 1)
@jax.jit
def step(x):
    s = jnp.sort(x * 2)
    c = jax.pure_callback(slow, jax.ShapeDtypeStruct((), jnp.float32), s[0])
    return c + jnp.cumsum(s + c)[-1]
large = jax.device_put(np.zeros(30 * MB, np.float32)).block_until_ready()
y = step(large)
WAIT
more = jax.device_put(np.zeros(50 * MB, np.float32))
go.set()
try:
    print(more.block_until_ready().shape)
except Exception as error:
    print("caught", str(error).splitlines()[0])
print(float(y), flush=True)
"""


@pytest.mark.parametrize("waits", [True, False])
def test_an_array_that_does_not_fit_beside_a_callback(served, waits):
    """The array could only wait for the iteration, which waits for Python, whose answer is behind the array."""
    run = served("--memory", "130MiB")[1](TOO_MUCH.replace("WAIT", "asked.wait()" if waits else "")).succeed(120)
    lines = run.stdout.splitlines()
    assert len(lines) == 2 and lines[1] == "7864321.0", run.describe()
    assert "caught" not in lines[0] or "out of memory" in lines[0], run.describe()


def test_a_job_that_dies_in_its_python_costs_itself(served, wait):
    daemon, client = served()
    neighbour = client.start(STEPS.replace("300", "3000"))
    sleeper = client.start(SLEEPER)
    sleeper.wait_for("sleeping")
    sleeper.kill()
    neighbour.succeed()
    wait(lambda: not daemon.sessions(), 60, "the sessions to end")


def test_the_daemon_ends_while_python_runs(start_daemon, client_of):
    daemon = start_daemon()
    sleeper = client_of(daemon).start(SLEEPER)
    sleeper.wait_for("sleeping")
    daemon.stop()
    sleeper.finish(60)
    assert sleeper.code == 7 and "caught UNAVAILABLE" in sleeper.stdout, sleeper.describe()


def test_jobs_with_the_same_program_call_their_own_python(salus):
    """The daemon compiles the program once; each job's functions are its own."""
    program = HEAD + """
import sys
print(jax.jit(lambda x: scalar(lambda a: np.float32(sys.argv[1]), x) + 1)(1.0))
"""
    runs = [salus.start(program, str(i)) for i in range(3)]
    for i, run in enumerate(runs):
        assert run.succeed().stdout == f"{i + 1}.0\n", run.describe()
