# SPDX-License-Identifier: Apache-2.0
"""The jobs that bench/bridge measures. Not to be run by hand.

Without arguments: a JAX process that runs the commands on its standard input (JSON: a function's name and its
arguments) and prints the times. The environment selects the device and the plugin.
With `start EXAMPLE`: runs one of examples/ to the end of its first step and prints how long each part took.
"""

import contextlib
import functools
import importlib
import json
import os
import sys
import time

import numpy as np


def seconds():
    return time.perf_counter_ns() / 1e9


# A training step.


@functools.cache
def training(model, size):
    """A step of a model with Adam, its arguments donated, as training loops are written."""
    import jax
    import optax
    from bridge_models import MODELS

    params, loss_of = MODELS[model](size)
    optimiser = optax.adam(1e-3)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(p, state):
        loss, grads = jax.value_and_grad(loss_of)(p)
        updates, state = optimiser.update(grads, state)
        return optax.apply_updates(p, updates), state, loss

    return {"step": step, "p": params, "state": optimiser.init(params)}


def train(model, size, steps, synchronous):
    """Seconds per step."""
    t = training(model, size)
    step, p, state = t["step"], t["p"], t["state"]
    start = seconds()
    for _ in range(steps):
        p, state, loss = step(p, state)
        if synchronous:
            float(loss)
    loss.block_until_ready()
    took = seconds() - start
    t["p"], t["state"] = p, state
    return took / steps


# Tiny operations.


@functools.cache
def tiny():
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda x: x + 1), jnp.zeros(8)


def chain(count):
    """Seconds per operation. Each uses the result of the previous one; only the last is waited for."""
    f, x = tiny()
    start = seconds()
    for _ in range(count):
        x = f(x)
    x.block_until_ready()
    return (seconds() - start) / count


def one_by_one(count, fetch):
    """Median and 99th percentile of one operation; waits for its result or fetches it."""
    f, x = tiny()
    took = np.empty(count)
    for i in range(count):
        start = time.perf_counter_ns()
        y = f(x)
        if fetch:
            np.asarray(y)
        else:
            y.block_until_ready()
        took[i] = time.perf_counter_ns() - start
    return [float(np.percentile(took, 50)) / 1e9, float(np.percentile(took, 99)) / 1e9]


def one_by_one_for(duration):
    """The same, for this many seconds."""
    f, x = tiny()
    took = []
    end = time.perf_counter_ns() + int(duration * 1e9)
    now = 0
    while now < end:
        start = time.perf_counter_ns()
        f(x).block_until_ready()
        now = time.perf_counter_ns()
        took.append(now - start)
    return [len(took) / duration, float(np.percentile(took, 50)) / 1e9,
            float(np.percentile(took, 99)) / 1e9]


# Bulk.


def aligned_bytes(count, offset):
    """An array whose address is a multiple of 64 plus `offset`; numpy's own large arrays have 16."""
    raw = np.zeros(count + 128, np.uint8)
    skip = (offset - raw.ctypes.data) % 64
    return raw[skip : skip + count]


@functools.cache
def megabytes(count, offset):
    a = aligned_bytes(count << 20, offset).view(np.float32)
    a[:] = 1.5
    return a


def upload(mb, offset, times):
    import jax

    took = []
    for _ in range(times):
        start = seconds()
        x = jax.device_put(megabytes(mb, offset))
        x.block_until_ready()
        took.append(seconds() - start)
        del x
    return float(np.median(took))


def download(mb, times):
    import jax

    twice = jax.jit(lambda x: x * 2)
    took = []
    for _ in range(times):
        x = twice(jax.device_put(megabytes(mb, 16)))
        x.block_until_ready()
        start = seconds()
        np.array(x)  # a copy: on a CPU a view would cost nothing
        took.append(seconds() - start)
        del x
    return float(np.median(took))


def view(mb, times):
    """Like download, without the copy. Through Salus results of a size are views after some reads."""
    import jax

    plus = jax.jit(lambda x, i: x + i)
    x = jax.device_put(megabytes(mb, 16))
    took = []
    for i in range(times):
        y = plus(x, float(i))
        y.block_until_ready()
        start = seconds()
        seen = np.asarray(y)
        took.append(seconds() - start)
        assert seen[-1] == 1.5 + i
        del y, seen
    return float(np.median(took))


# Wide programs.


@functools.cache
def wide(args, outputs):
    import jax
    import jax.numpy as jnp

    xs = [jnp.full(4, float(i)) for i in range(args)]
    return jax.jit(lambda *xs: [sum(xs) + i for i in range(outputs)]), xs


