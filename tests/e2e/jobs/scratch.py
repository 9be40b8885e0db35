# SPDX-License-Identifier: Apache-2.0
"""A job whose vendor takes more scratch than the program says: it sorts or convolves an array that it keeps, or
squares matrices in place. Prints a digest of the result. With --wait it says "ready" when JAX is imported, and begins
after a line on stdin; with --stay it says "done" and ends after a line on stdin.
"""

import argparse
import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np


def sort(mib):
    return (mib << 18,), lambda x, i: jnp.roll(jnp.sort(x), i)


def convolution(mib):
    kernel = jnp.asarray(np.random.default_rng(9).normal(size=(3, 3, 16, 16)).astype(np.float32))

    def step(x, i):
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.tanh(y) + i

    return (mib, 128, 128, 16), step


def squares(mib):
    def step(x, i):
        for _ in range(2):
            x = jnp.tanh(jnp.einsum("nij,njk->nik", x, x) / 512) + i / 1000
        return x

    return (mib, 512, 512), step


KINDS = {"sort": sort, "convolution": convolution, "squares": squares}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--mib", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--stay", action="store_true")
    args = parser.parse_args()
    if args.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    shape, step = KINDS[args.kind](args.mib)
    x = jax.device_put(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    step = jax.jit(step, donate_argnums=(0,) if args.kind == "squares" else ())
    for i in range(args.steps):
        x = step(x, i % 3)
    print("digest:", hashlib.sha256(np.asarray(x).tobytes()).hexdigest(), flush=True)
    if args.stay:
        print("done", flush=True)
        sys.stdin.readline()


main()
