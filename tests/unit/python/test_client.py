# SPDX-License-Identifier: Apache-2.0
"""The Python modules of python/, with frameworks and daemons made up here: what they register, and when."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULES = ROOT / "python"
LIMIT = 60  # seconds; only against hanging

# As much of jax._src.xla_bridge as for_jax.py uses, and of JAX's discovery.
BRIDGE = '''
_nonexperimental_plugins = {"cuda"}
_topology_factories = {}
_callbacks = []

class setting:
    import os
    value = int(os.environ.get("SETTING", -1))

if setting.os.environ.get("OLD"):
    NUM_CPU_DEVICES = setting
else:
    num_cpu_devices = setting

class hardware_utils:
    has_visible_nvidia_gpu = staticmethod(lambda: False)

class Registration:
    def __init__(self, factory, priority, experimental):
        self.factory, self.priority, self.experimental = factory, priority, experimental
        self.fail_quietly = True

_backend_factories = {"cpu": Registration("built-in", 0, False), "tpu": Registration("tpu", 300, False)}

def register_plugin(name, library_path, priority=400):
    experimental = name not in _nonexperimental_plugins
    def create():
        import os
        return library_path + os.environ.get("SALUS_HOST_DEVICES", "")

    _backend_factories[name] = Registration(create, priority, experimental)
    _topology_factories[name] = library_path

def register_plugin_callbacks(callback):
    _callbacks.append(callback)

def discover():
    import importlib.metadata, json, os
    for point in importlib.metadata.entry_points(group="jax_plugins"):
        __import__(point.value, fromlist=["initialize"]).initialize()
    for entry in filter(None, os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",")):
        register_plugin(entry.split(":")[0], entry.split(":")[1])
    if "VENDOR" in os.environ:
        register_plugin(os.environ["VENDOR"], "vendor", 500)
    for callback in _callbacks:
        callback(c_api=None)
    show = {}
    for name, r in _backend_factories.items():
        try:
            factory = r.factory() if callable(r.factory) else r.factory
        except RuntimeError as error:
            factory = str(error)
        show[name] = [factory, r.priority, r.experimental]
    print(json.dumps({"backends": show, "topologies": _topology_factories,
                      "gpu": hardware_utils.has_visible_nvidia_gpu()}))
'''

# As much of torch_xla as for_torch.py uses, and how torch_xla finds plugins.
PLUGINS = '''
class DevicePlugin:
    def configure_single_process(self):
        raise NotImplementedError

def register():
    import importlib.metadata
    return {p.name.upper(): p.load()() for p in importlib.metadata.entry_points(group="torch_xla.plugins")}
'''


class Answering:
    """A daemon that gives every question the same answer."""

    def __init__(self, folder, answer):
        self.path = str(folder / "s")
        self.answer = answer
        self.questions = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            with peer:
                self.questions.append(json.loads(peer.makefile().readline()))
                peer.sendall(self.answer)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="salus-") as path:
        yield Path(path)


@pytest.fixture
def installed(folder):
    """A folder as an installation has it: the modules, entry points, and the frameworks made up here."""
    for name in ("jax_plugins", "salus_client"):
        (folder / name).symlink_to(MODULES / name)
    info = folder / "salus_client-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: salus-client\nVersion: 1\n")
    (info / "entry_points.txt").write_text((MODULES / "entry_points.txt").read_text())
    for name, text in {"jax/_src/xla_bridge.py": BRIDGE, "torch_xla/experimental/plugins.py": PLUGINS}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


def run(installed, program, **env):
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True,
                          timeout=LIMIT)


def jax(installed, **env):
    done = run(installed, "import jax._src.xla_bridge as b; b.discover()", **env)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def torch(installed, **env):
    program = ("import os; from torch_xla.experimental import plugins; found = plugins.register();"
               "print(list(found), found['SALUS'].library_path(), os.environ.get('PJRT_DEVICE'));"
               "found['SALUS'].configure_single_process()")
    return run(installed, program, **env)


def launched(platform):
    return {"SALUS_PLUGIN": "/p.so", "PJRT_NAMES_AND_LIBRARY_PATHS": f"x:/x.so,{platform}:/p.so"}


PING = b'{"ok": true, "platform": "cpu"}\n'


def test_jax_registers_what_was_launched_and_does_not_warn(installed):
    seen = jax(installed, **launched("cpu"))
    assert seen["backends"]["cpu"] == ["/p.so", 400, False]
    assert seen["backends"]["x"] == ["/x.so", 400, True]  # the user's own plugin stays what it is
    assert not seen["gpu"]


def test_the_library_learns_of_jax_num_cpu_devices(installed):
    """The library reads a variable while it starts, and no child process sees it."""
    assert jax(installed, **launched("cpu"), SETTING="4", OLD="1")["backends"]["cpu"][0] == "/p.so4"
    seen = jax(installed, **launched("cpu"), SETTING="4")
    assert seen["backends"]["cpu"][0] == "/p.so4"
    assert seen["backends"]["x"][0] == "/x.so"
    daemon = Answering(installed, PING)
    assert jax(installed, SALUS_SOCKET=daemon.path, SETTING="2")["backends"]["cpu"][0].endswith(".so2")


def test_a_launched_job_on_cuda_needs_no_gpu(installed):
    seen = jax(installed, **launched("cuda"))
    assert seen["backends"]["cuda"] == ["/p.so", 400, False]
    assert seen["gpu"]


def test_a_daemon_makes_a_plain_process_a_job(installed):
    daemon = Answering(installed, PING)
    seen = jax(installed, SALUS_SOCKET=daemon.path)
    library = str(MODULES / "salus_client" / "libsalus_pjrt.so")
    assert daemon.questions == [{"op": "ping"}]
    path, priority, experimental = seen["backends"]["cpu"]
    assert (os.path.realpath(path), priority, experimental) == (library, 1000, False)
    assert list(seen["topologies"]) == ["cpu"] and "salus" not in seen["backends"]


def test_the_vendors_plugin_does_not_win_the_name_back(installed):
    daemon = Answering(installed, PING.replace(b"cpu", b"cuda"))
    seen = jax(installed, SALUS_SOCKET=daemon.path, VENDOR="cuda")
    assert seen["backends"]["cuda"][1:] == [1000, False] and seen["gpu"]
    assert seen["backends"]["cpu"][0] == "built-in"


UNTOUCHED = {"cpu": ["built-in", 0, False], "tpu": ["tpu", 300, False]}


@pytest.mark.parametrize("socket_name", [None, "", "nowhere", "jax"])
def test_without_a_daemon_nothing_changes(installed, socket_name):
    env = {} if socket_name is None else {"SALUS_SOCKET": socket_name and str(installed / socket_name)}
    assert jax(installed, **env)["backends"] == UNTOUCHED
    assert jax(installed, **env, SALUS_REQUIRED="0")["backends"] == UNTOUCHED
    done = torch(installed, **env)
    assert done.returncode == 0 and done.stdout.split()[-1] == "None"


@pytest.mark.parametrize("answer", [b"", b"hello\n", b"[]\n", b'{"ok": true}\n', b'{"platform": 7}\n', b"\xff\n",
                                    b"x" * 100000])
def test_an_answer_that_is_none_changes_nothing(installed, answer):
    daemon = Answering(installed, answer)
    assert jax(installed, SALUS_SOCKET=daemon.path)["backends"] == UNTOUCHED


def test_a_job_that_needs_salus_does_not_run_beside_it(installed):
    seen = jax(installed, SALUS_REQUIRED="1", VENDOR="cuda")["backends"]
    why = "SALUS_REQUIRED is set, but SALUS_SOCKET is not set"
    assert {name: backend[0] for name, backend in seen.items()} == dict.fromkeys(("cpu", "tpu", "cuda"), why)
    seen = jax(installed, SALUS_REQUIRED="1", SALUS_SOCKET=str(installed / "no"))["backends"]
    assert "no salusd answers at" in seen["cpu"][0]
    done = torch(installed, SALUS_REQUIRED="1")
    assert done.returncode == 1 and "SALUS_SOCKET is not set" in done.stderr


def test_a_torch_job_gets_the_device_that_salusd_serves(installed):
    daemon = Answering(installed, PING)
    for env, device in [({}, "SALUS"), ({"PJRT_DEVICE": "CPU"}, "SALUS"), ({"PJRT_DEVICE": "TPU"}, "TPU")]:
        done = torch(installed, SALUS_SOCKET=daemon.path, **env)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split()[0] == "['SALUS']" and done.stdout.split()[-1] == device
    done = torch(installed, **launched("cpu"))
    assert done.stdout.split() == ["['SALUS']", "/p.so", "SALUS"]


# As much of JAX 0.5.3 as old_jax.py uses. Values are of Python, types and attributes are texts.
OLD_JAX = {
    "jax/version.py": "import os; __version_info__ = tuple(map(int, os.environ['VERSION'].split('.')))",
    "jax/_src/callback.py": "def emit_python_callback(*args, **kwargs): return 'original'",
    "jax/_src/interpreters/xla.py": "canonicalize_dtype = lambda value: value",
    "jax/_src/interpreters/mlir.py": """
