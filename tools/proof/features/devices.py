# SPDX-License-Identifier: Apache-2.0
"""Several devices in one program."""

from feature import feature
from features.arrays import ramp


def mesh(*shape, names=("x", "y")):
    import jax
    return jax.make_mesh(shape, names[:len(shape)], axis_types=(jax.sharding.AxisType.Auto,) * len(shape))


@feature("devices: as many as asked for", devices=4)
def count():
    import jax
    return jax.device_count(), len(jax.local_devices()), [d.id for d in jax.devices()]


@feature("NamedSharding: a sharded matmul", devices=4)
def named_sharding():
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    m = mesh(2, 2)
    a = jax.device_put(ramp(8, 8), NamedSharding(m, P("x", "y")))
    b = jax.device_put(ramp(8, 8), NamedSharding(m, P("y", None)))
    c = jax.jit(lambda a, b: a @ b)(a, b)
    return c, len(a.addressable_shards), [s.data for s in a.addressable_shards]


@feature("pmap with psum", devices=4)
def pmap():
    import jax
    return jax.pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(ramp(4, 3) + 2)


@feature("shard_map: psum, all_gather, ppermute, all_to_all", devices=4)
def shard_map():
    import jax
    from jax.sharding import PartitionSpec as P
    m = mesh(4)

    def f(x):
        near = jax.lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)])
        return x + jax.lax.psum(x, "x") + near, jax.lax.all_gather(x, "x").reshape(1, -1), jax.lax.all_to_all(
            x.reshape(4, -1), "x", 0, 0).reshape(x.shape)

    return jax.jit(jax.shard_map(f, mesh=m, in_specs=P("x"), out_specs=(P("x"), P("x"), P("x"))))(ramp(16))


@feature("shard_map: reduce_scatter and pmean", devices=4)
def reduce_scatter():
    import jax
    from jax.sharding import PartitionSpec as P

    def f(x):
        return jax.lax.psum_scatter(x, "x", tiled=True), jax.lax.pmean(x, "x")

    return jax.jit(jax.shard_map(f, mesh=mesh(4), in_specs=P("x"), out_specs=(P("x"), P())))(ramp(16))


@feature("data-parallel training step", devices=4)
def data_parallel():
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
    m = mesh(4)
    x = jax.device_put(ramp(16, 5), NamedSharding(m, P("x")))
    y = jax.device_put(ramp(16), NamedSharding(m, P("x")))
    w = jax.device_put(jnp.zeros(5), NamedSharding(m, P()))

    @jax.jit
    def step(w):
        return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)

    for _ in range(10):
        w = step(w)
    return w


@feature("with_sharding_constraint and donation", devices=4)
def constraint():
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    m = mesh(2, 2)
    spec = NamedSharding(m, P("x", "y"))

    def f(x):
        return jax.lax.with_sharding_constraint(x * 2, spec) + 1

    x = jax.device_put(ramp(4, 4), spec)
    return jax.jit(f, donate_argnums=0)(x)


@feature("make_array_from_callback, single-device arrays", devices=4)
def assembled():
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    spec = NamedSharding(mesh(4), P("x"))
    whole = ramp(8)
    a = jax.make_array_from_callback((8,), spec, lambda index: whole[index])
    parts = [jax.device_put(whole[2 * i:2 * i + 2], d) for i, d in enumerate(jax.devices())]
    return a, jax.make_array_from_single_device_arrays((8,), spec, parts) * 2


@feature("copy between devices, and computing on the second", devices=2)
def second_device():
    import jax
    one = jax.devices()[1]
    x = jax.device_put(ramp(6), one)
    y = jax.jit(lambda x: x * 2)(x)
    return y, [d.id for d in y.devices()], jax.device_put(y, jax.devices()[0]) + 1


@feature("sharding in types: explicit mesh", devices=4)
def explicit():
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P
    m = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(m):
        a = jax.device_put(ramp(4, 4), P("x", "y"))
        b = jnp.sin(a) + a.T.reshape(4, 4, out_sharding=P("x", "y"))
        return b, str(b.sharding.spec)


@feature("flax: a model with sharded parameters", devices=4)
def sharded_model():
    import flax.linen as nn
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P
    m = mesh(2, 2)
    model = nn.Dense(8)
    params = model.init(jax.random.key(0), ramp(4, 6))
    spec = {"params": {"kernel": NamedSharding(m, P(None, "y")), "bias": NamedSharding(m, P("y"))}}
    params = jax.device_put(params, spec)
    return jax.jit(model.apply)(params, jax.device_put(ramp(4, 6), NamedSharding(m, P("x"))))
