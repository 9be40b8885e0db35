# SPDX-License-Identifier: Apache-2.0
"""Move arrays of every type, shape and layout to the device and back, and compare."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from common import arguments, finish

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "float32", "float64", "complex64", "complex128", "bool"]
EXTENDED = ["bfloat16", "int2", "uint2", "int4", "uint4",
            "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
            "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3, 4), (1, 1, 1, 5), (129, 65)]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name)) if name in EXTENDED else np.dtype(name)


def sample(rng, shape, dtype):
    """Numbers that every type can hold, or nearly."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    if "int" in dtype.name:
        info = ml_dtypes.iinfo(dtype)
        return rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype)
    return np.asarray(rng.uniform(0.5, 4, shape)).astype(dtype)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert a.tobytes() == b.tobytes(), f"{a.dtype} {a.shape}: other bytes came back"


def types_and_shapes(rng):
    results = {}
    for name in NUMBERS + EXTENDED:
        for shape in SHAPES:
            host = sample(rng, shape, dtype_of(name))
            device = jax.device_put(host)
            back = np.asarray(device)
            same(host, back)
            results[f"{name}_{'x'.join(map(str, shape))}"] = back
            # A program's result comes back the same way as an upload.
            same(np.asarray(jnp.reshape(device, (-1,))), host.reshape(-1))
    return results


def layouts(rng):
    """Host arrays that are not plain rows: strides, views, reversals, broadcasts."""
    base = rng.normal(size=(40, 30, 6)).astype(np.float32)
    unaligned = np.frombuffer(b"x" + base[0].tobytes(), np.float32, offset=1)
    read_only = base[0].copy()
    read_only.flags.writeable = False
    views = {
        "transposed": base.T,
        "permuted": base.transpose(1, 2, 0),
        "strided": base[::3, 1::2],
        "reversed": base[::-1, :, ::-1],
        "column": base[:, 4, 2],
        "broadcast": np.broadcast_to(base[0, :, 0], (20, 30)),
        "fortran": np.asfortranarray(base[:, :, 0]),
        "diagonal": np.diagonal(base[:30]),
        "unaligned": unaligned,
        "read_only": read_only,
        "empty_strided": base[5:5, ::2],
        "int4_strided": rng.integers(-8, 8, (9, 8)).astype(ml_dtypes.int4)[::2, ::-1],
        "bool_transposed": (base > 0).T,
        "complex_imag": (base + 1j * base).imag,
    }
    results = {}
    for name, host in views.items():
        results[name] = np.asarray(jax.device_put(host))
        same(np.ascontiguousarray(host), results[name])
        twice = jax.jit(lambda x: x.T)(host)
        same(np.ascontiguousarray(host.T), np.ascontiguousarray(np.asarray(twice)))
    return results


def lifetimes(rng):
    """The device's copy stays what it was, whatever happens to the host's."""
    host = rng.normal(size=100_000).astype(np.float32)
    kept = host.copy()
    device = jnp.array(host, copy=True).block_until_ready()  # it may copy later otherwise
    host[:] = 0
    same(np.asarray(device), kept)

    pieces = [jax.device_put(np.full(1000, i, np.int32)) for i in range(200)]  # hosts die at once
    assert [int(p[0]) for p in pieces] == list(range(200))
    pieces[7].delete()
    assert pieces[7].is_deleted() and not pieces[8].is_deleted()

    down = np.asarray(device)
    del device
    same(down, kept)  # the host's copy outlives the device's
    return {"kept": down, "sum": sum(pieces[8:])}


def python_values():
    values = [True, 3, -2**40, 2.5, 1 - 2j, [1, 2], [[1.5], [2.5]], range(4), np.float16(0.1)]
    return [np.asarray(jnp.asarray(v)) for v in values]


def large(rng, mib):
    host = rng.integers(0, 256, mib << 20, np.uint8)
    device = jax.device_put(host)
    same(np.asarray(device), host)
    flipped = jax.jit(lambda x: ~x)(device)
    same(np.asarray(flipped), ~host)
    return np.asarray(flipped[:: 1 << 12])


def main():
    args = arguments(__doc__, mib=64)
    rng = np.random.default_rng(args.seed)
    results = {}
    for part, extra in [(types_and_shapes, (rng,)), (layouts, (rng,)), (lifetimes, (rng,)),
                        (python_values, ()), (large, (rng, args.mib))]:
        results[part.__name__] = part(*extra)
        print(f"{part.__name__}: every byte came back", flush=True)
    print("final loss: 0")
    finish(results, args.out)


if __name__ == "__main__":
    main()
