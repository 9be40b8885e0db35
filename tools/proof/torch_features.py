# SPDX-License-Identifier: Apache-2.0
"""Features of PyTorch/XLA, each a function that returns tensors. Run by tools/features_torch, on one side.

    torch_features.py FILE.json     run all, in order, and write name -> {"ok", "digest", "values" or "error"}
"""

import hashlib
import json
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as metrics
import torch_xla.debug.profiler as profiler
import torch_xla.runtime as xr
from torch import nn
from torch.nn import functional as F

FEATURES = {}


def feature(name):
    def add(function):
        FEATURES[name] = function
        return function

    return add


def random(*shape, seed=0):
    """The same numbers on every side: made on the host."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def on(tensor):
    return tensor.to("xla")


def seeded(make):
    torch.manual_seed(0)
    return make().to("xla")


def train(model, optimiser, steps=4, shape=(16, 8), loss=None):
    x, y = on(random(*shape)), on(random(shape[0], 4, seed=1))
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss(model, x, y) if loss else F.mse_loss(model(x), y)
        value.backward()
        xm.optimizer_step(optimiser)
        torch_xla.sync()
    return [value.detach(), *[p.detach() for p in model.parameters()]]


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


OPTIMISERS = {"SGD": dict(lr=0.1), "SGD with momentum": dict(lr=0.1, momentum=0.9), "Adam": dict(lr=0.01),
              "AdamW": dict(lr=0.01), "RMSprop": dict(lr=0.01), "Adagrad": dict(lr=0.01), "Adadelta": dict(lr=1.0),
              "Adamax": dict(lr=0.01), "NAdam": dict(lr=0.01)}
for label, settings in OPTIMISERS.items():
    def optimise(label=label, settings=settings):
        model = seeded(mlp)
        return train(model, getattr(torch.optim, label.split()[0])(model.parameters(), **settings))

    feature(f"optimiser {label}")(optimise)


@feature("schedule of learning rates")
def schedule():
    model = seeded(mlp)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 4)
    out = []
    for _ in range(3):
        out = train(model, optimiser, 1)
        plan.step()
    return out


@feature("gradient clipping")
def clipping():
    model = seeded(mlp)
    loss = model(on(random(16, 8))).pow(2).sum()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return [norm, *[p.grad for p in model.parameters()]]


@feature("gradient checkpointing")
def checkpointing():
    from torch_xla.utils.checkpoint import checkpoint
    model = seeded(mlp)
    x = on(random(16, 8)).requires_grad_()
    checkpoint(model, x).sum().backward()
    return [x.grad]


@feature("CNN")
def cnn():
    model = seeded(lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                         nn.Flatten(), nn.Linear(64, 4)))
    loss = lambda m, x, y: F.mse_loss(m(x.view(16, 1, 8, 8)), y)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), shape=(16, 64), loss=loss)


@feature("transposed convolution")
def transposed():
    return [seeded(lambda: nn.ConvTranspose2d(3, 2, 3, stride=2))(on(random(2, 3, 5, 5))).detach()]


@feature("LSTM")
def lstm():
    model = seeded(lambda: nn.LSTM(8, 12, batch_first=True))
    out, (h, c) = model(on(random(3, 6, 8)))
    out.sum().backward()
    return [out.detach(), h.detach(), c.detach(), model.weight_hh_l0.grad]


@feature("GRU")
def gru():
    out, h = seeded(lambda: nn.GRU(8, 12, num_layers=2))(on(random(6, 3, 8)))
    return [out.detach(), h.detach()]


@feature("transformer")
def transformer():
    model = seeded(lambda: nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True))
    x = on(random(2, 5, 16))
    model(x).pow(2).mean().backward()
    return [p.grad for p in model.parameters()]


@feature("scaled dot product attention")
def attention():
    q, k, v = (on(random(2, 4, 6, 8, seed=i)) for i in range(3))
    return [F.scaled_dot_product_attention(q, k, v, is_causal=True)]


@feature("embedding")
def embedding():
    model = seeded(lambda: nn.Embedding(10, 4))
    model(on(torch.tensor([1, 2, 2, 9]))).sum().backward()
    return [model.weight.grad]


@feature("layer and group norm")
def norms():
    x = on(random(4, 8, 6))
    return [seeded(lambda: nn.LayerNorm(6))(x).detach(), seeded(lambda: nn.GroupNorm(2, 8))(x).detach()]


@feature("losses")
def losses():
    x, target = on(random(8, 5)), on(torch.arange(8) % 5)
    return [F.cross_entropy(x, target), F.nll_loss(F.log_softmax(x, 1), target), F.smooth_l1_loss(x, x * 0),
            F.binary_cross_entropy_with_logits(x, (x > 0).float())]


@feature("amp: autocast to bfloat16")
def amp():
    model = seeded(mlp)
    with torch.autocast("xla", dtype=torch.bfloat16):
        out = model(on(random(16, 8)))
    out.float().sum().backward()
    return [out.float().detach(), *[p.grad for p in model.parameters()]]


@feature("bfloat16 model")
def bfloat16():
    return [seeded(lambda: mlp().bfloat16())(on(random(4, 8)).bfloat16()).float().detach()]


@feature("float64")
def float64():
    x = on(random(6, 6).double())
    return [x @ x, x.sum(), x.exp()]


@feature("integers and comparison")
def integers():
    x = on(torch.arange(24).reshape(4, 6))
    return [x // 5, x % 7, x > 9, x.argmax(1), (x << 2) ^ 3]


@feature("indexing and scatter")
def indexing():
    x = on(random(6, 6))
    index = on(torch.tensor([0, 2, 5]))
    y = x.clone()
    y[index] = 0
    return [x[index], x.gather(1, on(torch.zeros(6, 2, dtype=torch.long))), y,
            torch.zeros_like(x).scatter_add_(0, on(torch.zeros(6, 6, dtype=torch.long)), x)]


@feature("sort, topk, unique")
def sorting():
    x = on(random(5, 9))
    return [*x.sort(1), *x.topk(3), on(torch.tensor([3, 1, 3, 2])).unique()]


@feature("reductions and einsum")
def reductions():
    x = on(random(4, 5, 6))
    return [x.sum((0, 2)), x.var(1), x.logsumexp(2), x.cumsum(1), torch.einsum("bij,bkj->bik", x, x)]


@feature("fft")
def fft():
    spectrum = torch.fft.rfft(on(random(4, 16)))
    return [torch.view_as_real(spectrum), torch.fft.irfft(spectrum, n=16)]


@feature("linalg: cholesky, solve, inverse")
def linalg_solve():
    a = random(5, 5)
    a = on(a @ a.T + 5 * torch.eye(5))
    return [torch.linalg.cholesky(a), torch.linalg.solve(a, on(random(5, 2))), torch.linalg.inv(a)]


@feature("linalg: qr, svd, eigh")
def linalg_decompose():
    a = on(random(5, 5))
    q, r = torch.linalg.qr(a)
    return [q @ r, torch.linalg.svdvals(a), torch.linalg.eigvalsh(a + a.T)]


@feature("random numbers")
def random_numbers():
    xm.set_rng_state(7)
    x = torch.rand(2000, device="xla")
    n = torch.randn(2000, device="xla")
    return [x.mean().round(decimals=1), (n.std() - 1).abs() < 0.1, F.dropout(torch.ones(64, device="xla"), 0.0)]


@feature("control flow: while_loop")
def while_loop():
    """Numbers other than 0 and 1 become parameters of the loop's parts, which torch_xla then refuses."""
    from torch_xla.experimental.fori_loop import while_loop as loop
    i, x = on(torch.tensor(5)), on(random(4))
    out = loop(lambda i, x: i > 0, lambda i, x: (i - 1, x + x), (i, x))
    assert torch.equal(out[1].cpu(), 32 * random(4))
    return list(out)


