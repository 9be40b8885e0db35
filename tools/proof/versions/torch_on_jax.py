# SPDX-License-Identifier: Apache-2.0
"""Trains a PyTorch module on JAX's device with torchax, and prints rounded losses."""

import jax
import torch
import torchax
from torch import nn
from torchax.interop import jax_view


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    x = torch.rand(256, 4) * 2 - 1
    y = torch.sin(x.sum(1, keepdim=True))
    with torchax.default_env():
        model, x, y = model.to("jax"), x.to("jax"), y.to("jax")

        def loss_of(params):
            return nn.functional.mse_loss(torch.func.functional_call(model, params, (x,)), y)

        @jax.jit
        def step(params):
            loss, grads = jax.value_and_grad(jax_view(loss_of))(params)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

        params = jax_view(model.state_dict())
        for i in range(101):
            params, loss = step(params)
            if i % 20 == 0:
                print(f"step {i}: loss {float(loss):.4f}")
    assert float(loss) < 0.1


if __name__ == "__main__":
    main()
