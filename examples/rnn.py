# SPDX-License-Identifier: Apache-2.0
"""Train recurrent networks (an LSTM and a GRU in lax.scan) to foretell a sum of two waves."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish

CELLS = {"lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}


class Forecaster(nn.Module):
    cell: str
    width: int

    @nn.compact
    def __call__(self, x):
        cell = CELLS[self.cell](self.width, recurrent_kernel_init=nn.initializers.lecun_normal())
        x = nn.RNN(cell)(x[..., None])
        return nn.Dense(1)(x)[..., 0]


def waves(rng, n, length):
    time = np.arange(length + 1)[None]
    phase, rate = rng.uniform(0, 2 * np.pi, (2, n, 1)), rng.uniform(0.1, 0.5, (2, n, 1))
    return (np.sin(rate * time + phase).sum(0) / 2).astype(np.float32)


def train(cell, args):
    rng = np.random.default_rng(args.seed)
    model = Forecaster(cell, args.width)
    params = model.init(jax.random.key(args.seed), jnp.zeros((1, args.length)))
    optimiser = optax.adam(args.lr)
    state = optimiser.init(params)

    @jax.jit
    def step(params, state, wave):
        def loss_of(params):
            return jnp.mean((model.apply(params, wave[:, :-1]) - wave[:, 1:]) ** 2)

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = optimiser.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    losses = []
    for i in range(args.steps):
        params, state, loss = step(params, state, waves(rng, args.batch, args.length))
        losses.append(loss)
        if i % 50 == 0:
            print(f"{cell} step {i:4d}  loss {loss:.4f}", flush=True)
    print(f"{cell} final loss: {losses[-1]:.6f}")
    return {"params": params, "losses": jnp.stack(losses)}


def main():
    args = arguments(__doc__, steps=100, batch=32, length=40, width=32, lr=5e-3)
    finish({cell: train(cell, args) for cell in CELLS}, args.out)


if __name__ == "__main__":
    main()
