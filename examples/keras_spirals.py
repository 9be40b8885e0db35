# SPDX-License-Identifier: Apache-2.0
"""Train a small network with Keras 3 on its JAX backend: fit, evaluate, predict."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

from common import arguments, finish


def spirals(rng, n):
    """Points of two spirals, and which of the two."""
    label = rng.integers(0, 2, n)
    angle = rng.uniform(0.5, 3.5, n) * np.pi
    radius = angle / np.pi + rng.normal(0, 0.05, n)
    turn = angle + np.pi * label
    points = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    return points.astype(np.float32), label.astype(np.int32)


def main():
    args = arguments(__doc__, epochs=3, batch=64, lr=1e-2)
    keras.utils.set_random_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    model = keras.Sequential([
        keras.layers.Input((2,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(2),
    ])
    model.compile(optimizer=keras.optimizers.Adam(args.lr), metrics=["accuracy"],
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = spirals(rng, 1024)
    history = model.fit(x, y, batch_size=args.batch, epochs=args.epochs, verbose=0)
    print(f"loss {history.history['loss'][-1]:.4f}")
    test, label = spirals(rng, 256)
    measured = model.evaluate(test, label, verbose=0)
    finish({"history": {k: np.asarray(v) for k, v in history.history.items()},
            "measured": np.asarray(measured), "logits": model.predict(test, verbose=0),
            "weights": model.get_weights()}, args.out)


if __name__ == "__main__":
    main()
