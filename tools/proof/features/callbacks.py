# SPDX-License-Identifier: Apache-2.0
"""Calls from a compiled program back into Python."""

import contextlib
import io

from feature import feature
from features.arrays import ramp


def printed(act):
    """What it prints, after all effects."""
    import jax
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        act()
        jax.effects_barrier()
    return text.getvalue()


@feature("debug.print")
def debug_print():
    import jax

    @jax.jit
    def f(x):
        jax.debug.print("x = {x}, twice {y:.2f}", x=x, y=2.0 * x)
        return x

    return printed(lambda: f(1.5))


@feature("debug.print in a loop, ordered")
def debug_print_loop():
    import jax
    from jax import lax

    @jax.jit
    def f(x):
        def body(i, x):
            jax.debug.print("{i}: {x}", i=i, x=x, ordered=True)
            return x * 2
        return lax.fori_loop(0, 4, body, x)

    return printed(lambda: f(1)), f(1)


@feature("debug.callback under vmap and grad")
def debug_callback():
    import jax
    seen = []

    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x)
        return x ** 2

    out = jax.vmap(jax.jit(f))(ramp(3)), jax.grad(f)(2.0)
    jax.effects_barrier()
    return out, sorted(seen)


@feature("pure_callback")
def pure_callback():
    import jax
    import numpy as np

    @jax.jit
    def f(x):
        return jax.pure_callback(lambda v: np.sort(np.asarray(v)), jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    return f(ramp(9))


@feature("pure_callback of several results and types")
def pure_callback_many():
    import jax
    import jax.numpy as jnp
    import numpy as np
    shapes = (jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32),
              jax.ShapeDtypeStruct((2, 2), jnp.bool_))

    def host(a, b):
        a, b = np.asarray(a), np.asarray(b)
        return a[:3] + b, np.int32(a.size), np.array([[True, False], [b > 0, True]])

    return jax.jit(lambda a, b: jax.pure_callback(host, shapes, a, b))(ramp(5), jnp.float32(2))


@feature("pure_callback under vmap")
def pure_callback_vmap():
    import jax
    import numpy as np

    def f(x):
        return jax.pure_callback(lambda v: np.asarray(v) * 3, jax.ShapeDtypeStruct(x.shape, x.dtype), x,
                                 vmap_method="sequential")

    return jax.jit(jax.vmap(f))(ramp(4, 2))


@feature("pure_callback with a custom gradient")
def pure_callback_grad():
    import jax
    import numpy as np

    def on_host(function, x):
        return jax.pure_callback(lambda v: function(np.asarray(v)).astype(np.float32),
                                 jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    @jax.custom_jvp
    def sine(x):
        return on_host(np.sin, x)

    @sine.defjvp
    def sine_jvp(primals, tangents):
        return sine(*primals), on_host(np.cos, primals[0]) * tangents[0]

    return jax.jit(jax.grad(lambda x: sine(x) ** 2))(0.5), jax.jit(jax.value_and_grad(sine))(1.0)


@feature("io_callback, ordered")
def io_callback():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import io_callback
    log = []

    def host(x):
        log.append(int(x))
        return np.int32(len(log))

    @jax.jit
    def f(x):
        a = io_callback(host, jax.ShapeDtypeStruct((), jnp.int32), x, ordered=True)
        b = io_callback(host, jax.ShapeDtypeStruct((), jnp.int32), x + 1, ordered=True)
        return a, b

    out = f(10), f(20)
    jax.effects_barrier()
    return out, log


@feature("io_callback, unordered, in scan")
def io_callback_scan():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import io_callback

    def body(carry, x):
        y = io_callback(lambda v: np.float32(v * 2), jax.ShapeDtypeStruct((), jnp.float32), x)
        return carry + y, y

    return jax.jit(lambda xs: jax.lax.scan(body, jnp.float32(0), xs))(ramp(6))


@feature("an exception in a callback")
def exception():
    import jax
    import jax.numpy as jnp

    def host(x):
        raise ValueError("no such thing")

    try:
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(
            host, jax.ShapeDtypeStruct((), jnp.float32), x))(1.0))
        return {}
    except Exception as error:
        if "no such thing" not in str(error):
            raise
    return "raised", jax.jit(lambda x: x + 1)(1.0)


@feature("a callback that runs JAX itself")
def nested():
    import jax
    import jax.numpy as jnp
    import numpy as np
    inner = jax.jit(lambda x: jnp.sum(x * 2))

    def host(x):
        return np.asarray(inner(np.asarray(x)))

    return jax.jit(lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), x) + 1)(ramp(5))


@feature("a callback with a megabyte each way")
def large():
    import jax
    import jax.numpy as jnp
    import numpy as np
    x = jnp.arange(262144, dtype=jnp.float32)
    y = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v)[::-1].copy(), x, x))(x)
    return y[:5], jnp.sum(y == x[::-1])


@feature("callbacks from two threads")
def threads():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from concurrent.futures import ThreadPoolExecutor

    @jax.jit
    def f(x):
        return jax.pure_callback(lambda v: np.asarray(v) + 1, jax.ShapeDtypeStruct((), jnp.float32), x)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda i: float(f(jnp.float32(i))), range(8)))


@feature("checkify: a check that fails, and one that holds")
def checkify():
    import jax
    import jax.numpy as jnp
    from jax.experimental import checkify

    def f(x):
        checkify.check(x > 0, "must be positive: {x}", x=x)
        return jnp.log(x)

    checked = jax.jit(checkify.checkify(f))
    return checked(2.0)[1], str(checked(-1.0)[0].get()), str(checked(2.0)[0].get())


@feature("checkify: index, division and NaN checks")
def checkify_all():
    import jax
    import jax.numpy as jnp
    from jax.experimental import checkify
    errors = checkify.index_checks | checkify.float_checks
    f = jax.jit(checkify.checkify(lambda x, i: (x / (x[i] - x[i])), errors=errors))
    said = [f(jnp.arange(3.0), i)[0].get() for i in (1, 7)]
    return [str(s).splitlines()[0].split(" at ")[0] for s in said]


@feature("pure_callback with int4 arrays")
def tiny_types():
    import jax
    import jax.numpy as jnp
    import numpy as np
    x = jnp.arange(-4, 5).astype(jnp.int4)
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v)[::-1].copy(), x, x))
    return f(x).astype(jnp.int32)


@feature("debug_nans", alone=True)
def debug_nans():
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_debug_nans", True)
    try:
        jax.jit(jnp.log)(-1.0).block_until_ready()
        return "no error"
    except FloatingPointError:
        return "FloatingPointError"


@feature("equinox: error_if")
def error_if():
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def f(x):
        return eqx.error_if(x, x < 0, "negative") + 1

    try:
        jax.block_until_ready(f(-1.0))
    except Exception as error:
        if "negative" not in str(error):
            raise
        return f(1.0), "raised"


@feature("jax-tqdm: a progress bar in a scan")
def tqdm():
    import jax
    import jax.numpy as jnp
    from jax_tqdm import scan_tqdm

    @scan_tqdm(10)
    def body(carry, i):
        return carry + i, carry

    out = jax.jit(lambda: jax.lax.scan(body, 0, jnp.arange(10)))()
    jax.effects_barrier()
    return out
