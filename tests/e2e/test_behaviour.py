# SPDX-License-Identifier: Apache-2.0
"""Beyond results: errors, numbers about programs, caches, forks, signals, sizes - as they are directly."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest

# Runs f and prints what came of it, so that two ways of running can be compared.
ATTEMPT = """
import sys
import jax, jax.numpy as jnp, numpy as np
def attempt(name, f):
    try:
        print(name, "->", f(), flush=True)
    except Exception as e:
        print(name, "raised", type(e).__module__, type(e).__name__, flush=True)
        print(name, "said", str(e).splitlines()[0], file=sys.stderr, flush=True)
"""


def same_output(text, direct, salus):
    """Run a program both ways; both must succeed and print the same."""
    a, b = direct(text), salus(text)
    assert a.code == 0, a.describe()
    assert b.code == 0, b.describe()
    assert b.stdout == a.stdout, b.describe()
    return b


# Errors.


def test_errors_have_the_same_types(direct, salus):
    run = same_output(ATTEMPT + """
x = jnp.ones(4)
attempt("shapes", lambda: jnp.ones(3) @ jnp.ones(4))
attempt("index", lambda: jax.devices()[7])
attempt("gpu", lambda: jax.devices("gpu"))
attempt("tpu", lambda: jax.device_put(x, jax.devices("tpu")[0]))
add = jax.jit(lambda a: a + 1).lower(x).compile()
attempt("compiled shape", lambda: add(jnp.ones(5)))
attempt("compiled type", lambda: add(jnp.ones(4, int)))
attempt("option", lambda: jax.jit(lambda a: a + 2, compiler_options={"nonsense": True})(x))
attempt("value", lambda: jax.jit(lambda a: a + 2,
                                 compiler_options={"xla_cpu_enable_fast_math": "maybe"})(x))
attempt("ffi", lambda: jax.ffi.ffi_call("no_such", jax.ShapeDtypeStruct((4,), x.dtype))(x))
attempt("huge", lambda: jnp.zeros((1 << 50,), jnp.int8).block_until_ready())
attempt("after", lambda: x + 1)
""", direct, salus)
    assert "nonsense" in run.stderr and "no_such" in run.stderr
    assert re.search("huge said RESOURCE_EXHAUSTED", run.stderr), run.describe()


def test_deleted_and_donated_arrays(direct, salus):
    same_output(ATTEMPT + """
uses = {"asarray": np.asarray, "add": lambda a: a + 1, "jit": jax.jit(lambda a: a * 2),
        "block": jax.block_until_ready, "get": jax.device_get, "item": lambda a: a[0],
        "copy": lambda a: a.copy(), "async": lambda a: a.copy_to_host_async()}
take = jax.jit(lambda a: a + 1, donate_argnums=0)
deleted, donated = jnp.ones(4), jnp.ones(4)
deleted.delete()
deleted.delete()
print(take(donated), deleted.is_deleted(), donated.is_deleted(), donated.shape, donated.dtype)
for name, use in {**uses, "again": take}.items():
    attempt(f"deleted {name}", lambda: use(deleted))
    attempt(f"donated {name}", lambda: use(donated))
both = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
twice = jnp.ones(4)
attempt("twice", lambda: both(twice, twice))
unused = jax.jit(lambda a, b: a + 1, donate_argnums=1, keep_unused=True)
attempt("unused", lambda: unused(jnp.ones(4), jnp.ones(5)))
early = jnp.arange(1000.0)
late = early * 2
early.delete()  # its reader is queued already
attempt("late", lambda: late.sum())
""", direct, salus)


def test_many_arrays_are_donated(direct, salus):
    """Around the number that the plugin has room for at hand, and far beyond; one of them is looked at, and stays."""
    run = same_output("""
import jax, jax.numpy as jnp, numpy as np
for n in (63, 64, 65, 70, 300):
    take = jax.jit(lambda *xs: [x + i for i, x in enumerate(xs)], donate_argnums=tuple(range(n)))
    xs = [jnp.full((8,), i, jnp.float32) for i in range(n)]
    ys = take(*xs)
    print(n, sum(x.is_deleted() for x in xs), [float(y[0]) for y in ys] == [2.0 * i for i in range(n)])
    view = np.asarray(ys[n - 1])
    zs = take(*ys)
    print([i for i, y in enumerate(ys) if not y.is_deleted()] == [n - 1], float(zs[n - 1][0]), view[0])
