# SPDX-License-Identifier: Apache-2.0
"""Train a Gaussian process on noisy samples (linear algebra, optax), report from inside of the step, save checkpoints
with orbax, and go on from the last one.

The output has few digits, so that it is the same on every build of XLA.
"""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

from common import arguments


def kernel(params, a, b):
    distance = (a[:, None] - b[None, :]) / jnp.exp(params["length"])
    return jnp.exp(params["height"] - distance ** 2 / 2)


def factor(params, x):
    """The Cholesky factor of the covariance of the samples."""
    noise = jnp.exp(params["noise"]) + 1e-3
    return jnp.linalg.cholesky(kernel(params, x, x) + noise * jnp.eye(len(x)))


def loss_of(params, x, y):
    """The negative log likelihood of a sample, on average."""
    low = factor(params, x)
    whitened = jax.scipy.linalg.solve_triangular(low, y, lower=True)
    return (whitened @ whitened / 2 + jnp.sum(jnp.log(jnp.diag(low)))) / len(x)


def make_step(optimiser, every):
    @jax.jit
    def step(i, params, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimiser.update(grads, state, params)
        jax.lax.cond(i % every == 0, lambda: jax.debug.print(
            "  in step {i}: loss {loss:.3f}, gradient {norm:.2f}", i=i, loss=loss, norm=optax.global_norm(grads),
            ordered=True), lambda: None)
        return optax.apply_updates(params, updates), state, loss

    return step


def train(step, manager, state, steps, data):
    """From the step of the state on; saves each tenth."""
    for i in range(state["step"], steps):
        params, opt, loss = step(i, state["params"], state["opt"], *data)
        state = {"step": i + 1, "params": params, "opt": opt}
        if (i + 1) % 10 == 0:
            print(f"after step {i}: {float(loss):.3f}", flush=True)
            manager.save(i + 1, args=ocp.args.StandardSave(state))
    jax.effects_barrier()
    return state


def main():
    args = arguments(__doc__, steps=40, samples=48, lr=0.05)
    rng = np.random.default_rng(args.seed)
    x = np.sort(rng.uniform(-3, 3, args.samples)).astype(np.float32)
    y = (np.sin(2 * x) + rng.normal(0, 0.1, args.samples)).astype(np.float32)
    params = {"length": jnp.float32(0.5), "height": jnp.float32(0), "noise": jnp.float32(-1)}
    optimiser = optax.adam(args.lr)
    start = {"step": 0, "params": params, "opt": optimiser.init(params)}
    step = make_step(optimiser, 5)

    with tempfile.TemporaryDirectory() as folder:
        with ocp.CheckpointManager(Path(folder), options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
            train(step, manager, start, args.steps // 2, (x, y))
            manager.wait_until_finished()
            kept = manager.latest_step()
            print(f"going on from the checkpoint of step {kept}", flush=True)
            state = manager.restore(kept, args=ocp.args.StandardRestore(start))
            state = train(step, manager, state, args.steps, (x, y))
            manager.wait_until_finished()
            print(f"checkpoints: {sorted(manager.all_steps())}")

    low = factor(state["params"], x)
    grid = jnp.linspace(-3, 3, 7)
    mean = kernel(state["params"], grid, x) @ jax.scipy.linalg.cho_solve((low, True), y)
    print("prediction:", " ".join(f"{v + 0.0:.2f}" for v in np.round(np.asarray(mean), 2)))
    print("eigenvalues:", " ".join(f"{v:.2f}" for v in jnp.linalg.eigvalsh(low @ low.T)[-3:]))


if __name__ == "__main__":
    main()
