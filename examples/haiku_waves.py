# SPDX-License-Identifier: Apache-2.0
"""Train a network with batch norm and an LSTM (haiku, optax) to continue sine waves."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish


def network(x, is_training):
    """x: batch, time. The next value after each."""
    batch, time = x.shape
    inner = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(
        hk.Linear(16)(x[..., None]), is_training)
    core = hk.LSTM(32)
    out, _ = hk.dynamic_unroll(core, inner, core.initial_state(batch), time_major=False)
    return hk.Linear(1)(out)[..., 0]


def waves(rng, n, time=24):
    phase = rng.uniform(0, 6, (n, 1))
    speed = rng.uniform(0.2, 0.6, (n, 1))
    return np.sin(phase + speed * np.arange(time + 1)).astype(np.float32)


def main():
    args = arguments(__doc__, steps=60, batch=32, lr=5e-3)
    rng = np.random.default_rng(args.seed)
    model = hk.without_apply_rng(hk.transform_with_state(network))
    params, state = model.init(jax.random.key(args.seed), jnp.zeros((1, 24)), True)
    optimiser = optax.adam(args.lr)
    moments = optimiser.init(params)

    @jax.jit
    def step(params, state, moments, batch):
        def loss_of(params):
            guess, new = model.apply(params, state, batch[:, :-1], True)
            return ((guess - batch[:, 1:]) ** 2).mean(), new

        (loss, state_after), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, moments_after = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), state_after, moments_after, loss

    losses = []
    for _ in range(args.steps):
        params, state, moments, loss = step(params, state, moments, waves(rng, args.batch))
        losses.append(float(loss))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    finish({"params": params, "state": state, "losses": np.asarray(losses)}, args.out)


if __name__ == "__main__":
    main()