""", direct, salus)
    assert "300 300 True\nTrue" in run.stdout


def test_what_somebody_looks_at_is_not_donated(direct, salus):
    run = same_output("""
import jax, jax.numpy as jnp, numpy as np
take = jax.jit(lambda a: a + 1, donate_argnums=0)
looks = {"none": lambda a: None, "view": np.asarray, "printed": repr, "sum": lambda a: float(a.sum()),
         "copy": np.array, "dlpack": np.from_dlpack, "got": jax.device_get, "buffer": memoryview}
for size in (), (4,), (300, 1000):
    for name, look in looks.items():
        x = jnp.ones(size) * 2
        seen = look(x) if size or name != "buffer" else None
        y = take(x)
        print(size, name, x.is_deleted(), np.asarray(y).ravel()[0], None if x.is_deleted() else x.sum())
        del seen
x = jnp.ones(4) * 2
view = np.from_dlpack(x)
del view
take(x)
print("let go", x.is_deleted())
""", direct, salus)
    assert "(4,) none True" in run.stdout and "(4,) view False" in run.stdout


UNSUPPORTED = {
    "65 dimensions": ("jax.jit(lambda a: a.reshape((4,) + (1,) * 64))(x)", "65 dimensions"),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_is_not_supported_says_so(what, salus):
    code, pattern = UNSUPPORTED[what]
    run = salus(ATTEMPT + f"""
x = jnp.ones(4)
attempt("it", lambda: jax.block_until_ready({code}))
print("after", x + 1)
""")
    assert run.code == 0, run.describe()
    assert "it raised jax.errors JaxRuntimeError" in run.stdout, run.describe()
    assert re.search(f"it said .*({pattern})", run.stderr), run.describe()
    assert "after [2. 2. 2. 2.]" in run.stdout


def test_without_a_daemon(client, tmp_path):
    """An exception that says where it looked; no hang, no abort."""
    nowhere = tmp_path / "nowhere.sock"
    if "SALUS_SOCKET" not in client.env:
        pytest.skip("needs Salus, and only the tests are being tried")
    run = client("import jax; jax.devices()", env={"SALUS_SOCKET": str(nowhere)}, deadline_s=30)
    assert run.code == 1, run.describe()
    assert "Traceback" in run.stderr and str(nowhere) in run.stderr, run.describe()


def test_ping_tells_whether_a_daemon_answers(daemon, tmp_path):
    assert daemon.salus("ping").returncode == 0
    daemon.env["SALUS_SOCKET"] = str(tmp_path / "nowhere.sock")
    assert daemon.salus("ping").returncode == 69


# What a program can ask about itself.


def test_devices_look_the_same(direct, salus):
    same_output(ATTEMPT + """
d = jax.devices()[0]
print(jax.device_count(), jax.local_device_count(), jax.process_count(), jax.default_backend())
print(repr(d), d.platform, d.device_kind, d.id, d.process_index, d.local_hardware_id)
print([m.kind for m in d.addressable_memories()], d.default_memory().kind)
x = jnp.ones((2, 3))
print(x.devices(), x.sharding, x.committed, x.is_fully_addressable, x.nbytes)
for kind in ("device", "pinned_host", "unpinned_host", "nonsense"):
    def put():
        y = jax.device_put(x, jax.sharding.SingleDeviceSharding(d, memory_kind=kind))
        return y.sharding.memory_kind, np.asarray(y + 1).sum()
    attempt(kind, put)
""", direct, salus)


def test_facts_about_a_program(direct, salus):
    same_output("""
import jax, jax.numpy as jnp
def f(a, b):
    return jnp.tanh(a @ b), jnp.sort(a.sum(0) + b.sum(1))
a, b = jnp.ones((64, 32)), jnp.ones((32, 16))
for donate in ((), (0,)):
    program = jax.jit(f, donate_argnums=donate).lower(a, b).compile()
    print(sorted(program.cost_analysis().items()))
    print(program.memory_analysis())
    print(program.input_shardings, program.output_shardings)
    print(program.input_formats, program.output_formats)
    text = program.as_text()
    assert text.startswith("HloModule") and "dot(" in text, text
