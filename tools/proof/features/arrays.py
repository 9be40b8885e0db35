# SPDX-License-Identifier: Apache-2.0
"""Arrays: arithmetic, types, shapes, Fourier transforms, sparse ones."""

from feature import feature


def ramp(*shape, dtype="float32"):
    """Numbers between -1 and 1 without a pattern."""
    import numpy as np
    return np.sin(np.arange(np.prod(shape)) * 1.7 + 0.3).reshape(shape).astype(dtype)


@feature("matmul and einsum")
def matmul():
    import jax.numpy as jnp
    a, b = ramp(16, 24), ramp(24, 8)
    return jnp.dot(a, b), jnp.einsum("ij,jk,kl->il", a, b, ramp(8, 4))


@feature("convolution")
def convolution():
    from jax import lax
    return lax.conv_general_dilated(ramp(2, 3, 12, 12), ramp(4, 3, 3, 3), (1, 2), "SAME")


@feature("sort, argsort, unique, searchsorted")
def sorting():
    import jax.numpy as jnp
    x = ramp(64)
    return jnp.sort(x), jnp.argsort(x), jnp.unique(jnp.round(x, 1)), jnp.searchsorted(jnp.sort(x), 0.25)


@feature("top_k and approx_max_k")
def top_k():
    from jax import lax
    return lax.top_k(ramp(4, 50), 5), lax.approx_max_k(ramp(4, 50), 5)


@feature("gather and scatter")
def scatter():
    import jax.numpy as jnp
    x = jnp.zeros((10, 3)).at[jnp.array([1, 4, 4])].add(ramp(3, 3))
    return x, jnp.take(x, jnp.array([4, 0]), axis=0), x.at[2, 1].multiply(3.0)


@feature("reductions and scans")
def reductions():
    import jax.numpy as jnp
    x = ramp(6, 7)
    return jnp.cumsum(x, 0), jnp.cumprod(x, 1), jnp.var(x), jnp.median(x), jnp.quantile(x, 0.3), jnp.nanmax(x)


@feature("bfloat16 and float16")
def halves():
    import jax.numpy as jnp
    x = jnp.asarray(ramp(32, 32))
    return x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), jnp.tanh(x.astype(jnp.float16))


@feature("float8 and int4")
def tiny_types():
    import jax.numpy as jnp
    x = jnp.asarray(ramp(40)) * 6
    return (x.astype(jnp.float8_e4m3fn).astype(jnp.float32), x.astype(jnp.float8_e5m2).astype(jnp.float32),
            x.astype(jnp.int4).astype(jnp.int32))


@feature("complex numbers")
def complexes():
    import jax.numpy as jnp
    z = jnp.asarray(ramp(12) + 1j * ramp(12)[::-1])
    return jnp.exp(z), jnp.angle(z), jnp.sqrt(z), z @ z.conj()


@feature("64-bit types", alone=True, tol=1e-12)
def wide_types():
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    x = jnp.asarray(ramp(50, dtype="float64"))
    return jnp.sum(jnp.exp(x)), jnp.arange(5, dtype=jnp.int64) << 40, jnp.fft.fft(x)


@feature("integer arithmetic and bits")
def integers():
    import jax.numpy as jnp
    from jax import lax
    x = jnp.arange(-8, 8)
    return x // 3, x % 3, x ^ 5, lax.population_count(x), jnp.bitwise_count(x), lax.clz(jnp.abs(x))


@feature("fft, rfft, fftn")
def fft():
    import jax.numpy as jnp
    x = ramp(4, 16)
    return jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fftn(x), jnp.fft.fftshift(x)


@feature("empty and zero-dimensional arrays")
def empties():
    import jax.numpy as jnp
    return jnp.zeros((0, 3)) @ jnp.zeros((3, 2)), jnp.sum(jnp.zeros((0,))), jnp.float32(3) * 2


@feature("image resize and map_coordinates")
def images():
    import jax
    from jax.scipy.ndimage import map_coordinates
    x = ramp(8, 8)
    return jax.image.resize(x, (13, 5), "bicubic"), map_coordinates(x, [ramp(5) * 4 + 4, ramp(5) * 3 + 3], 1)


@feature("polynomials and interpolation")
def polynomials():
    import jax.numpy as jnp
    return jnp.polyval(ramp(5), ramp(9)), jnp.interp(ramp(7), jnp.linspace(-1, 1, 11), ramp(11)), jnp.convolve(
        ramp(5), ramp(7))


@feature("segment_sum")
def segments():
    import jax
    import numpy as np
    return jax.ops.segment_sum(ramp(12, 2), np.arange(12) % 4, 4), jax.ops.segment_max(ramp(12), np.arange(12) % 5, 5)


@feature("dynamic slices and padding")
def slices():
    import jax.numpy as jnp
    from jax import lax
    x = jnp.asarray(ramp(9, 9))
    return (lax.dynamic_slice(x, (2, 3), (4, 4)), lax.dynamic_update_slice(x, jnp.ones((2, 2)), (7, 7)),
            lax.pad(x, 0.5, [(1, 2, 1), (0, -1, 0)]))


@feature("windows and pooling")
def windows():
    import flax.linen as nn
    from jax import lax
    x = ramp(1, 8, 8, 2)
    return nn.max_pool(x, (2, 2), (2, 2)), nn.avg_pool(x, (3, 3)), lax.cumlogsumexp(ramp(9))


@feature("sparse: BCOO")
def bcoo():
    import jax
    import jax.numpy as jnp
    from jax.experimental import sparse
    dense = jnp.where(jnp.abs(ramp(10, 10)) > 0.7, ramp(10, 10), 0)
    m = sparse.BCOO.fromdense(dense)
    return m @ ramp(10, 3), jax.jit(lambda m: (m.T @ m).todense())(m), m.indices


@feature("sparse: BCSR, and grad through a product")
def bcsr():
    import jax
    import jax.numpy as jnp
    from jax.experimental import sparse
    dense = jnp.where(jnp.abs(ramp(8, 8)) > 0.6, ramp(8, 8), 0)
    m = sparse.BCSR.fromdense(dense)
    coo = sparse.BCOO.fromdense(dense)
    return m @ ramp(8), sparse.grad(lambda c: jnp.sum((c @ ramp(8)) ** 2))(coo).data


@feature("sparse: sparsify a function")
def sparsify():
    import jax.numpy as jnp
    from jax.experimental import sparse
    m = sparse.BCOO.fromdense(jnp.eye(6) * ramp(6))
    return sparse.sparsify(lambda m, v: jnp.sum(m @ v) * 2)(m, jnp.asarray(ramp(6)))


@feature("numpy functions of a script: histogram, cov, tril, roll, where")
def numpy_mix():
    import jax.numpy as jnp
    x = jnp.asarray(ramp(5, 20))
    return (jnp.histogram(x, 7), jnp.cov(x), jnp.tril(x), jnp.roll(x, 3, 1), jnp.where(x > 0, size=40)[0],
            jnp.corrcoef(x))
