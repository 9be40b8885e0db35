# SPDX-License-Identifier: Apache-2.0
"""What may be compiled: everything that frameworks emit passes, what would break the runtime is refused by name."""

import json
import re
import shutil

import pytest

# Every kind of sort of JAX, for many types and values: the digest of all results.
SORTS = """
import functools, hashlib, os
import jax, jax.numpy as jnp, numpy as np
from jax import lax
jax.config.update("jax_enable_x64", True)
digest, count, noted = hashlib.sha256(), 0, []

def note(name, f, *args):
    noted.append((name, f, args))

def run():
    # All that was noted, as one program.
    global count
    outs = jax.jit(lambda args: [f(*a) for (_, f, _), a in zip(noted, args)])([a for _, _, a in noted])
    for (name, _, _), group in zip(noted, outs):
        for out in jax.tree.leaves(group):
            host = np.asarray(out)
            digest.update(f"{name} {host.dtype} {host.shape}".encode() + host.tobytes())
    count += len(noted)
    noted.clear()

def values(dtype, shape):
    rng = np.random.default_rng(7)
    x = rng.integers(-6, 7, shape)
    if dtype == "bool":
        return jnp.asarray(x > 0)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        x = x + 1j * rng.integers(-3, 4, shape)
        x.ravel()[3] = complex(np.nan, 1)
        x.ravel()[4] = complex(-0.0, np.inf)
    elif jnp.issubdtype(dtype, jnp.inexact):
        x = x * 0.5
        x.ravel()[2:8] = [np.nan, -0.0, 0.0, -np.nan, np.inf, -np.inf]
    return jnp.asarray(x).astype(dtype)

types = ["float32", "bfloat16", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
for dtype in types:
    x, m = values(dtype, (50,)), values(dtype, (6, 40))
    small = dtype in ("int4", "uint4", "float8_e4m3fn", "float8_e5m2")
    note(f"sort {dtype}", jnp.sort, x)
    note(f"sort axis {dtype}", functools.partial(jnp.sort, axis=0), m)
    note(f"sort unstable {dtype}", functools.partial(jnp.sort, stable=False), x)
    note(f"argsort {dtype}", jnp.argsort, x)
    note(f"argsort unstable {dtype}", functools.partial(jnp.argsort, stable=False, axis=0), m)
    if small:
        run()
        continue
    note(f"down {dtype}", functools.partial(jnp.sort, descending=True), x)
    note(f"argsort down {dtype}", functools.partial(jnp.argsort, descending=True), m)
    note(f"sort keys {dtype}", lambda a: lax.sort((a, a[::-1], jnp.arange(50)), num_keys=2), x)
    note(f"lexsort {dtype}", lambda a: jnp.lexsort((a, a[::-1])), x)
    note(f"unique {dtype}", lambda a: jnp.unique(a, size=20, return_inverse=True, return_counts=True), x)
    note(f"unique rows {dtype}", lambda a: jnp.unique(a, axis=0, size=6), m)
    if not jnp.issubdtype(dtype, jnp.complexfloating):
        for k in 0, 1, 3, 50:
            note(f"top {k} {dtype}", functools.partial(lax.top_k, k=k), x)
        note(f"top rows {dtype}", lambda a: lax.top_k(a, 3), m)
        note(f"top cubes {dtype}", lambda a: lax.top_k(a.reshape(2, 3, 40), 3), m)
        note(f"search {dtype}", lambda a: jnp.searchsorted(jnp.sort(a), a), x)
        if dtype != "bool":
            note(f"median {dtype}", jnp.median, m)
    run()

key = jax.random.key(3)
x = values("float32", (40,))
m = values("float32", (6, 40))
note("permutation", lambda k: jax.random.permutation(k, 30), key)
note("permutation of rows", lambda k: jax.random.permutation(k, m, axis=1, independent=True), key)
note("choice", lambda k: jax.random.choice(k, 30, (7,), replace=False), key)
note("weighted choice", lambda k: jax.random.choice(k, 30, (7,), p=jnp.arange(30.0) / 435), key)
note("categorical", lambda k: jax.random.categorical(k, m), key)
note("percentile", lambda a: jnp.nanpercentile(a, jnp.array([5.0, 50.0, 95.0])), m)
note("segment sum", lambda a: jax.ops.segment_sum(a, jnp.arange(40) % 7, 7), x)
note("segment max", lambda a: jax.ops.segment_max(a, jnp.arange(40) // 7, 7, indices_are_sorted=True), x)
note("bincount", lambda a: jnp.bincount(a, length=9), jnp.arange(40) % 9)
note("histogram", lambda a: jnp.histogram(jnp.nan_to_num(a), bins=8)[0], x)
note("setdiff", lambda a: jnp.setdiff1d(a, a[:3], size=20), jnp.arange(40) % 9)
note("intersect", lambda a: jnp.intersect1d(a, a[:3], size=20), jnp.arange(40) % 9)
note("union", lambda a: jnp.union1d(a, a + 3, size=20), jnp.arange(40) % 9)
note("approximate top", lambda a: lax.approx_max_k(a, 3), m)
for dtype in "float32", "float16", "bfloat16":
    a = jax.random.permutation(key, jnp.arange(-20, 20)).astype(dtype)
    for k in 3, 40:
        note(f"approximate top {k} {dtype}", functools.partial(lax.approx_max_k, k=k), a)
        note(f"approximate bottom {k} {dtype}", functools.partial(lax.approx_min_k, k=k), a)
note("sort in a loop", lambda a: lax.fori_loop(0, 3, lambda i, c: jnp.sort(c)[::-1] + i, a), x)
note("sort in a branch", lambda a: lax.cond(a[0] > 0, jnp.sort, lambda c: -jnp.sort(-c), a), x)
note("sort under vmap", jax.vmap(lambda a: jnp.argsort(a)), m)
note("sort of a gradient", jax.grad(lambda a: (jnp.sort(a) * jnp.arange(40)).sum()), x)
note("sort of structs", lambda a: lax.sort([a] + [a * i for i in range(20)], num_keys=1), x)
note("40 keys", lambda a: lax.sort([jnp.mod(a, i + 2) for i in range(40)], num_keys=40), jnp.arange(60))
note("scatter", lambda a: a.at[jnp.array([3, 3, 90])].add(1.0, mode="drop", indices_are_sorted=True), x)
note("rank", lambda a: jax.scipy.stats.rankdata(a), x)
note("mode", lambda a: jax.scipy.stats.mode(a), x)
note("fft", jnp.fft.fft, x)
note("convolve", lambda a: jnp.convolve(a, a[:5]), x)
note("product", lambda a: a @ a.T, m)
run()
print("digest:", digest.hexdigest())
print("kinds", count)
"""


