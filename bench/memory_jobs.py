# SPDX-License-Identifier: Apache-2.0
"""The jobs that bench/memory runs. Not to be run by hand.

Each job keeps some arrays on the device and works on them. Their vendor needs more memory than the programs say: it
copies what it sorts, packs weights, and gives libraries workspaces. work() is a command of sharing_child.serve().
"""

import functools
import hashlib
import time

import jax
import jax.numpy as jnp
import numpy as np


def floats(seed, *shape):
    return jax.device_put(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def sort(seed, mb):
    """Sorts its whole array each time."""
    several = jax.jit(lambda x, i: jnp.roll(jnp.sort(x), i))
    return floats(seed, mb << 18), several


def fft(seed, mb):
    side = 1 << ((mb << 17).bit_length() - 1) // 2
    several = jax.jit(lambda x, i: jnp.fft.ifft2(jnp.fft.fft2(x) + i).real.astype(jnp.float32))
    return floats(seed, side, side), several


def convolution(seed, mb):
    kernel = floats(seed + 1, 3, 3, 16, 16)

    def step(x, i):
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.tanh(y) + i

    return floats(seed, mb, 128, 128, 16), jax.jit(step)


def products(seed, mb):
    """Trains in place: the weights are donated."""
    side = 1024
    count = max(1, mb // 4)

    def step(w, i):
        for _ in range(2):
            w = jnp.tanh(jnp.einsum("nij,njk->nik", w, w) / side) + i / 1000
        return w

    return floats(seed, count, side, side), jax.jit(step, donate_argnums=0)


def scan(seed, mb):
    """Keeps all intermediate states, as a backward pass does."""
    def step(x, i):
        def body(c, _):
            c = jnp.tanh(c) + i
            return c, c

        last, all_states = jax.lax.scan(body, x, None, length=4)
        return last + all_states.mean(0)

    return floats(seed, mb << 18), jax.jit(step)


def linalg(seed, mb):
    """A decomposition, which a library computes."""
    side = 512
    count = max(1, mb)

    def step(x, i):
        gram = x @ x.swapaxes(1, 2) / side + jnp.eye(side)
        return jnp.linalg.cholesky(gram) @ x + i

    return floats(seed, count, side, side), jax.jit(step)


def attention(seed, mb):
    def step(x, i):
        weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", x, x) / 8, axis=-1)
        return jnp.tanh(jnp.einsum("bqk,bkd->bqd", weights, x)) + i

    return floats(seed, mb * 16, 256, 64), jax.jit(step)


def top(seed, mb):
    def step(x, i):
        values, where = jax.lax.top_k(x, 8)
        return x.at[:, 0].set(values[:, 7] + where[:, 0] % 3 + i)

    return floats(seed, mb << 8, 1024), jax.jit(step)


def scatter(seed, mb):
    """Sums, gathers and scatters along a permutation."""
    def step(x, i):
        order = jnp.arange(x.size, dtype=jnp.uint32) * 7919 % x.size
        return jnp.zeros_like(x).at[order].add(jnp.tanh(jnp.cumsum(x) / 1000)[order]) + i

    return floats(seed, mb << 18), jax.jit(step)


def pooling(seed, mb):
    def step(x, i):
        y = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        return jnp.tanh(y + jnp.flip(x, 1)) + i

    return floats(seed, mb, 128, 128, 16), jax.jit(step)


def noise(seed, mb):
    step = jax.jit(lambda x, i: jnp.tanh(x) + i + jax.random.normal(jax.random.key(seed), x.shape, x.dtype))
    return floats(seed, mb << 18), step


KINDS = {f.__name__: f for f in (sort, fft, convolution, products, scan, linalg, attention, top, scatter, pooling, noise)}


@functools.cache
def make(kind, seed, mb):
    return KINDS[kind](seed, mb)


def work(kind, seed, mb, count, ahead=2, start_ns=0):
    """Steps of this kind, with some submitted in advance. Returns a digest of the result."""
    x, step = make(kind, seed, mb)
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    x, waiting = x + 0, []
    for i in range(count):
        x = step(x, np.float32(i % 3))
        waiting.append(x[(0,) * x.ndim] if x.ndim else x)
        if len(waiting) > ahead:
            waiting.pop(0).block_until_ready()
    return hashlib.sha256(np.asarray(x).tobytes()).hexdigest()


def serve_model(seed, mb, count):
    """Answers requests with a model: one product with each of its layers."""
    side = 512
    layers = floats(seed, mb, side, side)
    answer = jax.jit(lambda x, layers: jax.lax.scan(lambda x, w: (jnp.tanh(x @ w / 16), None), x, layers)[0])
    x = floats(seed + 1, 32, side)
    for _ in range(count):
        x = answer(x, layers).block_until_ready()
    return hashlib.sha256(np.asarray(x).tobytes()).hexdigest()


def surprise(seed, mb, count):
    """Convolutions of ever new shapes: their first iterations take many times what their programs state."""
    digest = hashlib.sha256()
    for n in range(count):
        x, step = convolution(seed, mb + n)
        digest.update(np.asarray(step(step(x, np.float32(n)), np.float32(0))).tobytes())
    return digest.hexdigest()


ACTIONS = {f.__name__: f for f in (work, serve_model, surprise)}