@feature("scan over layers")
def scan_layers():
    from torch_xla.experimental.scan import scan
    carry, out = scan(lambda c, x: (c + x, c * x), on(torch.ones(4)), on(random(6, 4)))
    return [carry, out]


@feature("torch.compile, backend openxla")
def compiled():
    model = seeded(mlp).eval()
    with torch.no_grad():
        return [torch.compile(model, backend="openxla")(on(random(16, 8)))]


@feature("torch_xla.compile")
def xla_compile():
    model = seeded(mlp)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = on(random(16, 8)), on(random(16, 4, seed=1))

    def step():
        optimiser.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimiser.step()
        return loss

    run = torch_xla.compile(step)
    return [[run() for _ in range(3)][-1].detach()]


@feature("eager mode")
def eager():
    import torch_xla.experimental
    torch_xla.experimental.eager_mode(True)
    try:
        x = on(random(4, 4))
        return [x @ x + 1]
    finally:
        torch_xla.experimental.eager_mode(False)


def launched(index, folder):
    x = torch.full((4,), float(index + 1), device=torch_xla.device())
    np.save(Path(folder) / f"{index}.npy", (x * 3).cpu().numpy())


@feature("torch_xla.launch")
def launch():
    import subprocess
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "--launch", folder], check=True, timeout=300,
                       capture_output=True)
        files = sorted(Path(folder).glob("*.npy"))
        return [torch.from_numpy(np.load(f)) for f in files[:1]]


