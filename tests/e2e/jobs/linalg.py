# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: every function that JAX leaves to LAPACK, in four types, batched, empty, singular,
with NaN, and differentiated. Saves what does not depend on the signs of vectors, or on their order.

    linalg.py --out FILE.npz [--types fdFD] [--only NAME]
"""

import argparse
import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax
from jax._src.lax import linalg as inner

H = lax.linalg


def matrices(dtype, *shape):
    rng = np.random.default_rng(sum(shape))
    real = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        real = real + 1j * rng.standard_normal(shape)
    return jnp.asarray(real.astype(dtype))


def adjoint(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def positive(a):
    return a @ adjoint(a) + a.shape[-1] * jnp.eye(a.shape[-1], dtype=a.dtype)


def sorted_values(w):
    return jnp.sort(jnp.abs(w), axis=-1)


def svd_parts(a, full):
    u, s, vt = jnp.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return {"s": s, "product": (u[..., :k] * s[..., None, :]) @ vt[..., :k, :],
            "u": adjoint(u) @ u, "v": vt @ adjoint(vt)}


def eigh_parts(a, upper):
    w, v = H.eigh(a, lower=not upper, symmetrize_input=False)[::-1]
    return {"w": w, "product": (v * w[..., None, :]) @ adjoint(v), "v": adjoint(v) @ v}


def eig_parts(a):
    w, vl, vr = H.eig(a)
    return {"w": sorted_values(w), "right": jnp.abs(a @ vr - vr * w[..., None, :]),
            "left": jnp.abs(adjoint(vl) @ a - w[..., :, None] * adjoint(vl))}


def schur_parts(a):
    t, v = jsl.schur(a)
    return {"product": v @ t @ adjoint(v), "v": adjoint(v) @ v}


def qr_parts(a):
    q, r = jnp.linalg.qr(a)
    return {"product": q @ r, "q": adjoint(q) @ q, "r": jnp.abs(r)}


def pivoted_parts(a):
    q, r, p = jsl.qr(a, pivoting=True, mode="economic")
    return {"product": q @ r, "diagonal": jnp.abs(jnp.diagonal(r, axis1=-2, axis2=-1)), "p": p}


def reflectors(a):
    """Q from its reflectors, and its product with a matrix, from both sides."""
    packed, taus = inner.geqrf(a)
    q = H.householder_product(packed, taus)
    out = {"q": q @ adjoint(q)}
    if hasattr(inner, "ormqr"):
        for left in (True, False):
            for transpose in (True, False):
                out[f"{left}{transpose}"] = inner.ormqr(packed, taus, a, left=left, transpose=transpose)
    return out


def triangular(a):
    """All sides and shapes of a triangular system."""
    rhs = a[..., :2]
    out = {}
    for lower in (True, False):
        for trans in (0, 1, 2):
            out[f"{lower}{trans}"] = jsl.solve_triangular(positive(a), rhs, lower=lower, trans=trans)
    out["right"] = H.triangular_solve(positive(a), adjoint(rhs), left_side=False, lower=True,
                                      unit_diagonal=True)
    return out


def diagonals(a):
    return a[..., 0], a[..., 1] + 4, a[..., 2]


def tridiagonal(a):
    out = {"gtsv": H.tridiagonal_solve(*diagonals(a), a)}
    if not jnp.iscomplexobj(a):
        arr, d, e, taus = H.tridiagonal(a + adjoint(a), lower=True)
        out |= {"d": jnp.abs(d), "e": jnp.abs(e)}
        out["values"] = jnp.linalg.eigvalsh(a + adjoint(a))
    return out


def perturbed(a):
    zero = jnp.zeros_like(a[..., 0])
    rows = {"regular": diagonals(a), "diagonal": (zero, a[..., 1], zero),
            "exchanged": (a[..., 0] + 3, a[..., 1], a[..., 2])}
    return {name: H.tridiagonal_solve(*d, a, perturb_singular=True) for name, d in rows.items()}


def hessenberg(a):
    h, q = jsl.hessenberg(a, calc_q=True)
    return {"product": q @ h @ adjoint(q), "h": jnp.abs(h)}


def lu_parts(a):
    lu, pivots, permutation = H.lu(a)
    return {"lu": lu, "pivots": pivots, "permutation": permutation}


GENERAL = {
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]), "inv": jnp.linalg.inv,
    "det": jnp.linalg.det, "slogdet": jnp.linalg.slogdet, "pinv": jnp.linalg.pinv,
    "rank": jnp.linalg.matrix_rank, "cond": jnp.linalg.cond, "lu": lu_parts,
    "lu_solve": lambda a: jsl.lu_solve(jsl.lu_factor(a), a[..., :2]),
    "cholesky": lambda a: jnp.linalg.cholesky(positive(a)),
    "cholesky_upper": lambda a: jsl.cholesky(positive(a), lower=False),
    "cho_solve": lambda a: jsl.cho_solve(jsl.cho_factor(positive(a)), a[..., :2]),
    "svd_full": lambda a: svd_parts(a, True), "svd": lambda a: svd_parts(a, False),
    "svdvals": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "svd_qr": lambda a: H.svd(a, compute_uv=False, algorithm=H.SvdAlgorithm.QR),
    "eigh": lambda a: eigh_parts(positive(a), False),
    "eigh_upper": lambda a: eigh_parts(positive(a), True),
    "eigvalsh": lambda a: jnp.linalg.eigvalsh(positive(a)),
    "eig": eig_parts, "eigvals": lambda a: sorted_values(jnp.linalg.eigvals(a)),
    "schur": schur_parts, "hessenberg": hessenberg, "qr": qr_parts, "reflectors": reflectors,
    "triangular": triangular, "tridiagonal": tridiagonal, "perturbed": perturbed,
    "expm": lambda a: jsl.expm(a / 4), "sqrtm": lambda a: jsl.sqrtm(positive(a)[0]),
    "norm": lambda a: jnp.linalg.norm(a, ord=2, axis=(-2, -1)),
    "lstsq": lambda a: jnp.linalg.lstsq(a[0], a[0, :, :2])[0],
    "polar": lambda a: jsl.polar(a[0])[0], "funm": lambda a: jsl.funm(a[0] / 4, jnp.exp),
}

TALL = {"qr": qr_parts, "pivoted": pivoted_parts, "svd": lambda a: svd_parts(a, True),
        "svd_thin": lambda a: svd_parts(a, False), "lu": lu_parts, "pinv": jnp.linalg.pinv,
        "lstsq": lambda a: jnp.linalg.lstsq(a[0], a[0])[0]}

GRADIENTS = {
    "cholesky": lambda a: jnp.linalg.cholesky(positive(a)).real.sum(),
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]).real.sum(),
    "slogdet": lambda a: jnp.linalg.slogdet(a)[1].sum(),
    "eigvalsh": lambda a: (jnp.linalg.eigvalsh(positive(a)) ** 2).sum(),
    "svdvals": lambda a: jnp.linalg.svd(a, compute_uv=False).sum(),
    "qr": lambda a: jnp.abs(jnp.linalg.qr(a)[1]).sum(),
    "eigvals": lambda a: jnp.abs(jnp.linalg.eigvals(a)).sum(),
    "expm": lambda a: jsl.expm(a[0] / 4).real.sum(),
    "triangular": lambda a: jsl.solve_triangular(positive(a), a).real.sum(),
    "tridiagonal": lambda a: H.tridiagonal_solve(*diagonals(a), a).real.sum(),
}


def which_nan(x):
    """Which matrices of a batch have NaN. LAPACKs differ in the places."""
    return jnp.isnan(x.reshape(x.shape[0], -1)).any(1)


def edges(dtype):
    """What LAPACK refuses, and what is not there."""
    a = matrices(dtype, 3, 4, 4)
    bad = a.at[1].set(jnp.nan)
    for name in ("cholesky", "solve", "svdvals", "eigvals", "qr", "lu", "eigvalsh"):
        yield f"nan_{name}", jax.tree.map(which_nan, GENERAL[name](bad))
    yield "nan_all_of_cholesky", jnp.isnan(jnp.linalg.cholesky(positive(bad)))
    singular = a.at[1].set(0)
    yield "singular_cholesky", jnp.isnan(jnp.linalg.cholesky(singular))
    yield "singular_inv", jnp.isfinite(jnp.linalg.inv(singular))
    yield "singular_det", jnp.linalg.det(singular)
    one = matrices(dtype, 2, 1, 1)
    for name in GENERAL:
        if name not in ("lstsq", "polar", "funm", "tridiagonal", "perturbed"):
            yield f"one_{name}", GENERAL[name](one)
    for shape in ((0, 3, 3), (2, 0, 0)):
        empty = jnp.zeros(shape, dtype)
        for name in ("cholesky", "solve", "det", "eigvalsh", "qr", "lu", "inv"):
            yield f"empty_{shape[0]}_{name}", GENERAL[name](empty)
    for shape in ((2, 0, 3), (2, 3, 0)):
        empty = jnp.zeros(shape, dtype)
        yield f"empty_{shape}_svd", jnp.linalg.svd(empty, full_matrices=True)
        yield f"empty_{shape}_qr", jnp.linalg.qr(empty)


def others():
    """What is built on linear algebra."""
    key = jax.random.key(0)
    cov = positive(matrices(np.float32, 5, 5))
    yield "mvn", jax.random.multivariate_normal(key, jnp.zeros(5, jnp.float32), cov, (7,))
    for method in ("eigh", "svd"):
        sample = jax.random.multivariate_normal(key, jnp.zeros(5), cov, (7,), method=method)
        yield f"mvn_{method}", sample.shape
    q = jax.nn.initializers.orthogonal()(key, (6, 4), jnp.float32)
    yield "orthogonal", q.T @ q
    q = jax.random.orthogonal(key, 5, (3,))
    yield "random_orthogonal", q @ jnp.swapaxes(q, -1, -2)
    import jax.scipy.stats as stats
    yield "logpdf", stats.multivariate_normal.logpdf(jnp.ones(5), jnp.zeros(5), cov)
    yield "roots", sorted_values(jnp.roots(jnp.array([1.0, -6.0, 11.0, -6.5])))
    yield "polyfit", jnp.polyfit(jnp.arange(6.0), jnp.arange(6.0) ** 2, 2)
    yield "eigh_tridiagonal", jsl.eigh_tridiagonal(jnp.arange(5.0), jnp.ones(4), eigvals_only=True)
    deep = matrices(np.float32, *([1] * 10 + [2, 3, 3]))
    yield "deep", jnp.linalg.inv(deep)
    yield "scan", lax.scan(lambda c, x: (jnp.linalg.inv(c + x), c[0]), cov, jnp.ones((3, 5, 5), "f4"))
    big = matrices(np.float64, 120, 120)
    yield "big", (jnp.linalg.eigvalsh(positive(big)), jnp.linalg.svd(big)[1], jnp.linalg.inv(big))


def cases(types):
    for letter in types:
        dtype = np.dtype(letter).type
        square, tall = matrices(dtype, 3, 5, 5), matrices(dtype, 2, 6, 3)
        for name, f in GENERAL.items():
            yield f"{name}_{letter}", lambda f=f, a=square: jax.jit(f)(a)
        for name, f in TALL.items():
            yield f"tall_{name}_{letter}", lambda f=f, a=tall: jax.jit(f)(a)
            yield f"wide_{name}_{letter}", lambda f=f, a=adjoint(tall): jax.jit(f)(a)
        for name, f in GRADIENTS.items():
            if np.issubdtype(dtype, np.floating):
                yield f"grad_{name}_{letter}", lambda f=f, a=square: jax.jit(jax.grad(f))(a)
        yield f"edges_{letter}", lambda dtype=dtype: dict(edges(dtype))
    yield "others", lambda: dict(others())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--types", default="fdFD")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    found, failed = {}, []
    for name, run in cases(args.types):
        if args.only not in name:
            continue
        try:
            flat, _ = jax.tree_util.tree_flatten_with_path(run())
        except Exception as error:  # tell of all that fail, not of the first
            failed.append(f"{name}: {error}")
            continue
        for path, value in flat:
            found[name + jax.tree_util.keystr(path)] = np.asarray(value)
    np.savez(args.out, **{name.replace("/", "|"): value for name, value in found.items()})
    print(f"arrays: {len(found)}", *failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
