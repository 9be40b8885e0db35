# SPDX-License-Identifier: Apache-2.0
"""Double precision: fit a curve by conjugate gradients, and integrate planets for a while."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jax import lax

from common import arguments, finish


@jax.jit
def conjugate_gradients(matrix, b):
    """Solve matrix @ x = b for a symmetric positive matrix."""
    def body(state):
        x, r, p, rr, i = state
        product = matrix @ p
        alpha = rr / (p @ product)
        x, r = x + alpha * p, r - alpha * product
        new = r @ r
        return x, r, r + new / rr * p, new, i + 1

    start = (jnp.zeros_like(b), b, b, b @ b, 0)
    return lax.while_loop(lambda s: (s[3] > 1e-26) & (s[4] < 1000), body, start)


def acceleration(place, mass):
    apart = place[None] - place[:, None]
    distance = jnp.sqrt((apart**2).sum(-1) + 1e-9)
    return (mass[None, :, None] * apart / distance[..., None] ** 3).sum(1)


def energy(place, speed, mass):
    apart = jnp.sqrt(((place[None] - place[:, None]) ** 2).sum(-1) + 1e-9)
    pull = jnp.triu(mass[None] * mass[:, None] / apart, 1).sum()
    return 0.5 * (mass * (speed**2).sum(-1)).sum() - pull


@jax.jit
def leapfrog(place, speed, mass, dt):
    def body(state, _):
        place, speed = state
        speed = speed + dt / 2 * acceleration(place, mass)
        place = place + dt * speed
        speed = speed + dt / 2 * acceleration(place, mass)
        return (place, speed), energy(place, speed, mass)

    return lax.scan(body, (place, speed), None, length=1000)


def main():
    args = arguments(__doc__, n=200, rounds=10)
    rng = np.random.default_rng(args.seed)

    a = rng.normal(size=(args.n, args.n))
    matrix, b = jnp.asarray(a @ a.T / args.n + np.eye(args.n)), jnp.asarray(rng.normal(size=args.n))
    x, r, _, _, steps = conjugate_gradients(matrix, b)
    assert x.dtype == jnp.float64 and steps.dtype == jnp.int64
    print(f"conjugate gradients: {steps} steps, residual {jnp.abs(matrix @ x - b).max():.1e}")

    place = jnp.asarray([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    speed = jnp.asarray([[0.0, 0.0], [0.0, 1.0], [-(0.5**0.5), 0.0], [0.0, -(3**-0.5)]])
    mass = jnp.asarray([1.0, 1e-3, 2e-3, 1e-3])
    start = energy(place, speed, mass)
    for i in range(args.rounds):
        (place, speed), energies = leapfrog(place, speed, mass, 1e-3)
        print(f"round {i:3d}  energy {energies[-1]:.12f}", flush=True)
    drift = jnp.abs(energies[-1] / start - 1)

    wide = {
        "int64": jnp.arange(5) * 10**15,
        "uint64": jnp.uint64(2**63) + jnp.arange(3, dtype=jnp.uint64),
        "complex128": jnp.fft.fft(jnp.sin(jnp.arange(64.0))),
        "float64": jax.random.normal(jax.random.key(args.seed), (100,)),
        "bits": jax.random.bits(jax.random.key(args.seed), (100,), jnp.uint64),
    }
    assert all(str(v.dtype) == name for name, v in wide.items() if name != "bits")
    print(f"final loss: {drift:.3e}")
    finish({"x": x, "r": r, "place": place, "speed": speed, "energies": energies, "wide": wide},
           args.out)


if __name__ == "__main__":
    main()
