# SPDX-License-Identifier: Apache-2.0
"""Transformations of functions, control flow, custom rules, kernels."""

from feature import feature
from features.arrays import ramp


@feature("grad, value_and_grad, jacobian, hessian")
def derivatives():
    import jax
    import jax.numpy as jnp

    def f(x):
        return jnp.sum(jnp.sin(x) * x ** 2)

    x = ramp(4)
    return jax.value_and_grad(f)(x), jax.hessian(f)(x), jax.jacfwd(jnp.tanh)(x), jax.jacrev(jnp.exp)(x)


@feature("jvp, vjp, linearize")
def products():
    import jax
    import jax.numpy as jnp
    x, t = ramp(5), ramp(5)[::-1].copy()
    y, back = jax.vjp(jnp.sin, x)
    _, tangent = jax.linearize(jnp.cos, x)
    return jax.jvp(jnp.exp, (x,), (t,)), back(y), tangent(t)


@feature("vmap: in_axes, nested, pytrees")
def vmap():
    import jax
    import jax.numpy as jnp
    return (jax.vmap(jnp.dot, (0, None))(ramp(3, 4), ramp(4)), jax.vmap(jax.vmap(lambda a: a * 2))(ramp(2, 3)),
            jax.vmap(lambda d: d["a"] + d["b"].sum())({"a": ramp(3), "b": ramp(3, 2)}))


@feature("scan, fori_loop, while_loop, cond, switch")
def control_flow():
    import jax
    import jax.numpy as jnp
    from jax import lax

    @jax.jit
    def f(x):
        a = lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x)
        b = lax.while_loop(lambda s: s[0] < 40, lambda s: (s[0] * 1.5, s[1] + 1), (1.0, 0))
        c = lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)
        return a, b, c, lax.switch(jnp.int32(2), [jnp.sin, jnp.cos, jnp.tanh], x), lax.fori_loop(
            0, 5, lambda i, v: v + i, 0)

    return f(jnp.asarray(ramp(6)))


@feature("associative_scan and map")
def associative():
    import jax
    import jax.numpy as jnp
    return jax.lax.associative_scan(jnp.multiply, ramp(9)), jax.lax.map(jnp.exp, ramp(5), batch_size=2)


@feature("custom_vjp")
def custom_vjp():
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * 2 * x,))
    return jax.jit(jax.grad(f))(0.7), jax.vmap(jax.grad(f))(ramp(3))


@feature("custom_jvp")
def custom_jvp():
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def f(x):
        return jnp.log1p(jnp.exp(x))

    f.defjvps(lambda t, out, x: t * jax.nn.sigmoid(x))
    return jax.grad(f)(100.0), jax.jvp(f, (1.0,), (2.0,))


@feature("checkpoint (remat) with a policy")
def remat():
    import jax
    import jax.numpy as jnp
    f = jax.checkpoint(lambda x: jnp.sin(jnp.dot(x, x)), policy=jax.checkpoint_policies.dots_saveable)
    return jax.jit(jax.grad(lambda x: jnp.sum(f(x))))(ramp(6, 6))


@feature("custom_root and custom_linear_solve")
def roots():
    import jax
    import jax.numpy as jnp
    from jax import lax

    def root(a):
        def solve(f, x):
            return lax.fori_loop(0, 40, lambda _, x: x - f(x) / jax.grad(f)(x), x)
        return lax.custom_root(lambda x: x ** 2 - a, jnp.float32(1), solve, lambda g, y: y / g(1.0))

    return jax.value_and_grad(root)(3.0)


@feature("mutable arrays (new_ref)")
def refs():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def f(x):
        ref = jax.new_ref(x)
        ref[1] = 5.0
        ref[...] += 1.0
        return jax.freeze(ref) if hasattr(jax, "freeze") else ref[...]

    return f(jnp.asarray(ramp(4)))


@feature("jet: Taylor series")
def jet():
    import jax.numpy as jnp
    from jax.experimental.jet import jet
    return jet(jnp.sin, (0.5,), ((1.0, 0.0, 0.0),))


@feature("odeint, and its gradient", tol=1e-3)
def ode():
    import jax
    import jax.numpy as jnp
    from jax.experimental.ode import odeint
    ts = jnp.linspace(0.0, 2.0, 5)

    def last(k):
        return odeint(lambda y, t, k: -k * y + jnp.sin(t), jnp.float32(1), ts, k)[-1]

    return odeint(lambda y, t: -y, jnp.float32(1), ts), jax.grad(last)(0.8)


@feature("pallas in interpret mode")
def pallas():
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    def kernel(x_ref, y_ref, out_ref):
        out_ref[...] = x_ref[...] * 2 + y_ref[...]

    x = jnp.asarray(ramp(16, 8))
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, x + 1)


@feature("pallas in interpret mode, with a grid")
def pallas_grid():
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    def kernel(x_ref, y_ref, out_ref):
        out_ref[...] = x_ref[...] @ y_ref[...]

    x, y = jnp.asarray(ramp(32, 16)), jnp.asarray(ramp(16, 32))
    return pl.pallas_call(
        kernel, grid=(2, 2), out_shape=jax.ShapeDtypeStruct((32, 32), jnp.float32), interpret=True,
        in_specs=[pl.BlockSpec((16, 16), lambda i, j: (i, 0)), pl.BlockSpec((16, 16), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((16, 16), lambda i, j: (i, j)))(x, y)


@feature("nn: softmax, gelu, one_hot, logsumexp")
def activations():
    import jax
    x = ramp(3, 7)
    return jax.nn.softmax(x), jax.nn.gelu(x), jax.nn.one_hot([1, 4], 6), jax.nn.logsumexp(x, axis=1), jax.nn.silu(x)


@feature("nn: dot_product_attention, causal")
def attention():
    import jax
    q, k, v = ramp(1, 6, 2, 4), ramp(1, 6, 2, 4)[:, ::-1].copy(), ramp(1, 6, 2, 4) + 1
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@feature("jit: static arguments, pytrees, closures, errors of shape")
def jit():
    import functools
    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, static_argnames="n")
    def f(tree, n):
        return {k: v * n for k, v in tree.items()}

    try:
        jnp.dot(jnp.ones(3), jnp.ones(4))
        said = "no error"
    except TypeError as error:
        said = str(error).splitlines()[0]
    return f({"a": ramp(3), "b": 2.0}, n=3), said


@feature("named scopes, make_jaxpr, eval_shape")
def tracing():
    import jax
    import jax.numpy as jnp
    with jax.named_scope("part"):
        y = jax.jit(lambda x: jnp.sin(x) + 1)(ramp(3))
    return y, str(jax.make_jaxpr(lambda x: x * 2 + 1)(1.0)), str(jax.eval_shape(jnp.dot, ramp(3, 4), ramp(4, 2)))
