# SPDX-License-Identifier: Apache-2.0
"""`salus run`, `ps` and `ping` from outside, against daemons made up here.

A `home` is an installation of its own in a short directory (a socket's path has 107 bytes at most): a
copy of `salus`, and beside it a `salusd` that is a script, told by files beside it what to do."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SALUS = Path(os.environ.get("SALUS_BUILD", ROOT / "build")) / "bin" / "salus"
LIMIT = 60  # seconds; only against hanging

PING = {"ok": True, "version": "0.1.0", "pid": 123, "platform": "cpu", "policy": "fifo",
        "uptime_s": 90.5, "log": "/var/log/x"}
SESSION = {"id": 1, "name": "train.py", "pid": 77, "uid": 0, "state": "running", "lane": 0,
           "iterations": 10, "used_s": 1.25, "waited_s": 0.5, "queued": 2, "held_bytes": 3 << 30,
           "ephem_bytes": 512 << 20, "framework_bytes": 64 << 20, "programs": 3, "buffers": 40, "age_s": 12.3, "weight": 1.0,
           "priority": 20, "kind": "training"}
PS = {"ok": True, "sessions": [SESSION], "policy": "fifo",
      "programs": {"compiled": 1, "memory_hits": 2, "disk_hits": 0}}

# Notes how it was started, says hello on stdout, then does what the files beside it say.
SALUSD = """#!%(python)s -ES
import json, os, socket, sys, time
here = os.path.dirname(os.path.abspath(__file__))
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass  # the one that listdir used
note = {"pid": os.getpid(), "sid": os.getsid(0), "ppid": os.getppid(), "cwd": os.getcwd(),
        "argv": sys.argv[1:], "fds": {k: v for k, v in fds.items() if "salusd" not in v or int(k) < 3}}
with open(here + "/starts", "a") as f:
    f.write(json.dumps(note) + "\\n")
print("hello from", os.getpid(), flush=True)
if os.path.exists(here + "/die"):
    print("plugin: no such device", file=sys.stderr, flush=True)
    sys.exit(9)
while os.path.exists(here + "/wait"):
    time.sleep(0.01)
path = sys.argv[sys.argv.index("--socket") + 1]
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen(64)
while True:
    peer, _ = server.accept()
    if peer.makefile().readline():
        peer.sendall(b'{"ok": true, "platform": "cpu", "pid": %%d}\\n' %% os.getpid())
    peer.close()
