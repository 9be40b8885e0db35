# SPDX-License-Identifier: Apache-2.0
"""The jobs that bench/sharing measures. Not to be run by hand.

serve() runs in a process of its own: it receives commands through a pipe (a function's name and its arguments) and
answers with the results. The environment selects the device and the plugin. Processes are forked from one that has
imported this module, so JAX is imported once; each makes its own client.
"""

import collections
import functools
import hashlib
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

from bridge_child import train

SIDE = 64  # of the matrices: a product takes some microseconds and runs on one core


@functools.cache
def program(scratch_mb):
    """step(c, m, model, count): count products, one after another; also uses this much scratch, and the model."""
    size = max(scratch_mb << 18, 1)

    def step(c, m, model, count):
        def body(i, both):
            c, scratch = both
            return c @ m, scratch.at[i % size].add(c[0, 0])

        c, scratch = jax.lax.fori_loop(0, count, body, (c, jnp.full(size, model[0])))
        return c + scratch[count % size] * 0

    return jax.jit(step)


@functools.cache
def place(seed, model_mb):
    """A rotation matrix, whose powers stay bounded, and a model of this size, both on the device. Models are made by
    programs: a host device would read an upload in the job's own memory."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(SIDE, SIDE)))[0]
    model = jnp.ones(max(model_mb << 18, 1), jnp.float32)
    return jax.device_put(turn.astype(np.float32)), model.block_until_ready()


def load(seed, model_mb, scratch_mb):
    """Prepares everything before the measurement: makes the model, compiles the program."""
    m, model = place(seed, model_mb)
    program(scratch_mb)(jnp.ones((SIDE, SIDE)), m, model, 1).block_until_ready()


def pace():
    """Seconds of one product while nobody else computes."""
    m, model = place(0, 0)
    took = []
    for _ in range(7):
        start = time.perf_counter_ns()
        program(0)(jnp.ones((SIDE, SIDE)), m, model, 4000).block_until_ready()
        took.append(time.perf_counter_ns() - start)
    return min(took) / 4000 / 1e9


def run(job, count, ahead, start_ns=0, end_ns=None, iterations=None):
    """Runs iterations of this many products from one time to another, or a number of iterations. Always submits a few in
    advance."""
    seed, model_mb, scratch_mb = job
    m, model = place(seed, model_mb)
    step = program(scratch_mb)
    c = jnp.ones((SIDE, SIDE))
    queue = collections.deque()
    done = 0
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    began_ns = time.monotonic_ns()
    while done != iterations and (end_ns is None or time.monotonic_ns() < end_ns):
        c = step(c, m, model, count)
        done += 1
        queue.append(c)
        if len(queue) > ahead:
            queue.popleft().block_until_ready()
    c.block_until_ready()
    return {"began_ns": began_ns, "ended_ns": time.monotonic_ns(), "iterations": done,
            "digest": hashlib.sha256(np.asarray(c).tobytes()).hexdigest()}


def memcpy(megabytes):
    """Seconds of a copy into new memory, the fastest of some: a hypervisor may have to find the pages first."""
    source = np.ones(megabytes << 18, np.float32)
    took = []
    for _ in range(4):
        start = time.perf_counter_ns()
        np.copyto(np.empty_like(source), source)
        took.append(time.perf_counter_ns() - start)
    return min(took) / 1e9


def devices():
    return len(jax.devices())


ACTIONS = {f.__name__: f for f in (load, pace, run, memcpy, devices, train)}


def serve(pipe, env, log, actions):
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    os.environ.update(env)
    while True:
        try:
            do, args, more = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, actions[do](*args, **more)))
        except Exception as error:  # pylint: disable=broad-except; any error ends the job
            pipe.send((False, f"{type(error).__name__}: {error}"))
