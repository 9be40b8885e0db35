# SPDX-License-Identifier: Apache-2.0
"""The client wheel: built by tools/wheel, installed by pip, used by a plain `python`."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

SHOW = """
    import json, jax
    print(json.dumps({"total": float(jax.numpy.ones(3).sum()),
                      "version": jax.devices("cpu")[0].client.platform_version}))
    """


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([root / "tools" / "wheel", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.parent == folder and [path] == list(folder.iterdir())
    return path


@pytest.fixture(scope="module")
def installed(wheel, python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                           "--disable-pip-version-check", "--target", folder, wheel],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_the_library_for_any_python(wheel):
    assert "-py3-none-manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        points = next(archive.read(n).decode() for n in names if n.endswith("entry_points.txt"))
    assert "salus_client/libsalus_pjrt.so" in names and "jax_plugins/salus/__init__.py" in names
    assert "jax_plugins/__init__.py" not in names  # the namespace belongs to all plugins
    assert not [n for n in names if "gpu/" in n or "__pycache__" in n]
    assert "[jax_plugins]" in points and "[torch_xla.plugins]" in points


def test_plain_python_is_a_job_if_there_is_a_daemon(installed, plain_runner, daemon):
    run = plain_runner({"PYTHONPATH": str(installed)})
    done = run(SHOW, env={"SALUS_SOCKET": str(daemon.socket)})
    assert (done.code, done.stderr) == (0, ""), done.describe()
    seen = json.loads(done.stdout)
    assert seen["total"] == 3 and seen["version"].endswith("salus")
    assert daemon.log.count(" session: opened ") == 1


def test_plain_python_stays_plain_without_a_daemon(installed, plain_runner, tmp_path):
    run = plain_runner({"PYTHONPATH": str(installed)})
    for env in ({}, {"SALUS_SOCKET": str(tmp_path / "nowhere")}):
        done = run(SHOW, env=env)
        assert (done.code, done.stderr) == (0, ""), done.describe()
        assert "salus" not in json.loads(done.stdout)["version"]
    done = run(SHOW, env={"SALUS_SOCKET": str(tmp_path / "nowhere"), "SALUS_REQUIRED": "1"})
    assert done.code == 1 and "SALUS_REQUIRED is set, but no salusd answers" in done.stderr


def test_salus_run_works_where_the_wheel_is_installed(installed, salus, daemon):
    done = salus(SHOW, env={"PYTHONPATH": str(installed)})
    assert (done.code, done.stderr) == (0, ""), done.describe()
    assert daemon.log.count(" session: opened ") == 1
