# SPDX-License-Identifier: Apache-2.0
"""Python callbacks of JAX before 0.6.0.

Such a JAX lowers a callback to a custom call with the address of an object in its own process. XLA is in another
process here. So this module lowers callbacks as JAX 0.6.0 does: the program names a function by its index, and the
library calls it. See src/adaptor/python/old.h.
"""

import ctypes

FIRST = (0, 6, 0)  # the first version that needs nothing of this
TARGET = "xla_ffi_python_cpu_callback"
functions = []  # they stay: a program may run after JAX has forgotten it


def is_old():
    try:
        from jax.version import __version_info__
    except ImportError:
        return False
    return tuple(__version_info__[:3]) < FIRST


def check(values, avals, canonicalize):
    """The results of a function, as JAX itself checks them."""
    import numpy

    if len(values) != len(avals):
        raise RuntimeError("Mismatched number of outputs from callback. "
                           f"Expected: {len(avals)}, Actual: {len(values)}")
    arrays = tuple(canonicalize(numpy.asarray(value)) for value in values)
    for i, (array, aval) in enumerate(zip(arrays, avals)):
        if array.shape != aval.shape:
            raise RuntimeError(f"Incorrect output shape for return value #{i}: "
                               f"Expected: {aval.shape}, Actual: {array.shape}")
        if array.dtype != aval.dtype:
            raise RuntimeError(f"Incorrect output dtype for return value #{i}: "
                               f"Expected: {aval.dtype}, Actual: {array.dtype}")
    return arrays


def make_emit(library, original, platform):
    """A function for jax._src.callback.emit_python_callback."""
    import numpy
    from jax._src.interpreters import mlir, xla

    def layouts_of(avals, given):
        return list(given) if given is not None else [list(range(len(a.shape) - 1, -1, -1)) for a in avals]

    def emit(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, sharding=None,
             operand_layouts=None, result_layouts=None):
        if tuple(ctx.module_context.platforms) != (platform,):
            return original(ctx, callback, token, operands, operand_avals, result_avals,
                            has_side_effect=has_side_effect, sharding=sharding, operand_layouts=operand_layouts,
                            result_layouts=result_layouts)

        def function(*args):
            head, args = (args[:1], args[1:]) if token else ((), args)
            return (*head, *check(callback(*args), result_avals, xla.canonicalize_dtype))

        functions.append(function)
        index = library.salus_old_function(function)
        if index == 0:
            raise MemoryError("salus: no memory for a Python callback")
        operands, types = list(operands), mlir.flatten_ir_types([mlir.aval_to_ir_type(a) for a in result_avals])
        places, results_at = layouts_of(operand_avals, operand_layouts), layouts_of(result_avals, result_layouts)
        if token:
            operands, types = [token, *operands], [mlir.token_type(), *types]
            places, results_at = [(), *places], [(), *results_at]
        call = mlir.custom_call(TARGET, result_types=types, operands=operands, has_side_effect=has_side_effect,
                                backend_config={"index": mlir.ir_attribute(numpy.uint64(index))}, api_version=4,
                                operand_layouts=[p or () for p in places], result_layouts=[p or () for p in results_at])
        if sharding is not None:
            mlir.set_sharding(call, sharding)
        results = list(call.results)
        if token:
            token, *results = results
        return results, token, None

    return emit


def install(path, platform):
    """Call this before anything is lowered. Does nothing for a newer JAX."""
    if not is_old():
        return
    library = ctypes.CDLL(path)
    library.salus_old_jax.restype = None
    library.salus_old_function.argtypes = [ctypes.py_object]
    library.salus_old_function.restype = ctypes.c_uint64
    library.salus_old_jax()
    if platform != "cpu":
        return
    from jax._src import callback
    from jax.interpreters import mlir

    emit = make_emit(library, callback.emit_python_callback, platform)
    callback.emit_python_callback = emit
    mlir.emit_python_callback = emit
