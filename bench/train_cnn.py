# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on noisy images. It is a job of bench/sharing, and an ordinary script: it runs
on any JAX device.

    python bench/train_cnn.py --steps 400 --batch 32
"""

import argparse
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

SIZE, KINDS, IMAGES = 16, 4, 1024


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (16, 32):
            x = nn.avg_pool(nn.relu(nn.Conv(features, (3, 3))(x)), (2, 2), strides=(2, 2))
        return nn.Dense(KINDS)(nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1))))


def images(rng):
    """Bars of four directions, with noise on top."""
    label = rng.integers(0, KINDS, IMAGES)
    y, x = np.indices((SIZE, SIZE)) - SIZE / 2
    bars = np.stack([abs(x), abs(y), abs(x - y), abs(x + y)]) < 2
    picture = bars[label] + rng.normal(0, 0.5, (IMAGES, SIZE, SIZE))
    return picture[..., None].astype(np.float32), label.astype(np.int32)


def augmented(pictures, milliseconds):
    """Turns pictures upside down and back for so long: stands for the work of an input pipeline."""
    end = time.perf_counter() + milliseconds / 1e3
    while time.perf_counter() < end:
        pictures = np.ascontiguousarray(pictures[:, ::-1])[:, ::-1]
    return pictures


def make_step(model, optimiser):
    @jax.jit
    def step(params, state, rate, x, y):
        def loss_of(params):
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = optimiser.update(grads, state, params)
        updates = jax.tree.map(lambda update: rate * update, updates)
        return optax.apply_updates(params, updates), state, loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1.0, help="factor on the learning rate; the program stays the same")
    parser.add_argument("--host", type=float, default=0.0, metavar="MS", help="time to prepare each batch on the host")
    args = parser.parse_args()
    rng, rate = np.random.default_rng(0), np.float32(args.rate)
    x, y = images(rng)
    model, optimiser = Network(), optax.adam(1e-3)
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, SIZE, SIZE, 1)))
    state = jax.jit(optimiser.init)(params)
    step = make_step(model, optimiser)
    began = None
    for number in range(args.steps + 1):
        some = rng.integers(0, IMAGES, args.batch)
        batch = augmented(x[some], args.host)
        params, state, loss = step(params, state, rate, batch, y[some])
        if number % 20 == 0:
            print(f"step {number:4d}  loss {loss:.4f}", flush=True)
        began = began or time.perf_counter()
    loss.block_until_ready()
    print(f"trained for {time.perf_counter() - began:.4f} s, final loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
