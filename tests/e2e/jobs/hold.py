# SPDX-License-Identifier: Apache-2.0
"""A job that does what it is told, one line at a time, and answers each with one line.

    put MIB     keep one more array on the device           -> put: sum of bytes kept
    make MIB    the same, made by a program                  -> make: ...
    use         a program over everything that is kept       -> use: digest
    read        read everything that is kept, array by array -> read: digest
    drop        forget the array that came last              -> drop: ...
    replace     a program that is given all arrays for good  -> replace: digest

What fails is answered with `failed: ` and the reason, and the job goes on.
"""

import hashlib
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

kept = []
rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def digest(arrays):
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.asarray(array).tobytes())
    return total.hexdigest()


def bytes_kept():
    return sum(array.nbytes for array in kept)


@jax.jit
def mixed(arrays):
    return [jnp.stack([a.sum(), (a[::3] ^ 0x5A5A5A5A).sum(), a[-1]]) for a in arrays]


@partial(jax.jit, donate_argnums=0)
def replaced(arrays):
    return [a * 1664525 + 1013904223 for a in arrays]


def put(mib):
    array = jax.device_put(rng.integers(0, 1 << 32, int(mib) << 18, np.uint32))
    jax.block_until_ready(mixed([array]))  # an upload that must wait is noticed when it is used
    kept.append(array)
    return bytes_kept()


def make(mib):
    iota = jax.jit(lambda start: jnp.arange(int(mib) << 18, dtype=jnp.uint32) + start)
    kept.append(iota(jnp.uint32(len(kept))).block_until_ready())
    return bytes_kept()


def use():
    return digest(mixed(kept))


def read():
    return digest(kept)


def drop():
    kept.pop().delete()
    return bytes_kept()


def replace():
    kept[:] = replaced(kept)
    return digest(mixed(kept))


print("ready", flush=True)
for line in sys.stdin:
    verb, *args = line.split()
    try:
        print(f"{verb}: {globals()[verb](*args)}", flush=True)
    except jax.errors.JaxRuntimeError as error:
        print("failed:", str(error).replace("\n", " "), flush=True)
