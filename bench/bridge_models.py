# SPDX-License-Identifier: Apache-2.0
"""Models whose training steps the programs in bench/ measure. Not to be run by hand.

A model is a function of its size. It returns parameters, and the loss as a function of the parameters; the data are
constants of that function. The time of a step grows with the size.
"""

import jax
import jax.numpy as jnp

WIDTH = 256  # of the perceptron


def normal(number, *shape):
    return jax.random.normal(jax.random.key(number), shape)


def weights(**shapes):
    """One array for each name, scaled by the number of its inputs."""
    return {name: normal(i, *shape) * jnp.prod(jnp.array(shape[:-1])) ** -0.5
            for i, (name, shape) in enumerate(shapes.items())}


def perceptron(size, width=WIDTH):
    """Three layers; size is the batch."""
    params = weights(**{f"w{i}": (width, width) for i in range(3)}) | {f"b{i}": jnp.zeros(width) for i in range(3)}
    x = normal(9, size, width)

    def loss_of(p):
        y = x
        for i in range(3):
            y = jnp.tanh(y @ p[f"w{i}"] + p[f"b{i}"])
        return jnp.mean((y - x) ** 2)

    return params, loss_of


def cnn(size):
    """Two convolutions and a dense layer on images of 16 x 16; size is the batch."""
    params = weights(first=(3, 3, 3, 8), second=(3, 3, 8, 16), dense=(16 * 16, 10))
    images = normal(9, size, 16, 16, 3)
    labels = jax.nn.one_hot(jnp.arange(size) % 10, 10)

    def convolve(x, kernel, stride):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss_of(p):
        x = jax.nn.relu(convolve(images, p["first"], 2))
        x = jax.nn.relu(convolve(x, p["second"], 2))
        logits = x.reshape(size, -1) @ p["dense"]
        return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(logits), axis=-1))

    return params, loss_of


def attention(size):
    """One block of a transformer: 4 heads of 16 over 32 tokens; size is the batch."""
    heads, wide, tokens = 4, 64, 32
    params = weights(qkv=(wide, 3 * wide), out=(wide, wide), up=(wide, 4 * wide), down=(4 * wide, wide))
    x = normal(9, size, tokens, wide)

    def attend(p, x):
        q, k, v = jnp.split((x @ p["qkv"]).reshape(size, tokens, heads, -1), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ p["out"]

    def loss_of(p):
        y = x + attend(p, jax.nn.standardize(x))
        y = y + jax.nn.gelu(jax.nn.standardize(y) @ p["up"]) @ p["down"]
        return jnp.mean((y[:, :-1] - x[:, 1:]) ** 2)

    return params, loss_of


def rnn(size):
    """A recurrent layer as a scan over time; size is the number of time steps."""
    wide, batch = 64, 16
    params = weights(state=(wide, wide), input=(wide, wide), out=(wide, wide))
    xs = normal(9, size + 1, batch, wide)

    def loss_of(p):
        def advance(state, x):
            state = jnp.tanh(state @ p["state"] + x @ p["input"])
            return state, state @ p["out"]

        _, ys = jax.lax.scan(advance, jnp.zeros((batch, wide)), xs[:-1])
        return jnp.mean((ys - xs[1:]) ** 2)

    return params, loss_of


def vae(size):
    """A variational auto-encoder of pictures of 16 x 16; size is the batch."""
    pixels, wide, latents = 16 * 16, 128, 8
    params = weights(encode=(pixels, wide), code=(wide, 2 * latents), decode=(latents, wide), out=(wide, pixels))
    x, noise = jax.nn.sigmoid(normal(9, size, pixels)), normal(8, size, latents)

    def loss_of(p):
        mean, log_var = jnp.split(jax.nn.relu(x @ p["encode"]) @ p["code"], 2, axis=-1)
        z = mean + jnp.exp(log_var / 2) * noise
        logits = jax.nn.relu(z @ p["decode"]) @ p["out"]
        unlike = jnp.sum(jax.nn.softplus(logits) - x * logits, axis=-1)
        spread = -0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var), axis=-1)
        return jnp.mean(unlike + spread)

    return params, loss_of


def superres(size):
    """Super-resolution: convolutions at the low resolution, then each pixel becomes 2 x 2; size is the batch."""
    side, factor = 12, 2
    params = weights(first=(5, 5, 1, 16), second=(3, 3, 16, 16), last=(3, 3, 16, factor**2))
    large = normal(9, size, side * factor, side * factor, 1)
    small = large.reshape(size, side, factor, side, factor).mean((2, 4))[..., None]

    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss_of(p):
        x = jnp.tanh(convolve(small, p["first"]))
        x = convolve(jnp.tanh(convolve(x, p["second"])), p["last"])
        x = x.reshape(size, side, side, factor, factor).transpose(0, 1, 3, 2, 4).reshape(large.shape)
        return jnp.mean((x - large) ** 2)

    return params, loss_of


MODELS = {f.__name__: f for f in (perceptron, cnn, attention, rnn, vae, superres)}
