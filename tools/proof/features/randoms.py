# SPDX-License-Identifier: Apache-2.0
"""Random numbers: the same key gives the same numbers on every side."""

from feature import feature


@feature("uniform, normal, randint, bernoulli")
def common():
    import jax
    k = jax.random.split(jax.random.key(1), 4)
    return (jax.random.uniform(k[0], (9,)), jax.random.normal(k[1], (9,)), jax.random.randint(k[2], (9,), 0, 50),
            jax.random.bernoulli(k[3], 0.3, (9,)))


@feature("keys: split, fold_in, key_data, old keys")
def keys():
    import jax
    k = jax.random.key(7)
    return jax.random.split(k, 3), jax.random.fold_in(k, 5), jax.random.key_data(k), jax.random.PRNGKey(3)


@feature("generators rbg and unsafe_rbg")
def rbg():
    import jax
    return [jax.random.uniform(jax.random.key(2, impl=impl), (8,)) for impl in ("rbg", "unsafe_rbg")]


@feature("permutation, choice, categorical")
def discrete():
    import jax
    import jax.numpy as jnp
    k = jax.random.key(3)
    return (jax.random.permutation(k, 20), jax.random.choice(k, 30, (8,), replace=False),
            jax.random.categorical(k, jnp.arange(5.0), shape=(10,)))


@feature("gamma, beta, dirichlet, t, chisquare", tol=1e-3)
def gammas():
    import jax
    import jax.numpy as jnp
    k = jax.random.key(4)
    return (jax.random.gamma(k, 2.5, (6,)), jax.random.beta(k, 2.0, 3.0, (6,)), jax.random.dirichlet(k, jnp.ones(4)),
            jax.random.t(k, 3.0, (5,)), jax.random.chisquare(k, 4.0, shape=(5,)))


@feature("poisson, binomial, geometric")
def counts():
    import jax
    k = jax.random.key(5)
    return (jax.random.poisson(k, 4.0, (12,)), jax.random.binomial(k, 10.0, 0.4, (12,)),
            jax.random.geometric(k, 0.3, (12,)))


@feature("multivariate_normal", tol=1e-3)
def multivariate():
    import jax
    import jax.numpy as jnp
    cov = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    return jax.random.multivariate_normal(jax.random.key(6), jnp.zeros(2), cov, (5,))


@feature("orthogonal, ball, rademacher", tol=1e-3)
def orthogonal():
    import jax
    k = jax.random.key(8)
    q = jax.random.orthogonal(k, 5)
    return q @ q.T, jax.random.ball(k, 3, shape=(4,)), jax.random.rademacher(k, (7,))


@feature("initialisers: orthogonal, glorot, he, variance scaling", tol=1e-3)
def initialisers():
    import jax
    init, k = jax.nn.initializers, jax.random.key(9)
    q = init.orthogonal()(k, (6, 4))
    return q.T @ q, init.glorot_uniform()(k, (5, 4)), init.he_normal()(k, (4, 4)), init.lecun_normal()(k, (3, 3))


@feature("laplace, cauchy, gumbel, exponential, weibull, maxwell")
def tails():
    import jax
    k = jax.random.key(10)
    return (jax.random.laplace(k, (5,)), jax.random.cauchy(k, (5,)), jax.random.gumbel(k, (5,)),
            jax.random.exponential(k, (5,)), jax.random.weibull_min(k, 1.0, 2.0, (5,)), jax.random.maxwell(k, (5,)))


@feature("truncated_normal, wald, lognormal, triangular")
def shaped():
    import jax
    k = jax.random.key(11)
    return (jax.random.truncated_normal(k, -1.0, 2.0, (6,)), jax.random.wald(k, 2.0, (6,)),
            jax.random.lognormal(k, 0.5, (6,)), jax.random.triangular(k, 0.0, 0.3, 1.0, (6,)))