update = jax.jit(lambda a: a * 2, donate_argnums=0).lower(a).compile()
print(update.memory_analysis())
assert "input_output_alias" in update.as_text()
""", direct, salus)


def test_memory_stats_follow_the_session(daemon, salus):
    run = salus("""
import gc, json, time, jax, jax.numpy as jnp, numpy as np
device, seen = jax.devices()[0], []
def look():
    gc.collect()
    seen.append(device.memory_stats())
def until(f):  # releases are asynchronous, and salusd may account for an iteration after its end is told
    end = time.monotonic() + 10
    while not f(device.memory_stats()) and time.monotonic() < end:
        time.sleep(0.01)
jnp.ones(3).block_until_ready()
look()
x = jax.device_put(np.ones(8 << 20, np.int8)).block_until_ready()
look()
y = (x + 1).block_until_ready()
look()
x.delete(); del y
until(lambda s: s["bytes_in_use"] < 8 << 20 and s["peak_bytes_in_use"] >= 16 << 20)
look()
print(json.dumps(seen))
""")
    assert run.code == 0, run.describe()
    start, one, two, end = json.loads(run.stdout)
    assert one["bytes_in_use"] - start["bytes_in_use"] >= 8 << 20
    assert two["bytes_in_use"] - one["bytes_in_use"] >= 8 << 20
    assert end["bytes_in_use"] - start["bytes_in_use"] < 1 << 20
    assert end["peak_bytes_in_use"] >= two["bytes_in_use"]
    assert end["bytes_limit"] > 16 << 20


def test_ahead_of_time_and_serialised(direct, salus):
    same_output("""
import pickle, jax, jax.numpy as jnp
from jax.experimental import serialize_executable
x = jnp.arange(4.0)
program = jax.jit(lambda a: jnp.sin(a) + 1).lower(x).compile()
packed = pickle.loads(pickle.dumps(serialize_executable.serialize(program)))
again = serialize_executable.deserialize_and_load(*packed)
print(program(x), again(x), again.memory_analysis())
""", direct, salus)


def test_memory_layouts(direct, salus):
    """Layouts other than rows, of programs' arguments and results and of uploads."""
    same_output(ATTEMPT + """
from jax.experimental.layout import Format, Layout
x = jnp.arange(24.0).reshape(2, 3, 4)
for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
    form = Format(Layout(order), x.sharding)
    put = jax.device_put(x, form)
    made = jax.jit(lambda a: a * 2, out_shardings=form)(x)
    taken = jax.jit(lambda a: a + 1, in_shardings=form)(jax.device_put(x.astype(jnp.bfloat16), form))
    for y in (put, made, taken):
        print(y.format.layout.major_to_minor, np.asarray(y).tolist(), np.asarray(y + 1).sum())
automatic = jax.jit(lambda a: a @ a.T, in_shardings=Format(Layout.AUTO)).lower(x[0]).compile()
print(automatic.input_formats, automatic.output_formats)
attempt("other layout", lambda: automatic(jax.device_put(x[0], Format(Layout((1, 0)), x.sharding))))
""", direct, salus)


def test_the_compiler_crashes(daemon, salus):
    """A program that kills the vendor's compiler (it does directly) costs that program only."""
    run = salus(ATTEMPT + """
from jax.experimental.layout import Format, Layout
x = jnp.arange(6).reshape(2, 3).astype(jnp.int4)
for _ in range(2):
    attempt("crash", lambda: jax.device_put(x, Format(Layout((1, 0)), x.sharding)))
print(np.asarray(x).astype(int).tolist(), jnp.ones(17).sum())
""")
    assert run.code == 0, run.describe()
    assert run.stdout.count("crash raised jax.errors JaxRuntimeError") == 2, run.describe()
    assert "compiler crashed" in run.stderr, run.describe()
    assert "[[0, 1, 2], [3, 4, 5]] 17.0" in run.stdout, run.describe()


def test_a_backend_may_be_cleared(direct, salus):
    """The session ends and another begins, in one process; old arrays stay readable."""
    same_output("""
import jax, jax.numpy as jnp, numpy as np
from jax.extend import backend
for i in range(3):
    old = jnp.arange(4.0) + i
    backend.clear_backends()
    print(np.asarray(old), np.asarray(old + 1), jnp.ones(3) * i)
""", direct, salus)


