# SPDX-License-Identifier: Apache-2.0
"""Arrays that come from numpy and go there, and programs that are compiled ahead of time or kept."""

import re

SHARED = """
import ctypes
import jax, jax.numpy as jnp, numpy as np

KINDS = [np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.complex64]

def aligned(array):
    "A copy at a multiple of 64 bytes: JAX makes a view of such memory."
    room = np.empty(array.nbytes + 64, np.uint8)
    at = -room.ctypes.data % 64
    new = np.ndarray(array.shape, array.dtype, room[at:at + array.nbytes].data, order="F"
                     if array.flags.f_contiguous and not array.flags.c_contiguous else "C")
    new[...] = array
    return new

jax.config.update("jax_enable_x64", True)
for kind in KINDS:
    for shape in ((), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 1)):
        for order in "CF":
            right = aligned(np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3, kind, order=order))
            for come in (jax.dlpack.from_dlpack, jnp.from_dlpack):
                array = come(right)
                np.testing.assert_array_equal(np.asarray(array), right)
                np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x + x)(array)), right + right)
            array = jnp.asarray(right)
            for go in (np.from_dlpack, np.asarray, lambda a: np.asarray(memoryview(a)), jax.device_get):
                np.testing.assert_array_equal(go(array), right)
            np.testing.assert_array_equal(np.from_dlpack(jnp.transpose(array)), right.T)

host = aligned(np.arange(1000, dtype=np.float32))
array = jax.dlpack.from_dlpack(host)
host[:] = -1  # it has its memory back
assert float(array.sum()) == 499500, array
view = np.from_dlpack(array)
grown = jax.jit(lambda x: x * 2, donate_argnums=0)(array)
assert view.sum() == 499500 and not view.flags.writeable  # whoever looks at it keeps it
del array
assert view.sum() == 499500 and float(grown.sum()) == 999000
at = grown.unsafe_buffer_pointer()
assert ctypes.c_float.from_address(at + 4 * 999).value == 1998
assert grown.unsafe_buffer_pointer() == at
assert grown.__dlpack_device__() == (1, 0)
print("all right")
"""


def test_numpy_and_dlpack(served):
    """Both ways, in both orders of dimensions, for each type: the bits and the order of axes."""
    _, client = served()
    assert client(SHARED).succeed().stdout.splitlines()[-1] == "all right"


AHEAD = """
import os, pickle, sys
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import serialize_executable, topologies

x = jnp.linspace(-1, 1, 4096).reshape(64, 64)
step = jax.jit(lambda x: jnp.tanh(x) @ x + 1, donate_argnums=0)
compiled = step.lower(x).compile()
print("text", "HloModule" in compiled.as_text())
print("flops", compiled.cost_analysis()["flops"] > 0)
print("memory", compiled.memory_analysis().argument_size_in_bytes, compiled.memory_analysis().alias_size_in_bytes)
print("layout", compiled.input_formats[0][0].layout.major_to_minor)
path = sys.argv[1]
if not os.path.exists(path):
    with open(path, "wb") as f:
        pickle.dump(serialize_executable.serialize(compiled), f)
with open(path, "rb") as f:
    loaded = serialize_executable.deserialize_and_load(*pickle.load(f))
one, other = x.copy(), x.copy()
print("sum", float(compiled(one).sum()) == float(loaded(other).sum()), one.is_deleted(), other.is_deleted())
print("topology", len(topologies.get_attached_topology().devices))
"""


def test_compiled_ahead_and_loaded_by_another_job(served, tmp_path):
    _, client = served()
    for _ in range(2):
        lines = client(AHEAD, tmp_path / "program").succeed().stdout.splitlines()
        assert lines[-6:] == ["text True", "flops True", "memory 16384 16384", "layout (0, 1)",
                              "sum True True True", "topology 1"]


KEPT = """
import sys
import jax, jax.numpy as jnp
from jax._src import monitoring

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
found = []
monitoring.register_event_listener(lambda event, **_: found.append(event))
print("sum", float(jax.jit(lambda x: jnp.cos(x) @ x)(jnp.ones((32, 32))).sum()))
print("hits", sum(event.endswith("cache_hits") for event in found))
"""


def test_jax_keeps_programs_itself(served, tmp_path):
    """The cache of JAX: the second job compiles nothing."""
    _, client = served()
    first, second = (client(KEPT, tmp_path / "cache").succeed().stdout for _ in range(2))
    assert re.findall(r"hits (\d+)", first) == ["0"]
    assert int(re.findall(r"hits (\d+)", second)[0]) > 0
    assert re.findall("sum .*", first) == re.findall("sum .*", second)
