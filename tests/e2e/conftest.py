# SPDX-License-Identifier: Apache-2.0
"""Real JAX programs through a real salusd, beside the same vendor plugin loaded in-process ("direct").

    SALUS_BUILD         build directory                                     (build)
    SALUS_TEST_PYTHON   interpreter that has JAX and the vendor plugin      (.venv/bin/python)
    SALUS_TEST_DIRECT   if set, tests of clients use the vendor plugin in place of Salus: this tries
                        the tests, not Salus, and needs no build
    SALUS_TEST_DEVICE   host: XLA:CPU; discrete: the test device around it, see docs/DEVICES.md; both (host)
    SALUS_TEST_PATIENCE factor on every deadline, for slow machines and sanitizers   (1)
    SALUS_TEST_KILLS    how many clients test_death.py kills at random      (20)
    SALUS_TEST_SEED     seed of what is random                              (from the clock; printed)
"""

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
PYTHON = Path(os.environ.get("SALUS_TEST_PYTHON", ROOT / ".venv" / "bin" / "python"))
DIRECT_ONLY = bool(os.environ.get("SALUS_TEST_DIRECT"))
PATIENCE = float(os.environ.get("SALUS_TEST_PATIENCE", "1"))

PR_SET_CHILD_SUBREAPER = 36


# Processes.


def wait_until(condition, deadline_s, what):
    """Poll until the condition holds and return its value; fail after the deadline."""
    end = time.monotonic() + deadline_s * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited {deadline_s * PATIENCE:g} s in vain: {what}")
        time.sleep(0.005)


def stat_fields(pid):
    """The fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_running(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] != "Z"


def cpu_ticks(pid):
    fields = stat_fields(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def descendants(pid):
    """Running processes below pid."""
    children = {}
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdigit() else None
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def program_of(pid):
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


def reap_orphans():
    """Helpers whose daemon ended before them are our children now."""
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdigit() else None
        if fields and fields[0] == "Z" and int(fields[1]) == os.getpid():
            if Path(f"/proc/{name}/comm").read_text().startswith("salus-"):
                os.waitpid(int(name), os.WNOHANG)


def our_helpers():
    """Compile helpers and daemons that we, or what we started, started."""
    reap_orphans()
    return {pid: program_of(pid) for pid in descendants(os.getpid())
            if program_of(pid).startswith(("salusd", "salus-"))}


# Running programs.


def take_interrupts():
    """What runs in the background of a shell ignores SIGINT, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Running:
    """A started program: its output goes to files, its process group is its own."""

    def __init__(self, command, env, folder):
        folder.mkdir(parents=True)
        self.command, self.folder = command, folder
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.PIPE,
                                            stdout=out, stderr=err, start_new_session=True,
                                            preexec_fn=take_interrupts)
        self.pid = self.process.pid

    @property
    def stdout(self):
        return (self.folder / "stdout").read_text(errors="replace")

    @property
    def stderr(self):
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def code(self):
        return self.process.poll()

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait_for(self, text, deadline_s=60):
        """Until it has printed a text; fails at once if it ends without."""
        def printed():
            ended = self.code is not None
            if text in self.stdout:
                return True
            assert not ended, f"ended without printing {text!r}:\n{self.describe()}"
            return False

        wait_until(printed, deadline_s, f"{text!r} from\n{self.describe()}")

    def finish(self, deadline_s=120):
        """Wait for the end; what does not end in time is killed, and the test fails."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(deadline_s * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"still running after {deadline_s * PATIENCE:g} s:\n{self.describe()}")
        return self

    def succeed(self, deadline_s=120):
        self.finish(deadline_s)
        assert self.code == 0, self.describe()
        return self

    def kill(self):
        """Kill the whole group, if it still is ours to kill."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()

    def describe(self):
        return (f"$ {' '.join(map(str, self.command))}\nexit status {self.code}\n"
                f"--- stdout\n{self.stdout[-4000:]}\n--- stderr\n{self.stderr[-6000:]}")

    @property
    def digest(self):
        lines = re.findall(r"^digest: ([0-9a-f]{64})$", self.stdout, re.M)
        assert len(lines) == 1, self.describe()
        return lines[0]


class Runner:
    """Starts Python programs in one way: directly, under `salus run`, or with the plugin alone."""

    def __init__(self, folder, prefix, env):
        self.folder, self.prefix, self.env = folder, prefix, env
        self.started = []

    def start(self, program, *args, env=None):
        """program: a path, or source text."""
        folder = self.folder / f"run{len(self.started)}"
        if not isinstance(program, Path):
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"program{len(self.started)}.py"
            path.write_text(textwrap.dedent(program))
            program = path
        # "-W": JAX warns of every fork.
        command = [*self.prefix, PYTHON, "-W", "ignore:os.fork", program, *args]
        run = Running([str(c) for c in command], {**self.env, **(env or {})}, folder)
        self.started.append(run)
        return run

    def __call__(self, program, *args, deadline_s=120, env=None):
        return self.start(program, *args, env=env).finish(deadline_s)

    def stop(self):
        for run in self.started:
            run.kill()


