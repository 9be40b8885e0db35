# SPDX-License-Identifier: Apache-2.0
"""A small training job: an MLP on numbers from a seed. Prints a digest of all losses and weights.

With --wait it says "ready" when JAX is imported and touches the device only after a line on stdin.
"""

import argparse
import hashlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ballast", type=int, default=0, help="MiB kept on the device, and used")
    parser.add_argument("--donate", action="store_true")
    parser.add_argument("--sync", action="store_true", help="wait for each step")
    parser.add_argument("--pause", type=float, default=0, help="seconds of nothing in the middle")
    parser.add_argument("--wait", action="store_true")
    return parser.parse_args()


def loss_of(state, x):
    hidden = jnp.tanh(x @ state["in"])
    hidden = jnp.tanh(hidden @ state["middle"])
    return jnp.mean((hidden @ state["out"] - jnp.sin(x).sum(1, keepdims=True)) ** 2)


def step(state, ballast, x):
    loss, grads = jax.value_and_grad(loss_of)(state, x)
    shift = ballast[: state["in"].shape[1]].mean() * 1e-3  # so that lost ballast shows
    return jax.tree.map(lambda w, g: w - 0.05 * (g + shift), state, grads), loss


def main():
    args = arguments()
    rng = np.random.default_rng(args.seed)
    if args.wait:
        print("ready", flush=True)
        sys.stdin.readline()

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32) * 0.05

    width = args.width
    state = jax.device_put({"in": normal(64, width), "middle": normal(width, width),
                            "out": normal(width, 1)})
    ballast = jax.device_put(normal(max(args.ballast << 18, 1024)))
    train = jax.jit(step, donate_argnums=(0,) if args.donate else ())
    began = time.monotonic()
    losses = []
    for i in range(args.steps):
        if args.pause and i == args.steps // 2:
            jax.block_until_ready(state)
            print("pausing", flush=True)
            time.sleep(args.pause)
        state, loss = train(state, ballast, normal(args.batch, 64))
        losses.append(loss)
        if args.sync:
            loss.block_until_ready()
    total = hashlib.sha256()
    for array in (*jax.tree.leaves(state), *losses, ballast):
        total.update(np.asarray(array).tobytes())
    print(f"seconds: {time.monotonic() - began:.3f}")
    print(f"final loss: {losses[-1]:.6f}")
    print(f"digest: {total.hexdigest()}", flush=True)


main()