aval_to_ir_type = lambda aval: [aval.dtype]
flatten_ir_types = lambda types: sum(types, [])
token_type = lambda: "token"
ir_attribute = lambda value: value
class Call:
    def __init__(self, target, **told):
        self.results = ["result " + each for each in told["result_types"]]
        print(target, told["operands"], told["result_types"], told["backend_config"], told["api_version"],
              told["has_side_effect"], told["operand_layouts"], told["result_layouts"])
custom_call = Call
""",
    "jax/interpreters/mlir.py": "emit_python_callback = None",
    "numpy.py": "asarray = lambda value: value\nuint64 = int",
}
LOWER = """
import ctypes
from types import SimpleNamespace as Thing

class Function:
    def __init__(self, call): self.call = call
    def __call__(self, *args): return self.call(*args)

added = []
library = Thing(salus_old_jax=Function(lambda: print("old")),
                salus_old_function=Function(lambda f: added.append(f) or 7 + len(added)))
ctypes.CDLL = lambda path: library
from salus_client import old_jax
from jax._src import callback
import jax.interpreters.mlir as mlir
old_jax.install("/p.so", "cpu")
context = lambda platform: Thing(module_context=Thing(platforms=[platform]))
float1, float2 = Thing(shape=(), dtype="f32"), Thing(shape=(2, 3), dtype="f32")
lower = lambda token, platform="cpu": callback.emit_python_callback(
    context(platform), lambda a, b: (b,), token, ["a", "b"], [float2, float1], [float1], has_side_effect=True)
