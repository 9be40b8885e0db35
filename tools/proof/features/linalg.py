# SPDX-License-Identifier: Apache-2.0
"""Linear algebra. Factors are compared where they are unique, otherwise as the products that they must give."""

from feature import feature
from features.arrays import ramp


def square(n, dtype="float32"):
    import numpy as np
    return ramp(n, n, dtype=dtype) + 3 * np.eye(n, dtype=dtype)


def positive(n, dtype="float32"):
    m = square(n, dtype)
    return m @ m.conj().T


@feature("cholesky, cho_solve")
def cholesky():
    import jax
    import jax.numpy as jnp
    m = positive(12)
    factor = jax.scipy.linalg.cho_factor(m)
    return jnp.linalg.cholesky(m), jax.scipy.linalg.cho_solve(factor, ramp(12))


@feature("cholesky of a matrix that is not positive: NaN")
def cholesky_nan():
    import jax.numpy as jnp
    return jnp.isnan(jnp.linalg.cholesky(-jnp.eye(4)))


@feature("solve")
def solve():
    import jax.numpy as jnp
    return jnp.linalg.solve(square(10), ramp(10, 3))


@feature("inv, det, slogdet")
def inv():
    import jax.numpy as jnp
    m = square(7)
    return jnp.linalg.inv(m), jnp.linalg.det(m), jnp.linalg.slogdet(m)


@feature("lu, lu_factor, lu_solve")
def lu():
    import jax
    m = square(9)
    return jax.scipy.linalg.lu(m), jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(m), ramp(9))


@feature("qr")
def qr():
    import jax.numpy as jnp
    q, r = jnp.linalg.qr(ramp(9, 5))
    return q @ r, jnp.abs(r), q.T @ q


@feature("qr with pivoting")
def qr_pivoting():
    import jax
    import jax.numpy as jnp
    q, r, p = jax.scipy.linalg.qr(square(8)[:, :6], pivoting=True)  # of full rank: the pivots are certain
    return (q @ r)[:, jnp.argsort(p)], jnp.abs(jnp.diag(r)), p


@feature("svd, svdvals, nuclear norm")
def svd():
    import jax.numpy as jnp
    u, s, v = jnp.linalg.svd(ramp(8, 5), full_matrices=False)
    return s, (u * s) @ v, jnp.linalg.svdvals(ramp(6, 9)), jnp.linalg.norm(ramp(6, 6), "nuc")


@feature("eigh, eigvalsh")
def eigh():
    import jax.numpy as jnp
    w, v = jnp.linalg.eigh(positive(9))
    return w, (v * w) @ v.T, jnp.linalg.eigvalsh(positive(6))


@feature("eig, eigvals", tol=1e-3)
def eig():
    import jax.numpy as jnp
    w, v = jnp.linalg.eig(square(7))
    return jnp.sort(jnp.abs(w)), jnp.sort(jnp.abs(jnp.linalg.eigvals(ramp(6, 6)))), jnp.real(
        v @ jnp.diag(w) @ jnp.linalg.inv(v))


@feature("lstsq, pinv, matrix_rank", tol=1e-3)
def lstsq():
    import jax.numpy as jnp
    m = ramp(9, 4)
    x, residual, rank, s = jnp.linalg.lstsq(m, ramp(9))
    return x, residual, rank, s, jnp.linalg.pinv(m), jnp.linalg.matrix_rank(m @ m.T)


@feature("expm, sqrtm, polar, funm", tol=1e-3)
def matrix_functions():
    import jax
    import jax.numpy as jnp
    m = positive(5) / 20
    return (jax.scipy.linalg.expm(m), jax.scipy.linalg.sqrtm(m), jax.scipy.linalg.polar(square(5)),
            jax.scipy.linalg.funm(m, jnp.exp))


@feature("schur, rsf2csf", tol=1e-3)
def schur():
    import jax
    import jax.numpy as jnp
    t, z = jax.scipy.linalg.schur(square(6))
    c, u = jax.scipy.linalg.rsf2csf(t, z)
    return z @ t @ z.T, jnp.real(u @ c @ u.conj().T)


@feature("hessenberg")
def hessenberg():
    import jax
    h, q = jax.scipy.linalg.hessenberg(square(6), calc_q=True)
    return q @ h @ q.T