def test_every_sort_of_jax_passes(direct, salus):
    a, b = direct(SORTS, deadline_s=600), salus(SORTS, deadline_s=600)
    assert a.code == 0, a.describe()
    assert b.code == 0, b.describe()
    assert b.stdout == a.stdout, b.describe()
    assert int(re.search(r"kinds (\d+)", b.stdout)[1]) > 200


# Compiles StableHLO as it stands, and runs it.
RAW = """
import jax, numpy as np
from jax._src import compiler
from jax._src.lib import xla_client
device = jax.devices()[0]
options = compiler.get_compile_options(num_replicas=1, num_partitions=1)

def run(text, *args):
    try:
        program = device.client.compile_and_load(text, xla_client.DeviceList((device,)), options)
        outs = program.execute_sharded([jax.device_put(a, device) for a in args])
        print("gave", [np.asarray(o[0]).ravel()[:4] for o in outs.disassemble_into_single_device_arrays()])
    except Exception as e:
        print("said", str(e).replace(chr(10), " "))
"""

TOPK = """
func.func private @greater(%%a: tensor<f32>, %%b: tensor<f32>, %%c: tensor<i32>, %%d: tensor<i32>) -> tensor<i1> {
  %%0 = stablehlo.compare GT, %%a, %%b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %%0 : tensor<i1>
}
func.func public @main(%%x: tensor<%(x)s>) -> (tensor<%(v)s>, tensor<%(i)s>) {
  %%0:2 = stablehlo.custom_call @TopK(%%x) {called_computations = [@greater]}
      : (tensor<%(x)s>) -> (tensor<%(v)s>, tensor<%(i)s>)
  return %%0#0, %%0#1 : tensor<%(v)s>, tensor<%(i)s>
}
"""

CALL = """
func.func public @main(%%x: tensor<16xf32>) -> tensor<16xf32> {
  %%0 = stablehlo.custom_call @%s(%%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %%0 : tensor<16xf32>
}
"""

SORT = """
func.func public @main(%%x: tensor<5000x%(t)s>, %%y: tensor<5000x%(t)s>) -> tensor<5000x%(t)s> {
  %%0:2 = "stablehlo.sort"(%%x, %%y) <{dimension = 0 : i64, is_stable = %(stable)s}> ({
  ^bb0(%%a: tensor<%(t)s>, %%b: tensor<%(t)s>, %%c: tensor<%(t)s>, %%d: tensor<%(t)s>):
    %(body)s
    stablehlo.return %%r : tensor<i1>
  }) : (tensor<5000x%(t)s>, tensor<5000x%(t)s>) -> (tensor<5000x%(t)s>, tensor<5000x%(t)s>)
  return %%0#0 : tensor<5000x%(t)s>
}
"""