"""


class Home:
    def __init__(self, path):
        self.path = path
        self.runtime = path / "run"
        self.socket = self.runtime / "salus" / "salusd.sock"
        self.log = path / "state" / "salus" / "salusd.log"
        self.plugin = path / "lib" / "libsalus_pjrt.so"
        for name in ("bin", "lib", "run"):
            (path / name).mkdir(mode=0o700)
        shutil.copy(SALUS, path / "bin" / "salus")
        self.plugin.write_text("")
        (path / "bin" / "salusd").write_text(SALUSD % {"python": sys.executable})
        (path / "bin" / "salusd").chmod(0o755)
        self.daemons = []
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(path), "SALUS_QUIET": "1",
                    "XDG_RUNTIME_DIR": str(self.runtime), "XDG_STATE_HOME": str(path / "state")}

    def environment(self, **changes):
        env = {**self.env, **{k: str(v) for k, v in changes.items() if v is not None}}
        return {k: v for k, v in env.items() if changes.get(k, "") is not None}

    def popen(self, *args, env=None, **kwargs):
        kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kwargs}
        return subprocess.Popen([self.path / "bin" / "salus", *map(str, args)],
                                env=self.environment(**(env or {})), **kwargs)

    def salus(self, *args, **kwargs):
        process = self.popen(*args, **kwargs)
        out, err = process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def tell(self, what):
        (self.path / "bin" / what).write_text("")

    def untell(self, what):
        (self.path / "bin" / what).unlink()

    def starts(self):
        notes = self.path / "bin" / "starts"
        return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []

    def lock_is_free(self):
        with open(self.runtime / "salus" / "start.lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

    def serve(self, path, treatment):
        self.daemons.append(Daemon(path, treatment))
        return self.daemons[-1]

    def close(self):
        for daemon in self.daemons:
            daemon.close()
        for note in self.starts():
            try:
                os.kill(note["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.path)


@pytest.fixture
def home():
    made = Home(Path(tempfile.mkdtemp(prefix="salus-")))
    yield made
    made.close()


def wait_until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Daemon:
    """Listens on a socket and gives every client the same treatment: bytes to send, or a function."""

    def __init__(self, path, treatment):
        self.requests = []
        self.treatment = treatment
        self.path = path
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.treat, args=(peer,), daemon=True).start()

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)  # wakes accept
        self.server.close()

    def treat(self, peer):
        with peer:
            try:
                if callable(self.treatment):
                    self.treatment(peer)
                else:
                    self.requests.append(peer.makefile().readline())
                    peer.sendall(self.treatment)
            except OSError:
                pass  # it went away


def answers(reply):
    return json.dumps(reply).encode() + b"\n"


def hang(peer):
    while peer.recv(1 << 16):
        pass  # until the client goes


def ask(home, reply, *args):
    """Run `salus ARGS` against a daemon that answers that."""
    (home.path / "s").unlink(missing_ok=True)
    daemon = home.serve(home.path / "s", answers(reply) if isinstance(reply, dict) else reply)
    return home.salus(*args, env={"SALUS_SOCKET": daemon.path}), daemon.requests


# Ping and ps.


def test_ping_says_who_is_there(home):
    done, requests = ask(home, PING, "ping")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "salusd 0.1.0: pid 123, platform cpu, policy fifo, up 1.51min\nlog: /var/log/x\n"
    assert [json.loads(r) for r in requests] == [{"op": "ping"}]
    assert requests[0].endswith("\n")
    done, _ = ask(home, {**PING, "log": ""}, "ping")
    assert "log" not in done.stdout


@pytest.mark.parametrize("command, reply", [("ping", PING), ("ps", PS)])
def test_json_is_what_the_daemon_said(home, command, reply):
    done, _ = ask(home, reply, command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == reply


def test_ps_is_a_table(home):
    second = {**SESSION, "id": 12, "name": "a", "state": "waiting", "lane": -1, "used_s": 7200.0,
              "weight": 0.5, "pid": 123456, "queued": 0, "kind": "inference", "kind_found": True, "deadline_s": 0.02}
    done, requests = ask(home, {**PS, "sessions": [SESSION, second]}, "ps")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(requests[0]) == {"op": "ps"}
    assert done.stdout == """\
id  name      state    lane  iterations   used  waited  queued  persistent  framework  ephemeral  weight  priority  kind               deadline    age     pid
 1  train.py  running     0          10  1.25s   500ms       2        3GiB      64MiB     512MiB       1        20  training                  -  12.3s      77
