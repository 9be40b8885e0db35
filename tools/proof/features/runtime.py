# SPDX-License-Identifier: Apache-2.0
"""What the runtime gives: compilation, memory, processes, files, other libraries' arrays."""

import os
import pickle
import tempfile
from pathlib import Path

from feature import feature
from features.arrays import ramp


def aligned(array):
    """A copy in memory that starts at a multiple of 64: numpy's own does so only by chance."""
    import numpy as np
    memory = np.empty(array.nbytes + 63, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


@feature("donation: the result is right, the argument is gone")
def donation():
    import jax
    import jax.numpy as jnp
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.asarray(ramp(8)) * 1
    y = f(x)
    return y, x.is_deleted()


@feature("donation over many steps")
def donation_steps():
    import jax
    import jax.numpy as jnp
    f = jax.jit(lambda s, g: jax.tree.map(lambda a, b: a - 0.1 * b, s, g), donate_argnums=0)
    state = {"w": jnp.asarray(ramp(4, 4)), "b": jnp.zeros(4)}
    for _ in range(20):
        state = f(state, {"w": ramp(4, 4), "b": ramp(4)})
    return state


@feature("AOT: lower, compile, call")
def aot():
    import jax
    lowered = jax.jit(lambda x, y: x @ y).lower(ramp(3, 4), ramp(4, 2))
    compiled = lowered.compile()
    return compiled(ramp(3, 4), ramp(4, 2)), "dot" in lowered.as_text(), str(compiled.in_tree)


@feature("AOT: cost and memory analysis")
def analysis():
    import jax
    compiled = jax.jit(lambda x: x @ x).lower(ramp(32, 32)).compile()
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    return cost["flops"], memory.argument_size_in_bytes, memory.output_size_in_bytes


@feature("AOT: as_text of the compiled program")
def compiled_text():
    import jax
    return "fusion" in jax.jit(lambda x: x * 2 + 1).lower(ramp(64)).compile().as_text()


@feature("AOT: serialise an executable and load it")
def serialize_executable():
    import jax
    from jax.experimental import serialize_executable as se
    compiled = jax.jit(lambda x: x * 3).lower(ramp(5)).compile()
    return se.deserialize_and_load(*se.serialize(compiled))(ramp(5))


@feature("export: serialise, load, call")
def export():
    import jax
    import jax.numpy as jnp
    from jax import export
    blob = export.export(jax.jit(lambda x: jnp.sin(x) * 2))(jax.ShapeDtypeStruct((4,), jnp.float32)).serialize()
    return export.deserialize(blob).call(ramp(4))


@feature("export with symbolic shapes, and its gradient")
def export_symbolic():
    import jax
    import jax.numpy as jnp
    from jax import export
    shape = export.symbolic_shape("n, 3")
    made = export.export(jax.jit(lambda x: jnp.sum(x ** 2)))(jax.ShapeDtypeStruct(shape, jnp.float32))
    loaded = export.deserialize(made.serialize(vjp_order=1))
    return loaded.call(ramp(5, 3)), jax.grad(loaded.call)(ramp(2, 3))


@feature("compilation cache on disk", alone=True)
def compilation_cache():
    import jax
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        first = jax.jit(lambda x: x * 5 - 2)(ramp(6))
        jax.clear_caches()
        again = jax.jit(lambda x: x * 5 - 2)(ramp(6))
        first.block_until_ready()
        return first, again, len(os.listdir(folder)) > 0


@feature("threads")
def threads():
    import jax
    from concurrent.futures import ThreadPoolExecutor
    f = jax.jit(lambda x: x * 2 + 1)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda i: float(f(float(i))), range(20)))


@feature("fork: the child computes nothing, the parent goes on", alone=True)
def fork():
    import jax
    import jax.numpy as jnp
    before = jnp.sum(jnp.asarray(ramp(9)))
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    _, status = os.waitpid(pid, 0)
    return before, jax.jit(lambda x: x + 1)(before), os.waitstatus_to_exitcode(status)


@feature("multiprocessing: a spawned child computes", alone=True)
def spawn():
    import multiprocessing
    import jax.numpy as jnp
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.map(child_sum, [3, 4]), jnp.ones(2)


def child_sum(n):
    import jax.numpy as jnp
    return float(jnp.sum(jnp.arange(n) ** 2))


@feature("subprocess and os.system")
def subprocesses():
    import subprocess
    import jax.numpy as jnp
    x = jnp.ones(3)
    return x, subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout


