# SPDX-License-Identifier: Apache-2.0
"""Serve a model: load its parameters, answer requests one by one, tell the latencies.

With --rate they come at that many a second, however long the answers take; what waits for the one before
it waits longer.
"""

import os
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from common import arguments, finish

SIZES = [64, 256, 256, 10]
BATCHES = [1, 2, 4, 8]  # a request is padded to the next of these, so few programs are compiled


def make_params(path, seed):
    """Stands for a training run: parameters in a file."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for i, (n, m) in enumerate(zip(SIZES, SIZES[1:])):
        arrays[f"w{i}"] = (rng.normal(size=(n, m)) * n**-0.5).astype(np.float32)
        arrays[f"b{i}"] = np.zeros(m, np.float32)
    np.savez(path, **arrays)


def load_params(path):
    with np.load(path) as arrays:
        return {name: jax.device_put(arrays[name]) for name in arrays.files}


@jax.jit
def predict(params, x):
    last = len(params) // 2 - 1
    for i in range(last):
        x = jax.nn.relu(x @ params[f"w{i}"] + params[f"b{i}"])
    return jax.nn.softmax(x @ params[f"w{last}"] + params[f"b{last}"])


def answer(params, request):
    n = len(request)
    size = next(b for b in BATCHES if b >= n)
    padded = np.pad(request, ((0, size - n), (0, 0)))
    return np.asarray(predict(params, padded))[:n]


def percentiles(latencies):
    p50, p95, p99 = np.percentile(latencies, [50, 95, 99]) * 1e3
    return f"p50 {p50:.3f} ms  p95 {p95:.3f} ms  p99 {p99:.3f} ms"


def main():
    args = arguments(__doc__, requests=500, rate=0.0, params="")
    if args.params:
        params = load_params(args.params)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "params.npz")
            make_params(path, args.seed)
            params = load_params(path)

    for size in BATCHES:  # compile before the first request comes
        answer(params, np.zeros((size, SIZES[0]), np.float32))

    rng = np.random.default_rng(args.seed)
    answers, latencies = [], []
    opened = time.perf_counter()
    for i in range(args.requests):
        request = rng.normal(size=(rng.integers(1, 9), SIZES[0])).astype(np.float32)
        start = time.perf_counter()
        if args.rate:
            due = opened + i / args.rate
            time.sleep(max(0, due - start))
            start = due
        answers.append(answer(params, request))
        latencies.append(time.perf_counter() - start)
        if i % 100 == 0:
            print(f"request {i:4d}  {len(request)} rows  {latencies[-1] * 1e3:.2f} ms", flush=True)

    for first in range(0, len(latencies), 100):
        print(f"from {first:4d}: {percentiles(latencies[first:first + 100])}")
    print(f"latency: {percentiles(latencies)}", flush=True)
    answers = np.concatenate(answers)
    print(f"final loss: {-np.log(answers.max(axis=1)).mean():.6f}")
    finish({"answers": answers, "checksum": jnp.sum(answers)}, args.out)


if __name__ == "__main__":
    main()