DYNAMIC = """
func.func public @main(%x: tensor<16xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<16>> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0
      : (tensor<16xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<16>>
  return %0 : tensor<?xf32, #stablehlo.bounds<16>>
}
"""

FEED = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = stablehlo.create_token : !stablehlo.token
  %0:2 = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32>
}
"""


def compare(direction, a="a", b="b", t="i32", order=""):
    return f"stablehlo.compare {direction}, %{a}, %{b}{order} : (tensor<{t}>, tensor<{t}>) -> tensor<i1>"


def sort(body, t="i32", stable="false"):
    return SORT % {"t": t, "stable": stable, "body": body}


ARRAY = "np.arange(5000, dtype=np.int32), np.arange(5000, dtype=np.int32)"
REALS = "np.arange(5000, dtype=np.float32), np.arange(5000, dtype=np.float32)"
ORDER = "sort .* is refused: its comparator cannot be proven to be a strict order"

REFUSED = {
    "topk, two lengths": (TOPK % {"x": "16xf32", "v": "16xf32", "i": "3xi32"}, "np.ones(16, np.float32)",
                          "TopK is refused"),
    "topk, other way": (TOPK % {"x": "16xf32", "v": "3xf32", "i": "16xi32"}, "np.ones(16, np.float32)",
                        "TopK is refused"),
    "topk, too many": (TOPK % {"x": "16xf32", "v": "17xf32", "i": "17xi32"}, "np.ones(16, np.float32)",
                       "TopK is refused"),
    "topk, more rows": (TOPK % {"x": "2x16xf32", "v": "3x4xf32", "i": "3x4xi32"},
                        "np.ones((2, 16), np.float32)", "TopK is refused"),
    "topk, narrow": (TOPK % {"x": "16xf32", "v": "4xf32", "i": "4xi8"}, "np.ones(16, np.float32)",
                     "TopK is refused"),
    "a call": (CALL % "no_such_thing", "np.ones(16, np.float32)", "no_such_thing"),
    "memcpy": (CALL % "memcpy", "np.ones(16, np.float32)", "memcpy"),
    "sort, a <= b": (sort("%r = " + compare("LE")), ARRAY, ORDER),
    "sort, a >= b": (sort("%r = " + compare("GE")), ARRAY, ORDER),
    "sort, a != b": (sort("%r = " + compare("NE")), ARRAY, ORDER),
    "sort, a < d": (sort("%r = " + compare("LT", "a", "d")), ARRAY, ORDER),
    "sort, a < c": (sort("%r = " + compare("LT", "a", "c")), ARRAY, ORDER),
    "sort, always": (sort("%r = stablehlo.constant dense<true> : tensor<i1>"), ARRAY, ORDER),
    "sort, a < constant": (sort("%k = stablehlo.constant dense<7> : tensor<i32>\n%r = "
                                + compare("LT", "a", "k")), ARRAY, ORDER),
    "sort, a + 1 < b": (sort("%k = stablehlo.constant dense<-1> : tensor<i32>\n"
                             "%s = stablehlo.add %a, %k : tensor<i32>\n%r = " + compare("LT", "s", "b")),
                        ARRAY, ORDER),
    "sort, either key": (sort("%p = " + compare("LT") + "\n%q = " + compare("LT", "c", "d")
                              + "\n%r = stablehlo.or %p, %q : tensor<i1>"), ARRAY, ORDER),
    "sort, both keys": (sort("%p = " + compare("LT") + "\n%q = " + compare("LT", "c", "d")
                             + "\n%r = stablehlo.and %p, %q : tensor<i1>"), ARRAY, ORDER),
    "sort, random": (sort("%z = stablehlo.constant dense<0> : tensor<i32>\n"
                          "%o = stablehlo.constant dense<9> : tensor<i32>\n"
                          "%s = stablehlo.constant dense<> : tensor<0xi64>\n"
                          "%u = stablehlo.rng %z, %o, %s, distribution = UNIFORM :"
                          " (tensor<i32>, tensor<i32>, tensor<0xi64>) -> tensor<i32>\n%r = "
                          + compare("LT", "u", "b")), ARRAY, ORDER),
    "sort, NaN unordered": (sort("%r = " + compare("LT", t="f32"), "f32"), REALS,
                            "without a total order.* stable sort"),
    "sort, stable and no order": (sort("%r = " + compare("LE"), stable="true"), ARRAY, ORDER),
    "dynamic shape": (DYNAMIC, "np.ones(16, np.float32), np.int32(1000000)", "size is known only when"),
    "infeed": (FEED, "np.ones(4, np.float32)", "infeed is refused"),
}


def test_what_breaks_the_runtime_is_refused(daemon, salus):
    """All in one job, which goes on after each; salusd survives (the fixture sees to that)."""
    text = RAW + "".join(f"print({name!r}); run({program!r}, {args})\n"
                         for name, (program, args, _) in REFUSED.items())
    run = salus(text + "print('after', jax.numpy.sort(jax.numpy.array([3, 1, 2])))\n", deadline_s=300)
    assert run.code == 0, run.describe()
    lines = run.stdout.splitlines()
    for name, (_, _, pattern) in REFUSED.items():
        answer = lines[lines.index(name) + 1]
        assert re.search(f"^said .*{pattern}", answer), f"{name}: {answer}"
    assert "after [1 2 3]" in run.stdout
    assert daemon.sessions() == []


TAKEN = {
    "topk": (TOPK % {"x": "16xf32", "v": "4xf32", "i": "4xi32"}, "np.arange(16, dtype=np.float32)"),
    "sort, a > b": (sort("%r = " + compare("GT")), ARRAY),
    "sort, b < a": (sort("%r = " + compare("LT", "b", "a")), ARRAY),
    "sort, not a >= b": (sort("%p = " + compare("GE") + "\n%r = stablehlo.not %p : tensor<i1>"), ARRAY),
    "sort, second key": (sort("%r = " + compare("LT", "c", "d")), ARRAY),
    "sort, select": (sort("%e = " + compare("EQ") + "\n%p = " + compare("GT") + "\n%q = "
                          + compare("LT", "c", "d")
                          + "\n%r = stablehlo.select %e, %q, %p : tensor<i1>, tensor<i1>"), ARRAY),
    "sort, total order": (sort("%r = " + compare("LT", t="f32", order=", TOTALORDER"), "f32"), REALS),
    "sort, stable": (sort("%r = " + compare("GT", t="f32"), "f32", "true"), REALS),
    "sort, never": (sort("%r = stablehlo.constant dense<false> : tensor<i1>"), ARRAY),
}


def test_orders_in_other_words_are_taken(salus, direct):
    text = RAW + "".join(f"print({name!r}); run({program!r}, {args})\n"
                         for name, (program, args) in TAKEN.items())
    a, b = direct(text), salus(text)
    assert a.code == 0 and "said" not in a.stdout, a.describe()
    assert b.code == 0, b.describe()
    assert b.stdout == a.stdout, b.describe()


@pytest.mark.parametrize("option", ["xla_disable_hlo_passes", "xla_gpu_ptx_file", "xla_new_thing"])
def test_options_are_refused_by_name(option, salus):
    run = salus(f"""
