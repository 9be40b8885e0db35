# SPDX-License-Identifier: Apache-2.0
"""Other plugins than the one that is installed: `make test-plugins`.

    SALUS_TEST_PLUGINS  an environment of Python with the packages of tools/plugins.txt
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import Holder

PLUGINS = os.environ.get("SALUS_TEST_PLUGINS")
pytestmark = pytest.mark.skipif(not PLUGINS, reason="tries other plugins: make test-plugins")

DOT = """
module @dot {
  func.func public @main(%a: tensor<1024x1024xf32> {tf.aliasing_output = 0 : i32},
                         %b: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.dot %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.tanh %0 : tensor<1024x1024xf32>
    %2 = stablehlo.dot %1, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %2 : tensor<1024x1024xf32>
  }
}
"""

SOLVER = """
module @solver {
  func.func public @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>) {
    %0:3 = stablehlo.custom_call @cusolver_getrf_ffi(%a) {mhlo.backend_config = {}, api_version = 4 : i32}
        : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<i32>)
    return %0#0, %0#1, %0#2 : tensor<4x4xf32>, tensor<4xi32>, tensor<i32>
  }
}
"""


def installed(name):
    return next(Path(PLUGINS).glob(f"lib/python3*/site-packages/{name}"))


def build(root):
    return Path(os.environ.get("SALUS_BUILD", root / "build"))


@pytest.fixture
def cuda():
    return installed("jax_plugins/xla_cuda12/xla_cuda_plugin.so")


@pytest.mark.parametrize("name, version", [
    ("xla_cpu_pjrt", "0.81"), ("fastatomstruct_xla_cpu", "0.106"), ("discrete", "0.106")])
def test_jobs_run(name, version, root, plugin, served, examples):
    """Two jobs share each plugin that has a device here, and compute the same thing."""
    options = []
    if name == "fastatomstruct_xla_cpu":
        options = ["--plugin", installed("fastatomstruct_xla_cpu/libpjrt_cpu.so")]
    elif name == "discrete":  # under its own name, which JAX does not know
        options = ["--plugin", build(root) / "tests" / "libdiscrete_pjrt.so",
                   "--plugin-option", "memory_limit=2147483648", "--plugin-option", "bandwidth=4000000000"]
    daemon, client = served(*options)
    platform = "discrete" if name == "discrete" else "cpu"
    assert f"opened platform={platform} pjrt={version} " in daemon.log
    env = {"JAX_PLATFORMS": platform,
           "PJRT_NAMES_AND_LIBRARY_PATHS": f"{platform}:{build(root) / 'lib' / 'libsalus_pjrt.so'}"}
    jobs = [client.start(examples / "mlp.py", env=env) for _ in range(2)]
    digests = {job.succeed(240).digest for job in jobs}
    assert len(digests) == 1
    assert "accuracy: 1.000" in jobs[0].stdout


def test_page_outs_are_measured(root, served):
    """Two jobs push each other out, over a link of 200 MB/s: the scheduler does not take it to be faster."""
    daemon, client = served("--memory", "64MiB", "--tune", "page_margin=0",
                            "--plugin", build(root) / "tests" / "libdiscrete_pjrt.so",
                            "--plugin-option", "memory_limit=70000000", "--plugin-option", "platform=cpu",
                            "--plugin-option", "bandwidth=200000000")
    holders = [Holder(client, name) for name in ("first", "second")]
    for holder in holders:
        holder.do("put", 40)
    for _ in range(5):
        for holder in holders:
            holder.do("use")
    rates = [int(rate) for rate in re.findall(r"paging: copies (\d+) MB/s", daemon.log)]
    assert rates and max(rates) <= 200, daemon.log
    for holder in holders:
        holder.end()


def start_without_a_gpu(root, tmp_path, plugin, *options):
    command = [build(root) / "bin" / "salusd", "--socket", tmp_path / "socket", "--plugin", plugin, *options]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    return run.stderr


def test_cuda_says_what_is_missing(root, tmp_path, cuda):
    """The sentence that a user gets names the plugin. The options that we add are taken."""
    assert f"salusd: {cuda}: No visible GPU devices." in start_without_a_gpu(root, tmp_path, cuda)
    refused = start_without_a_gpu(root, tmp_path, cuda, "--plugin-option", "colour=red")
    assert f"{cuda}: " in refused and "colour" in refused
    refused = start_without_a_gpu(root, tmp_path, cuda, "--plugin-option", "preallocate=1")
    assert "preallocate" in refused  # an int is no bool


def compile_for_a100(root, tmp_path, cuda, program):
    source = tmp_path / "program.mlir"
    source.write_text(program)
    path = f"{installed('nvidia/cuda_nvcc/bin')}:{os.environ['PATH']}"
    run = subprocess.run([build(root) / "tests" / "compile_for", cuda, root / "tests" / "plugins" / "a100.txt",
                          source], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300)
    return run.stdout


def test_cuda_compiles_for_a_gpu_that_is_not_there(root, tmp_path, cuda):
    """Our own code reads the facts of a program for an A100: memory, donations, kinds of memory, image."""
    lines = compile_for_a100(root, tmp_path, cuda, DOT).splitlines()
    facts = dict(line.rsplit(" ", 1) for line in lines if line.count(" ") == 1)
    assert facts["pjrt"] == "0.112"
    assert "attribute cuda_version" in lines  # by which we know a plugin for CUDA
    assert facts["name"] == "dot"
    assert (facts["argument"], facts["output"], facts["alias"]) == ("8388608", "4194304", "4194304")
    assert 4194304 <= int(facts["temp"]) < 64 * 2**20
    assert facts["donated"] == "1"
    assert "output 0 bytes 4194304 kind device" in lines
    assert int(facts["optimized"]) > 0 and int(facts["image"]) > 0


def test_cuda_names_functions_that_it_lacks(root, tmp_path, cuda):
    """The plugin of a job turns these words into a hint: the function is one of JAX's extension modules."""
    said = compile_for_a100(root, tmp_path, cuda, SOLVER)
    assert "No FFI handler registered for cusolver_getrf_ffi" in said
    assert " CUDA" in said
