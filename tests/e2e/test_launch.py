# SPDX-License-Identifier: Apache-2.0
"""How a script gets onto Salus: `salus run` with the settings that users have."""

import json
import subprocess
from pathlib import Path

import pytest

SHOW = """
    import json, sys
    import jax, jax.numpy as jnp
    total = float(jax.jit(lambda x: (x @ x).sum())(jnp.ones((8, 8))))
    print(json.dumps({"devices": [str(d) for d in jax.devices()], "cpu": [str(d) for d in jax.devices("cpu")],
                      "same": jax.devices("cpu")[0] == jax.devices()[0], "backend": jax.default_backend(),
                      "version": jax.devices()[0].client.platform_version, "total": total}))
    """

# A plugin of the vendor as it is installed: it takes the name "cuda", with the library it is told.
INSTALLED = """
import os
import jax._src.xla_bridge as bridge

def initialize():
    open(os.environ["VENDOR_NOTE"], "a").close()
    bridge.register_plugin("cuda", priority=500, library_path=os.environ["VENDOR_LIBRARY"])
"""


@pytest.fixture
def show(salus):
    """show(env=): what a job sees of its devices; it prints nothing else, and nothing on stderr."""
    def run(env=None, program=SHOW):
        done = salus(program, env=env)
        assert done.code == 0, done.describe()
        assert done.stderr == "", done.describe()
        return json.loads(done.stdout)

    return run


def sessions_opened(daemon):
    return daemon.log.count(" session: opened ")


@pytest.fixture
def on_cuda(start_daemon, tmp_path, build, salus_runner):
    """A daemon whose platform is called "cuda", and a runner of its jobs."""
    daemon = start_daemon("--memory", "1GiB", folder=tmp_path / "cuda", plugin=build / "tests" / "cuda_by_name.so")
    yield daemon, salus_runner(daemon)
    daemon.stop()


def test_jax_does_not_warn(show, daemon):
    seen = show()
    assert (seen["backend"], seen["total"], seen["same"]) == ("cpu", 512, True)
    assert sessions_opened(daemon) == 1


@pytest.mark.parametrize("platforms", ["cpu", ""])
def test_platforms_in_the_environment_stay(show, daemon, platforms):
    assert show(env={"JAX_PLATFORMS": platforms})["same"]
    assert sessions_opened(daemon) == 1


def test_a_script_may_choose_its_platforms(show, daemon):
    chosen = SHOW.replace("import jax, jax", "import jax; jax.config.update('jax_platforms', 'cpu'); import jax")
    assert show(program=chosen)["same"]
    automatic = SHOW.replace("import jax, jax", "import jax; jax.config.update('jax_platforms', None); import jax")
    assert show(program=automatic)["same"]
    assert sessions_opened(daemon) == 2


def test_the_users_python_path_stays(salus, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "of_mine.py").write_text("x = 5")
    done = salus("import of_mine, sys, jax; print(of_mine.x, float(jax.numpy.ones(3).sum()))",
                 env={"PYTHONPATH": str(tmp_path / "mine")})
    assert (done.code, done.stdout, done.stderr) == (0, "5 3.0\n", ""), done.describe()


def test_flags_of_the_user_reach_the_compiler(salus):
    """fast-math is not the default, so its result differs from the default's."""
    program = """
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: jnp.isnan(x / x * 0).any())
        print(bool(f(jnp.zeros(64))))
        """
    plain = salus(program)
    fast = salus(program, env={"XLA_FLAGS": "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false"})
    assert (plain.code, fast.code) == (0, 0), fast.describe()
    assert (plain.stdout, fast.stdout) == ("True\n", "False\n")