def call_wide(args, outputs, calls, synchronous):
    """Seconds per call."""
    f, xs = wide(args, outputs)
    start = seconds()
    for _ in range(calls):
        ys = f(*xs)
        if synchronous:
            ys[0].block_until_ready()
    ys[0].block_until_ready()
    return (seconds() - start) / calls


# Programs that call Python.


@functools.cache
def calling(kind):
    """A program that calls a Python function, one scalar in and one out."""
    import jax
    import jax.numpy as jnp

    functions = {"numpy": np.sin, "JAX": lambda v: v + 1}
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.jit(lambda x: jax.pure_callback(functions[kind], scalar, x)), jnp.float32(1)


def call_python(kind, count):
    """Median of one call, waited for."""
    f, x = calling(kind)
    took = np.empty(count)
    for i in range(count):
        start = time.perf_counter_ns()
        f(x).block_until_ready()
        took[i] = time.perf_counter_ns() - start
    return float(np.median(took)) / 1e9


@functools.cache
def printing(size, every):
    """A training step that prints its loss now and then, or never if every is 0."""
    import jax
    import optax
    from bridge_models import MODELS

    params, loss_of = MODELS["perceptron"](size)
    optimiser = optax.sgd(1e-3)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(p, state, number):
        loss, grads = jax.value_and_grad(loss_of)(p)
        updates, state = optimiser.update(grads, state)
        if every:
            jax.lax.cond(number % every == 0, lambda: jax.debug.print("step {} loss {}", number, loss), lambda: None)
        return optax.apply_updates(p, updates), state, loss

    return {"step": step, "p": params, "state": optimiser.init(params)}


def train_printing(size, every, steps):
    """Seconds per step, until all is computed and printed."""
    import jax

    t = printing(size, every)
    step, p, state = t["step"], t["p"], t["state"]
    start = seconds()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for number in range(steps):
            p, state, loss = step(p, state, number)
        loss.block_until_ready()
        jax.effects_barrier()
    took = seconds() - start
    t["p"], t["state"] = p, state
    return took / steps


# Programs that nobody has compiled before.


def cold_program(number):
    """A new program: its constant differs from all others, its operations and shape from its neighbours."""
    import jax
    import jax.numpy as jnp

    kinds = (lambda x: x + 1, jnp.tanh, lambda x: x @ x.T, lambda x: jnp.cumsum(x, axis=0), jax.nn.softmax)

    def f(x):
        return (kinds[number % 5](x * (1.5 + number)) - x[0, 0]).sum()

    return jax.jit(f), np.ones((2 + number % 7, 4), np.float32)


def cold(first, count):
    """Seconds per program. Each is traced, compiled and run once, and its result is read."""
    programs = [cold_program(number) for number in range(first, first + count)]
    start = seconds()
    for f, x in programs:
        float(f(x))
    return (seconds() - start) / count


# The start of a job.


class FirstStep(Exception):
    pass


class Listener:
    """Standard output of an example, which prints the loss after its first step."""

    def write(self, text):
        if text.startswith("step "):
            raise FirstStep

    def flush(self):
        pass


def start_example(name):
    import jax
    import optax  # noqa: F401
    import flax.linen  # noqa: F401

    spans = {}

    def on_event(event, duration, **_):
        spans[event] = spans.get(event, 0) + duration

    jax.monitoring.register_event_duration_secs_listener(on_event)
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "examples"))
    example = importlib.import_module(name)
    sys.argv = [name]
    start = seconds()
    jax.devices()
    devices = seconds() - start
    try:
        with contextlib.redirect_stdout(Listener()):
            example.main()
    except FirstStep:
        total = seconds() - start
    compiling = sum(t for e, t in spans.items() if "backend_compile" in e)
    python = sum(t for e, t in spans.items() if "trac" in e or "mlir" in e)
    print(json.dumps({"total": total, "devices": devices, "compile": compiling, "python": python,
                      "spans": spans}))


def pid():
    return os.getpid()


ACTIONS = {f.__name__: f for f in (train, chain, one_by_one, one_by_one_for, upload, download, view, call_wide, call_python,
                                train_printing, cold, pid)}


def serve():
    for line in sys.stdin:
        ask = json.loads(line)
        print(json.dumps(ACTIONS[ask["do"]](*ask["with"])), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["start"]:
        start_example(sys.argv[2])
    else:
        serve()
