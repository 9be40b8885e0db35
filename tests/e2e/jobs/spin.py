# SPDX-License-Identifier: Apache-2.0
"""A job whose iterations take as long as it is told: a loop of small products, --trips of them each.

It runs --iterations, or until another line on stdin, with --depth of them under way. A line must come
first. Prints when it began and ended (monotonic), how many iterations, and a digest.
"""

import argparse
import collections
import hashlib
import os
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def spin(x, trips):
    return jax.lax.fori_loop(0, trips, lambda i, x: jnp.sin(x @ x + x), x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trips", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    host = np.random.default_rng(args.seed).normal(size=(48, 48)).astype(np.float32) * 0.1
    print("ready", flush=True)
    sys.stdin.readline()
    x, trips = jax.device_put(host), jax.device_put(np.int32(args.trips))
    x = spin(x, jax.device_put(np.int32(1))).block_until_ready()
    stopped = threading.Event()
    if not args.iterations:
        threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
    print("running", flush=True)
    began, cpu, count = time.monotonic(), sum(os.times()[:2]), 0
    under_way = collections.deque()
    while not stopped.is_set() and (not args.iterations or count < args.iterations):
        x = spin(x, trips)
        count += 1
        under_way.append(x)
        if len(under_way) >= args.depth:
            under_way.popleft().block_until_ready()
    x.block_until_ready()
    ended = time.monotonic()
    print(f"began: {began:.6f}\nended: {ended:.6f}\niterations: {count}")
    print(f"cores: {(sum(os.times()[:2]) - cpu) / (ended - began):.3f}")
    print(f"digest: {hashlib.sha256(np.asarray(x).tobytes()).hexdigest()}", flush=True)


main()
