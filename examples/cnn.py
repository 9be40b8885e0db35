# SPDX-License-Identifier: Apache-2.0
"""Train a small convolutional network (flax, optax) to recognise shapes in noisy images."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish

SIZE = 16
SHAPES = 4


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        return nn.Dense(SHAPES)(nn.relu(nn.Dense(64)(x)))


def images(rng, n):
    """Discs, rings, squares and crosses of random size and place, with noise on top."""
    label = rng.integers(0, SHAPES, n)
    centre = rng.uniform(5, SIZE - 5, (n, 2, 1, 1))
    size = rng.uniform(2.5, 4.5, (n, 1, 1))
    grid = np.indices((SIZE, SIZE))[None]
    dy, dx = np.moveaxis(np.abs(grid - centre), 1, 0)
    radius = np.hypot(dx, dy)
    drawn = np.stack([radius < size,
                      np.abs(radius - size) < 0.8,
                      np.maximum(dx, dy) < size,
                      (np.minimum(dx, dy) < 0.8) & (np.maximum(dx, dy) < size)])
    picture = drawn[label, np.arange(n)] + rng.normal(0, 0.3, (n, SIZE, SIZE))
    return picture[..., None].astype(np.float32), label.astype(np.int32)


def main():
    args = arguments(__doc__, steps=100, batch=64, lr=2e-3)
    rng = np.random.default_rng(args.seed)
    model = CNN()
    params = model.init(jax.random.key(args.seed), jnp.zeros((1, SIZE, SIZE, 1)))
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(args.lr))
    state = optimiser.init(params)

    @jax.jit
    def step(params, state, x, y):
        def loss_of(params):
            logits = model.apply(params, x)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
            return loss, jnp.mean(jnp.argmax(logits, axis=1) == y)

        (loss, accuracy), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, state = optimiser.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, accuracy

    losses = []
    for i in range(args.steps):
        params, state, loss, accuracy = step(params, state, *images(rng, args.batch))
        losses.append(loss)
        if i % 20 == 0:
            print(f"step {i:4d}  loss {loss:.4f}  accuracy {accuracy:.2f}", flush=True)

    print(f"final loss: {losses[-1]:.6f}")
    finish({"params": params, "losses": jnp.stack(losses), "accuracy": accuracy}, args.out)


if __name__ == "__main__":
    main()