print(lower(None), lower("t"), lower(None, "cuda"), mlir.emit_python_callback is callback.emit_python_callback)
print(added[0](float2, float1) == (float1,), added[1]("t", float2, float1) == ("t", float1))
for wrong in ((float2, float2), (float2, Thing(shape=(), dtype="s8"))):
    try:
        added[0](*wrong)
    except RuntimeError as error:
        print(error)
"""


def test_callbacks_of_an_old_jax_are_lowered_as_those_of_a_newer_one(installed):
    for name, text in OLD_JAX.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text)
    done = run(installed, LOWER, VERSION="0.5.3")
    assert done.stderr == "" and done.stdout.splitlines() == [
        "old",
        "xla_ffi_python_cpu_callback ['a', 'b'] ['f32'] {'index': 8} 4 True [[1, 0], ()] [()]",
        "xla_ffi_python_cpu_callback ['t', 'a', 'b'] ['token', 'f32'] {'index': 9} 4 True [(), [1, 0], ()] [(), ()]",
        "(['result f32'], None, None) (['result f32'], 'result token', None) original True",
        "True True",
        "Incorrect output shape for return value #0: Expected: (), Actual: (2, 3)",
        "Incorrect output dtype for return value #0: Expected: f32, Actual: s8",
    ]
    newer = "from salus_client import old_jax; old_jax.install('/none.so', 'cpu'); from jax._src import callback;" \
            "print(callback.emit_python_callback())"
    assert run(installed, newer, VERSION="0.6.0").stdout == "original\n"


# As much of JAX as placement.py uses. MAIN marks the main function of a program.
PLACES = """
from types import SimpleNamespace as Thing
ir = Thing(StringAttr=Thing(get=lambda text: text))
wrap_with_memory_kind = lambda ctx, value, kind, aval: f"{kind}({value})"
def lower_jaxpr_to_fun(ctx, name, *, MAIN=False, kinds=()):
    each = [{"mhlo.memory_kind": Thing(value=kind)} if kind else {} for kind in kinds]
    return Thing(attributes={"res_attrs": each} if each else {})
