# SPDX-License-Identifier: Apache-2.0
"""Prints shardings that are known only when a program is compiled, and what the programs compute."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("a", "b"))
x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("a", "b")))


def show(sharding):
    print("sharding:", sharding.shard_shape((8, 8)), len(sharding.device_set))


def inside(x):
    y = jnp.sin(x).T
    jax.debug.inspect_array_sharding(y, callback=show)
    return y @ x


def with_linalg(x):
    jax.debug.inspect_array_sharding(x + 1, callback=show)
    return jnp.linalg.cholesky(x @ x.T + 99999 * jnp.eye(8))


lowered = jax.jit(inside).lower(x)
for run in (lowered.compile(), lowered.compile(), jax.jit(with_linalg),
            jax.shard_map(inside, mesh=mesh, in_specs=P("a"), out_specs=P("a"))):
    print("sum:", round(float(jnp.sum(run(x))), 1))
jax.debug.visualize_array_sharding(x)