def test_one_device_meshes(direct, salus):
    same_output(ATTEMPT + """
mesh = jax.make_mesh((1,), ("i",))
x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("i")))
print(x.sharding, jax.jit(lambda a: a * 2)(x))
total = jax.shard_map(lambda a: jax.lax.psum(a, "i"), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
attempt("shard_map", lambda: total(x))
attempt("pmap", lambda: jax.pmap(lambda a: jax.lax.psum(a, "i"), axis_name="i")(jnp.ones((1, 4))))
attempt("callback", lambda: jax.make_array_from_callback((8,), x.sharding, lambda i: np.ones(8)[i]))
""", direct, salus)


def test_sharing_memory_with_numpy_does_not_crash(salus):
    """Zero-copy views may be refused; what they show must be right."""
    run = salus(ATTEMPT + """
x = jnp.arange(5, dtype=jnp.int32)
attempt("dlpack", lambda: np.from_dlpack(x).tolist())
attempt("memoryview", lambda: memoryview(x).tolist())
attempt("pointer", lambda: x.unsafe_buffer_pointer() > 0)
attempt("import", lambda: jnp.from_dlpack(np.arange(5, dtype=np.int32)).tolist())
attempt("after", lambda: (x + 1).tolist())
""")
    assert run.code == 0, run.describe()
    for name in ("dlpack", "memoryview", "import"):
        assert re.search(rf"{name} (-> \[0, 1, 2, 3, 4\]|raised)", run.stdout), run.describe()
    assert "after -> [1, 2, 3, 4, 5]" in run.stdout


def test_profiler_does_not_crash(salus):
    run = salus(ATTEMPT + """
attempt("start", lambda: jax.profiler.start_trace("profile"))
jnp.ones(3).sum().block_until_ready()
attempt("stop", lambda: jax.profiler.stop_trace())
print("after", jnp.ones(3).sum())
""")
    assert run.code == 0 and "after 3.0" in run.stdout, run.describe()


# JAX's persistent compilation cache.

CACHED = """
import jax, jax.numpy as jnp
from jax import monitoring
hits = []
monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hit" in name else 0)
@jax.jit
def cached(x):
    return jnp.tanh(x @ x.T).sum() + jnp.sort(x)[0]
print("result", cached(jnp.arange(12.0).reshape(4, 3)))
print("hits", len(hits))
"""


