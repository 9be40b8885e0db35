# SPDX-License-Identifier: Apache-2.0
"""What a program does with several devices: all kinds of sharding, collectives, copies, donation.

Prints a digest of each part. An argument names the part that it runs again after each line of
standard input, until that ends.
"""

import hashlib
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

if "CONFIG_DEVICES" in os.environ:
    jax.config.update("jax_num_cpu_devices", int(os.environ["CONFIG_DEVICES"]))

rng = np.random.default_rng(11)
devices = jax.devices()
n = len(devices)
line = Mesh(np.array(devices), ("x",))
square = Mesh(np.array(devices).reshape(2, n // 2), ("a", "b"))
PARTS = {}


def part(run):
    PARTS[run.__name__] = run
    return run


def put(array, mesh, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


@part
def names():
    places = [(d.id, d.local_hardware_id, d.platform, str(d), [m.kind for m in d.addressable_memories()])
              for d in devices]
    return [np.frombuffer(repr((places, jax.local_device_count())).encode(), np.uint8)]


@part
def sharded_jit():
    x, w = put(normal(8 * n, 96), line, "x", None), put(normal(96, 64), line, None, None)
    both = jax.jit(lambda x, w: (x @ w, jnp.sum(x), (x @ w).T @ (x @ w)))
    y = jax.jit(lambda x: jnp.sin(x).T, out_shardings=NamedSharding(square, P("b", "a")))
    big = put(normal(n * 1024, 512), square, ("b", "a"), None)  # larger than a record
    return [*both(x, w), y(put(normal(4 * n, 4 * n), square, "a", "b")), big,
            jax.jit(lambda a: a[::-1] * 2)(big)]


@part
def pmap():
    x = normal(n, 7, 5)
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
    some = jax.pmap(lambda x: jnp.tanh(x) + jax.lax.axis_index("i"), axis_name="i",
                    devices=devices[::-1])
    return [total(x), some(x), jax.pmap(lambda x: x * 2, devices=devices[1:2])(x[:1])]


@part
def collectives():
    x = put(normal(n * n, 6), line, "x", None)

    def all_of_them(x):
        ring = [(i, (i + 1) % n) for i in range(n)]
        return (jax.lax.psum(x, "x"), jax.lax.pmean(x, "x"), jax.lax.pmax(x, "x"), jax.lax.pmin(x, "x"),
                jax.lax.all_gather(x, "x"), jax.lax.all_gather(x, "x", tiled=True),
                jax.lax.psum_scatter(x, "x", tiled=True), jax.lax.all_to_all(x, "x", 0, 0, tiled=True),
                jax.lax.ppermute(x, "x", ring), jax.lax.axis_index("x")[None] + x[:, 0])

    once = jax.jit(jax.shard_map(all_of_them, mesh=line, in_specs=P("x"), out_specs=P("x"), check_vma=False))

    def by_axis(x):
        for i in range(10):
            x = jax.lax.psum(x, "a") / 2 + jax.lax.ppermute(x, "b", [(i, (i + 1) % (n // 2)) for i in range(n // 2)])
        return x

    many = jax.jit(jax.shard_map(by_axis, mesh=square, in_specs=P("a", "b"), out_specs=P("a", "b"),
                                 check_vma=False))
    return [*once(x), many(put(normal(16, 16), square, "a", "b"))]


@part
def copies():
    host = normal(300, 70)
    first = jax.device_put(host, devices[0])
    around = [first]
    for d in [*devices[1:], devices[0]]:
        around.append(jax.device_put(around[-1], d))
    each = [jax.jit(lambda x: x * 2 + 1)(a) for a in around]  # one device each
    assert [next(iter(e.devices())) for e in each] == [*devices, devices[0]]
    wide = jax.device_put(first, NamedSharding(line, P()))
    moved = jax.device_put(put(normal(4 * n, 4 * n), square, "a", "b"), NamedSharding(line, P(None, "x")))
    parts = [jax.device_put(np.full((2, 3), i, np.float32), d) for i, d in enumerate(devices)]
    made = jax.make_array_from_single_device_arrays((2 * n, 3), NamedSharding(line, P("x", None)), parts)
    small = jax.device_put(np.float32(3), devices[-1])
    host_kind = jax.device_put(first, SingleDeviceSharding(devices[n // 2], memory_kind="pinned_host"))
    return [*each, wide, moved, made, jax.jit(lambda x: x.sum(0))(made), small, small + 1, host_kind]


@part
def donation():
    step = jax.jit(lambda p, g: p - 0.1 * g * jnp.mean(p), donate_argnums=0)
    p, g = put(normal(4 * n, 32), line, "x", None), put(normal(4 * n, 32), line, "x", None)
    for _ in range(20):
        before = p
        p = step(p, g)
        assert before.is_deleted()
    kept = put(normal(4 * n, 8), line, "x", None)
    view = np.asarray(kept.addressable_shards[0].data)  # pins one shard: nothing is donated
    taken = jax.jit(lambda a: a + 1, donate_argnums=0)(kept)
    return [p, taken, view]


@part
def training():
    params = {"w": put(normal(32, 64), square, None, "b"), "v": put(normal(64, 4), square, "b", None)}

    def loss(p, x, y):
        return jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)

    @partial(jax.jit, donate_argnums=0)
    def step(p, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda a, b: a - 0.05 * b, p, g), value

    losses = []
    for _ in range(15):
        x, y = put(normal(16, 32), square, "a", None), put(normal(16, 4), square, "a", None)
        params, value = step(params, x, y)
        losses.append(float(value))
    assert losses[-1] < losses[0]
    return [params["w"], params["v"], np.array(losses)]


def run(name):
    total = hashlib.sha256()
    for array in PARTS[name]():
        host = np.asarray(array)
        total.update(f"{host.dtype} {host.shape}\n".encode() + host.tobytes())
    return total.hexdigest()


print("devices:", n, flush=True)
if len(sys.argv) > 1:
    for line_read in sys.stdin:
        rng = np.random.default_rng(11)
        print(f"{sys.argv[1]}: {run(sys.argv[1])}", flush=True)
else:
    for name in PARTS:
        print(f"{name}: {run(name)}", flush=True)