12  a         waiting     -          10     2h   500ms       0        3GiB      64MiB     512MiB     0.5        20  inference (found)      20ms  12.3s  123456
policy fifo; programs: 1 compiled, 2 found in memory, 0 on disk
"""


def test_ps_says_when_there_is_nothing(home):
    done, _ = ask(home, {**PS, "sessions": []}, "ps")
    assert done.returncode == 0
    assert done.stdout.startswith("no jobs; `salus run -- CMD` starts one\npolicy fifo")


def test_ps_shows_odd_names_harmlessly_and_in_line(home):
    names = ["\x1b[2J\r\nx\x7f\x9b", "größe.py", "訓練.py", "e\u0301", "x" * 100, "a b\tc", "", "%s%n"]
    sessions = [{**SESSION, "name": name} for name in names]
    done, _ = ask(home, {**PS, "sessions": sessions}, "ps")
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + len(names)
    shown = [line.split("  running")[0].split("1  ", 1)[1].rstrip() for line in lines[1:-1]]
    assert shown == ["?[2J??x??", "größe.py", "訓練.py", "e\u0301", "x" * 29 + "...", "a b?c", "", "%s%n"]
    columns = [line.index("running") for line in lines[1:-1]]
    # In characters: two of them are twice as wide, and an accent takes no place of its own.
    assert columns == [columns[0], columns[0], columns[0] - 2, columns[0] + 1] + [columns[0]] * 4


def test_ps_of_another_version(home):
    odd = {"id": "x", "name": 7, "used_s": -1, "persist_bytes": 1e300, "lane": None, "new": []}
    done, _ = ask(home, {"ok": True, "sessions": [odd, 5, {}]}, "ps")
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines()[1:4]] == [["-"] * 17] * 3


def test_ps_of_a_thousand_sessions(home):
    sessions = [{**SESSION, "id": i} for i in range(1000)]
    done, _ = ask(home, {**PS, "sessions": sessions}, "ps")
    assert len(done.stdout.splitlines()) == 1002


@pytest.mark.parametrize("code, status", [("NOT_FOUND", 1), ("PERMISSION_DENIED", 77),
                                          ("RESOURCE_EXHAUSTED", 75), ("UNAVAILABLE", 75), ("UNAUTHENTICATED", 77),
                                          ("DATA_LOSS", 1), ("NONSENSE", 1)])
def test_refusals_are_passed_on(home, code, status):
    done, _ = ask(home, {"ok": False, "code": code, "error": "not today"}, "ps")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "salus: not today\n")


@pytest.mark.parametrize("reply, why", [
    (b"", "closed the connection without an answer"), (b'{"ok": true', "cut off"), (b"HTTP/1.1 400\r\n", "not JSON"),
    (b"[1]\n", "whether it is ok"), (b'{"ok": 1}\n', "whether it is ok"), (b"\n", "not JSON"),
    (b"\xff\xfe\n", "not JSON"), (b"\0" * 100 + b"\n", "not JSON"), (b"[" * 100000 + b"\n", "not JSON")])
@pytest.mark.parametrize("command", [["ps"], ["run", "--", "true"]])
def test_nonsense_is_reported(home, reply, why, command):
    done, _ = ask(home, reply, *command)
    assert (done.returncode, done.stdout) == (69, "")
    assert why in done.stderr and str(home.path / "s") in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_answer_without_end_is_not_read_to_the_end(home):
    def endless(peer):
        while True:
            peer.sendall(b" " * (1 << 20))

    done, _ = ask(home, endless, "ps")
    assert done.returncode == 69
    assert "too long" in done.stderr


def test_a_closed_stdout_is_noticed(home):
    with open("/dev/full", "w") as full:
        daemon = home.serve(home.path / "s", answers(PS))
        done = home.salus("ps", env={"SALUS_SOCKET": daemon.path}, stdout=full)
    assert done.returncode == 1
    assert "No space left" in done.stderr


@pytest.mark.parametrize("args", [["ps", "--jsn"], ["ps", "x"], ["ping", "-v"], ["nix"], []])
def test_bad_calls(home, args):
    done = home.salus(*args)
    assert (done.returncode, done.stdout) == (64, "")


@pytest.mark.parametrize("command", ["ps", "ping"])
def test_nobody_there(home, command):
    done = home.salus(command)
    assert (done.returncode, done.stdout) == (69, "")
    assert str(home.socket) in done.stderr and "`salus run -- CMD` starts one" in done.stderr
    assert not home.socket.parent.exists()  # looking changes nothing
    done = home.salus(command, env={"SALUS_SOCKET": home.path / "nowhere"})
    assert (done.returncode, done.stdout) == (69, "")
    assert "nowhere" in done.stderr and "SALUS_SOCKET" in done.stderr


def test_a_socket_that_is_not_ours_to_use(home):
    """Root may use any, so that for root another user asks, with a copy of salus that it may run."""
    daemon = home.serve(home.path / "s", answers(PS))
    daemon.path.chmod(0)
    if os.geteuid() != 0:
        assert home.salus("ps", env={"SALUS_SOCKET": daemon.path}).returncode == 77
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(home.path / "bin" / "salus", folder)
        done = subprocess.run([program, "ps"], env=home.environment(SALUS_SOCKET=daemon.path), user=65534,
                              capture_output=True, timeout=LIMIT)
    assert done.returncode == 77, done.stderr


def test_a_daemon_that_hangs_is_reported(home):
    """Each of these gives up by itself, after 5 s; `run` asks twice."""
    def trickle(peer):
        while True:
            peer.sendall(b" ")
            time.sleep(0.1)

    hanging = home.serve(home.path / "s", hang)
    trickling = home.serve(home.path / "t", trickle)
    home.serve(home.socket, hang)
    full = socket.socket(socket.AF_UNIX)  # accepts nobody, and its queue is full
    full.bind(str(home.path / "f"))
    full.listen(0)
    queued = socket.socket(socket.AF_UNIX)
    queued.connect(str(home.path / "f"))
    started = [home.popen("ps", env={"SALUS_SOCKET": hanging.path}),
               home.popen("ps", env={"SALUS_SOCKET": trickling.path}),
               home.popen("ps", env={"SALUS_SOCKET": home.path / "f"}),
               home.popen("run", "--", "true", env={"SALUS_SOCKET": hanging.path}),
               home.popen("ps"),
               home.popen("run", "--", "true")]
    said = [process.communicate(timeout=LIMIT) for process in started]
    assert [process.returncode for process in started] == [69, 69, 69, 69, 69, 125]
    for out, err in said:
        assert out == "" and "answer" in err
    assert home.starts() == []


# Run: the command.


@pytest.mark.parametrize("command, status", [
    (["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "exit 69"], 69),
    (["sh", "-c", "kill -9 $$"], -9), (["no-such-command"], 127), (["/no/such/command"], 127),
    (["/etc/passwd"], 126), (["/"], 126)])
def test_the_status_is_the_commands(home, command, status):
    done, _ = ask(home, PING, "run", "--", *command)
    assert done.returncode == status
    assert (status in (126, 127)) == done.stderr.startswith(f"salus: {command[0]}: ")


def test_input_and_output_are_the_commands(home):
    daemon = home.serve(home.path / "s", answers(PING))
    process = home.popen("run", "--", "sh", "-c", "cat; echo err >&2",
                         env={"SALUS_SOCKET": daemon.path}, stdin=subprocess.PIPE)
    assert process.communicate("in", timeout=LIMIT) == ("in", "err\n")


def environment_of(home, *args, env=None, reply=PING):
    (home.path / "s").unlink(missing_ok=True)
    daemon = home.serve(home.path / "s", answers(reply))
    done = home.salus("run", *args, env={"SALUS_SOCKET": daemon.path, **(env or {})})
    assert (done.returncode, done.stderr) == (0, "")
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def test_the_environment_of_a_plain_job(home):
    env = environment_of(home, "--", "env", "-0")
    plain = {**home.env, "SALUS_SOCKET": str(home.path / "s"), "SALUS_JOB_NAME": "env",
             "SALUS_PLUGIN": str(home.plugin),
             "JAX_PLATFORMS": "cpu", "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{home.plugin}"}
    assert env == {**plain, "PJRT_DEVICE": "LIBRARY", "PJRT_LIBRARY_PATH": str(home.plugin)}
    modules = home.path / "lib" / "salus" / "python"
    modules.mkdir(parents=True)
    env = environment_of(home, "--", "env", "-0", env={"PYTHONPATH": "/mine"})
    assert env == {**plain, "PJRT_DEVICE": "SALUS", "PYTHONPATH": f"{modules}:/mine"}


def test_the_environment_of_a_job_with_wishes(home):
    env = environment_of(home, "--name", "big one", "--reserve", "2GiB,512MiB", "--weight", "2.5",
                         "--priority", "3", "--time=20min", "--kind", "inference", "--deadline", "20ms",
                         "--", "env", "-0",
                         env={"JAX_PLATFORMS": "tpu", "SALUS_WEIGHT": "9",
                              "PJRT_NAMES_AND_LIBRARY_PATHS": "cuda:/old.so,tpu:/t.so"},
                         reply={**PING, "platform": "cuda"})
    assert env["SALUS_JOB_NAME"] == "big one"
    assert env["SALUS_MEMORY"] == f"{2 << 30}B,{512 << 20}B"
    assert (env["SALUS_KIND"], env["SALUS_DEADLINE"]) == ("inference", "20ms")
    assert (env["SALUS_WEIGHT"], env["SALUS_PRIORITY"], env["SALUS_TIME"]) == ("2.5", "3", "20min")
    assert env["JAX_PLATFORMS"] == "cuda,tpu"
    assert env["PJRT_NAMES_AND_LIBRARY_PATHS"] == f"cuda:{home.plugin},tpu:/t.so"


# Env: the same variables, for other launchers.


def test_env_prints_what_run_sets(home):
    (home.path / "lib" / "salus" / "python").mkdir(parents=True)
    wishes = ["--name", "it's $HOME", "--reserve", "1GiB,1GiB", "--weight", "2"]
    mine = {"PYTHONPATH": "/a'b:/c", "SALUS_SOCKET": str(home.path / "s"), "PJRT_DEVICE": "CPU"}
    expected = environment_of(home, *wishes, "--", "env", "-0", env=mine)
    out = home.salus("env", *wishes, env=mine)
    assert (out.returncode, out.stderr) == (0, "")
    shell = subprocess.run(["sh", "-c", f"{out.stdout}\nexec env -0"], env=home.environment(**mine),
                           capture_output=True, text=True, timeout=LIMIT)
    seen = dict(entry.split("=", 1) for entry in shell.stdout.split("\0") if entry)
    assert {**expected, "PWD": ""} == {**seen, "PWD": ""}
    out = home.salus("env", *wishes, "--json", env=mine)
    assert out.returncode == 0
    printed = json.loads(out.stdout)
    assert {**home.environment(**mine), **printed} == expected
    assert "SALUS_JOB_NAME" not in json.loads(home.salus("env", "--json", env=mine).stdout)


def test_env_needs_a_daemon_and_no_command(home):
    out = home.salus("env", env={"SALUS_SOCKET": home.path / "nowhere"})
    assert (out.returncode, out.stdout) == (69, "") and "nowhere" in out.stderr
    out = home.salus("env", "--", "true")
    assert (out.returncode, out.stdout) == (64, "") and "salus run" in out.stderr
    for bad in (["--nix"], ["--weight", "0"], ["--name"]):
        assert home.salus("env", *bad).returncode == 64
    assert home.starts() == []
    home.tell("die")
    assert home.salus("env").returncode == 1
    home.untell("die")
    assert "SALUS_SOCKET" in home.salus("env").stdout  # starts one, as `salus run` does
    assert home.salus("env", "--help").stdout.startswith("usage: salus env ")


def test_the_name_of_the_reservation_before_is_understood(home):
    env = environment_of(home, "--memory", "2GiB,512MiB", "--", "env", "-0")
    assert env["SALUS_MEMORY"] == f"{2 << 30}B,{512 << 20}B"
    assert "--memory" not in home.salus("run", "--help").stdout


def test_a_name_given_by_the_environment_stays(home):
    assert environment_of(home, "env", "-0", env={"SALUS_JOB_NAME": "x"})["SALUS_JOB_NAME"] == "x"
    assert environment_of(home, "env", "-0", env={"SALUS_JOB_NAME": ""})["SALUS_JOB_NAME"] == "env"


@pytest.mark.parametrize("name", ["größe", "a b", "--", "-x", "訓練", "$HOME", "a=b", "'\"\\", "x" * 127])
def test_odd_names_come_through(home, name):
    assert environment_of(home, "--name", name, "--", "env", "-0")["SALUS_JOB_NAME"] == name


def test_an_odd_script_is_its_own_name(home):
    script = home.path / "a\nb;c.py"
    script.write_text("import os; print(end=os.environ['SALUS_JOB_NAME'])")
    done, _ = ask(home, PING, "run", "--", sys.executable, "-ES", script, "--name", "x")
    assert (done.returncode, done.stdout) == (0, "a\nb;c.py")


def test_a_relative_socket_is_made_absolute(home):
    home.serve(home.path / "s", answers(PING))
    done = home.salus("run", "--", "sh", "-c", "cd /; echo $SALUS_SOCKET", cwd=home.path,
                      env={"SALUS_SOCKET": "s"})
    assert done.stdout == f"{home.path}/s\n"


@pytest.mark.parametrize("args, out", [
    (["echo", "a"], "a\n"), (["--name", "n", "echo", "--name", "--"], "--name --\n"),
    (["--", "echo", "--", "-h"], "-- -h\n"), (["sh", "-c", "echo $1", "sh", "--help"], "--help\n")])
def test_dashes_may_be_missing_and_the_rest_is_the_commands(home, args, out):
    done, _ = ask(home, PING, "run", *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, "")


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["--name", "x", "--help", "true"]])
def test_help_is_ours_before_the_command(home, args):
    done = home.salus("run", *args)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: salus run ")


@pytest.mark.parametrize("args", [
    [], ["--"], ["--name", "x"], ["--", ""], ["--nix", "--", "true"], ["--name"],
    ["--name", "", "--", "true"], ["--name", "a\nb", "--", "true"], ["--name", "x" * 128, "--", "true"],
    *[[option, value, "--", "true"] for option, values in {
        "--reserve": ["", "1GiB", "1GiB,", ",1GiB", "1GiB,1GiB,1GiB", "-1,1", "1gb,1", "a,b", "1 ,1",
                     "1,1", "1GiB,1",
                     "9" * 99 + ",1", "1," + "9" * 40],
        "--weight": ["", "0", "-1", "nan", "inf", "1e3", "0x10", "1.2.3", ".", " 1", "1 ", "1000001", "2000000"],
        "--priority": ["", "-1", "1.5", "0x1", "1e3", "99999999999999999999", "1000001", "two"],
        "--time": ["", "0", "20", "-1s", "1 s", "1m", "soon", "9" * 30 + "h"],
    }.items() for value in values]])
def test_bad_options(home, args):
    done = home.salus("run", *args)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.endswith("Try `salus run --help`.\n")
    assert home.starts() == []


def test_a_platform_that_would_break_the_list(home):
    for platform in ["", "cpu,tpu", "cpu:x"]:
        done, _ = ask(home, {**PING, "platform": platform}, "run", "--", "true")
        assert done.returncode == 125
    done, _ = ask(home, {"ok": True}, "run", "--", "true")
    assert done.returncode == 125


def test_an_incomplete_installation(home):
    home.plugin.unlink()
    done = home.salus("run", "--", "true")
    assert done.returncode == 125 and "libsalus_pjrt.so" in done.stderr
    home.plugin.write_text("")
    (home.path / "bin" / "salusd").unlink()
    done = home.salus("run", "--", "true")
    assert done.returncode == 125 and "salusd: No such file" in done.stderr


# Run: a job that does not use the device.


def loud(home, *args, **kwargs):
    if not (home.path / "s").exists():
        home.serve(home.path / "s", answers(PING))
    env = {"SALUS_SOCKET": home.path / "s", "SALUS_QUIET": None, **kwargs.pop("env", {})}
    return home.salus("run", *args, env=env, **kwargs)


def notes_left(home):
    return [p.name for p in (home.runtime / "salus").iterdir() if p.name.startswith("run-")]


def test_a_job_beside_salus_is_told_so_once(home):
    done = loud(home, "--", "sh", "-c", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr == ("salus: sh did not use the shared device: neither JAX nor PyTorch/XLA opened it "
                           "(SALUS_QUIET=1 hides this)\n")
    assert notes_left(home) == []
    done = loud(home, "--", home.path / "bin" / "salus", "run", "--", "true")  # the outer one speaks
    assert done.stderr.count("did not use") == 1 and done.stderr.startswith("salus: salus did not")
    assert loud(home, "--", "true", env={"SALUS_QUIET": "1"}).stderr == ""
    stale = {"SALUS_RUN": home.runtime / "salus" / "run-1"}  # of an outer one that has ended
    assert loud(home, "--", "true", env=stale).stderr.count("did not use") == 1


def test_a_job_that_opened_a_session_is_not_told(home):
    """What libsalus_pjrt.so does, in a process that the job started."""
    done = loud(home, "--", "sh", "-c", "sh -c 'printf 1 > $SALUS_RUN' & wait")
    assert (done.returncode, done.stderr) == (0, "")
    assert notes_left(home) == []


def test_a_command_that_cannot_run_is_told_nothing_else(home):
    done = loud(home, "--", "no-such-command")
    assert done.returncode == 127 and done.stderr.count("\n") == 1
    wait_until(lambda: notes_left(home) == [])


def test_who_watches_holds_nothing_of_the_job(home):
    """stdout and other descriptors end with the job, and the job has no child that it did not make."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    script = ("import os\ntry:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('none', flush=True)\n"
              "input()")
    home.serve(home.path / "s", answers(PING))
    process = home.popen("run", "--", sys.executable, "-ES", "-c", script, close_fds=False, stdin=subprocess.PIPE,
                         env={"SALUS_SOCKET": home.path / "s", "SALUS_QUIET": None})
    os.close(write_end)
    assert process.stdout.readline() == "none\n"
    watchers = [p for p in Path("/proc").iterdir() if p.name.isdigit() and p.name != str(process.pid)
                and is_program(p, home.path / "bin" / "salus")]
    assert len(watchers) == 1
    links = {os.readlink(f) for f in (watchers[0] / "fd").iterdir()}
    assert len(links) == 4, links  # /dev/null, stderr, the pipe, the job's process
    assert f"pipe:[{os.fstat(read_end).st_ino}]" not in links
    process.communicate("\n", timeout=LIMIT)
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def is_program(process, path):
    try:
        return os.readlink(process / "exe") == str(path)
    except OSError:
        return False


