# SPDX-License-Identifier: Apache-2.0
"""Train a small transformer, its layers in one lax.scan, to add numbers written as text."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from common import arguments, finish

ALPHABET = "0123456789+= "
LENGTH = 10  # "42+17=59  "


def problems(rng, n):
    """Lines such as "42+17=59  ", as numbers of letters."""
    pairs = rng.integers(0, 100, (n, 2))
    lines = [f"{a}+{b}={a + b}".ljust(LENGTH) for a, b in pairs]
    return np.array([[ALPHABET.index(c) for c in line] for line in lines], np.int32)


def init(key, layers, width):
    """Parameters; those of all layers are stacked, the first axis counts layers."""
    keys = iter(jax.random.split(key, 8))

    def dense(*shape):
        return jax.random.normal(next(keys), shape) * shape[-2] ** -0.5

    return {
        "letters": dense(len(ALPHABET), width),
        "places": dense(LENGTH, width),
        "layers": {
            "norm1": jnp.ones((layers, width)),
            "qkv": dense(layers, width, 3 * width),
            "mix": dense(layers, width, width),
            "norm2": jnp.ones((layers, width)),
            "up": dense(layers, width, 4 * width),
            "down": dense(layers, 4 * width, width),
        },
        "out": dense(width, len(ALPHABET)),
    }


def normalise(x, scale):
    return scale * x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attention(layer, x, heads):
    n, t, width = x.shape
    q, k, v = jnp.split(x @ layer["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(n, t, heads, width // heads) for a in (q, k, v))
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) * (width // heads) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(n, t, width) @ layer["mix"]


def apply(params, text, heads):
    @jax.checkpoint
    def block(x, layer):
        x = x + attention(layer, normalise(x, layer["norm1"]), heads)
        hidden = jax.nn.gelu(normalise(x, layer["norm2"]) @ layer["up"])
        return x + hidden @ layer["down"], None

    x = params["letters"][text] + params["places"][: text.shape[1]]
    x, _ = lax.scan(block, x, params["layers"])
    return x @ params["out"]


def main():
    args = arguments(__doc__, steps=120, batch=64, layers=4, width=64, heads=4, lr=3e-3)
    rng = np.random.default_rng(args.seed)
    params = init(jax.random.key(args.seed), args.layers, args.width)
    optimiser = optax.adam(optax.warmup_cosine_decay_schedule(0, args.lr, 20, args.steps))
    state = optimiser.init(params)

    def loss_of(params, text):
        logits = apply(params, text[:, :-1], args.heads)
        return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()

    @jax.jit
    def step(params, state, text):
        loss, grads = jax.value_and_grad(loss_of)(params, text)
        updates, state = optimiser.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    losses = []
    for i in range(args.steps):
        params, state, loss = step(params, state, problems(rng, args.batch))
        losses.append(loss)
        if i % 20 == 0:
            print(f"step {i:4d}  loss {loss:.4f}", flush=True)

    print(f"final loss: {losses[-1]:.6f}")
    finish({"params": params, "losses": jnp.stack(losses)}, args.out)


if __name__ == "__main__":
    main()
