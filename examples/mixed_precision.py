# SPDX-License-Identifier: Apache-2.0
"""Train in mixed precision: bfloat16 and float16 arithmetic, float32 weights, loss scaling."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": jax.random.normal(k, (n, m)) * n**-0.5, "b": jnp.zeros(m)}
            for k, n, m in zip(keys, sizes, sizes[1:])]


def apply(params, x):
    for layer in params[:-1]:
        x = jax.nn.silu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def batch(rng, n, width):
    x = rng.normal(size=(n, width)).astype(np.float32)
    y = np.sin(x[:, :4]).sum(1, keepdims=True) + x[:, 4:5] * x[:, 5:6]
    return x, y.astype(np.float32)


def train(dtype, args):
    rng = np.random.default_rng(args.seed)
    params = init(jax.random.key(args.seed), [args.width, 128, 128, 1])
    optimiser = optax.adam(args.lr)
    state = optimiser.init(params)
    scale = jnp.float32(2.0**15)

    @jax.jit
    def step(params, state, scale, x, y):
        def loss_of(params):
            low = jax.tree.map(lambda p: p.astype(dtype), params)
            error = apply(low, x.astype(dtype)).astype(jnp.float32) - y
            return jnp.mean(error**2) * scale

        loss, grads = jax.value_and_grad(loss_of)(params)
        grads = jax.tree.map(lambda g: g / scale, grads)
        finite = jnp.all(jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))
        updates, new_state = optimiser.update(grads, state)
        new = (optax.apply_updates(params, updates), new_state)
        # An overflow skips the step and halves the scale.
        params, state = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, (params, state))
        new_scale = jnp.where(finite, jnp.minimum(scale * 1.01, 2.0**24), scale / 2)
        return params, state, new_scale, loss / scale

    losses = []
    for i in range(args.steps):
        params, state, scale, loss = step(params, state, scale, *batch(rng, 128, args.width))
        losses.append(loss)
        if i % 50 == 0:
            print(f"{dtype.__name__} step {i:4d}  loss {loss:.4f}  scale {scale:.0f}", flush=True)
    print(f"{dtype.__name__} final loss: {losses[-1]:.6f}")
    low = jax.tree.map(lambda p: p.astype(dtype), params)
    return {"params": params, "low": low, "losses": jnp.stack(losses), "scale": scale}


def main():
    args = arguments(__doc__, steps=150, width=32, lr=3e-3)
    finish({d.__name__: train(d, args) for d in (jnp.bfloat16, jnp.float16)}, args.out)


if __name__ == "__main__":
    main()
