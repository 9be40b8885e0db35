# SPDX-License-Identifier: Apache-2.0
"""jax.scipy."""

from feature import feature
from features.arrays import ramp


@feature("special: gamma, beta, erf, bessel, zeta", tol=1e-3)
def special():
    import jax.scipy.special as s
    import numpy as np
    x = np.linspace(0.3, 4, 7, dtype=np.float32)
    return (s.gammaln(x), s.betaln(x, 2.0), s.erf(x), s.erfinv(x / 5), s.i0(x), s.zeta(x + 1, 1.5), s.digamma(x),
            s.expit(x), s.xlogy(x, x), s.gammainc(x, 1.5))


@feature("special: logsumexp, softmax, entr, spherical harmonics", tol=1e-3)
def special_more():
    import jax.scipy.special as s
    x = ramp(6)
    return s.logsumexp(x), s.softmax(x), s.entr(abs(x)), s.lpmn_values(3, 3, abs(x) / 2, True), s.polygamma(
        1, abs(x) + 1)


@feature("stats: densities", tol=1e-3)
def densities():
    import jax.numpy as jnp
    import jax.scipy.stats as st
    x = ramp(5) / 2 + 0.6
    return (st.norm.logpdf(x), st.gamma.logpdf(x, 2.0), st.beta.pdf(x / 3, 2.0, 3.0), st.t.logpdf(x, 4.0),
            st.poisson.logpmf(jnp.array([0, 2, 5]), 3.0), st.laplace.cdf(x), st.dirichlet.logpdf(
                jnp.array([0.2, 0.3, 0.5]), jnp.array([1.0, 2.0, 3.0])))


@feature("stats: multivariate_normal, gaussian_kde", tol=1e-3)
def multivariate():
    import jax.numpy as jnp
    import jax.scipy.stats as st
    cov = jnp.array([[2.0, 0.3], [0.3, 1.0]])
    return (st.multivariate_normal.logpdf(ramp(4, 2), jnp.zeros(2), cov), st.gaussian_kde(ramp(30))(ramp(5)))


@feature("stats: mode, rankdata, sem")
def descriptive():
    import jax.numpy as jnp
    import jax.scipy.stats as st
    x = jnp.round(ramp(20) * 4)
    return st.mode(x), st.rankdata(x), st.sem(x)


@feature("optimize: minimize with BFGS", tol=1e-2)
def bfgs():
    import jax.numpy as jnp
    from jax.scipy.optimize import minimize
    result = minimize(lambda x: jnp.sum((x - 1.0) ** 2) + jnp.sum(x[1:] * x[:-1]) * 0.1, jnp.zeros(4), method="BFGS")
    return result.x, result.success


@feature("signal: convolve2d, detrend, stft, welch", tol=1e-3)
def signal():
    import jax.numpy as jnp
    import jax.scipy.signal as sg
    x = jnp.asarray(ramp(64))
    _, _, z = sg.stft(x, nperseg=16)
    return sg.convolve2d(ramp(6, 6), ramp(3, 3)), sg.detrend(x), jnp.abs(z), sg.welch(x, nperseg=16)[1]


@feature("interpolate, integrate, cluster, fft.dct", tol=1e-3)
def others():
    import jax.numpy as jnp
    import jax.scipy as js
    grid = (jnp.linspace(0, 1, 5), jnp.linspace(0, 1, 4))
    f = js.interpolate.RegularGridInterpolator(grid, ramp(5, 4))
    return (f(abs(ramp(6, 2))), js.integrate.trapezoid(ramp(9)), js.cluster.vq.vq(ramp(7, 2), ramp(3, 2)),
            js.fft.dct(ramp(8)))


@feature("spatial: rotations", tol=1e-3)
def rotations():
    import jax.numpy as jnp
    from jax.scipy.spatial.transform import Rotation
    r = Rotation.from_rotvec(jnp.asarray(ramp(3)))
    return r.as_matrix(), r.apply(jnp.asarray(ramp(3))), (r * r.inv()).as_quat()
