# SPDX-License-Identifier: Apache-2.0
"""Features of the JAX world, each a small function with a result that is always the same.

    @feature("cholesky")
    def _():
        return jnp.linalg.cholesky(...)

The result is a tree of arrays, numbers and texts. A module below features/ is one group: its features run in one
process, one after the other. `alone` gives a feature a process of its own, `devices` a number of devices, `tol` how
far the result may be from that of another build of XLA.

Run as a program, this file runs features of one module and writes a line of JSON for each.
"""

import argparse
import faulthandler
import hashlib
import importlib
import json
import sys
import traceback
from collections import namedtuple
from pathlib import Path

Feature = namedtuple("Feature", "name run alone devices tol module")
ELEMENTS_MAX = 20000  # of one array of a result
LIST = []


def feature(name, alone=False, devices=1, tol=1e-4):
    def add(run):
        LIST.append(Feature(name, run, alone, devices, tol, run.__module__))
        return run

    return add


def load(module):
    """The features of a module. Modules import JAX only inside of functions, so that this is quick."""
    sys.modules.setdefault("feature", sys.modules[__name__])
    importlib.import_module(f"features.{module}")
    return [f for f in LIST if f.module == f"features.{module}"]


# Results.


def described(leaf):
    """One leaf as JSON: the digest of its bytes, and its values as numbers."""
    import numpy as np
    if isinstance(leaf, str):
        return {"text": leaf}
    array = np.asarray(leaf)
    if array.size > ELEMENTS_MAX:
        raise ValueError(f"a result of {array.size} elements: the list is for small ones")
    wide = array.astype(np.complex128)
    return {"type": str(array.dtype), "shape": list(array.shape),
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
            "values": [v for pair in zip(wide.real.ravel().tolist(), wide.imag.ravel().tolist()) for v in pair]}


def leaves(result):
    import jax
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(result):
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        found[jax.tree_util.keystr(path)] = described(leaf)
    return found


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"[:300]


def run(one):
    try:
        result = leaves(one.run())
        return {"outcome": "works" if result else "fails", "error": "" if result else "no result", "result": result}
    except Exception as error:  # whatever a library raises is the result
        traceback.print_exc()
        return {"outcome": "fails", "error": first_line(error), "result": {}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, required=True)
    args = parser.parse_args()
    by_name = {f.name: f for f in load(args.module)}
    for name in args.names:
        print(f"== {name}", flush=True)
        faulthandler.dump_traceback_later(args.limit, exit=True)
        line = run(by_name[name])
        faulthandler.cancel_dump_traceback_later()
        with open(args.out, "a", encoding="utf-8") as out:
            out.write(json.dumps({"name": name, **line}) + "\n")


if __name__ == "__main__":
    main()
