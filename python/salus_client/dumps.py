# SPDX-License-Identifier: Apache-2.0
"""The text of dumped programs: libsalus_pjrt.so writes protobufs (--xla_dump_to), jaxlib can print them.

The texts are written when the job ends, with XLA's names. A job that is killed has protobufs only.
"""

import atexit
import os
import sys
from pathlib import Path

SILENCE = "SALUS_DUMP_TEXT"  # tells the library that text follows


def flags():
    """The flags of XLA that concern dumps, as a dictionary."""
    words = (word.partition("=") for word in os.environ.get("XLA_FLAGS", "").split())
    return {name: value for name, _, value in words if name.startswith("--xla_dump_")}


def wants_text(found):
    forms = [name for name in found if name.startswith("--xla_dump_hlo_as_")]
    return bool(found.get("--xla_dump_to")) and (not forms or "--xla_dump_hlo_as_text" in forms)


def module_of(proto):
    """The module in an HloProto: its first field."""
    size, at = 0, 1
    while True:
        size |= (proto[at] & 127) << 7 * (at - 1)
        at += 1
        if not proto[at - 1] & 128:
            return proto[at:at + size]


def text_of(path):
    from jax._src.lib import xla_client

    library = getattr(xla_client, "_xla", xla_client)
    try:
        from jaxlib import _hlo as printer
    except ImportError:  # before JAX 0.10
        printer = library
    if path.suffix == ".mlirbc":
        return library.mlir.mlir_module_to_xla_computation(path.read_bytes()).as_hlo_text()
    return printer.XlaComputation(module_of(path.read_bytes())).as_hlo_text()


def write_texts(folder):
    for path in sorted(Path(folder).glob("module_*.*_optimizations.*")):
        if path.suffix not in (".pb", ".mlirbc"):
            continue
        to = path.with_name(path.name.removesuffix(".hlo.pb").removesuffix(".mlirbc") + ".txt")
        if to.exists() and to.stat().st_mtime >= path.stat().st_mtime:
            continue
        try:
            to.write_text(text_of(path))
        except Exception as error:  # the job has ended well: a dump must not change that
            print(f"salus: --xla_dump_to: no text of {path}: {error}", file=sys.stderr)


def watch():
    """Call this before the client is created."""
    found = flags()
    if wants_text(found):
        os.environ[SILENCE] = "1"
        atexit.register(write_texts, found["--xla_dump_to"])