def test_a_job_can_be_profiled(salus, tmp_path):
    done = salus("""
        import sys, jax, jax.numpy as jnp
        for turn in range(2):
            with jax.profiler.trace(sys.argv[1]):
                print(float(jax.jit(lambda x: x @ x)(jnp.ones((8, 8))).sum()))
        """, tmp_path / "profile")
    assert (done.code, done.stdout) == (0, "512.0\n" * 2), done.describe()
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_a_python_that_ignores_its_environment_is_a_job_all_the_same(daemon, salus, python, option, tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import jax; print(float(jax.numpy.ones(3).sum()))")
    done = subprocess.run([*salus.prefix, python, option, script], env=salus.env, capture_output=True, text=True,
                          timeout=120)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
    assert sessions_opened(daemon) == 1


def test_a_job_that_uses_another_device_is_told_so(salus, daemon, wait):
    """The built-in backend, made by hand: JAX runs, but beside Salus."""
    done = salus("from jaxlib import xla_client; print(xla_client.make_cpu_client().platform)")
    assert (done.code, done.stdout) == (0, "cpu\n"), done.describe()
    wait(lambda: "did not use the shared device" in done.stderr, 60, "the message")
    assert sessions_opened(daemon) == 0


def test_a_python_without_jax_notices_nothing(salus, python):
    bare = subprocess.run([*salus.prefix, python, "-S", "-c", "import sys; print(len(sys.argv))"],
                          env=salus.env | {"SALUS_QUIET": "1"}, capture_output=True, text=True, timeout=120)
    assert (bare.returncode, bare.stdout, bare.stderr) == (0, "1\n", "")


def test_children_are_jobs_too(salus, daemon):
    program = """
        import multiprocessing, subprocess, sys
        def work(x):
            import jax
            return float(jax.numpy.full(3, x).sum())
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [1, 2], chunksize=1), flush=True)
            code = "import jax; print(float(jax.numpy.ones(4).sum()))"
            subprocess.run([sys.executable, "-c", code], check=True)
        """
    done = salus(program)
    assert (done.code, done.stdout, done.stderr) == (0, "[3.0, 6.0]\n4.0\n", ""), done.describe()
    assert sessions_opened(daemon) in (2, 3)  # one process of the pool may do both


def test_a_job_on_cuda_needs_no_gpu_of_its_own(on_cuda):
    daemon, runner = on_cuda
    done = runner(SHOW)
    assert (done.code, done.stderr) == (0, ""), done.describe()
    seen = json.loads(done.stdout)
    assert (seen["backend"], seen["same"], seen["total"]) == ("gpu", False, 512)
    assert len(seen["cpu"]) == 1
    assert sessions_opened(daemon) == 1


@pytest.fixture(params=["xla_cuda12", "xla_cuda13"])
def vendor(request, tmp_path, plugin):
    """The vendor's plugin is installed. A file notes that it was loaded."""
    module = tmp_path / "site" / "jax_plugins" / request.param / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text(INSTALLED)
    return {"PYTHONPATH": str(tmp_path / "site"), "VENDOR_LIBRARY": str(plugin),
            "VENDOR_NOTE": str(tmp_path / "note")}


def test_the_vendors_plugin_is_not_loaded_if_salusd_serves_its_device(on_cuda, vendor):
    daemon, runner = on_cuda
    done = runner(SHOW, env=vendor)
    assert (done.code, done.stderr) == (0, ""), done.describe()
    assert json.loads(done.stdout)["backend"] == "gpu"
    assert sessions_opened(daemon) == 1 and not Path(vendor["VENDOR_NOTE"]).exists()


def test_the_vendors_plugin_stays_for_another_device(show, daemon, vendor):
    assert show(env=vendor)["backend"] == "cpu"
    assert sessions_opened(daemon) == 1 and Path(vendor["VENDOR_NOTE"]).exists()


def test_env_is_enough_for_another_launcher(daemon, salus, python, tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import jax; print(float(jax.numpy.ones(3).sum()))")
    tool = salus.prefix[0]
    shell = f'eval "$({tool} env --name launched)"; exec {python} {script}'
    done = subprocess.run(["sh", "-c", shell], env=salus.env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n", "")
    assert "opened id=1 name=launched " in daemon.log


# Without `salus run`: the modules are installed, and SALUS_SOCKET leads to a daemon.


@pytest.fixture
def plain(build, plain_runner):
    """plain(daemon): a runner of plain Python, where the modules are installed."""
    def make(daemon):
        env = {"PYTHONPATH": str(build / "lib" / "salus" / "python"),
               "SALUS_PLUGIN": str(build / "lib" / "libsalus_pjrt.so")}
        return plain_runner({**env, **({"SALUS_SOCKET": str(daemon.socket)} if daemon else {})})

    return make


def test_a_socket_in_the_environment_makes_a_job(plain, daemon):
    done = plain(daemon)(SHOW)
    assert (done.code, done.stderr) == (0, ""), done.describe()
    seen = json.loads(done.stdout)
    assert (seen["backend"], seen["same"], seen["total"]) == ("cpu", True, 512)
    assert sessions_opened(daemon) == 1


@pytest.mark.parametrize("vendor", ["xla_cuda12"], indirect=True)
def test_the_job_wins_the_name_of_a_platform(plain, on_cuda, vendor):
    """Whichever plugin JAX finds first: the order changes with the hash of the names."""
    daemon, _ = on_cuda
    runner = plain(daemon)
    path = f"{vendor['PYTHONPATH']}:{runner.env['PYTHONPATH']}"
    for count in range(1, 5):
        done = runner(SHOW, env={**vendor, "PYTHONPATH": path, "PYTHONHASHSEED": str(count)})
        assert done.code == 0, done.describe()
        assert json.loads(done.stdout)["backend"] == "gpu"
        assert sessions_opened(daemon) == count, done.describe()


def test_without_a_daemon_jax_is_as_it_was(plain):
    done = plain(None)(SHOW)
    assert (done.code, done.stderr) == (0, ""), done.describe()
    assert json.loads(done.stdout)["total"] == 512
    done = plain(None)(SHOW, env={"SALUS_REQUIRED": "1"})
    assert done.code == 1
    assert "SALUS_REQUIRED is set, but SALUS_SOCKET is not set" in done.stderr