# Run: a daemon of one's own.


def test_ten_at_once_start_one(home):
    runs = [home.popen("run", "--", "sh", "-c", f"exit {i}") for i in range(10)]
    said = [run.communicate(timeout=LIMIT) for run in runs]
    assert [run.returncode for run in runs] == list(range(10)), said
    assert len(home.starts()) == 1
    # While it lives, nobody waits for anybody.
    os.kill(home.starts()[0]["pid"], 0)
    assert home.lock_is_free()
    assert home.salus("run", "--", "true").returncode == 0
    assert len(home.starts()) == 1


def test_one_is_started_again_once_it_is_gone(home):
    assert home.salus("run", "--", "true").returncode == 0
    os.kill(home.starts()[0]["pid"], signal.SIGKILL)
    assert home.socket.exists()  # it is stale now: nobody listens

    def is_gone():
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(home.socket)) != 0

    wait_until(is_gone)
    assert home.salus("run", "--", "true").returncode == 0
    assert len(home.starts()) == 2


def test_the_daemon_is_detached(home):
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    script = f"import os; os.write({write_end}, b'hi')"
    done = home.salus("run", "--", sys.executable, "-ES", "-c", script, cwd=home.path, close_fds=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.read(read_end, 99) == b"hi"
    assert os.read(read_end, 99) == b""  # the job had it, the daemon has not
    os.close(read_end)
    note, = home.starts()
    assert note["argv"] == ["--socket", str(home.socket), "--idle-exit", "10min", "--log", str(home.log)]
    assert (note["sid"], note["cwd"]) == (note["pid"], "/")
    assert note["fds"] == {"0": "/dev/null", "1": str(home.log), "2": str(home.log)}
    assert f"hello from {note['pid']}" in home.log.read_text()
    assert home.log.stat().st_mode & 0o777 == 0o600
    assert home.socket.parent.stat().st_mode & 0o777 == 0o700


def test_the_job_has_no_child_it_did_not_make(home):
    script = "import os\ntry:\n    os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError:\n    print('none')"
    done = home.salus("run", "--", sys.executable, "-ES", "-c", script)
    assert (done.returncode, done.stdout) == (0, "none\n")
    assert len(home.starts()) == 1


def test_without_stdin_stdout_and_stderr(home):
    def close_all():
        for fd in range(3):
            os.close(fd)

    process = home.popen("run", "--", "true", stdout=None, stderr=None, preexec_fn=close_all)
    assert process.wait(LIMIT) == 0
    assert home.starts()[0]["fds"] == {"0": "/dev/null", "1": str(home.log), "2": str(home.log)}


def test_a_daemon_that_dies_at_start(home):
    home.log.parent.mkdir(parents=True)
    home.log.write_text("yesterday's news\n")
    home.tell("die")
    done = home.salus("run", "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    pid = home.starts()[0]["pid"]
    assert done.stderr == (f"salus: salusd ended with status 9 before it answered\n"
                           f"The end of its log, {home.log}:\n"
                           f"  hello from {pid}\n  plugin: no such device\n")
    home.untell("die")
    assert home.salus("run", "--", "true").returncode == 0


def test_a_slow_start_is_announced(home):
    home.tell("wait")
    process = home.popen("run", "--", "echo", "done")
    assert process.stderr.readline() == f"salus: starting salusd (log: {home.log})\n"
    home.untell("wait")
    assert process.communicate(timeout=LIMIT) == ("done\n", "")


def test_who_is_killed_while_starting_leaves_no_lock(home):
    home.tell("wait")
    process = home.popen("run", "--", "true")
    wait_until(home.starts)
    assert not home.lock_is_free()
    process.kill()
    process.communicate(timeout=LIMIT)
    wait_until(home.lock_is_free)
    home.untell("wait")
    wait_until(home.socket.exists)
    assert home.salus("run", "--", "true").returncode == 0
    assert len(home.starts()) == 1


def test_a_given_socket_is_never_served_by_us(home):
    done = home.salus("run", "--", "true", env={"SALUS_SOCKET": home.path / "nowhere"})
    assert (done.returncode, done.stdout) == (69, "")
    assert "nowhere" in done.stderr and "SALUS_SOCKET" in done.stderr
    assert home.starts() == []
    assert home.salus("run", "--", "true", env={"SALUS_SOCKET": ""}).returncode == 0
    assert len(home.starts()) == 1


def spoil_mode(directory):
    directory.mkdir()
    directory.chmod(0o755)


def spoil_owner(directory):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    directory.mkdir(mode=0o700)
    os.chown(directory, 12345, 12345)


def spoil_link(directory):
    (directory.parent / "real").mkdir(mode=0o700)
    directory.symlink_to("real")


def spoil_kind(directory):
    directory.write_text("")


@pytest.mark.parametrize("spoil, why", [
    (spoil_mode, "is open to other users (mode 0755)"), (spoil_owner, "belongs to user 12345"),
    (spoil_link, "is a symbolic link"), (spoil_kind, "is no directory")])
def test_a_runtime_dir_that_others_can_enter_is_refused(home, spoil, why):
    spoil(home.socket.parent)
    for command, status in ((["run", "--", "true"], 125), (["ps"], 77), (["ping"], 77)):
        done = home.salus(*command)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith(f"salus: {home.socket.parent} {why}")
        assert done.stderr.count("\n") == 1
    assert home.starts() == []


@pytest.mark.parametrize("place", [None, "/dev/null", "relative"])
def test_without_a_home_the_log_is_beside_the_socket(home, place):
    done = home.salus("run", "--", "true", env={"HOME": place, "XDG_STATE_HOME": None})
    assert (done.returncode, done.stderr) == (0, "")
    assert "hello" in (home.socket.parent / "salusd.log").read_text()


def test_a_runtime_dir_that_is_too_deep_for_a_socket(home):
    deep = home.path / ("d" * 120)
    deep.mkdir()
    done = home.salus("run", "--", "true", env={"XDG_RUNTIME_DIR": deep})
    assert done.returncode == 125
    assert "at most 107 bytes" in done.stderr
    assert home.starts() == []
