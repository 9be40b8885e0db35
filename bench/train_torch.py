# SPDX-License-Identifier: Apache-2.0
"""Trains a small perceptron with PyTorch/XLA. It is a job of bench/evaluate, and an ordinary script: it runs on any
device of torch_xla.

    salus run -- python bench/train_torch.py --steps 200 --batch 256
"""

import argparse
import time

import torch
import torch_xla
import torch_xla.core.xla_model as xm

WIDTH = 256


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--wait", action="store_true", help="wait for each step")
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(args.batch, WIDTH).to("xla")
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers).to("xla")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    began = None
    for number in range(args.steps + 3):
        if number == 3:  # the first steps compile
            xm.wait_device_ops()
            began = time.perf_counter()
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimiser.step()
        torch_xla.sync(wait=args.wait)
    final = loss.item()
    print(f"trained for {time.perf_counter() - began:.4f} s, final loss {final:.4f}", flush=True)


if __name__ == "__main__":
    main()
