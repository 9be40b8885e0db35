# SPDX-License-Identifier: Apache-2.0
"""Starts Jupyter Lab with three notebooks at once, runs JAX in their kernels, and prints what the cells print.

    notebooks.py                   the kernels use JAX's built-in backend
    notebooks.py SALUS run --      they use Salus: each kernel must be one session, with a name of its own

One kernel is interrupted and goes on, one is restarted. At the end no session is left.
"""

import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from jupyter_client import BlockingKernelClient

NAMES = ("a.ipynb", "b.ipynb", "c.ipynb")
WAIT_S = 120
TOKEN = "notebooks"

TRAIN = """
import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    y = jnp.tanh(x @ w)
    jax.debug.print("norm {n:.3f}", n=jnp.sqrt(jnp.sum(y * y)))
    return w - 0.1 * x.T @ y
x = jnp.cos(jnp.arange(64.0 * 32) * %d).reshape(64, 32)
w = jnp.ones((32, 8)) / 32
for _ in range(3):
    w = step(w, x)
jax.effects_barrier()
print(f"{float(jnp.abs(w).sum()):.3f}")
"""
LOOP = """
print("loops")
while True:
    w = jnp.tanh(w)  # no callback: the built-in backend may run it in this thread, where the interrupt would end it
"""
AFTER = 'print(f"{float(jnp.linalg.norm(x)):.3f}", float((w * 0).sum()))'


class Lab:
    """A Jupyter Lab of its own folder, port and settings."""

    def __init__(self, folder, prefix):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = Path(folder)
        env = os.environ | {name: str(self.folder / name) for name in
                            ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
        self.log = open(self.folder / "lab.log", "wb")
        self.process = subprocess.Popen(
            [*prefix, Path(sys.executable).with_name("jupyter"), "lab", "--no-browser", "--allow-root",
             "--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0",
             f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.folder}"],
            env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_for(self.answers, "Jupyter Lab does not answer")

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.loads(answer.read() or "null")

    def answers(self):
        assert self.process.poll() is None, (self.folder / "lab.log").read_text()[-500:]
        try:
            return self.ask("GET", "status")
        except urllib.error.URLError:
            return None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class Notebook:
    """A notebook with its kernel, as the page of Jupyter Lab would start it."""

    def __init__(self, lab, name):
        self.lab = lab
        session = lab.ask("POST", "sessions", {"path": name, "name": name, "type": "notebook",
                                               "kernel": {"name": "python3"}})
        self.session, self.kernel = session["id"], session["kernel"]["id"]
        self.client = self.connect()

    def connect(self):
        client = BlockingKernelClient()
        client.load_connection_file(str(self.lab.folder / f"JUPYTER_RUNTIME_DIR/kernel-{self.kernel}.json"))
        client.start_channels(hb=False)  # a kernel that is slow to start is not dead
        client.wait_for_ready(timeout=WAIT_S)
        return client

    def control(self, what):
        self.lab.ask("POST", f"kernels/{self.kernel}/{what}", {})

    def restart(self):
        self.client.stop_channels()
        self.control("restart")
        self.client = self.connect()

    def start(self, code):
        self.request = self.client.execute(code)

    def outputs(self):
        """What the cell writes, piece by piece; an error is the last piece."""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=WAIT_S)
            except queue.Empty:
                raise TimeoutError("a cell takes too long") from None
            if message["parent_header"].get("msg_id") != self.request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                yield content["text"]
            elif kind == "error":
                yield f"{content['ename']}\n"
            elif kind == "status" and content["execution_state"] == "idle":
                return

    def close(self):
        self.client.stop_channels()
        self.lab.ask("DELETE", f"sessions/{self.session}")


def wait_for(condition, complaint):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(complaint)
        time.sleep(0.05)
    return found


class Sessions:
    """The sessions of salusd, if there is one: name -> id."""

    def __init__(self, salus):
        self.salus = salus

    def now(self):
        said = subprocess.run([self.salus, "ps", "--json"], capture_output=True, text=True, check=True).stdout
        return sorted((s["name"], s["id"]) for s in json.loads(said)["sessions"])

    def expect(self, names):
        """Waits until the sessions have these names. Gives name -> id."""
        if not self.salus:
            return {}
        wanted, seen = sorted(f"jupyter/{name}" for name in names), []

        def are_there():
            seen[:] = self.now()
            return [name for name, _ in seen] == wanted

        try:
            wait_for(are_there, "")
        except TimeoutError:
            raise AssertionError(f"sessions {seen}, expected {wanted}") from None
        return dict(seen)


def drive(lab, sessions):
    notebooks = [Notebook(lab, name) for name in NAMES]
    a, b, c = notebooks
    for i, notebook in enumerate(notebooks):
        notebook.start(TRAIN % (i + 1))
    for name, notebook in zip(NAMES, notebooks):
        print(name, "".join(notebook.outputs()).split())
    first = sessions.expect(NAMES)

    b.start(LOOP)
    pieces = b.outputs()
    print("interrupted:", next(pieces).strip(), flush=True)
    time.sleep(0.5)
    b.control("interrupt")
    print("".join(pieces).strip())
    b.start(AFTER)
    print("goes on:", "".join(b.outputs()).strip())
    assert sessions.expect(NAMES) == first

    c.restart()
    sessions.expect(NAMES[:2])
    c.start(TRAIN % 3)
    print("restarted:", "".join(c.outputs()).split())
    second = sessions.expect(NAMES)
    changed = {name for name in first if first[name] != second[name]}
    assert changed == {f"jupyter/{NAMES[2]}"} or not first, (first, second)

    a.close()
    sessions.expect(NAMES[1:])
    lab.ask("POST", "shutdown", {})
    lab.process.wait(WAIT_S)
    sessions.expect(())
    print("ended")


def main():
    prefix = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="notebooks.", ignore_cleanup_errors=True) as folder:
        lab = Lab(folder, prefix)
        try:
            drive(lab, Sessions(prefix[0] if prefix else None))
        finally:
            lab.close()


if __name__ == "__main__":
    main()
