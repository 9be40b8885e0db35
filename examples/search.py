# SPDX-License-Identifier: Apache-2.0
"""One trial of a hyper-parameter search. Run many at once, each with another --trial.

Trials of one width compute the same programs; only numbers that are data differ.
"""

import jax
import jax.numpy as jnp
import numpy as np

from common import arguments, finish


def settings(trial, seed):
    """Learning rate, momentum and weight decay of a trial."""
    rng = np.random.default_rng([seed, trial])
    rate = 10 ** rng.uniform(-3, -0.5)
    return np.float32([rate, rng.uniform(0.5, 0.99), 10 ** rng.uniform(-6, -3)])


def init(key, width):
    k1, k2 = jax.random.split(key)
    return {"hidden": jax.random.normal(k1, (8, width)) * 8**-0.5,
            "out": jax.random.normal(k2, (width, 1)) * width**-0.5}


def loss_of(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["hidden"]) @ params["out"] - y) ** 2)


@jax.jit
def step(params, speed, setting, x, y):
    rate, momentum, decay = setting
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    speed = jax.tree.map(lambda v, g, p: momentum * v + g + decay * p, speed, grads, params)
    params = jax.tree.map(lambda p, v: p - rate * v, params, speed)
    return params, speed, loss


def main():
    args = arguments(__doc__.splitlines()[0], trial=0, steps=200, batch=128, width=64)
    rng = np.random.default_rng(args.seed)
    setting = settings(args.trial, args.seed)
    params = init(jax.random.key(args.seed), args.width)
    speed = jax.tree.map(jnp.zeros_like, params)

    for _ in range(args.steps):
        x = rng.normal(size=(args.batch, 8)).astype(np.float32)
        y = np.sin(x[:, :1]) * x[:, 1:2]
        params, speed, loss = step(params, speed, setting, x, y)

    rate, momentum, decay = setting
    print(f"trial {args.trial}: rate {rate:.4f}  momentum {momentum:.3f}  decay {decay:.1e}")
    print(f"final loss: {loss:.6f}")
    finish({"params": params, "loss": loss, "setting": setting}, args.out)


if __name__ == "__main__":
    main()
