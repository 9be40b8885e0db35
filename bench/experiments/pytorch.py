# SPDX-License-Identifier: Apache-2.0
"""A PyTorch/XLA job alone: the time of a training step through Salus / on torch_xla's own CPU client.

Needs a Python that has torch_xla 2.9: the variable SALUS_TORCH_PYTHON, or build/torch/bin/python. No tool here installs
it. The vendor's plugin refuses the arguments of torch_xla 2.9, so the measure is another build of XLA: a ratio below 1 is
no merit of Salus.
"""

import os
import re
import subprocess

from machine import ROOT

FIGURE = "figure 12"
ESTIMATE_S = (0, 150)
SCRIPT = os.path.join(ROOT, "bench", "train_torch.py")
NAMED = os.environ.get("SALUS_TORCH_PYTHON", "")  # read now: the stage removes such variables


def python_of(stage):
    """None: there is none."""
    path = NAMED or os.path.join(stage.build, "torch", "bin", "python")
    return path if os.path.exists(path) else None


def trained_s(command, env):
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return float(re.search(r"trained for ([\d.]+) s", done.stdout)[1])


def measure(stage, record, options):
    python = python_of(stage)
    if not python:
        record.skip("there is no Python with torch_xla; SALUS_TORCH_PYTHON names one.")
        return
    turns, steps, batches = options.pick((1, 200, (256,)), (3, 1000, (256, 1024)))
    with stage.daemon() as daemon:
        salus = [os.path.join(stage.build, "bin", "salus"), "run", "--"]
        for batch in batches:
            argv = [python, SCRIPT, "--steps", str(steps), "--batch", str(batch)]
            pairs = [(trained_s(argv, stage.base | {"PJRT_DEVICE": "CPU"}) / steps,
                      trained_s(salus + argv, daemon.env) / steps) for _ in range(turns)]
            row = f"perceptron, batch {batch}"
            record.add(row, "torch_xla's own CPU client", [plain * 1e3 for plain, _ in pairs], "ms")
            record.add(row, "Salus / torch_xla's own", [ours / plain for plain, ours in pairs])
