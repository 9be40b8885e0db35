# SPDX-License-Identifier: Apache-2.0
"""A hyper-parameter search with Ray Tune, whose trials share the devices of the nodes.

    python examples/ray/search.py --address HOST:PORT --trials 32

Nodes offer the resource `salus`: `ray start --resources '{"salus": 8}'` beside a salusd means that eight trials at a time
share the device of that node. The trials get what `salus env --json` prints as their runtime environment (--env FILE). With
--fraction F the trials ask for that part of the resource `device` instead: that is how people share without Salus.
"""

import argparse
import json

import ray
from ray import tune


def train(config):
    """One trial: a small network learns a product. JAX is imported here, in the process of the trial."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def loss_of(params, x, y):
        return jnp.mean((jnp.tanh(x @ params["hidden"]) @ params["out"] - y) ** 2)

    @jax.jit
    def step(params, rate, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), loss

    rng, width = np.random.default_rng(0), config["width"]
    params = {"hidden": rng.normal(size=(8, width)).astype(np.float32),
              "out": (rng.normal(size=(width, 1)) * width**-0.5).astype(np.float32)}
    rate = np.float32(config["rate"])
    for _ in range(config["steps"]):
        x = rng.normal(size=(config["batch"], 8)).astype(np.float32)
        params, loss = step(params, rate, x, x[:, :1] * x[:, 1:2])
    node = ray.get_runtime_context().get_node_id()
    tune.report({"loss": float(loss), "node": node, "platform": jax.devices()[0].client.platform_version})


def search(args):
    need = {"device": args.fraction} if args.fraction else {"salus": 1}
    space = {"rate": tune.grid_search([0.3 / (1 + number) for number in range(args.trials)]),
             "steps": args.steps, "batch": args.batch, "width": args.width}
    tuner = tune.Tuner(tune.with_resources(train, {"cpu": 0, **need}), param_space=space,
                       tune_config=tune.TuneConfig(metric="loss", mode="min"),
                       run_config=tune.RunConfig(verbose=0, storage_path=args.storage))
    return tuner.fit()


def tell(results):
    """One line of JSON: what became of the trials, and the best of them."""
    good = [result for result in results if result.error is None]
    nodes = {}
    for result in good:
        nodes[result.metrics["node"]] = nodes.get(result.metrics["node"], 0) + 1
    best = min(good, key=lambda result: result.metrics["loss"], default=None)
    print(json.dumps({"trials": len(results), "lost": len(results) - len(good), "per_node": sorted(nodes.values()),
                      "platforms": sorted({result.metrics["platform"] for result in good}),
                      "losses": [result.metrics["loss"] for result in good],
                      "best_rate": best.config["rate"] if best else None}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of the cluster (default: start one here)")
    parser.add_argument("--env", metavar="FILE", help="the output of `salus env --json`: the trials' environment")
    parser.add_argument("--fraction", type=float, help="share without Salus: part of the resource `device` per trial")
    parser.add_argument("--storage", help="folder for Ray Tune's results")
    for name, value in (("trials", 16), ("steps", 200), ("batch", 256), ("width", 256)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    args = parser.parse_args()
    variables = {}
    if args.env:
        with open(args.env) as file:
            variables = json.load(file)
    ray.init(args.address, runtime_env={"env_vars": variables}, log_to_driver=False)
    tell(search(args))


if __name__ == "__main__":
    main()
