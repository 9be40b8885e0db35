# SPDX-License-Identifier: Apache-2.0
"""Libraries for models, optimisers and checkpoints."""

import tempfile
from pathlib import Path

from feature import feature
from features.arrays import ramp


def train(params, apply, optimiser, steps=10):
    """A few steps of any optax optimiser on a small regression."""
    import jax
    import jax.numpy as jnp
    import optax
    x, y = jnp.asarray(ramp(32, 4)), jnp.sin(jnp.sum(jnp.asarray(ramp(32, 4)), 1))

    def loss_of(params):
        return jnp.mean((apply(params, x).squeeze(-1) - y) ** 2)

    @jax.jit
    def step(params, state):
        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = optimiser.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    state = optimiser.init(params)
    losses = []
    for _ in range(steps):
        params, state, loss = step(params, state)
        losses.append(float(loss))
    return params, losses


@feature("flax: linen MLP with dropout and batch norm")
def linen():
    import flax.linen as nn
    import jax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
            return nn.Dense(2)(nn.Dropout(0.5, deterministic=not train)(nn.relu(x)))

    net = Net()
    variables = net.init(jax.random.key(0), ramp(4, 3), False)
    return net.apply(variables, ramp(4, 3), True, mutable=["batch_stats"], rngs={"dropout": jax.random.key(1)})


@feature("flax: linen attention and layer norm")
def linen_attention():
    import flax.linen as nn
    import jax
    net = nn.Sequential([nn.LayerNorm(), nn.MultiHeadDotProductAttention(num_heads=2)])
    x = ramp(2, 5, 8)
    return net.apply(net.init(jax.random.key(0), x), x)


@feature("flax: linen LSTM with orthogonal initialisers", tol=1e-3)
def linen_lstm():
    import flax.linen as nn
    import jax
    net = nn.RNN(nn.LSTMCell(6))
    x = ramp(2, 7, 3)
    out = net.apply(net.init(jax.random.key(0), x), x)
    return out.shape, out


@feature("flax: nnx model and optimiser")
def nnx():
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx
    model = nnx.Linear(4, 1, rngs=nnx.Rngs(0))
    optimiser = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimiser, x, y):
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimiser.update(model, grads)
        return loss

    losses = [step(model, optimiser, ramp(8, 4), ramp(8, 1)) for _ in range(5)]
    return losses, jax.tree.leaves(nnx.state(model))


@feature("flax: serialisation to bytes")
def flax_bytes():
    import flax.serialization as fs
    import jax.numpy as jnp
    tree = {"w": jnp.asarray(ramp(3, 3)), "b": jnp.ones(2, jnp.bfloat16)}
    return fs.from_bytes(tree, fs.to_bytes(tree))


@feature("haiku: MLP and batch norm")
def haiku():
    import haiku as hk
    import jax

    def net(x):
        x = hk.nets.MLP([8, 4])(x)
        return hk.BatchNorm(True, True, 0.9)(x, is_training=True)

    f = hk.transform_with_state(net)
    params, state = f.init(jax.random.PRNGKey(0), ramp(5, 3))
    return f.apply(params, state, None, ramp(5, 3))


@feature("haiku: LSTM")
def haiku_lstm():
    import haiku as hk
    import jax

    def net(x):
        core = hk.LSTM(5)
        return hk.dynamic_unroll(core, x, core.initial_state(2))[0]

    f = hk.without_apply_rng(hk.transform(net))
    return f.apply(f.init(jax.random.PRNGKey(0), ramp(6, 2, 3)), ramp(6, 2, 3))


@feature("equinox: MLP, filter_jit, filter_grad")
def equinox():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    model = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(0))
    grads = eqx.filter_jit(eqx.filter_grad(lambda m, x: jnp.sum(jax.vmap(m)(x))))(model, ramp(5, 3))
    return jax.vmap(model)(ramp(5, 3)), [g for g in jax.tree.leaves(grads) if eqx.is_array(g)]


@feature("equinox: save and load leaves")
def equinox_files():
    import equinox as eqx
    import jax
    model = eqx.nn.Conv2d(1, 2, 3, key=jax.random.key(1))
    with tempfile.TemporaryDirectory() as folder:
        eqx.tree_serialise_leaves(Path(folder) / "m.eqx", model)
        other = eqx.tree_deserialise_leaves(Path(folder) / "m.eqx", model)
    return other(ramp(1, 6, 6))


@feature("optax: sgd, adamw, lion, adafactor with schedules and clipping", tol=1e-3)
def optax():
    import flax.linen as nn
    import jax
    import optax
    net = nn.Sequential([nn.Dense(6), nn.tanh, nn.Dense(1)])
    params = net.init(jax.random.key(0), ramp(1, 4))
    rate = optax.cosine_decay_schedule(0.05, 20)
    makers = (optax.sgd(rate, 0.9), optax.adamw(rate), optax.lion(0.01), optax.adafactor(0.05))
    return [train(params, net.apply, optax.chain(optax.clip_by_global_norm(1.0), m))[1] for m in makers]


@feature("optax: lbfgs with a line search", tol=1e-2)
def lbfgs():
    import jax
    import jax.numpy as jnp
    import optax

    def f(x):
        return jnp.sum((x - 1.0) ** 4 + 0.5 * x ** 2)

    solver = optax.lbfgs()
    x, value_and_grad = jnp.zeros(3), optax.value_and_grad_from_state(f)
    state = solver.init(x)

    @jax.jit
    def step(x, state):
        value, grad = value_and_grad(x, state=state)
        updates, state = solver.update(grad, state, x, value=value, grad=grad, value_fn=f)
        return optax.apply_updates(x, updates), state

    for _ in range(8):
        x, state = step(x, state)
    return x


