# SPDX-License-Identifier: Apache-2.0
"""Train a variational auto-encoder (flax, optax) on pictures of blobs, then dream some up."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import arguments, finish

SIZE = 12


class VAE(nn.Module):
    latents: int

    def setup(self):
        self.encoder = nn.Sequential([nn.Dense(128), nn.relu, nn.Dense(2 * self.latents)])
        self.decoder = nn.Sequential([nn.Dense(128), nn.relu, nn.Dense(SIZE * SIZE)])

    def __call__(self, x, key):
        mean, log_var = jnp.split(self.encoder(x), 2, axis=-1)
        z = mean + jnp.exp(log_var / 2) * jax.random.normal(key, mean.shape)
        return self.decoder(z), mean, log_var

    def dream(self, z):
        return nn.sigmoid(self.decoder(z))


def blobs(rng, n):
    centre = rng.uniform(3, SIZE - 3, (n, 2, 1, 1))
    width = rng.uniform(1, 2, (n, 1, 1))
    squared = ((np.indices((SIZE, SIZE))[None] - centre) ** 2).sum(1)
    return np.exp(-squared / (2 * width**2)).reshape(n, -1).astype(np.float32)


def show(picture):
    """A picture as letters."""
    shades = " .:-=+*#%@"
    for row in np.asarray(picture).reshape(SIZE, SIZE):
        print("    " + "".join(shades[int(v * (len(shades) - 1))] * 2 for v in row))


def main():
    args = arguments(__doc__, steps=200, batch=128, latents=4, lr=2e-3)
    rng = np.random.default_rng(args.seed)
    key, init_key, dream_key = jax.random.split(jax.random.key(args.seed), 3)
    model = VAE(args.latents)
    params = model.init(init_key, jnp.zeros((1, SIZE * SIZE)), init_key)
    optimiser = optax.adam(args.lr)
    state = optimiser.init(params)

    @jax.jit
    def step(params, state, key, x):
        key, noise_key = jax.random.split(key)

        def loss_of(params):
            logits, mean, log_var = model.apply(params, x, noise_key)
            unlike = optax.sigmoid_binary_cross_entropy(logits, x).sum(-1)
            spread = -0.5 * (1 + log_var - mean**2 - jnp.exp(log_var)).sum(-1)
            return (unlike + spread).mean()

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = optimiser.update(grads, state)
        return optax.apply_updates(params, updates), state, key, loss

    losses = []
    for i in range(args.steps):
        params, state, key, loss = step(params, state, key, blobs(rng, args.batch))
        losses.append(loss)
        if i % 40 == 0:
            print(f"step {i:4d}  loss {loss:.3f}", flush=True)

    dreams = model.apply(params, jax.random.normal(dream_key, (8, args.latents)), method="dream")
    show(dreams[0])
    print(f"final loss: {losses[-1]:.6f}")
    finish({"params": params, "losses": jnp.stack(losses), "dreams": dreams}, args.out)


if __name__ == "__main__":
    main()
