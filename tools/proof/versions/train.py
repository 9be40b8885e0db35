# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with nothing but JAX, and prints rounded losses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def predict(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss_of(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads), loss


def main():
    sizes, key = (4, 32, 32, 1), jax.random.PRNGKey(0)
    params = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        params.append((jax.random.normal(jax.random.fold_in(key, i), (a, b)) / np.sqrt(a), jnp.zeros(b)))
    x = jax.random.uniform(key, (256, 4), minval=-1, maxval=1)
    y = jnp.sin(x.sum(1, keepdims=True))
    for i in range(101):
        params, loss = step(params, x, y)
        if i % 20 == 0:
            print(f"step {i}: loss {float(loss):.4f}")
    assert float(loss) < 0.1
    print("norms", [f"{float(jnp.linalg.norm(w)):.3f}" for w, _ in params])


if __name__ == "__main__":
    main()
