# SPDX-License-Identifier: Apache-2.0
"""Probability and differential equations."""

from feature import feature
from features.arrays import ramp


@feature("numpyro: distributions and their densities", tol=1e-3)
def distributions():
    import jax
    import numpyro.distributions as dist
    k = jax.random.key(0)
    made = (dist.Normal(0, 1), dist.Gamma(2.0, 1.0), dist.Beta(2.0, 3.0), dist.StudentT(4.0), dist.Poisson(3.0))
    return [(d.sample(k, (4,)), d.log_prob(d.sample(k, (4,)))) for d in made]


@feature("numpyro: MultivariateNormal and LKJ", tol=1e-3)
def multivariate():
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    d = dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3) + 0.2)
    lkj = dist.LKJCholesky(3, 2.0)
    return d.log_prob(ramp(5, 3)), d.sample(jax.random.key(1), (2,)), lkj.log_prob(lkj.sample(jax.random.key(2)))


def regression(x, y=None):
    import numpyro
    import numpyro.distributions as dist
    w = numpyro.sample("w", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x * w + b, 0.5), obs=y)


@feature("numpyro: NUTS", tol=0.3)
def nuts():
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS
    mcmc = MCMC(NUTS(regression), num_warmup=100, num_samples=100, progress_bar=False)
    mcmc.run(jax.random.key(0), ramp(40), 2 * ramp(40) + 0.5)
    return {k: jnp.mean(v) for k, v in mcmc.get_samples().items()}


@feature("numpyro: NUTS with a progress bar", tol=0.3)
def nuts_bar():
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS
    mcmc = MCMC(NUTS(regression), num_warmup=20, num_samples=20, progress_bar=True)
    mcmc.run(jax.random.key(0), ramp(40), 2 * ramp(40) + 0.5)
    return jnp.isfinite(mcmc.get_samples()["w"]).all()


@feature("numpyro: SVI with an automatic guide", tol=1e-2)
def svi():
    import jax
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal
    guide = AutoNormal(regression)
    made = SVI(regression, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    result = made.run(jax.random.key(0), 50, ramp(20), 2 * ramp(20), progress_bar=False)
    return result.losses[:10]


@feature("numpyro: AutoMultivariateNormal", tol=1e-2)
def svi_multivariate():
    import jax
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal
    made = SVI(regression, AutoMultivariateNormal(regression), numpyro.optim.Adam(0.05), Trace_ELBO())
    return made.run(jax.random.key(0), 30, ramp(20), 2 * ramp(20), progress_bar=False).losses[:5]


@feature("blackjax: HMC", tol=1e-2)
def blackjax():
    import blackjax
    import jax
    import jax.numpy as jnp
    sampler = blackjax.hmc(lambda x: -0.5 * jnp.sum(x ** 2), 0.1, jnp.ones(2), 10)
    state = sampler.init(jnp.ones(2))
    step = jax.jit(sampler.step)
    for i in range(5):
        state, _ = step(jax.random.key(i), state)
    return state.position


@feature("distrax: distributions and bijectors", tol=1e-3)
def distrax():
    import distrax
    import jax
    d = distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Tanh())
    mixed = distrax.Categorical(logits=ramp(4))
    return d.sample(seed=jax.random.PRNGKey(0), sample_shape=(3,)), mixed.entropy(), mixed.sample(
        seed=jax.random.PRNGKey(1), sample_shape=(5,))


@feature("tensorflow probability on JAX", tol=1e-3)
def tfp():
    import jax
    from tensorflow_probability.substrates import jax as tfp
    d = tfp.distributions.Normal(0.0, 1.0)
    return d.log_prob(ramp(4)), d.sample(3, seed=jax.random.PRNGKey(0))


@feature("diffrax: an explicit solver", tol=1e-3)
def explicit():
    import diffrax
    import jax.numpy as jnp
    term = diffrax.ODETerm(lambda t, y, args: -y + jnp.sin(t))
    out = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0, 2, 0.1, jnp.ones(2),
                              saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 5)),
                              stepsize_controller=diffrax.PIDController(1e-4, 1e-4))
    return out.ys


@feature("diffrax: an implicit solver", tol=1e-3)
def implicit():
    import diffrax
    import jax.numpy as jnp
    term = diffrax.ODETerm(lambda t, y, args: jnp.array([-20 * y[0] + y[1], -y[1]]))
    out = diffrax.diffeqsolve(term, diffrax.Kvaerno3(), 0, 1, 0.01, jnp.ones(2),
                              stepsize_controller=diffrax.PIDController(1e-4, 1e-5))
    return out.ys


@feature("diffrax: gradients through a solver", tol=1e-2)
def gradients():
    import diffrax
    import jax
    import jax.numpy as jnp

    def last(k):
        term = diffrax.ODETerm(lambda t, y, args: -args * y)
        return diffrax.diffeqsolve(term, diffrax.Dopri5(), 0, 1, 0.1, jnp.float32(1), args=k).ys[0]

    return jax.value_and_grad(last)(0.7)


@feature("diffrax: a stochastic equation", tol=1e-3)
def stochastic():
    import diffrax
    import jax
    import jax.numpy as jnp
    noise = diffrax.VirtualBrownianTree(0, 1, tol=1e-2, shape=(), key=jax.random.key(0))
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.1, noise))
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0, 1, 0.05, jnp.float32(1)).ys
