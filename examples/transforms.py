# SPDX-License-Identifier: Apache-2.0
"""What JAX does to functions: derivatives, batches, loops, branches and their combinations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from common import arguments, finish


def derivatives(x):
    def f(x):
        return jnp.sum(jnp.sin(x) * jnp.exp(-x**2))

    return {
        "grad": jax.grad(f)(x),
        "hessian": jax.hessian(f)(x[:6]),
        "jacfwd": jax.jacfwd(jnp.cumsum)(x[:5]),
        "jacrev": jax.jacrev(lambda x: jnp.outer(x, x))(x[:4]),
        "jvp": jax.jvp(f, (x,), (jnp.ones_like(x),)),
        "third": jax.grad(jax.grad(jax.grad(lambda x: jnp.tanh(x) ** 2)))(0.3),
        "checkpoint": jax.grad(jax.checkpoint(f))(x),
    }


def batches(x):
    table = jnp.stack([x, 2 * x, x**2])
    pairwise = jax.vmap(jax.vmap(jnp.dot, (None, 0)), (0, None))
    return {
        "pairwise": pairwise(table, table),
        "per_example": jax.vmap(jax.grad(lambda x: jnp.prod(jnp.cos(x))))(table),
        "out_axes": jax.vmap(jnp.sort, in_axes=1, out_axes=1)(table),
        "jit_of_vmap": jax.jit(jax.vmap(partial(jnp.convolve, mode="same"), (0, None)))(
            table, jnp.array([1.0, 2.0, 1.0])),
    }


def loops(x):
    def newton(guess):
        """Square root of 2 by a while loop."""
        return lax.while_loop(lambda g: jnp.abs(g * g - 2) > 1e-6, lambda g: (g + 2 / g) / 2, guess)

    def collatz(n):
        def body(state):
            n, steps = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        return lax.while_loop(lambda s: s[0] != 1, body, (n, 0))[1]

    def running(carry, v):
        carry = 0.9 * carry + v
        return carry, (carry, jnp.maximum(carry, v))

    return {
        "newton": jax.jit(newton)(1.0),
        "collatz": jax.vmap(collatz)(jnp.arange(1, 40)),
        "fori": lax.fori_loop(0, 20, lambda i, a: a.at[i % a.size].add(i), x),
        "scan": lax.scan(running, 0.0, x),
        "scan_grad": jax.grad(lambda x: lax.scan(running, 0.0, x)[1][1].sum())(x),
        "reverse": lax.scan(running, 0.0, x, reverse=True, unroll=4)[0],
        "prefix": lax.associative_scan(jnp.multiply, 1 + x / 10),
        "map": lax.map(lambda v: v * jnp.sum(x), x),
    }


def branches(x):
    def pick(i, v):
        return lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * v], v)

    picked = [jax.jit(pick)(i, 0.5) for i in range(3)]
    return {
        "cond": [lax.cond(p, jnp.sum, jnp.max, x) for p in (True, False)],
        "switch": picked,
        "switch_vmap": jax.vmap(pick)(jnp.arange(12) % 3, x[:12]),
        "cond_grad": jax.grad(lambda v: lax.cond(v > 0, jnp.sin, jnp.cos, v))(0.7),
    }


@jax.custom_vjp
def clipped(x):
    """The identity, whose derivative is kept within -1 and 1."""
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))


@jax.custom_jvp
def softplus(x):
    return jnp.logaddexp(x, 0.0)


@softplus.defjvp
def softplus_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * t


def own_rules(x):
    return {
        "clipped": jax.grad(lambda x: jnp.sum(clipped(x) ** 3))(x),
        "softplus": jax.vmap(jax.grad(softplus))(x),
        "stopped": jax.grad(lambda x: jnp.sum(x * lax.stop_gradient(x)))(x),
    }


def array_code(x):
    square = jnp.outer(x, x[::-1])
    return {
        "sorted": jnp.sort(square, axis=None)[:20],
        "argsort": jnp.argsort(x),
        "top": lax.top_k(x, 5),
        "fft": jnp.fft.fft(x),
        "rfft2": jnp.fft.rfft2(square),
        "gather": square[jnp.array([3, 1, 2]), jnp.array([0, 5, 9])],
        "scatter": jnp.zeros(10).at[jnp.array([1, 1, 4])].add(2.0),
        "slice": lax.dynamic_slice(square, (2, 3), (4, 5)),
        "einsum": jnp.einsum("ij,jk,k->i", square, square.T, x),
        "conv": lax.conv(square[None, None], jnp.ones((2, 1, 3, 3)), (2, 2), "SAME"),
        "window": lax.reduce_window(square, -jnp.inf, lax.max, (3, 3), (2, 2), "VALID"),
        "histogram": jnp.histogram(x, bins=8)[0],
        "interp": jnp.interp(x, jnp.linspace(-2, 2, 5), jnp.arange(5.0)),
    }


def main():
    args = arguments(__doc__, n=24)
    x = jnp.asarray(np.random.default_rng(args.seed).normal(size=args.n), jnp.float32)
    results = {}
    for part in (derivatives, batches, loops, branches, own_rules, array_code):
        results[part.__name__] = part(x)
        print(f"{part.__name__}: {len(results[part.__name__])} results", flush=True)
    print(f"final loss: {results['loops']['newton'] - 2 ** 0.5:.6f}")
    finish(results, args.out)


if __name__ == "__main__":
    main()
