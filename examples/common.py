# SPDX-License-Identifier: Apache-2.0
"""What the examples share: a digest of the results, so that two runs can be compared bit for bit."""

import argparse
import hashlib

import jax
import numpy as np


def arguments(doc, **defaults):
    """Parse --name VALUE for each default, and the two options that every example has."""
    parser = argparse.ArgumentParser(description=doc)
    for name, value in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value,
                            help=f"default: {value}")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--out", metavar="FILE.npz", help="save the results here")
    return parser.parse_args()


def named_arrays(results):
    """Every leaf of a tree as (name, numpy array), in a fixed order."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(results):
        yield jax.tree_util.keystr(path, simple=True, separator="/"), np.asarray(leaf)


def digest(results):
    """SHA-256 over name, type, shape and bytes of every leaf."""
    total = hashlib.sha256()
    for name, array in named_arrays(results):
        total.update(f"{name} {array.dtype} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def finish(results, out=None):
    """Print the digest of a tree of arrays and, if asked to, save it.

    Types that numpy does not have itself (bfloat16, int4, ...) are saved as raw bytes.
    """
    print(f"digest: {digest(results)}", flush=True)
    if out:
        np.savez(out, **dict(named_arrays(results)))