@feature("triangular_solve")
def triangular():
    import jax
    import jax.numpy as jnp
    m = jnp.tril(square(8))
    return (jax.scipy.linalg.solve_triangular(m, ramp(8, 2), lower=True),
            jax.lax.linalg.triangular_solve(m, ramp(2, 8), lower=True, transpose_a=True))


@feature("tridiagonal_solve, tridiagonal, eigh_tridiagonal", tol=1e-3)
def tridiagonal():
    import jax
    import jax.numpy as jnp
    d, e = jnp.asarray(ramp(8)) + 4, jnp.asarray(ramp(8))
    below, above = e.at[0].set(0), e.at[-1].set(0)
    solved = jax.lax.linalg.tridiagonal_solve(below, d, above, jnp.asarray(ramp(8, 2)))
    reduced = jax.lax.linalg.tridiagonal(jnp.asarray(positive(6)))
    return solved, jnp.abs(reduced[1]), jax.scipy.linalg.eigh_tridiagonal(d, e[1:], eigvals_only=True)


@feature("matrix_power, multi_dot, cond, norms")
def norms():
    import jax.numpy as jnp
    m = square(5)
    return (jnp.linalg.matrix_power(m, -2), jnp.linalg.multi_dot([m, ramp(5, 3), ramp(3, 2)]), jnp.linalg.cond(m),
            jnp.linalg.norm(m, 2), jnp.linalg.norm(m))


@feature("batched and under vmap")
def batched():
    import jax
    import jax.numpy as jnp
    many = jnp.stack([positive(4) * (i + 1) for i in range(5)])
    return (jnp.linalg.cholesky(many), jax.vmap(jnp.linalg.solve)(many, ramp(5, 4)), jnp.linalg.eigvalsh(many),
            jnp.linalg.svdvals(many))


@feature("gradients: cholesky, solve, slogdet, svd, eigh", tol=1e-3)
def gradients():
    import jax
    import jax.numpy as jnp
    m = jnp.asarray(positive(5))
    functions = (lambda m: jnp.sum(jnp.linalg.cholesky(m)), lambda m: jnp.sum(jnp.linalg.solve(m, ramp(5))),
                 lambda m: jnp.linalg.slogdet(m)[1], lambda m: jnp.sum(jnp.linalg.svdvals(m) ** 2),
                 lambda m: jnp.max(jnp.linalg.eigvalsh(m)))
    return [jax.grad(f)(m) for f in functions]


@feature("complex matrices", tol=1e-3)
def complexes():
    import jax.numpy as jnp
    m = square(5) + 1j * ramp(5, 5).T
    p = m @ m.conj().T
    q, r = jnp.linalg.qr(m)
    return (jnp.linalg.cholesky(p), jnp.linalg.solve(m, ramp(5)), jnp.linalg.eigvalsh(p), q @ r,
            jnp.linalg.svdvals(m))


@feature("double precision", alone=True, tol=1e-9)
def doubles():
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    m = square(6, "float64")
    p = m @ m.T
    return (jnp.linalg.cholesky(p), jnp.linalg.inv(m), jnp.linalg.eigvalsh(p), jnp.linalg.svdvals(m),
            jax.scipy.linalg.expm(m / 9))


@feature("empty and 1x1 matrices")
def smallest():
    import jax.numpy as jnp
    return (jnp.linalg.cholesky(jnp.zeros((0, 0))), jnp.linalg.inv(jnp.full((1, 1), 4.0)),
            jnp.linalg.svdvals(jnp.full((1, 1), -2.0)), jnp.linalg.det(jnp.zeros((3, 0, 0))))


@feature("lobpcg, cg, gmres, bicgstab", tol=1e-2)
def iterative():
    import jax.numpy as jnp
    from jax.experimental.sparse.linalg import lobpcg_standard
    from jax.scipy.sparse.linalg import bicgstab, cg, gmres
    m = jnp.asarray(positive(30))
    start = jnp.asarray(ramp(30, 3)) + jnp.eye(30, 3)  # of full rank
    values, _, _ = lobpcg_standard(m, start, m=60)
    return values / 10, cg(m, ramp(30))[0], gmres(m, ramp(30))[0], bicgstab(m, ramp(30))[0]


@feature("qdwh and block_diag, toeplitz", tol=1e-3)
def qdwh():
    import jax
    u, h, _, _ = jax.lax.linalg.qdwh(square(6))
    return u @ h, jax.scipy.linalg.block_diag(ramp(2, 2), ramp(3, 1)), jax.scipy.linalg.toeplitz(ramp(4))
