# SPDX-License-Identifier: Apache-2.0
"""Train with donated buffers: the old state gives its memory to the new one and is gone."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from common import arguments, finish


@partial(jax.jit, donate_argnums=0)
def step(state, x):
    """One step of a linear model with momentum; the whole state is donated."""
    def loss_of(w):
        return jnp.mean((x @ w - jnp.sin(x).sum(1)) ** 2)

    loss, grad = jax.value_and_grad(loss_of)(state["w"])
    speed = 0.9 * state["speed"] + grad
    return {"w": state["w"] - 0.01 * speed, "speed": speed, "count": state["count"] + 1}, loss


@partial(jax.jit, donate_argnames="total")
def accumulate(total, addend):
    return total + addend


def main():
    args = arguments(__doc__, steps=200, width=32, batch=64)
    rng = np.random.default_rng(args.seed)
    state = {"w": jnp.zeros(args.width), "speed": jnp.zeros(args.width), "count": jnp.int32(0)}

    losses = []
    for i in range(args.steps):
        old = state
        state, loss = step(state, rng.normal(size=(args.batch, args.width)).astype(np.float32))
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
        assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
        losses.append(loss)
        if i % 50 == 0:
            print(f"step {i:4d}  loss {loss:.4f}", flush=True)

    # A donated array cannot be read, nor given to a program again.
    for use in (np.asarray, jnp.sin, jax.block_until_ready):
        try:
            use(old["w"])
        except RuntimeError as error:
            print(f"{use.__name__} refused: {str(error).splitlines()[0]}")
        else:
            raise AssertionError(f"{use.__name__} took a donated array")

    # What is not donated stays, and the same array may be donated only once.
    total, addend = jnp.zeros(1 << 20), jnp.ones(1 << 20)
    for _ in range(20):
        total = accumulate(total, addend)
    assert not addend.is_deleted()
    try:
        accumulate(addend, addend)
    except (ValueError, RuntimeError) as error:
        print(f"donating twice refused: {type(error).__name__}")

    # A numpy array is copied in; donating the copy leaves the original alone.
    mine = np.arange(8, dtype=np.float32)
    doubled = accumulate(mine, mine)
    assert mine[3] == 3

    print(f"final loss: {losses[-1]:.6f}")
    finish({"state": state, "losses": jnp.stack(losses), "total": total, "doubled": doubled},
           args.out)


if __name__ == "__main__":
    main()