import jax, jax.numpy as jnp
try:
    jax.jit(lambda a: a + 1, compiler_options={{"{option}": "x"}})(jnp.ones(3))
except Exception as e:
    print("said", e)
print("after", jax.jit(lambda a: a + 1)(jnp.ones(3)))
""")
    assert run.code == 0, run.describe()
    assert re.search(f"said .*{option}", run.stdout), run.describe()
    assert "after [2. 2. 2.]" in run.stdout


def test_usual_flags_pass(salus, tmp_path):
    """XLA_FLAGS reach the daemon with every program; those for dumps stay in the job, which writes them."""
    flags = ("--xla_cpu_enable_fast_math=true --xla_backend_optimization_level=1 "
             "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1 "
             f"--xla_dump_to={tmp_path / 'dump'} --xla_cpu_prefer_vector_width=256")
    run = salus("import jax, jax.numpy as jnp; print(jax.jit(lambda a: jnp.sort(a) + 1)(jnp.ones(3)))",
                env={"XLA_FLAGS": flags})
    assert run.code == 0 and "[2. 2. 2.]" in run.stdout, run.describe()
    assert any((tmp_path / "dump").iterdir())


def programs(daemon):
    return json.loads(daemon.salus("ps", "--json").stdout)["programs"]


def test_plugins_that_say_the_same_share_no_programs(start_daemon, client_of, plugin, tmp_path):
    """Two files on one cache: each finds its own programs again, never the other's."""
    copy = tmp_path / "plugins" / "second.so"
    copy.parent.mkdir()
    shutil.copyfile(plugin, copy)
    job = tmp_path / "job.py"  # one file: its name is part of the programs
    job.write_text("import jax, jax.numpy as jnp; print(jax.jit(lambda a: jnp.sort(a) + 1)(jnp.arange(3.0)))")
    seen = []
    for path in plugin, copy, plugin, copy:
        daemon = start_daemon("--plugin", path)
        run = client_of(daemon)(job)
        assert run.code == 0 and "[1. 2. 3.]" in run.stdout, run.describe()
        seen.append(programs(daemon))
        daemon.stop()
    first = seen[0]["compiled"]
    assert first > 0
    assert [s["compiled"] for s in seen] == [first, first, 0, 0], seen
    assert [s["disk_hits"] for s in seen] == [0, 0, first, first], seen
    copy.unlink()
