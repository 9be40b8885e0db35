# SPDX-License-Identifier: Apache-2.0
"""Memory kinds inside of programs on XLA:CPU.

JAX marks a value that a program places (jit with out_shardings of memory_kind="pinned_host", device_put inside of
jit) by a custom call. The vendor's plugin does not know this call. All memory of an XLA:CPU device is the host's, so
the call would change nothing: it is left out. The kinds of the outputs are written into the program instead, where
salus-compile finds them: see src/base/kinds.h.
"""

ATTRIBUTE = "salus.memory_kinds"


def is_ours(ctx, platform):
    return tuple(getattr(ctx, "platforms", ())) == (platform,)


def make_wrap(original, platform):
    """A function for jax._src.interpreters.mlir.wrap_with_memory_kind."""
    def wrap(ctx, value, *args, **kwargs):
        return value if is_ours(ctx, platform) else original(ctx, value, *args, **kwargs)

    return wrap


def kinds_of(function):
    """The memory kind of each result of a function of MLIR; "" where none is named."""
    if "res_attrs" not in function.attributes:
        return []
    named = function.attributes["res_attrs"]
    return [each["mhlo.memory_kind"].value if "mhlo.memory_kind" in each else "" for each in named]


def is_main(options):
    """Whether a function is the program's main one. JAX before 0.7 says "public"."""
    return options.get("main_function", options.get("public", False))


def make_lower(mlir, original, platform):
    """A function for jax._src.interpreters.mlir.lower_jaxpr_to_fun."""
    def lower(ctx, *args, **kwargs):
        function = original(ctx, *args, **kwargs)
        kinds = kinds_of(function) if is_main(kwargs) and is_ours(ctx, platform) else []
        if any(kinds):
            text = f"{ATTRIBUTE}={','.join(kinds)};"
            ctx.module.operation.attributes[ATTRIBUTE] = mlir.ir.StringAttr.get(text)
        return function

    return lower


def install(platform):
    if platform != "cpu":
        return
    try:
        from jax._src.interpreters import mlir
    except ImportError:
        return
    wrap, lower = (getattr(mlir, name, None) for name in ("wrap_with_memory_kind", "lower_jaxpr_to_fun"))
    if wrap is None or lower is None:
        return
    mlir.wrap_with_memory_kind = make_wrap(wrap, platform)
    mlir.lower_jaxpr_to_fun = make_lower(mlir, lower, platform)
