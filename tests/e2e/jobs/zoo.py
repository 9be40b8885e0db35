# SPDX-License-Identifier: Apache-2.0
"""Arrays of every type and kind that wait on the device, are read, deleted and computed with.

Between its parts it waits for a line, so that it can be paged out meanwhile. Prints a digest of
each part.
"""

import hashlib
import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout

rng = np.random.default_rng(7)
TYPES = ["int4", "uint4", "bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16",
         "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn"]


def part(name, arrays):
    total = hashlib.sha256()
    for key in sorted(arrays):
        host = np.asarray(arrays[key])
        total.update(f"{key} {host.dtype} {host.shape}\n".encode() + host.tobytes())
    print(f"{name}: {total.hexdigest()}", flush=True)
    sys.stdin.readline()


def make():
    zoo = {}
    for name in TYPES:
        host = rng.integers(0, 7, (97, 33)).astype(jnp.dtype(name))
        zoo[name] = jax.device_put(host)
        zoo[name + " empty"] = jax.device_put(host[:0])
        zoo[name + " scalar"] = jax.device_put(host[0, 0])
    zoo["not a number"] = jax.device_put(rng.integers(0, 1 << 32, 4096, np.uint32).view(np.float32))
    base = jax.device_put(rng.normal(size=(5, 300, 70)).astype(np.float32))
    for order in ((2, 1, 0), (0, 2, 1), (1, 0, 2)):
        zoo[f"layout {order}"] = jax.device_put(base, Format(Layout(order), base.sharding))
    out = Format(Layout((1, 0)), base.sharding)
    zoo["layout of a result"] = jax.jit(lambda x: x[0] * 2, out_shardings=out)(base)
    zoo["copy"] = jnp.copy(base)
    zoo["put again"] = jax.device_put(base, may_alias=False)
    zoo["kept by itself"] = base
    zoo["spare"] = jax.device_put(rng.normal(size=1 << 20))
    zoo["large"] = jax.device_put(rng.integers(0, 1 << 32, 6 << 20, np.uint32))
    return zoo


@jax.jit
def turn(zoo):
    turned = {k: x[..., ::-1] for k, x in zoo.items() if x.ndim and k != "large"}
    return turned | {k + " scalar": x == x for k, x in zoo.items() if not x.ndim}


def compute(zoo):
    """A program that reads everything, and one that takes over what it is given."""
    turned = turn(zoo)
    donate = jax.jit(lambda x: x * 5 + 1, donate_argnums=0)
    turned["given away"] = donate(donate(zoo.pop("large")))
    assert "copy" in zoo and not zoo["copy"].is_deleted()
    return turned


print("ready", flush=True)
sys.stdin.readline()
zoo = jax.block_until_ready(make())
part("made", {k: zoo[k] for k in ("int4", "bfloat16")})
part("read", {k: x for k, x in zoo.items() if k != "large"})
for name in ("complex64", "int4", "layout (0, 2, 1)", "put again", "spare"):
    zoo.pop(name).delete()
part("deleted", {})
part("computed", compute(zoo))
part("left", zoo)
