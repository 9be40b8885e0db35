# SPDX-License-Identifier: Apache-2.0
"""Real JAX jobs that serve: deadlines that cannot be met, and kinds that nobody declared."""

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from sharing import ask, session_named  # noqa: E402

# A product of about ten milliseconds, once for each line.
LONG = """
    import sys
    import jax
    import jax.numpy as jnp

    x = jnp.full((400, 400), 1e-3)
    model = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda i, y: y @ x, x))
    print("running", flush=True)
    for line in sys.stdin:
        try:
            model(x).block_until_ready()
            print("answer", line.strip(), flush=True)
        except jax.errors.JaxRuntimeError as e:
            print("refused", line.strip(), e, flush=True)
"""

# A small product, with a pause after each, until stdin ends.
SERVE = """
    import sys
    import threading
    import jax
    import jax.numpy as jnp

    x = jnp.full((200, 200), 1e-3)
    model = jax.jit(lambda x: jax.lax.fori_loop(0, 8, lambda i, y: y @ x, x))
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("running", flush=True)
    while not over.wait(0.025):
        model(x).block_until_ready()
"""


def answer(run, number):
    run.say(str(number))
    run.wait_for(f" {number}")
    return next(line for line in run.stdout.splitlines() if f" {number}" in line).split(" ", 2)


def test_a_deadline_that_cannot_be_met_is_refused(served):
    daemon, client = served("--policy", "deadline")
    job = client.start(LONG, env={"SALUS_JOB_NAME": "long", "SALUS_DEADLINE": "100us"})
    job.wait_for("running")
    answers = [answer(job, i) for i in range(1000, 1040)]
    assert answers[0][0] == "answer"  # nobody knew how long it takes
    verdict, _, error = answers[-1]
    assert verdict == "refused" and error.startswith("DEADLINE_EXCEEDED: salus: a deadline that cannot be met: ")
    assert "an iteration of long takes " in error and "its deadline is 100us" in error
    session = session_named(daemon, "long")
    assert (session["deadline_s"], session["kind"], session["kind_found"]) == (0.0001, "inference", False)
    ask(daemon, "set", job="long", deadline=10)
    assert answer(job, 2000)[0] == "answer"
    job.succeed()


def test_a_server_is_found_and_remembered(start_daemon, client_of, tmp_path, wait):
    daemon = start_daemon("--policy", "mix")
    client = client_of(daemon)
    script = tmp_path / "server.py"  # JAX writes its path into the programs
    script.write_text(textwrap.dedent(SERVE))
    for run in range(2):
        server = client.start(script, env={"SALUS_JOB_NAME": "server"})
        server.wait_for("running")
        if run == 0:
            assert session_named(daemon, "server")["kind"] == "training"
            wait(lambda: session_named(daemon, "server")["kind_found"], 60, "its kind to be found")
            assert "inference (found)" in daemon.salus("ps").stdout
            wait(lambda: session_named(daemon, "server")["used_s"] > 0.15, 60, "it to be worth remembering")
        session = session_named(daemon, "server")
        assert (session["kind"], session["kind_found"]) == ("inference", True)
        server.succeed()
    daemon.stop()