"""
PLACE = """
from types import SimpleNamespace as Thing
from salus_client import placement
from jax._src.interpreters import mlir
placement.install("cuda")
print(mlir.wrap_with_memory_kind(Thing(platforms=("cuda",)), "x", "pinned_host", None))
placement.install("cpu")
def lower(platform, main, *kinds):
    ctx = Thing(platforms=(platform,), module=Thing(operation=Thing(attributes={})))
    mlir.lower_jaxpr_to_fun(ctx, "f", kinds=kinds, **({"MAIN": True} if main else {}))
    return mlir.wrap_with_memory_kind(ctx, "x", "pinned_host", None), ctx.module.operation.attributes
print(lower("cpu", True, "pinned_host", "", "device"))
for case in (("cpu", True, "", ""), ("cpu", True), ("cpu", False, "pinned_host"), ("tpu", True, "pinned_host")):
    print(lower(*case))
"""


@pytest.mark.parametrize("mark", ("main_function", "public"))  # of JAX from 0.7.0 on, and before
def test_memory_kinds_that_a_program_names_are_written_into_it(installed, mark):
    (installed / "jax/_src/interpreters").mkdir(parents=True)
    (installed / "jax/_src/interpreters/mlir.py").write_text(PLACES.replace("MAIN", mark))
    done = run(installed, PLACE.replace("MAIN", mark))
    assert done.stderr == "" and done.stdout.splitlines() == [
        "pinned_host(x)",
        "('x', {'salus.memory_kinds': 'salus.memory_kinds=pinned_host,,device;'})",
        *["('x', {})"] * 3,
        "('pinned_host(x)', {})",
    ]


# As much of JAX as inspection.py uses. A module is a list of calls. ERROR is what the compiler raises.
INSPECTED = {
    "jax/_src/compiler.py": """
def backend_compile_and_load(backend, module, executable_devices, options, host_callbacks):
    return module.calls
""",
    "jax/_src/lib/__init__.py": """
from types import SimpleNamespace as Thing
class ERROR(RuntimeError):
    pass
def get_tfrt_cpu_client(asynchronous, num_devices):
    def compile_and_load(bytecode, executable_devices, compile_options):
        print("spread", *bytecode, "over", executable_devices, compile_options)
        raise ERROR("no such function")
    return Thing(devices=lambda: [Thing(id=i) for i in range(num_devices)],
                 compile_and_load=compile_and_load)
_jax = Thing(ERROR=ERROR, get_tfrt_cpu_client=get_tfrt_cpu_client,
             DeviceList=lambda devices: [d.id for d in devices])
""",
    "jax/_src/lib/mlir/ir.py": """
import contextlib
from types import SimpleNamespace as Thing
WalkResult = Thing(ADVANCE=0)
class Module:
    context = contextlib.nullcontext()
    def __init__(self, calls):
        self.calls, self.operation = list(calls), self
    @staticmethod
    def parse(asm):
        return Module(asm[1:])
    def get_asm(self, binary, enable_debug_info):
        return ("bytecode", *self.calls)
    def walk(self, visit):
        for call in list(self.calls):
            op = Thing(name="stablehlo.custom_call", attributes={"call_target_name": Thing(value=call)})
            op.operation, op.erase = op, lambda call=call: self.calls.remove(call)
            visit(op)