@feature("optax: muon", tol=1e-2)
def muon():
    import flax.linen as nn
    import jax
    import optax
    net = nn.Sequential([nn.Dense(6), nn.tanh, nn.Dense(1)])
    return train(net.init(jax.random.key(0), ramp(1, 4)), net.apply, optax.contrib.muon(0.01))[1]


@feature("orbax: save and restore a tree")
def orbax():
    import jax.numpy as jnp
    import orbax.checkpoint as ocp
    tree = {"w": jnp.asarray(ramp(3, 4)), "step": 7, "b": jnp.ones(3, jnp.bfloat16)}
    with tempfile.TemporaryDirectory() as folder:
        with ocp.StandardCheckpointer() as saver:
            saver.save(Path(folder) / "one", tree)
            saver.wait_until_finished()
            return saver.restore(Path(folder) / "one", tree)


@feature("orbax: a manager, asynchronous, several steps")
def orbax_manager():
    import jax.numpy as jnp
    import orbax.checkpoint as ocp
    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        with ocp.CheckpointManager(folder, options=options) as manager:
            for i in range(4):
                manager.save(i, args=ocp.args.StandardSave({"x": jnp.arange(3.0) * i}))
            manager.wait_until_finished()
            last = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore({"x": jnp.zeros(3)}))
            return manager.all_steps(), last


@feature("orbax: restore into a sharding", devices=2)
def orbax_sharded():
    import jax
    import orbax.checkpoint as ocp
    from jax.sharding import NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(ramp(8), NamedSharding(mesh, P("x")))
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as saver:
        saver.save(Path(folder) / "one", {"x": x})
        saver.wait_until_finished()
        back = saver.restore(Path(folder) / "one", {"x": x})
        return back, len(back["x"].addressable_shards)


@feature("keras: dense layers, fit, predict", tol=1e-3)
def keras_dense():
    import keras
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    history = model.fit(ramp(32, 4), ramp(32, 1), epochs=2, batch_size=8, verbose=0)
    return history.history["loss"], model.predict(ramp(3, 4), verbose=0)


@feature("keras: convolutions, pooling, batch norm, dropout", tol=1e-3)
def keras_conv():
    import keras
    keras.utils.set_random_seed(2)
    layers = keras.layers
    model = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(),
                              layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.2),
                              layers.Dense(3, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return list(model.train_on_batch(ramp(16, 8, 8, 1), ramp(16).argsort() % 3))


@feature("keras: LSTM and GRU", tol=1e-3)
def keras_lstm():
    import keras
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6, 3)), keras.layers.LSTM(5, return_sequences=True), keras.layers.GRU(4)])
    return model(ramp(2, 6, 3))


@feature("keras: attention and embedding", tol=1e-3)
def keras_attention():
    import keras
    import numpy as np
    keras.utils.set_random_seed(4)
    inputs = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(10, 8)(inputs)
    x = keras.layers.MultiHeadAttention(2, 4)(x, x)
    return keras.Model(inputs, x)(np.arange(10).reshape(2, 5))


@feature("keras: save and load a model", tol=1e-3)
def keras_files():
    import keras
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.keras")
        return keras.models.load_model(Path(folder) / "m.keras")(ramp(2, 3))


@feature("chex: asserts and dataclasses")
def chex():
    import chex
    import jax
    import jax.numpy as jnp

    @chex.dataclass
    class State:
        x: chex.Array
        n: int

    chex.assert_shape(jnp.ones((2, 3)), (2, 3))
    return jax.jit(lambda s: State(x=s.x * 2, n=s.n + 1))(State(x=jnp.ones(3), n=1)).x


@feature("jaxopt: LBFGS and projected gradient", tol=1e-2)
def jaxopt():
    import jax.numpy as jnp
    import jaxopt

    def f(x):
        return jnp.sum((x - 2.0) ** 2) + jnp.sum(x ** 4) * 0.1

    box = jaxopt.ProjectedGradient(f, jaxopt.projection.projection_box, maxiter=50)
    return jaxopt.LBFGS(f, maxiter=20).run(jnp.zeros(3)).params, box.run(
        jnp.zeros(3), hyperparams_proj=(-0.5, 0.5)).params


@feature("optimistix: Newton and least squares", tol=1e-2)
def optimistix():
    import jax.numpy as jnp
    import optimistix as optx
    root = optx.root_find(lambda y, _: y ** 2 - 2.0, optx.Newton(1e-4, 1e-4), jnp.float32(1))
    fit = optx.least_squares(lambda y, _: y - jnp.arange(3.0), optx.LevenbergMarquardt(1e-4, 1e-4), jnp.zeros(3))
    return root.value, fit.value


@feature("lineax: linear solves", tol=1e-2)
def lineax():
    import jax.numpy as jnp
    import lineax as lx
    from features.linalg import square
    operator = lx.MatrixLinearOperator(jnp.asarray(square(5)))
    return [lx.linear_solve(operator, jnp.asarray(ramp(5)), solver).value
            for solver in (lx.LU(), lx.QR(), lx.SVD(), lx.GMRES(1e-4, 1e-4))]