# The daemon.


def bytes_of(size):
    """Of a size as salusd reads it: 72MiB."""
    number, unit = re.fullmatch(r"([0-9.]+)([KMG]i)?B?", size).groups()
    return int(float(number) * {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[unit])


def discrete_options(options):
    """Of salusd, for the discrete device. Its limit leaves what salusd leaves to the vendor: a 32nd part."""
    given = [after for option, after in zip(options, options[1:]) if option == "--memory"]
    capacity = bytes_of(given[-1]) if given else 8 * 2**30
    return ["--plugin", BUILD / "tests" / "libdiscrete_pjrt.so", "--plugin-option", "platform=cpu",
            "--plugin-option", f"memory_limit={capacity * 32 // 31 + 4096}"]


class Daemon:
    """A private salusd. Its files (socket, log, caches) are in a folder of the test."""

    def __init__(self, folder, env, plugin, *options, device="host"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.socket = folder / "salusd.sock"
        self.env = {**env, "SALUS_SOCKET": str(self.socket)}
        if os.geteuid() != 0:
            self.env["SALUS_DEBUG_CORE"] = "1"  # else only root can look into its /proc/PID
        command = [BUILD / "bin" / "salusd", "--socket", self.socket, "--plugin", plugin, *options]
        if device == "discrete" and "--plugin" not in options:
            command += discrete_options(options)
        with open(folder / "salusd.log", "ab") as log:
            self.process = subprocess.Popen([str(c) for c in command], env=self.env, cwd=folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self.process.pid
        wait_until(self.answers, 60, "salusd to answer")

    @property
    def log(self):
        return (self.folder / "salusd.log").read_text(errors="replace")

    def salus(self, *args, deadline_s=30):
        """The command line tool, talking to this daemon."""
        return subprocess.run([str(c) for c in (BUILD / "bin" / "salus", *args)], env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=deadline_s * PATIENCE)

    def answers(self):
        assert self.is_alive(), f"salusd ended with {self.process.poll()}:\n{self.log[-6000:]}"
        return self.salus("ping").returncode == 0

    def is_alive(self):
        return self.process.poll() is None

    def sessions(self):
        ps = self.salus("ps", "--json")
        assert ps.returncode == 0, ps.stderr
        return json.loads(ps.stdout)["sessions"]

    def helpers(self):
        return [p for p in descendants(self.pid) if program_of(p).startswith("salus-")]

    def cpu_ticks(self):
        """CPU time of the daemon and its helpers so far."""
        return sum(map(cpu_ticks, [self.pid, *descendants(self.pid)]))

    def wait_busy(self, ticks=10):
        """Until it has worked for so many clock ticks from now on."""
        start = self.cpu_ticks()
        wait_until(lambda: self.cpu_ticks() >= start + ticks, 60, "salusd to get busy")

    def holdings(self):
        """What a leak would add to. A second compile helper stays for a minute, with three sockets to it."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        return {"fds": len(os.listdir(f"/proc/{self.pid}/fd")) - 3 * len(self.helpers()),
                "threads": len(os.listdir(f"/proc/{self.pid}/task")),
                "shared mappings": maps.count("memfd:")}

    def wait_holding(self, most, deadline_s=1):
        """Until there is no session and it holds no more than it did before."""
        # A lane that was opened meanwhile stays, with the vendor's threads; so do some idle
        # carriers.
        stays = {"threads": 12}

        def settled():
            return not self.sessions() and all(v <= most[k] + stays.get(k, 0)
                                               for k, v in self.holdings().items())

        try:
            wait_until(settled, deadline_s, "salusd to let go")
        except pytest.fail.Exception:
            pytest.fail(f"salusd holds {self.holdings()}, had {most}; sessions {self.sessions()}")

    def kill(self):
        """kill -9, and wait until it is gone. Returns the moment of the kill (monotonic)."""
        moment = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        return moment

    def stop(self):
        """SIGTERM: it must end by itself, with status 0, and leave nothing behind."""
        if not self.is_alive():
            pytest.fail(f"salusd ended with {self.process.poll()}:\n{self.log[-6000:]}")
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(20 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"salusd ignores SIGTERM:\n{self.log[-6000:]}")
        assert status == 0, f"salusd ended with {status}:\n{self.log[-6000:]}"
        assert "Sanitizer" not in self.log, self.log[-6000:]
        assert not self.socket.exists(), "salusd left its socket"


# Fixtures.


@pytest.fixture(scope="session", autouse=True)
def built():
    """Everything here needs salusd, unless the tests themselves are being tried."""
    if not DIRECT_ONLY and not (BUILD / "bin" / "salusd").exists():
        pytest.skip(f"{BUILD / 'bin' / 'salusd'} does not exist: build it first")
    # Orphans of a daemon become our children, so none can hide.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return BUILD


@pytest.fixture(scope="session")
def python():
    """The interpreter that has JAX."""
    return PYTHON


@pytest.fixture(scope="session")
def examples():
    return ROOT / "examples"


@pytest.fixture(scope="session")
def plugin():
    """The vendor's plugin."""
    find = "from importlib.util import find_spec; print(find_spec('xla_plugins.xla_cpu_pjrt').origin)"
    package = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True)
    path = Path(package.stdout.strip()).parent / "xla_cpu_pjrt.so"
    assert path.exists(), path
    return path


def clean_env(folder):
    """An environment with nothing of the caller's in it, and directories of its own."""
    env = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        env[name] = str(folder / name.lower())
        Path(env[name]).mkdir(parents=True, exist_ok=True)
        Path(env[name]).chmod(0o700)
    sanitizers = {n: v for n, v in os.environ.items() if n.endswith("SAN_OPTIONS")}
    return {**env, **sanitizers, "PYTHONDONTWRITEBYTECODE": "1"}


def direct_env(folder, plugin, devices=1):
    config = folder / "plugin.json"
    config.write_text(json.dumps({"library_path": str(plugin),
                                  "create_options": {"cpu_device_count": devices}}))
    return {**clean_env(folder), "JAX_PLATFORMS": "cpu",
            "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{config}"}


@pytest.fixture
def direct(tmp_path, plugin):
    """direct(program, *args): the vendor plugin in the program's own process."""
    runner = Runner(tmp_path / "direct", [], direct_env(tmp_path, plugin))
    yield runner
    runner.stop()


@pytest.fixture
def builtin(tmp_path):
    """builtin(program, *args): JAX's own CPU backend, in the program's own process."""
    runner = Runner(tmp_path / "builtin", [], {**clean_env(tmp_path), "JAX_PLATFORMS": "cpu"})
    yield runner
    runner.stop()


@pytest.fixture(scope="session")
def reference(tmp_path_factory, plugin, examples):
    """reference(example, *args): the example's direct run, run once a session."""
    folder = tmp_path_factory.mktemp("reference")
    runner = Runner(folder / "direct", [], direct_env(folder, plugin))
    known = {}

    def run(example, *args):
        if (example, args) not in known:
            out = folder / f"{len(known)}.npz"
            known[example, args] = runner(examples / example, *args, "--out", out)
            known[example, args].out = out
            assert known[example, args].code == 0, known[example, args].describe()
        return known[example, args]

    yield run
    runner.stop()


def pytest_generate_tests(metafunc):
    """A test of several devices runs on each. With SALUS_TEST_DEVICE, all tests run on that one, or on both."""
    asked = os.environ.get("SALUS_TEST_DEVICE", "host")
    several = asked == "both" or (asked == "host" and metafunc.definition.get_closest_marker("devices"))
    if several and "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["host", "discrete"])


@pytest.fixture
def device():
    """host or discrete: what the daemons of the test run on."""
    return os.environ.get("SALUS_TEST_DEVICE", "host")


@pytest.fixture
def on_the_host(device):
    """For a test of something that only a host device has."""
    if device != "host":
        pytest.skip("the device is not the host")


@pytest.fixture
def start_daemon(tmp_path, plugin, device):
    """start_daemon(*options, folder=, env=, plugin=): a salusd of the test's own; the test ends it."""
    daemons = []

    def start(*options, folder=tmp_path / "salusd", env=None, plugin=plugin):
        daemons.append(Daemon(folder, {**clean_env(tmp_path), **(env or {})}, plugin, *options,
                              device=device))
        return daemons[-1]

    yield start
    for daemon in daemons:
        if daemon.is_alive():
            daemon.kill()
    wait_until(lambda: not our_helpers(), 5, "helpers to end with their daemon")


@pytest.fixture
def daemon(request, device):
    """A salusd that must survive the test and end cleanly after it."""
    if DIRECT_ONLY:
        pytest.skip("needs salusd, and only the tests are being tried")
    daemon = request.getfixturevalue("start_daemon")()
    yield daemon
    try:
        daemon.stop()
    finally:
        print(f"--- salusd's log\n{daemon.log[-6000:]}")
    wait_until(lambda: not our_helpers(), 5, "helpers to end with their daemon")


def client_env(daemon, tmp_path):
    """What `salus run` sets."""
    return {**clean_env(tmp_path), "SALUS_SOCKET": str(daemon.socket), "JAX_PLATFORMS": "cpu",
            "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{BUILD / 'lib' / 'libsalus_pjrt.so'}"}


@pytest.fixture
def salus(request, tmp_path, device):
    """salus(program, *args): the program, unchanged, under `salus run`."""
    if DIRECT_ONLY:
        yield request.getfixturevalue("direct")
        return
    daemon = request.getfixturevalue("daemon")
    env = {**clean_env(tmp_path), "SALUS_SOCKET": str(daemon.socket)}
    runner = Runner(tmp_path / "salus", [BUILD / "bin" / "salus", "run", "--"], env)
    yield runner
    runner.stop()


@pytest.fixture
def salus_runner(tmp_path):
    """salus_runner(daemon): a runner like salus, for a daemon that the test started."""
    runners = []

    def make(daemon):
        env = {**clean_env(tmp_path), "SALUS_SOCKET": str(daemon.socket)}
        runners.append(Runner(tmp_path / f"run{len(runners)}", [BUILD / "bin" / "salus", "run", "--"], env))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()


@pytest.fixture
def wide_runner(tmp_path):
    """wide_runner(daemon, n): a runner of `salus run --devices n`."""
    runners = []

    def make(daemon, n):
        prefix = [BUILD / "bin" / "salus", "run", "--devices", str(n), "--"]
        runners.append(Runner(tmp_path / f"wide{len(runners)}", prefix, daemon.env))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()


@pytest.fixture
def wide(daemon, wide_runner):
    """wide(n): the same, with the daemon of the test."""
    return lambda n: wide_runner(daemon, n)


@pytest.fixture(scope="session")
def direct_wide(tmp_path_factory, plugin):
    """direct_wide(job, n): what the job prints on the plugin in-process with n devices."""
    known = {}

    def run(job, n):
        if (job, n) not in known:
            folder = tmp_path_factory.mktemp(f"direct{n}")
            known[job, n] = Runner(folder / "run", [], direct_env(folder, plugin, n))(job, deadline_s=300)
            assert known[job, n].code == 0, known[job, n].describe()
        return known[job, n].stdout

    return run


@pytest.fixture
def plain_runner(tmp_path):
    """plain_runner(env): a runner of plain Python, in a clean environment and this."""
    runners = []

    def make(env):
        runners.append(Runner(tmp_path / f"plain{len(runners)}", [], {**clean_env(tmp_path), **env}))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()


@pytest.fixture
def client(request, tmp_path, device):
    """Like salus, without `salus run`: the process started is the client itself."""
    if DIRECT_ONLY:
        yield request.getfixturevalue("direct")
        return
    runner = Runner(tmp_path / "client", [],
                    client_env(request.getfixturevalue("daemon"), tmp_path))
    yield runner
    runner.stop()


@pytest.fixture
def client_of(tmp_path):
    """client_of(daemon): a runner like client, for a daemon that the test started."""
    runners = []

    def make(daemon):
        runners.append(Runner(tmp_path / f"client{len(runners)}", [], client_env(daemon, tmp_path)))
        return runners[-1]

    yield make
    for runner in runners:
        runner.stop()


@pytest.fixture
def served(start_daemon, client_of, tmp_path):
    """served(*options, env=): a salusd with options and a runner of its clients. It remembers no jobs, and
    must survive the test without complaints and end cleanly after it."""
    daemons = []

    def start(*options, env=None):
        daemons.append(start_daemon("--no-profiles", *options, env=env,
                                    folder=tmp_path / f"salusd{len(daemons)}"))
        return daemons[-1], client_of(daemons[-1])

    yield start
    for daemon in daemons:
        try:
            daemon.stop()
        finally:
            print(f"--- salusd's log\n{daemon.log[-6000:]}")
        assert " error " not in daemon.log


@pytest.fixture
def wait():
    """wait(condition, deadline_s, what)"""
    return wait_until


@pytest.fixture
def helpers_left():
    """helpers_left(): compile helpers and daemons of ours that still run."""
    return our_helpers


@pytest.fixture
def patience():
    return PATIENCE


@pytest.fixture
def rng():
    """A random.Random whose seed is printed, so that a failure can be repeated."""
    seed = int(os.environ.get("SALUS_TEST_SEED") or time.time_ns() % 10**9)
    print(f"SALUS_TEST_SEED={seed}")
    return random.Random(seed)