@feature("SPMD with one device")
def spmd():
    import subprocess
    done = subprocess.run([sys.executable, __file__, "--spmd"], check=True, timeout=300, capture_output=True,
                          text=True)
    return [torch.tensor(json.loads(done.stdout.splitlines()[-1]))]


@feature("save and load: xm.save, state_dict")
def save():
    model = seeded(mlp)
    with tempfile.TemporaryDirectory() as folder:
        xm.save(model.state_dict(), folder + "/model.pt")
        other = mlp()
        other.load_state_dict(torch.load(folder + "/model.pt"))
    return [p.detach() for p in other.to("xla").parameters()]


@feature("data loader: MpDeviceLoader")
def loader():
    from torch_xla.distributed.parallel_loader import MpDeviceLoader
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(random(12, 4)), batch_size=4)
    return [sum(x.sum() for (x,) in MpDeviceLoader(batches, torch_xla.device()))]


@feature("profiler")
def profile():
    with tempfile.TemporaryDirectory() as folder:
        profiler.start_trace(folder)
        out = on(random(8, 8)) @ on(random(8, 8))
        torch_xla.sync()
        profiler.stop_trace()
        assert list(Path(folder).rglob("*.xplane.pb"))
    return [out]


@feature("metrics and memory")
def counted():
    (on(random(8, 8)) + 1).cpu()
    assert "CompileTime" in metrics.metrics_report()
    assert xm.get_memory_info(torch_xla.device())["bytes_limit"] >= 0
    return []


@feature("export to StableHLO")
def stablehlo():
    from torch_xla.stablehlo import exported_program_to_stablehlo
    exported = torch.export.export(mlp().eval(), (random(2, 8),))
    assert "stablehlo" in exported_program_to_stablehlo(exported).get_stablehlo_text("forward")
    return []


@feature("numpy and python scalars")
def scalars():
    x = on(random(3, 3))
    return [torch.tensor(x.sum().item()), torch.from_numpy(x.cpu().numpy()), torch.tensor(float(x.max()))]


@feature("in-place and views")
def views():
    x = on(random(4, 6))
    x.t()[1].add_(5)
    x[:, :2] *= 2
    return [x, x.reshape(3, 8), x.flip(1), x.expand(2, 4, 6).contiguous()]


@feature("threads")
def threads():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda i: (on(random(8, 8, seed=i)) @ on(random(8, 8, seed=i))).cpu(), range(6)))


def run(function):
    arrays = [t.detach().cpu().numpy() for t in function()]
    digest = hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()
    values = [float(v) for a in arrays for v in a.astype(np.float64).ravel()]
    return {"ok": True, "digest": digest, "values": values}


def main(path):
    results = {}
    for name, function in FEATURES.items():
        try:
            results[name] = run(function)
        except Exception as error:  # a feature that fails is a result
            results[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"[:400]}
            traceback.print_exc()
        print(f"{'ok' if results[name]['ok'] else 'FAILED':6} {name}", file=sys.stderr, flush=True)
        Path(path).write_text(json.dumps(results))


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        torch_xla.launch(launched, args=(sys.argv[2],))
    elif sys.argv[1] == "--spmd":
        import torch_xla.distributed.spmd as xs
        xr.use_spmd()
        mesh = xs.Mesh(np.arange(1), (1,), ("x",))
        tensor = xs.mark_sharding(on(random(8, 4)), mesh, ("x", None))
        print(json.dumps((torch.sum(tensor.global_tensor * 2)).item()))
    else:
        main(sys.argv[1])