@pytest.fixture
def jax_cache(tmp_path):
    folder = tmp_path / "jax_cache"
    return folder, {"JAX_COMPILATION_CACHE_DIR": str(folder),
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def result_and_hits(run):
    assert run.code == 0, run.describe()
    result = re.search(r"^result (.*)$", run.stdout, re.M)[1]
    return result, int(re.search(r"^hits (\d+)$", run.stdout, re.M)[1])


def test_jax_compilation_cache(direct, salus, jax_cache):
    folder, env = jax_cache
    right, _ = result_and_hits(direct(CACHED))
    first, no_hits = result_and_hits(salus(CACHED, env=env))
    again, hits = result_and_hits(salus(CACHED, env=env))
    assert (first, again) == (right, right)
    assert any(folder.iterdir())
    assert no_hits == 0 and hits > 0


def test_jax_compilation_cache_with_others(direct, salus, jax_cache):
    """One folder for both: each finds its own, and nothing of the other's."""
    _, env = jax_cache
    rounds = [(direct(CACHED, env=env), salus(CACHED, env=env)) for _ in range(2)]
    for runs in rounds:
        for run in runs:
            result_and_hits(run)
            assert "cache" not in run.stderr, run.describe()
    assert [[result_and_hits(run)[1] > 0 for run in runs] for runs in rounds] == [[False] * 2, [True] * 2]


# Damages what JAX stored, inside its compression, so that the damage reaches the plugin.
DAMAGE = """
import pathlib, sys
from jax._src import compilation_cache as cc
how, folder = sys.argv[1], pathlib.Path(sys.argv[2])
for path in folder.glob("*-cache"):
    blob, seconds = cc.extract_executable_and_time(cc.decompress_executable(path.read_bytes()))
    n = len(blob)
    if how == "cut":
        blob = blob[: n // 2]
    elif how == "empty":
        blob = b""
    elif how == "grown":
        blob = blob + blob
    else:
        i = n * int(how) // 100
        blob = blob[:i] + bytes([blob[i] ^ 0xFF]) + blob[i + 1 :]
    path.write_bytes(cc.compress_executable(cc.combine_executable_and_time(blob, seconds)))
    print("damaged", path.name)
"""


@pytest.mark.parametrize("how", ["cut", "empty", "grown", "0", "30", "60", "95"])
def test_damaged_compilation_cache(how, daemon, direct, salus, jax_cache):
    """A blob that is not what we gave out is compiled again or refused; it is never run."""
    folder, env = jax_cache
    right, _ = result_and_hits(salus(CACHED, env=env))
    damage = direct(DAMAGE, how, folder)
    assert damage.code == 0 and "damaged" in damage.stdout, damage.describe()

    run = salus(CACHED, env=env)
    assert run.code in (0, 1), run.describe()  # an exception at worst
    if run.code == 0:
        assert result_and_hits(run)[0] == right
    else:
        assert "jax.errors.JaxRuntimeError" in run.stderr, run.describe()
    assert daemon.is_alive()
    assert result_and_hits(salus(CACHED))[0] == right


def test_damaged_file_in_the_cache(salus, jax_cache):
    folder, env = jax_cache
    right, _ = result_and_hits(salus(CACHED, env=env))
    for path in folder.glob("*-cache"):
        path.write_bytes(path.read_bytes()[:100] + b"nonsense")
    assert result_and_hits(salus(CACHED, env=env))[0] == right


# Processes.


def stderr_lines(run):
    """What a program said on stderr, without its own path and numbers that change."""
    text = run.stderr.replace(str(run.folder.parent), "")
    return {re.sub(r"\d+", "N", line).strip() for line in text.splitlines()} - {""}


EXITS = {
    "normal": ("print(f(x).sum())", 0),
    "status": ("sys.exit(3)", 3),
    "exception": ("raise ValueError('mine')", 1),
    "queued": ("y = x\nfor _ in range(500): y = f(y)", 0),
    "queued, status": ("y = x\nfor _ in range(500): y = f(y)\nsys.exit(4)", 4),
    "at once": ("y = f(x)\nos._exit(5)", 5),
    "unused": ("", 0),
    "arrays in globals": ("keep = [f(x + i) for i in range(100)]; cycle = [keep]; cycle.append(cycle)", 0),
    "download under way": ("f(jnp.ones(4 << 20)).copy_to_host_async()", 0),
    "atexit": ("import atexit; atexit.register(lambda: print(f(x).sum()))", 0),
}


@pytest.mark.parametrize("how", EXITS)
def test_exit_is_quiet(how, direct, salus):
    code, status = EXITS[how]
    text = f"import os, sys\nimport jax, jax.numpy as jnp\nf = jax.jit(lambda x: x * 0.5 + 1)\n" \
           f"x = jnp.ones(100)\nf(x).block_until_ready()\n{code}\n"
    reference, run = direct(text), salus(text)
    assert reference.code == status, reference.describe()
    assert run.code == status, run.describe()
    assert run.stdout == reference.stdout
    assert not stderr_lines(run) - stderr_lines(reference), run.describe()


@pytest.mark.parametrize("size", [3, 5000, 250000])
def test_views_that_outlive_everything(size, salus):
    """At exit JAX lets go of its client first and then of arrays that numpy holds; alone it crashes now and then."""
    run = salus(f"""
import jax, jax.numpy as jnp
views = [jax.device_get(jnp.ones({size}) * i) for i in range(5)]
print([view[-1].item() for view in views])
""")
    assert (run.code, run.stdout) == (0, "[0.0, 1.0, 2.0, 3.0, 4.0]\n"), run.describe()


def test_never_used_is_never_seen(salus):
    """Importing JAX without using it works. Only `salus run` says something, once, and can be told not to."""
    run = salus("import jax; print('imported')", env={"SALUS_QUIET": "1"})
    assert (run.code, run.stdout, run.stderr) == (0, "imported\n", ""), run.describe()


# Not sys.exit: there JAX itself takes apart threads that a fork does not copy, and hangs or
# crashes.
FORKS = {
    "os._exit": "os._exit(0)",
    "exec": "os.execv('/bin/true', ['true'])",
    "free": "del x, y\ngc.collect()\nos._exit(0)",
}


@pytest.mark.parametrize("how", FORKS)
def test_fork(how, client):
    """A forked child ends quietly; its parent goes on as if nothing had happened."""
    run = client(f"""
import gc, os, sys
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x + 1)
x = jnp.zeros(10)
y = f(x).block_until_ready()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
{chr(10).join("        " + line for line in FORKS[how].splitlines())}
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    y = f(y)
print("sum", y.sum())
""", deadline_s=60)
    assert run.code == 0, run.describe()
    assert run.stdout == "sum 40.0\n", run.describe()
    chatter = ("Platform 'cpu'", "absl::", "library_matcher")
    assert not [l for l in stderr_lines(run) if not any(c in l for c in chatter)], run.describe()


def test_forked_child_gets_errors_not_hangs(daemon, client):
    run = client("""
import os, time
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: x + 1)
x = f(jnp.zeros(10)).block_until_ready()
pid = os.fork()
if pid == 0:
    caught = 0
    for use in (lambda: np.asarray(f(x)), lambda: jnp.ones(3) + 1, lambda: jax.device_put(np.ones(5)) + 1):
        try:
            use()
        except Exception:
            caught += 1
    os._exit(40 + caught)
end = time.monotonic() + 30
done = (0, 0)
while done[0] == 0 and time.monotonic() < end:
    done = os.waitpid(pid, os.WNOHANG)
if done[0] == 0:
    os.kill(pid, 9)
print("child", os.waitstatus_to_exitcode(done[1]) if done[0] else "hangs")
print("parent", f(x).sum())
""", deadline_s=90)
    assert run.code == 0, run.describe()
    assert "child 43" in run.stdout and "parent 20.0" in run.stdout, run.describe()


def test_other_children(salus):
    """subprocess, and multiprocessing with fresh interpreters that use the device too."""
    run = salus("""
import multiprocessing, subprocess, sys
import jax.numpy as jnp
def work(n):
    return float(jnp.arange(n).sum())
if __name__ == "__main__":
    print(work(5), subprocess.run(["echo", "fine"], capture_output=True, text=True).stdout.strip())
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [3, 4]))
    print(work(6))
""")
    assert run.code == 0, run.describe()
    assert run.stdout == "10.0 fine\n[3.0, 6.0]\n15.0\n", run.describe()


INTERRUPTED = """
import signal
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: jnp.sin(x) + 1, x))
x = f(jnp.ones((256, 256))).block_until_ready()
try:
    i = 0
    while True:
        x = f(x)
        i += 1
        if i % 10 == 0:
            x.block_until_ready()
        if i == 20:
            print("looping", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    HANDLE
print("after", bool(jnp.isfinite(f(x)).all()))
"""


def test_keyboard_interrupt(client):
    run = client.start(INTERRUPTED.replace("HANDLE", "pass"))
    run.wait_for("looping")
    os.kill(run.pid, signal.SIGINT)
    run.succeed(30)
    assert run.stdout.splitlines() == ["looping", "interrupted", "after True"], run.describe()


def test_keyboard_interrupt_ends_it(client):
    """Not caught, it ends Python as always."""
    run = client.start(INTERRUPTED.replace("HANDLE", "raise"))
    run.wait_for("looping")
    os.kill(run.pid, signal.SIGINT)
    run.finish(30)
    assert run.code in (-signal.SIGINT, 130), run.describe()
    assert run.stderr.rstrip().endswith("KeyboardInterrupt"), run.describe()


def test_sigterm_ends_a_client(daemon, client, wait):
    run = client.start(INTERRUPTED.replace("HANDLE", "raise"))
    run.wait_for("looping")
    assert len(daemon.sessions()) == 1
    os.kill(run.pid, signal.SIGTERM)
    run.finish(10)
    assert run.code == -signal.SIGTERM
    wait(lambda: not daemon.sessions(), 5, "the session to end")


def test_run_passes_on_status_and_arguments(daemon, salus, tmp_path):
    run = salus("import sys; print(sys.argv[1:]); sys.exit(37)", "--steps", "a b", "--")
    assert (run.code, run.stdout) == (37, "['--steps', 'a b', '--']\n"), run.describe()
    missing = daemon.salus("run", "--", str(tmp_path / "no-such-program"))
    assert missing.returncode == 127, missing


def test_sessions_have_names(daemon, salus, wait):
    salus.prefix = [*salus.prefix[:-1], "--name", "my job", "--"]
    run = salus.start("""
import jax.numpy as jnp
print(jnp.ones(3).sum(), flush=True)
input()
""")
    run.wait_for("3.0")
    (session,) = daemon.sessions()
    assert session["name"] == "my job" and session["pid"] in (run.pid, *run_children(run))
    assert {"id", "state"} <= set(session)
    run.say("")
    run.succeed()
    wait(lambda: not daemon.sessions(), 5, "the session to end")


def run_children(run):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True)
    return map(int, listed.stdout.split())


