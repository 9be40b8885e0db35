# SPDX-License-Identifier: Apache-2.0
"""The jobs of bench/sharing that fill the device, or a part of it. Not to be run by hand.

A step is named by a tuple: its kind and its size. The kinds:

    ("wide", products)              large matrix products: runs on all cores
    ("narrow", products, mb, mb)    small matrix products: runs on one core; a model and scratch of this size
    ("cnn", batch)                  a training step of a small convolutional network

The actions are commands of sharing_child.serve(). run_script() is the main function of a process that runs a script.
"""

import collections
import functools
import os
import runpy
import sys
import time

import flax.linen  # noqa: F401; imported before the fork, so that no script pays for it
import jax
import jax.numpy as jnp
import numpy as np
import optax

import sharing_child
from bridge_models import normal, weights

WIDE_SIDE = 1024
REQUEST_WIDTH = 256


# Steps.


def mirror(side):
    """A reflection, whose powers stay bounded."""
    v = np.random.default_rng(0).normal(size=side)
    return jax.device_put((np.eye(side) - 2 * np.outer(v, v) / (v @ v)).astype(np.float32))


@functools.cache
def wide(products):
    m = mirror(WIDE_SIDE)
    state = [jax.device_put(np.ones((WIDE_SIDE, WIDE_SIDE), np.float32))]

    @functools.partial(jax.jit, donate_argnums=0)
    def several(c, m, count):
        c = jax.lax.fori_loop(0, count, lambda _, c: c @ m, c)
        return c, c[0, 0]

    def step():
        state[0], probe = several(state[0], m, products)
        return probe

    return step


@functools.cache
def narrow(products, model_mb=0, scratch_mb=0):
    m, model = sharing_child.place(0, model_mb)
    several = sharing_child.program(scratch_mb)
    state = [jnp.ones((sharing_child.SIDE, sharing_child.SIDE))]

    def step():
        state[0] = several(state[0], m, model, products)
        return state[0]

    return step


def cnn_loss(params, images, labels):
    x = images
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(x, params[name], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x)
    logits = x.reshape(x.shape[0], -1) @ params["dense"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@functools.cache
def cnn(batch):
    params = weights(first=(3, 3, 3, 16), second=(3, 3, 16, 32), dense=(4 * 4 * 32, 10))
    images, labels = normal(9, batch, 16, 16, 3), jnp.arange(batch) % 10
    optimiser = optax.adam(1e-3)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(params, state, images, labels):
        loss, grads = jax.value_and_grad(cnn_loss)(params, images, labels)
        updates, state = optimiser.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    state = [params, optimiser.init(params)]

    def step():
        state[0], state[1], loss = train(state[0], state[1], images, labels)
        return loss

    return step


KINDS = {f.__name__: f for f in (wide, narrow, cnn)}


def make(what):
    kind, *sizes = what
    return KINDS[kind](*sizes)


# Actions.


def steps(whats, ahead, start_ns=0, end_ns=None, count=None, period_ns=None):
    """Runs steps from one time to another, or a number of steps. Submits this many in advance. With a period, each
    period has the next of the kinds of steps. Returns the end of each step, by kind."""
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    made = [make(what) for what in whats]
    queue, ends, done = collections.deque(), [[] for _ in whats], 0
    began_ns = now_ns = time.monotonic_ns()

    def wait_for_oldest():
        number, probe = queue.popleft()
        probe.block_until_ready()
        ends[number].append(time.monotonic_ns())

    while done != count and (end_ns is None or now_ns < end_ns):
        number = (now_ns - start_ns) // period_ns % len(whats) if period_ns else 0
        queue.append((number, made[number]()))
        done += 1
        if len(queue) > ahead:
            wait_for_oldest()
        now_ns = time.monotonic_ns()
    while queue:
        wait_for_oldest()
    return {"began_ns": began_ns, "ended_ns": time.monotonic_ns(), "ends": ends}


def step_time(what, count, ahead=1):
    """Seconds of a step, the mean of some, after a warm-up."""
    steps([what], 0, count=2)
    ran = steps([what], ahead, count=count)
    return (ran["ended_ns"] - ran["began_ns"]) / count / 1e9


@functools.cache
def model_to_serve(batch):
    params = weights(**{f"w{i}": (REQUEST_WIDTH, REQUEST_WIDTH) for i in range(3)})

    @jax.jit
    def answer(params, x):
        for name in sorted(params):
            x = jnp.tanh(x @ params[name])
        return x

    return lambda x: np.asarray(answer(params, x))


def requests(batch, gap_ms, seed, start_ns=0, end_ns=None, count=None):
    """Requests with random gaps: the latency of each in seconds, from the input to the answer on the host."""
    rng, latencies = np.random.default_rng(seed), []
    answer, x = model_to_serve(batch), rng.normal(size=(batch, REQUEST_WIDTH)).astype(np.float32)
    answer(x)
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    while len(latencies) != count and (end_ns is None or time.monotonic_ns() < end_ns):
        time.sleep(rng.exponential(gap_ms / 1e3))
        asked = time.perf_counter_ns()
        answer(x)
        latencies.append((time.perf_counter_ns() - asked) / 1e9)
    return latencies


ACTIONS = sharing_child.ACTIONS | {f.__name__: f for f in (steps, step_time, requests)}


# Scripts.


def run_script(env, log, cache, argv):
    """Runs a script to its end, with JAX's compilation cache in that folder. Output goes to the log."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(env)
    # JAX read its environment when it was imported.
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    sys.argv = argv
    runpy.run_path(argv[0], run_name="__main__")
