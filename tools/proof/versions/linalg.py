# SPDX-License-Identifier: Apache-2.0
"""Linear algebra in two types, printed rounded."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


def show(name, *arrays):
    """Rounds to three digits; adding zero turns -0.0 into 0.0."""
    print(name, [(np.round(np.asarray(a, np.float64), 3) + 0.0).tolist() for a in arrays])


def main():
    for dtype in (np.float32, np.float64):
        m = np.sin(np.arange(25) * 1.7 + 0.3).reshape(5, 5).astype(dtype) + 3 * np.eye(5, dtype=dtype)
        p, v = m @ m.T, np.arange(5, dtype=dtype)
        show("cholesky", jnp.linalg.cholesky(p))
        show("solve, det, inv", jnp.linalg.solve(m, v), jnp.linalg.det(m), jnp.linalg.inv(m))
        q, r = jnp.linalg.qr(m)
        show("qr", q @ r)
        show("svd", jnp.linalg.svd(m, compute_uv=False))
        w, u = jnp.linalg.eigh(p)
        show("eigh", w, (u * w) @ u.T)
        show("eig", jnp.sort(jnp.abs(jnp.linalg.eigvals(m))))
        show("expm", jax.scipy.linalg.expm(m / 5))
        show("grad", jax.jit(jax.grad(lambda p: jnp.linalg.slogdet(p)[1]))(p))


if __name__ == "__main__":
    main()