# Sizes and orders.


def test_many_iterations_queued(direct, salus):
    same_output("""
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x, i: (x * 1.0001 + i) % 97)
x = jnp.arange(1000.0)
for i in range(5000):
    x = f(x, i)
print(np.asarray(x).tobytes().hex())
""", direct, salus)


def test_dispatch_is_asynchronous(direct, salus):
    same_output("""
import jax, jax.numpy as jnp
long = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda i, x: jnp.sin(x) + 1, x))
x = jnp.ones((512, 512))
long(x, 1).block_until_ready()
y = long(x, 3000)
print(y.is_ready())
z = y + 1
print(z.is_ready())
z.block_until_ready()
y.block_until_ready()  # in-process, it may be known a moment after z
print(y.is_ready(), z.is_ready())
""", direct, salus)


def test_big_arrays(direct, salus):
    """256 MB up, through a program, and down again."""
    same_output("""
import hashlib, jax, numpy as np
host = np.random.default_rng(0).integers(0, 1 << 32, 64 << 20, np.uint32)
device = jax.device_put(host)
assert (np.asarray(device) == host).all()
print(hashlib.sha256(np.asarray(jax.jit(lambda x: x ^ 0x5A5A5A5A)(device))).hexdigest())
del device
for i in range(4):  # memory is given back
    assert np.asarray(jax.device_put(host) + np.uint32(i))[-1] == np.uint32(host[-1] + np.uint32(i))
""", direct, salus)


