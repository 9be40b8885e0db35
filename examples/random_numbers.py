# SPDX-License-Identifier: Apache-2.0
"""Draw from many distributions, with several generators and number types."""

import itertools

import jax
import jax.numpy as jnp
from jax import random

from common import arguments, finish

FLOATS = [jnp.float32, jnp.bfloat16, jnp.float16]
INTEGERS = [jnp.int8, jnp.uint16, jnp.int32, jnp.uint32]


def continuous(keys, shape):
    """Distributions over real numbers."""
    drawn = {
        "truncated_normal": random.truncated_normal(next(keys), -1, 2, shape),
        "exponential": random.exponential(next(keys), shape),
        "laplace": random.laplace(next(keys), shape),
        "logistic": random.logistic(next(keys), shape),
        "gumbel": random.gumbel(next(keys), shape),
        "cauchy": random.cauchy(next(keys), shape),
        "pareto": random.pareto(next(keys), 2.0, shape),
        "rayleigh": random.rayleigh(next(keys), 1.5, shape),
        "lognormal": random.lognormal(next(keys), 0.5, shape),
        "weibull_min": random.weibull_min(next(keys), 1.0, 2.0, shape),
        "triangular": random.triangular(next(keys), -1, 0, 2, shape),
    }
    for dtype in FLOATS:
        drawn[f"uniform_{dtype.__name__}"] = random.uniform(next(keys), shape, dtype, -1, 1)
        drawn[f"normal_{dtype.__name__}"] = random.normal(next(keys), shape, dtype)
    return drawn


def rejection(keys, shape):
    """Distributions drawn in loops that end when every element is accepted."""
    return {
        "gamma": random.gamma(next(keys), 0.7, shape),
        "poisson": random.poisson(next(keys), 3.5, shape),
        "binomial": random.binomial(next(keys), 20, 0.3, shape),
        "geometric": random.geometric(next(keys), 0.2, shape),
    }


def discrete(keys, shape):
    """Whole numbers, coins, choices and shuffles."""
    logits = jnp.log(jnp.arange(1.0, 9.0))
    weights = jnp.arange(1.0, 33.0)
    drawn = {
        "bits": random.bits(next(keys), shape),
        "bits_uint8": random.bits(next(keys), shape, jnp.uint8),
        "bernoulli": random.bernoulli(next(keys), 0.3, shape),
        "rademacher": random.rademacher(next(keys), shape, jnp.int8),
        "categorical": random.categorical(next(keys), logits, shape=shape),
        "permutation": random.permutation(next(keys), 100),
        "permuted_rows": random.permutation(next(keys), jnp.arange(60).reshape(20, 3)),
        "choice": random.choice(next(keys), 32, (10,), p=weights / weights.sum()),
        "choice_once": random.choice(next(keys), 32, (10,), replace=False),
    }
    for dtype in INTEGERS:
        drawn[f"randint_{dtype.__name__}"] = random.randint(next(keys), shape, 0, 100, dtype)
    return drawn


def main():
    args = arguments(__doc__, rows=64, columns=33)
    shape = (args.rows, args.columns)
    results = {}
    for generator in ("threefry2x32", "rbg"):
        root = random.key(args.seed, impl=generator)
        keys = (random.fold_in(root, i) for i in itertools.count())
        drawn = discrete(keys, shape)
        if generator == "threefry2x32":  # the other one differs in its bits only
            drawn |= continuous(keys, shape) | rejection(keys, shape)
        folded = random.fold_in(root, 42)
        drawn["folded"] = random.key_data(folded)
        drawn["many"] = jax.vmap(lambda k: random.normal(k, (3,)))(random.split(folded, 5))
        results[generator] = drawn
        print(f"{generator}: {len(drawn)} draws", flush=True)

    normal = results["threefry2x32"]["normal_float32"]
    print(f"mean of the normal draws: {normal.mean():.4f}, deviation {normal.std():.4f}")
    print(f"final loss: {jnp.abs(normal.mean()):.6f}")
    finish(results, args.out)


if __name__ == "__main__":
    main()
