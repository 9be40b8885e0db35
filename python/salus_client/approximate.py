# SPDX-License-Identifier: Apache-2.0
"""lax.approx_max_k and approx_min_k on XLA:CPU, which sorts for them.

JAX compares the numbers in a way that gives NaN no place. XLA:CPU may read and write outside of an array that is
sorted so, so salus-compile refuses such a sort: see src/compile/order.h. This module asks for the total order of
floating-point numbers instead, as jnp.sort does. Other numbers compare as before.
"""


def put_in_order(hlo, ir, comparator):
    """A comparator of floating-point numbers gets a total order."""
    for op in comparator.entry_block.operations:
        op = op.operation
        if op.name == "stablehlo.compare" and isinstance(ir.RankedTensorType(op.operands[0].type).element_type,
                                                         ir.FloatType):
            op.attributes["compare_type"] = hlo.ComparisonTypeAttr.get("TOTALORDER")


def make_build(hlo, ir, original, platform):
    """A function for jax._src.lax.ann._comparator_builder_mlir."""
    def build(ctx, *args, **kwargs):
        comparator = original(ctx, *args, **kwargs)
        if tuple(getattr(ctx.module_context, "platforms", ())) == (platform,):
            put_in_order(hlo, ir, comparator)
        return comparator

    return build


def install(platform):
    if platform != "cpu":
        return
    try:
        from jax._src.lax import ann
        from jax._src.lib.mlir import ir
        from jax._src.lib.mlir.dialects import hlo
    except ImportError:
        return
    original = getattr(ann, "_comparator_builder_mlir", None)
    if original is not None:
        ann._comparator_builder_mlir = make_build(hlo, ir, original, platform)
