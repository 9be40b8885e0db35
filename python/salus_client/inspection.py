# SPDX-License-Identifier: Apache-2.0
"""jax.debug.inspect_array_sharding inside of programs of several devices on XLA:CPU.

JAX marks a value that is inspected by a custom call with the address of a Python function. XLA calls the function
when it has spread the program over the devices. The vendor's plugin does not know this call, and is in another
process. So the compiler inside of jaxlib spreads the program first, and calls the function. The program that Salus
compiles has no such call: it returns nothing that the program uses.
"""

TARGET = "InspectSharding"


def marks_of(ir, module):
    """The custom calls of a module that inspect a sharding."""
    found = []

    def visit(op):
        op = op.operation
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == TARGET:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def bytecode_of(module):
    return module.operation.get_asm(binary=True, enable_debug_info=True)


def without_marks(ir, module):
    """A copy of the module. The lowered program of JAX stays as it is: it may be compiled again."""
    with module.context:
        copy = ir.Module.parse(bytecode_of(module))
    for op in marks_of(ir, copy):
        op.erase()
    return copy


def spread(library, module, devices, options):
    """Compiles for as many devices inside of jaxlib, which calls the functions. The result is dropped."""
    client = library.get_tfrt_cpu_client(asynchronous=False, num_devices=1 + max(d.id for d in devices))
    by_id = {d.id: d for d in client.devices()}
    error = getattr(library, "JaxRuntimeError", None) or library.XlaRuntimeError  # before JAX 0.8
    try:
        client.compile_and_load(bytecode_of(module), compile_options=options,
                                executable_devices=library.DeviceList(tuple(by_id[d.id] for d in devices)))
    except error:
        pass  # a function of the program that jaxlib does not know: it has spread the program before


def make_compile(ir, library, original, platform):
    """A function for jax._src.compiler.backend_compile_and_load."""
    def compile_and_load(backend, module, executable_devices, options, *args, **kwargs):
        if backend.platform == platform and len(executable_devices) > 1 and marks_of(ir, module):
            spread(library, module, executable_devices, options)
            module = without_marks(ir, module)
        return original(backend, module, executable_devices, options, *args, **kwargs)

    return compile_and_load


def install(platform):
    if platform != "cpu":
        return
    try:
        from jax._src import compiler
        from jax._src.lib import _jax
        from jax._src.lib.mlir import ir
    except ImportError:  # an older JAX
        return
    original = getattr(compiler, "backend_compile_and_load", None)
    if original is not None and hasattr(_jax, "get_tfrt_cpu_client"):
        compiler.backend_compile_and_load = make_compile(ir, _jax, original, platform)
