# SPDX-License-Identifier: Apache-2.0
"""Train a multi-layer perceptron (flax, optax) to tell the arms of a spiral apart."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish


class MLP(nn.Module):
    width: int
    classes: int

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(self.classes)(x)


def spirals(rng, n, classes):
    """Points on interleaved spiral arms, and the arm each lies on."""
    arm = rng.integers(0, classes, n)
    radius = rng.uniform(0.1, 1, n)
    angle = 4 * radius + arm * 2 * np.pi / classes + rng.normal(0, 0.1, n)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), arm.astype(np.int32)


def main():
    args = arguments(__doc__, steps=300, batch=256, width=128, classes=3, lr=3e-3, every=50)
    rng = np.random.default_rng(args.seed)
    model = MLP(args.width, args.classes)
    params = jax.jit(model.init)(jax.random.key(args.seed), jnp.zeros((1, 2)))
    optimiser = optax.adam(args.lr)
    state = jax.jit(optimiser.init)(params)

    def loss_of(params, x, y):
        logits = model.apply(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimiser.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    losses = []
    for i in range(args.steps):
        params, state, loss = step(params, state, *spirals(rng, args.batch, args.classes))
        losses.append(loss)
        if i % args.every == 0:
            print(f"step {i:4d}  loss {loss:.4f}", flush=True)

    x, y = spirals(rng, 1000, args.classes)
    accuracy = jnp.mean(jnp.argmax(model.apply(params, x), axis=1) == y)
    print(f"accuracy: {accuracy:.3f}")
    print(f"final loss: {losses[-1]:.6f}")
    finish({"params": params, "losses": jnp.stack(losses), "accuracy": accuracy}, args.out)


if __name__ == "__main__":
    main()
