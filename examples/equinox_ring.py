# SPDX-License-Identifier: Apache-2.0
"""Train an equinox model: modules are trees, `eqx.filter_jit` and friends sort arrays from the rest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish


class Classifier(eqx.Module):
    layers: list
    scale: jax.Array
    name: str = eqx.field(static=True)

    def __init__(self, key, width):
        first, second, third = jax.random.split(key, 3)
        self.layers = [eqx.nn.Linear(2, width, key=first), eqx.nn.LayerNorm(width),
                       eqx.nn.Linear(width, width, key=second), eqx.nn.Linear(width, 1, key=third)]
        self.scale = jnp.ones(())
        self.name = "ring"

    def __call__(self, x):
        x = jax.nn.gelu(self.layers[1](self.layers[0](x)))
        return self.scale * self.layers[3](jax.nn.gelu(self.layers[2](x)))[0]


def ring(rng, n):
    """Points, and whether they lie in a ring."""
    x = rng.uniform(-2, 2, (n, 2)).astype(np.float32)
    radius = np.hypot(*x.T)
    return x, ((radius > 0.7) & (radius < 1.5)).astype(np.float32)


@eqx.filter_value_and_grad
def loss_of(model, x, y):
    return optax.sigmoid_binary_cross_entropy(jax.vmap(model)(x), y).mean()


def main():
    args = arguments(__doc__, steps=100, batch=128, lr=3e-3, width=32)
    rng = np.random.default_rng(args.seed)
    model = Classifier(jax.random.key(args.seed), args.width)
    optimiser = optax.adamw(args.lr)
    state = optimiser.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit(donate="all-except-first")
    def step(batch, model, state):
        loss, grads = loss_of(model, *batch)
        updates, state = optimiser.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state, loss

    losses = []
    for _ in range(args.steps):
        model, state, loss = step(ring(rng, args.batch), model, state)
        losses.append(float(loss))
    print(f"{model.name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    finish({"model": eqx.filter(model, eqx.is_array), "losses": np.asarray(losses)}, args.out)


if __name__ == "__main__":
    main()
