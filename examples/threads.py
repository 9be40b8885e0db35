# SPDX-License-Identifier: Apache-2.0
"""Several Python threads in one process, each training and moving data of its own."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from common import arguments, finish


def loss_of(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def train(number, args):
    """Train on data that depends on the number only; widths differ, so programs do too."""
    rng = np.random.default_rng([args.seed, number])
    width = 16 * (1 + number % 2)
    k1, k2 = jax.random.split(jax.random.key(number))
    params = {"w1": jax.random.normal(k1, (8, width)) / 3,
              "w2": jax.random.normal(k2, (width, 1)) / 4}
    losses = []
    for i in range(args.steps):
        x = rng.normal(size=(64, 8)).astype(np.float32)
        params, loss = step(params, x, x[:, :1] * x[:, 1:2])
        losses.append(loss)
        if i % 25 == 0:  # moves data while others compute
            block = jax.device_put(np.full(100_000, number, np.int32))
            assert (np.asarray(block) == number).all()
    print(f"thread {number}: loss {losses[-1]:.4f}", flush=True)
    return {"params": params, "losses": jnp.stack(losses)}


def main():
    args = arguments(__doc__, threads=4, steps=200)
    with ThreadPoolExecutor(args.threads) as pool:
        results = list(pool.map(lambda i: train(i, args), range(args.threads)))

    shared = jnp.arange(1000.0)
    with ThreadPoolExecutor(args.threads) as pool:  # one array read by all at once
        sums = list(pool.map(lambda i: float((shared * i).sum()), range(20)))
    assert sums == [499500.0 * i for i in range(20)]

    print(f"final loss: {max(float(r['losses'][-1]) for r in results):.6f}")
    finish(results, args.out)


if __name__ == "__main__":
    main()