@feature("dlpack: to numpy and back")
def dlpack():
    import jax.numpy as jnp
    import numpy as np
    x = jnp.asarray(ramp(6)) * 2
    there = np.from_dlpack(x)
    return np.array(there), jnp.from_dlpack(aligned(np.arange(5, dtype=np.float32)))


@feature("dlpack: from numpy, memory of small alignment")
def dlpack_unaligned():
    import jax.numpy as jnp
    import numpy as np
    return jnp.from_dlpack(aligned(np.arange(6, dtype=np.float32))[1:])


@feature("numpy: asarray, buffer protocol, item, float, int, bool")
def interfaces():
    import jax.numpy as jnp
    import numpy as np
    x = jnp.asarray(ramp(6)) + 1
    return (np.asarray(x), np.array(memoryview(x)), x[2].item(), float(x[1]), int(jnp.int32(7)), bool(x[0] > 0),
            np.asarray(x).flags.writeable)


@feature("numpy: unsafe_buffer_pointer shows the data")
def pointer():
    import ctypes
    import jax.numpy as jnp
    x = (jnp.arange(4, dtype=jnp.int32) + 1).block_until_ready()
    return list((ctypes.c_int32 * 4).from_address(x.unsafe_buffer_pointer()))


@feature("device_put, device_get, copy_to_host_async")
def transfers():
    import jax
    x = jax.device_put({"a": ramp(3), "b": [ramp(2), 4]})
    x["a"].copy_to_host_async()
    return jax.device_get(x), jax.device_put(ramp(3), jax.devices()[0])


@feature("memory kinds: to the host and back")
def memory_kinds():
    import jax
    import jax.numpy as jnp
    device = jax.devices()[0]
    host = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    x = jax.device_put(jnp.asarray(ramp(8)), host)
    back = jax.device_put(x, jax.sharding.SingleDeviceSharding(device))
    return back * 2, x.sharding.memory_kind


@feature("memory kinds: offload inside of jit")
def offload():
    import jax
    import jax.numpy as jnp
    from jax.sharding import SingleDeviceSharding
    host = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    f = jax.jit(lambda x: x * 2, out_shardings=host)
    return f(jnp.asarray(ramp(8))), f(jnp.ones(2)).sharding.memory_kind


@feature("live_arrays, delete, use after delete")
def lifetime():
    import jax
    import jax.numpy as jnp
    x = jnp.asarray(ramp(5)) + 3
    held = any(a is x for a in jax.live_arrays())
    x.delete()
    try:
        x + 1
        said = "no error"
    except RuntimeError as error:
        said = "deleted" in str(error)
    return held, said


@feature("pickle, npz, jnp.save")
def files():
    import jax.numpy as jnp
    x = jnp.asarray(ramp(4)) * 3
    with tempfile.TemporaryDirectory() as folder:
        jnp.save(Path(folder) / "x.npy", x)
        return pickle.loads(pickle.dumps(x)), jnp.load(Path(folder) / "x.npy")


@feature("profiler: a trace is written", alone=True)
def profiler():
    import jax
    import jax.numpy as jnp
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder), jax.profiler.TraceAnnotation("step"):
            y = jax.jit(lambda x: x @ x)(jnp.asarray(ramp(16, 16))).block_until_ready()
        return y, any(path.suffix == ".pb" for path in Path(folder).rglob("*"))


@feature("profiler: device_memory_profile")
def memory_profile():
    import jax
    return len(jax.profiler.device_memory_profile()) > 0


@feature("XLA_FLAGS and compiler options of a program")
def compiler_options():
    import jax
    f = jax.jit(lambda x: x * 2 + 1, compiler_options={"xla_cpu_enable_fast_math": True})
    return f(ramp(5))


@feature("transfer_guard and default_device")
def guards():
    import jax
    import jax.numpy as jnp
    with jax.transfer_guard("allow"), jax.default_device(jax.devices()[0]):
        return jnp.asarray(ramp(3)) + 1, str(jax.devices()[0].platform)


@feature("an allocation that cannot be: the error, and going on")
def out_of_memory():
    import jax
    import jax.numpy as jnp
    try:
        jax.block_until_ready(jnp.ones((1 << 23, 1 << 21), jnp.float32))
        said = "no error"
    except Exception as error:
        said = type(error).__name__
    return said, jnp.ones(3) + 1


@feature("many small operations in flight")
def asynchronous():
    import jax.numpy as jnp
    x = jnp.zeros(3)
    for i in range(500):
        x = x + i
    return x


@feature("an example of each dtype through device_put")
def dtypes():
    import jax
    import jax.numpy as jnp
    names = ("bool_", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32",
             "complex64")
    return [jax.device_put(jnp.ones(3, getattr(jnp, name))) for name in names]
