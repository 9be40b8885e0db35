# SPDX-License-Identifier: Apache-2.0
"""Calls back into Python: pure, with effects, printing."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback


@jax.jit
def compute(x):
    y = jax.pure_callback(lambda v: np.sort(np.asarray(v)), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    jax.debug.print("smallest {a:.3f}, largest {b:.3f}", a=y[0], b=y[-1])
    return y * 2


def main():
    seen = []

    def note(v):
        seen.append(int(v))
        return np.int32(len(seen))

    @jax.jit
    def count(i):
        return io_callback(note, jax.ShapeDtypeStruct((), jnp.int32), i, ordered=True)

    print(np.round(np.asarray(compute(jnp.cos(jnp.arange(6.0)))), 3).tolist())
    counts = [int(count(i)) for i in (10, 20, 30)]
    jax.effects_barrier()
    print(counts, seen)


if __name__ == "__main__":
    main()
