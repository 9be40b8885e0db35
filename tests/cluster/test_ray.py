# SPDX-License-Identifier: Apache-2.0
"""examples/ray on two nodes on this machine, each with a salusd: `make test-cluster`.

SALUS_TEST_RAY names a virtual environment with Ray; without it these tests are skipped.
"""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SALUS_BUILD", ROOT / "build"))
RAY = os.environ.get("SALUS_TEST_RAY")
PATIENCE = float(os.environ.get("SALUS_TEST_PATIENCE", "1"))
TRIALS, AT_A_TIME = 16, 8
HOSTS = ("127.0.0.2", "127.0.0.3")  # of the nodes; Ray replaces 127.0.0.1 by an address that others can reach

pytestmark = pytest.mark.skipif(not RAY, reason="needs Ray: make test-cluster")


def wait_for(condition, deadline_s, what):
    end = time.monotonic() + deadline_s * PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """Two nodes of Ray, each with a salusd of its own. close() ends all of them."""

    def __init__(self, folder):
        self.folder, self.processes, self.sockets = folder, [], []
        self.address = f"{HOSTS[0]}:{free_port()}"
        base = {k: v for k, v in os.environ.items() if not k.startswith(("SALUS_", "JAX_", "PJRT_", "RAY_"))}
        # Ray sends statistics home unless it is told not to.
        self.env = base | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING": "0",
                           "TMPDIR": str(folder)}

    def start(self, name, command, env):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen(list(map(str, command)), env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log, start_new_session=True))
        return self.processes[-1]

    def salus(self, number, *args):
        env = self.env | {"SALUS_SOCKET": str(self.sockets[number])}
        return subprocess.run([BUILD / "bin" / "salus", *args], env=env, capture_output=True, text=True)

    def start_node(self, number):
        place = self.folder / f"node{number}"
        place.mkdir(mode=0o700)
        self.sockets.append(place / "s")
        self.start(f"salusd{number}", [BUILD / "bin" / "salusd", "--socket", place / "s", "--cache", place / "programs",
                                       "--no-profiles", "--memory", "256MiB"], self.env)
        wait_for(lambda: self.salus(number, "ping").returncode == 0, 30, "salusd")
        offers = json.dumps({"salus": AT_A_TIME, "device": 1})
        head = ["--head", f"--port={self.address.split(':')[1]}", "--include-dashboard=false", "--disable-usage-stats",
                f"--temp-dir={self.folder / 'ray'}"]
        self.start(f"ray{number}", [f"{RAY}/bin/ray", "start", *(head if number == 0 else [f"--address={self.address}"]),
                                    f"--node-ip-address={HOSTS[number]}", "--block", "--num-cpus=16",
                                    "--object-store-memory=80000000", f"--resources={offers}"],
                   self.env | {"SALUS_SOCKET": str(place / "s")})

    def nodes(self):
        """How many nodes the cluster has."""
        script = ("import ray, sys; ray.init(sys.argv[1], log_to_driver=False); "
                  "print('nodes', sum(node['Alive'] for node in ray.nodes()))")
        done = subprocess.run([f"{RAY}/bin/python", "-c", script, self.address], env=self.env, capture_output=True, text=True)
        (self.folder / "nodes.log").write_text(done.stdout + done.stderr)
        return int(done.stdout.rpartition("nodes ")[2] or 0) if done.returncode == 0 else 0

    def search(self, variables, *options):
        """Runs the example; variables are the environment of its trials."""
        path = self.folder / "env.json"
        path.write_text(json.dumps(variables))
        command = [f"{RAY}/bin/python", ROOT / "examples" / "ray" / "search.py", "--address", self.address, "--env", path,
                   "--storage", self.folder / "results", "--trials", TRIALS, "--steps", "20", *options]
        done = subprocess.run(list(map(str, command)), env=self.env, capture_output=True, text=True, timeout=400 * PATIENCE)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def sessions_seen(self, number):
        """How many sessions a salusd had so far."""
        trace = json.loads(self.salus(number, "trace", "-o", "/dev/stdout").stdout)
        return sum(entry[0] == "open" for entry in trace["salus"]["entries"])

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("c"))
    try:
        found.start_node(0)
        wait_for(lambda: found.nodes() == 1, 120, "the first node")
        found.start_node(1)
        wait_for(lambda: found.nodes() == 2, 120, "two nodes")
        yield found
    finally:
        found.close()


def environment(cluster):
    """`salus env` without the socket: on one machine each node has its own, which its workers inherit."""
    variables = json.loads(cluster.salus(0, "env", "--json").stdout)
    del variables["SALUS_SOCKET"]
    return variables


def vendor(cluster):
    """The same plugin in the process of each trial."""
    library, = Path(RAY).glob("lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")
    path = cluster.folder / "plugin.json"
    path.write_text(json.dumps({"library_path": str(library), "create_options": {"cpu_device_count": 1}}))
    return {"JAX_PLATFORMS": "cpu", "PJRT_NAMES_AND_LIBRARY_PATHS": f"cpu:{path}"}


def test_a_search_on_two_nodes(cluster):
    shared = cluster.search(environment(cluster))
    assert shared["lost"] == 0 and shared["trials"] == TRIALS
    assert len(shared["per_node"]) == 2 and sum(shared["per_node"]) == TRIALS
    seen = [cluster.sessions_seen(number) for number in range(2)]
    assert sorted(seen) == shared["per_node"]  # each trial was a session of the salusd of its node
    plain = cluster.search(vendor(cluster), "--fraction", str(1 / AT_A_TIME))
    assert plain["losses"] == shared["losses"] and plain["best_rate"] == shared["best_rate"]
    assert [cluster.sessions_seen(number) for number in range(2)] == seen  # those ran without Salus
