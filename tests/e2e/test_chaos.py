# SPDX-License-Identifier: Apache-2.0
"""Everything at once: jobs come, are steered every which way and killed, with too little memory for all of them.

SALUS_TEST_CHAOS=ACTIONS:SECONDS makes it longer, SALUS_TEST_SEED another one.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from policies import policies  # noqa: E402
from traces import check, replay, rows, save  # noqa: E402

JOBS = 8
POLICIES = policies()
# Each iteration adds one to its counter and to all of its 3 MiB, on the device; none may be lost or
# run twice.
# A job runs on until the gate is open, and then so many more.
COUNTER = """
import sys
from itertools import count as integers
from pathlib import Path
from functools import partial
import jax, jax.numpy as jnp, numpy as np

@partial(jax.jit, donate_argnums=(0, 1))
def step(count, state):
    work = jax.lax.fori_loop(0, 20, lambda i, a: jnp.tanh(a @ a), jnp.eye(48) + count * 0)
    return count + 1, state + 1 + work[0, 1] * 0

more, gate, seen = int(sys.argv[1]), Path(sys.argv[2]), []
try:
    count, state = jnp.int32(0), jax.device_put(np.zeros(3 << 18, np.float32))
    for i in integers():
        if gate.exists():
            break
        count, state = step(count, state)
    steps = i + more
    for i in range(i, steps):
        count, state = step(count, state)
        if i % 7 == 0:
            seen.append((i, count + 0))
    wrong = [(i, int(c)) for i, c in seen if int(c) != i + 1]
    values = np.unique(np.asarray(state))
    print("right" if int(count) == steps and not wrong and list(values) == [steps] else
          f"WRONG {int(count)} of {steps}, {wrong}, {values}", flush=True)
except Exception as error:
    print("caught", str(error).splitlines()[0], flush=True)
"""


class Chaos:
    def __init__(self, daemon, client, rng, gate):
        self.daemon, self.client, self.rng, self.gate = daemon, client, rng, gate
        self.jobs, self.killed, self.born = {}, set(), 0

    def arrive(self):
        name = f"job{self.born}"
        self.born += 1
        self.jobs[name] = self.client.start(COUNTER, self.rng.randrange(100, 500), self.gate, env={
            "SALUS_JOB_NAME": name, "SALUS_WEIGHT": str(self.rng.choice([1, 2, 5])),
            "SALUS_PRIORITY": str(self.rng.randrange(4)), "SALUS_KIND": self.rng.choice(["training", "inference"]),
            "SALUS_TIME": self.rng.choice(["", "1s", "20s"])})

    def there(self):
        return [s["name"] for s in self.daemon.sessions()]

    def say(self, *words):
        """Steer; a job may have ended meanwhile."""
        run = self.daemon.salus(*words)
        assert run.returncode == 0 or "there is no job" in run.stderr, run.stderr

    def act(self):
        rng, names = self.rng, self.there()
        kind = rng.choice(["policy", "policy", "pause", "resume", "resume", "set", "lanes", "kill", "arrive"])
        if kind == "policy":
            self.say("policy", rng.choice(POLICIES))
        elif kind == "lanes":
            self.say("policy", "--lanes", rng.choice([0, 1, 2, 3]))
        elif kind == "arrive" and len(names) < JOBS:
            self.arrive()
        elif names and kind == "set":
            self.say("set", rng.choice(names), f"weight={rng.choice([1, 3, 9])}", f"priority={rng.randrange(4)}")
        elif names and kind in ("pause", "resume"):
            self.say(kind, rng.choice(names))
        elif names and kind == "kill" and len(self.killed) < 4:
            name = rng.choice(names)
            self.killed.add(name)
            self.say("kill", name)

    def all_run(self):
        """Every one of them has its state on the device, or has had to page it out for the others."""
        sessions = self.daemon.sessions()
        return len(sessions) == JOBS and all(s["iterations"] > 0 for s in sessions)

    def calm(self):
        for name in self.there():
            self.say("resume", name)
        self.say("policy", "fair", "--lanes", "2")


def test_chaos(start_daemon, client_of, rng, tmp_path, wait, patience):
    actions, seconds = (float(n) for n in os.environ.get("SALUS_TEST_CHAOS", "30:12").split(":"))
    daemon = start_daemon("--policy", "fair", "--memory", "16MiB", "--trace-records", str(1 << 22))
    gate = tmp_path / "gate"
    chaos = Chaos(daemon, client_of(daemon), rng, gate)
    for _ in range(JOBS):
        chaos.arrive()
    wait(chaos.all_run, 60, "all jobs to run")
    gate.touch()
    began = time.monotonic()
    for n in range(int(actions)):
        time.sleep(max(0, began + n * seconds / actions - time.monotonic()))
        chaos.act()
    chaos.calm()
    for name, job in chaos.jobs.items():
        job.succeed(60 * patience)
        killed = name in chaos.killed and "UNAVAILABLE" in job.stdout
        assert "right" in job.stdout or killed, f"{name}: {job.describe()}"
    assert daemon.is_alive() and daemon.sessions() == []

    path = tmp_path / "trace.json"
    root = save(daemon, path)
    check(root)  # in a lane, one at a time; memory is never more than there is
    assert rows(root, "page_out"), "memory was not short"
    assert replay(daemon, path)["identical"]  # which verifies the engine after every event