""",
}
INSPECT = """
from types import SimpleNamespace as Thing
from salus_client import inspection
from jax._src import compiler
from jax._src.lib.mlir import ir
original = compiler.backend_compile_and_load
inspection.install("cuda")
assert compiler.backend_compile_and_load is original
inspection.install("cpu")
def compile(platform, ids, *calls):
    module = ir.Module(calls)
    print(compiler.backend_compile_and_load(Thing(platform=platform), module, [Thing(id=i) for i in ids], "options", []))
    assert module.calls == list(calls)
compile("cpu", [2, 1], "a", "InspectSharding", "b")
compile("cpu", [0, 1], "a", "b")
compile("cpu", [0], "InspectSharding")
compile("tpu", [0, 1], "InspectSharding")
"""


@pytest.mark.parametrize("error", ("JaxRuntimeError", "XlaRuntimeError"))  # of JAX from 0.8 on, and before
def test_inspected_shardings_come_from_the_compiler_in_the_job(installed, error):
    """The program that Salus gets has no call of the job's own process; what JAX holds is not changed."""
    for name, text in INSPECTED.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text.replace("ERROR", error))
    done = run(installed, INSPECT)
    assert done.stderr == "" and done.stdout.splitlines() == [
        "spread bytecode a InspectSharding b over [2, 1] options",
        "['a', 'b']",
        "['a', 'b']",
        "['InspectSharding']",
        "['InspectSharding']",
    ]


# As much of JAX as approximate.py uses.
RANKED = {
    "jax/_src/lax/ann.py": """
from types import SimpleNamespace as Thing
def _comparator_builder_mlir(ctx, element, is_max_k):
    operand = Thing(type=Thing(element_type=element))
    compare = Thing(name="stablehlo.compare", operands=[operand, operand], attributes={})
    end = Thing(name="stablehlo.return", operands=[operand], attributes={})
    block = Thing(operations=[Thing(operation=compare), Thing(operation=end)])
    return Thing(entry_block=block, is_max_k=is_max_k)
""",
    "jax/_src/lib/mlir/ir.py": """
class FloatType:
    pass
def RankedTensorType(type):
    return type
""",
    "jax/_src/lib/mlir/dialects/hlo.py": """
from types import SimpleNamespace as Thing
ComparisonTypeAttr = Thing(get=lambda name: name)
""",
}
RANK = """
from types import SimpleNamespace as Thing
from salus_client import approximate
from jax._src.lax import ann
from jax._src.lib.mlir import ir
original = ann._comparator_builder_mlir
approximate.install("cuda")
assert ann._comparator_builder_mlir is original
approximate.install("cpu")
for platforms, element in (("cpu",), ir.FloatType()), (("cpu",), "s32"), (("cpu", "tpu"), ir.FloatType()):
    comparator = ann._comparator_builder_mlir(Thing(module_context=Thing(platforms=platforms)), element, is_max_k=True)
    print(comparator.is_max_k, [op.operation.attributes for op in comparator.entry_block.operations])
"""


def test_approximate_ranks_compare_in_a_total_order(installed):
    for name, text in RANKED.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text)
    done = run(installed, RANK)
    assert done.stderr == "" and done.stdout.splitlines() == [
        "True [{'compare_type': 'TOTALORDER'}, {}]",
        *["True [{}, {}]"] * 2,
    ]


def test_the_modules_compile_for_old_pythons_and_import_no_framework():
    for path in MODULES.rglob("*.py"):
        compile(path.read_text(), str(path), "exec", dont_inherit=True)
    probe = ("import sys; sys.path.insert(0, sys.argv[1]); import jax_plugins.salus, salus_client.job, salus_client.for_jax;"
             "sys.exit(any(m.split('.')[0] in ('jax', 'jaxlib', 'torch', 'torch_xla', 'numpy') for m in sys.modules))")
    assert subprocess.run([sys.executable, "-IS", "-c", probe, MODULES], timeout=LIMIT).returncode == 0
