# SPDX-License-Identifier: Apache-2.0
"""Linear algebra, which JAX leaves to LAPACK on the CPU, beside JAX's built-in CPU backend."""

import re
from pathlib import Path

import numpy as np
import pytest

JOBS = Path(__file__).parent / "jobs"


def differences(right, got):
    """The names of arrays that are not the same, but for rounding."""
    for name in sorted(set(right) | set(got)):
        if name not in right or name not in got:
            yield f"{name} is missing"
            continue
        a, b = right[name], got[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{name}: {a.dtype}{a.shape}, got {b.dtype}{b.shape}"
        elif a.dtype.kind not in "fc":
            if not (a == b).all():
                yield f"{name}: {a.ravel()[:4]}, got {b.ravel()[:4]}"
        elif a.size:
            close = 2e-3 if a.dtype.char in "fF" else 1e-9
            finite = np.abs(a[np.isfinite(a)])
            size = max(1, finite.max()) if finite.size else 1
            if not np.allclose(a, b, rtol=close, atol=close * size, equal_nan=True):
                yield f"{name}: {a.ravel()[:4]}, got {b.ravel()[:4]}"


# Two types of each precision and kind; the unit tests have all four.
@pytest.mark.parametrize("letter", "fD")
def test_same_as_the_built_in_backend(letter, plain_runner, salus, tmp_path):
    built_in = plain_runner({"JAX_PLATFORMS": "cpu"})
    job = JOBS / "linalg.py"
    runs = [built_in.start(job, "--types", letter, "--out", tmp_path / "right.npz"),
            salus.start(job, "--types", letter, "--out", tmp_path / "got.npz")]
    for run in runs:
        run.succeed(600)
    with np.load(tmp_path / "right.npz") as right, np.load(tmp_path / "got.npz") as got:
        assert len(right.files) > 150
        wrong = list(differences(right, got))
    assert not wrong, "\n".join(wrong[:20])


def test_without_lapack(start_daemon, salus_runner):
    """Only linear algebra fails, when it is compiled, with a sentence that says what to do."""
    daemon = start_daemon(env={"SALUS_LAPACK": "/nowhere/liblapack.so"})
    run = salus_runner(daemon)("""
import jax, jax.numpy as jnp
x = jnp.ones(4)
for name, f in ("cholesky", jnp.linalg.cholesky), ("eigh", jnp.linalg.eigh):
    try:
        f(jnp.eye(3))
    except jax.errors.JaxRuntimeError as error:
        print(name, "said", error)
jax.lax.linalg.tridiagonal_solve(x, x + 3, x, x[:, None], perturb_singular=True)
print("after", x + 1)
""")
    assert run.code == 0, run.describe()
    for name in "cholesky", "eigh":
        assert re.search(f"{name} said .*SALUS_LAPACK names no library.*nowhere", run.stdout), run.describe()
    assert "after [2. 2. 2. 2.]" in run.stdout, run.describe()
    daemon.stop()


LOOP = """
import sys
import jax, jax.numpy as jnp, numpy as np
a = np.random.default_rng(int(sys.argv[1])).standard_normal((3, 40, 40)).astype("f")
s = a @ a.transpose(0, 2, 1) + 40 * np.eye(40, dtype="f")

@jax.jit
def parts(a, s):
    w, v = jnp.linalg.eigh(s)
    return (jnp.linalg.cholesky(s), jnp.linalg.solve(s, a), w, jnp.linalg.svd(a)[1],
            (v * w[:, None, :]) @ jnp.swapaxes(v, -1, -2))

right = (np.linalg.cholesky(s), np.linalg.solve(s, a), np.linalg.eigvalsh(s),
         np.linalg.svd(a)[1], s)
for turn in range(200):
    for got, wanted in zip(parts(a, s), right):
        np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)
print("right")
"""


def test_lanes_compute_at_the_same_time(start_daemon, salus_runner):
    """LAPACK is called by several lanes at once."""
    daemon = start_daemon("--lanes", "3", "--policy", "pack")
    runner = salus_runner(daemon)
    runs = [runner.start(LOOP, str(i)) for i in range(3)]
    for run in runs:
        run.succeed(300)
        assert "right" in run.stdout, run.describe()
    daemon.stop()


def test_workspaces_count_as_scratch(salus):
    run = salus("""
import jax, jax.numpy as jnp
eigh = jax.jit(lambda a: jnp.linalg.eigh(a, symmetrize_input=False)[0])
memory = eigh.lower(jnp.zeros((200, 200))).compile().memory_analysis()
print("temp", memory.temp_size_in_bytes)
""").succeed()
    # LAPACK wants twice the matrix for its work, and integers.
    assert int(re.search(r"temp (\d+)", run.stdout)[1]) >= (2 * 200 * 200 + 3 + 5 * 200) * 4


def test_calls_that_make_no_sense_are_refused(salus):
    """Shapes when they are compiled, attributes when they run. The daemon lives."""
    run = salus("""
import jax, jax.numpy as jnp, numpy as np
out = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
info = jax.ShapeDtypeStruct((), jnp.int32)
lower = {"uplo": np.uint8(ord("L"))}
x = jnp.eye(4)
calls = {
    "larger result": ("lapack_spotrf_ffi", (out(8, 8), info), (x,), lower),
    "no square": ("lapack_spotrf_ffi", (out(4, 2), info), (x[:, :2],), lower),
    "no info": ("lapack_spotrf_ffi", out(4, 4), (x,), lower),
    "short pivots": ("lapack_sgetrf_ffi", (out(4, 4), jax.ShapeDtypeStruct((2,), jnp.int32), info),
                     (x,), {}),
    "other type": ("lapack_dpotrf_ffi", (out(4, 4), info), (x,), lower),
    "no letter": ("lapack_spotrf_ffi", (out(4, 4), info), (x,), {}),
    "wrong letter": ("lapack_spotrf_ffi", (out(4, 4), info), (x,), {"uplo": np.uint8(7)}),
    "text": ("lapack_spotrf_ffi", (out(4, 4), info), (x,), {"uplo": "L"}),
    "short reflectors": ("lapack_sorgqr_ffi", out(4, 4), (x, jnp.zeros(5)), {}),
    "short U": ("lapack_sgesdd_ffi", (out(4, 4), out(4), out(4, 2), out(4, 4), info), (x,),
                {"mode": np.uint8(ord("A"))}),
    "rows outside": ("lapack_sgehrd_ffi", (out(4, 4), out(3), info), (x,),
                     {"low": np.int32(-5), "high": np.int32(900)}),
}
for name, (target, outs, args, attrs) in calls.items():
    try:
        jax.block_until_ready(jax.ffi.ffi_call(target, outs)(*args, **attrs))
        print(name, "passed")
    except jax.errors.JaxRuntimeError as error:
        print(name, "refused" if "is refused" in str(error) else error)
print("after", jnp.linalg.cholesky(4 * x)[0, 0])
""")
    assert run.code == 0, run.describe()
    lines = run.stdout.splitlines()
    assert len(lines) == 12 and all(line.endswith("refused") for line in lines[:-1]), run.describe()
    assert lines[-1] == "after 2.0", run.describe()