def test_many_arguments_and_results(direct, salus):
    same_output("""
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def many(*xs):
    total = sum(x.sum() for x in xs)
    return [total + i for i in range(300)], [x * 2 for x in xs[:50]]
xs = [jnp.full((i % 7 + 1,), i, jnp.float32) for i in range(100)]
scalars, arrays = many(*xs)
print(np.stack(scalars).tolist(), [a.tolist() for a in arrays])
wide = jax.jit(lambda *xs: sum(xs))(*np.arange(1000, dtype=np.float32))
none = jax.jit(lambda: (), keep_unused=True)()
print(wide, none, jax.jit(lambda x: (x, x, 1))(jnp.zeros((0, 3)))[0].shape)
""", direct, salus)


def test_many_live_arrays(direct, salus):
    same_output("""
import jax, jax.numpy as jnp, numpy as np
keep = {}
rng = np.random.default_rng(0)
for i in range(20_000):
    keep[int(rng.integers(0, 3000))] = jax.device_put(np.int32(i))
print(sum(int(v) for v in keep.values()), len(keep))
""", direct, salus)


def test_many_programs(direct, salus):
    same_output("""
import jax, jax.numpy as jnp
print([float(jax.jit(lambda x: x * i + n)(jnp.ones(n)).sum()) for n in range(1, 9) for i in range(5)])
jax.clear_caches()
print(float(jnp.ones(3).sum()))
""", direct, salus)


def test_downloads_while_computing(direct, salus):
    same_output("""
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: jnp.sin(x) + 1)
x, seen = jnp.ones(100_000), []
for i in range(100):
    x = f(x)
    x.copy_to_host_async()
    seen.append(x)
print(sum(float(np.asarray(s)[i]) for i, s in enumerate(seen)))
""", direct, salus)


# Strangers.


def test_nonsense_on_the_socket(daemon, salus, rng):
    """Somebody who does not speak the protocol costs nobody else anything."""
    before = daemon.holdings()
    for size in (0, 1, 7, 64, 4096, 100_000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(str(daemon.socket))
            try:
                s.sendall(rng.randbytes(size))
            except (BrokenPipeError, ConnectionResetError):
                pass
    daemon.wait_holding(before)
    run = salus("import jax.numpy as jnp; print(jnp.ones(3).sum())")
    assert (run.code, run.stdout) == (0, "3.0\n"), run.describe()
