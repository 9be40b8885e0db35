# SPDX-License-Identifier: Apache-2.0
"""Four devices in one program: shardings that are named and those that XLA chooses, collectives, an inspection."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    from jax import shard_map
except ImportError:  # before JAX 0.7
    from jax.experimental.shard_map import shard_map


def main():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = NamedSharding(mesh, PartitionSpec("x"))
    x = jax.device_put(jnp.arange(16.0).reshape(8, 2), rows)
    named = jax.jit(lambda a: (a @ a.T).sum(axis=0), out_shardings=rows)(x)
    print(len(jax.devices()), named.sharding.is_equivalent_to(rows, 1), named.tolist())
    chosen = jax.jit(lambda a: a.T @ a)(x)
    print(chosen.sharding.is_fully_replicated, chosen.tolist())
    total = shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec())
    print(jax.jit(total)(x).tolist())
    print(jax.pmap(lambda a: jax.lax.pmean(a, "i"), axis_name="i")(jnp.arange(4.0)).tolist())

    @jax.jit
    def inspected(a):
        jax.debug.inspect_array_sharding(a, callback=lambda s: print("inspected", s.is_equivalent_to(rows, 2)))
        return a * 2

    print(inspected(x).tolist())


if __name__ == "__main__":
    main()
