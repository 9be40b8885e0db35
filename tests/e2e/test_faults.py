# SPDX-License-Identifier: Apache-2.0
"""Jobs that catch an error and go on: what they still have, and what they are told."""

import json
import re

# An iteration that is too large.

SMALLER = """
import json
import jax, jax.numpy as jnp

def step(weights, batch):
    grown = jnp.broadcast_to(weights[:batch, None], (batch, 4096)) * 1.5
    return weights + grown.mean(), grown

step = jax.jit(step, donate_argnums=0, static_argnums=1)
weights, said = jnp.arange(65536, dtype=jnp.float32), []
for batch in (32768, 16384, 512, 512):  # the first two do not fit
    try:
        new, grown = jax.block_until_ready(step(weights, batch))
    except jax.errors.JaxRuntimeError as e:
        said.append(str(e).split(":")[0])
        assert not weights.is_deleted()
        continue
    said.append("ran")
    assert weights.is_deleted()
    weights = new
print(json.dumps([said, float(weights[7]), (jax.devices()[0].memory_stats() or {}).get("bytes_in_use")]))
"""


def last_line(run):
    return json.loads(run.succeed().stdout.splitlines()[-1])


def test_catch_it_and_try_a_smaller_batch(served, direct):
    """The donated array of an iteration that did not fit is as it was before the call."""
    _, client = served("--memory", "96MiB")
    said, weight, in_use = last_line(client(SMALLER))
    assert said == ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "ran", "ran"]
    assert in_use < 16 << 20
    fits = SMALLER.replace("(32768, 16384, 512, 512)", "(512, 512)")
    assert last_line(direct(fits))[:2] == [["ran", "ran"], weight]


def test_a_limit_of_the_job_is_caught_too(served):
    """Also if the operator set it while the job was running, and another one lifts it."""
    daemon, client = served("--memory", "256MiB")
    job = client.start(SMALLER.replace("for batch", "print('ready', flush=True)\ninput()\nfor batch")
                       .replace("(32768, 16384, 512, 512)", "(8192, 512)"),
                       env={"SALUS_JOB_NAME": "job"})
    job.wait_for("ready")
    assert daemon.salus("set", "job", "limit=64MiB").returncode == 0
    job.say("")
    assert last_line(job)[0] == ["RESOURCE_EXHAUSTED", "ran"]


LATE = """
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def slow(x):
    return jax.lax.fori_loop(0, 200, lambda i, x: jnp.tanh(x @ x), x)

step = jax.jit(lambda x: slow(x) * 0.5, donate_argnums=0)
x = jnp.eye(384)
errors = 0
for _ in range(50):
    try:
        x = jax.block_until_ready(step(x))
    except jax.errors.JaxRuntimeError as e:
        assert str(e).startswith("DEADLINE_EXCEEDED"), e
        assert not x.is_deleted() and np.asarray(x).shape == (384, 384)
        errors += 1
print("refused" if errors else "met")
"""


def test_a_refused_deadline_takes_nothing(served):
    """The policy learns that the deadline cannot be met, and refuses: the array stays."""
    _, client = served("--policy", "deadline")
    run = client.start(LATE, env={"SALUS_DEADLINE": "1ms"}).succeed()
    assert run.stdout.splitlines()[-1] == "refused", run.describe()


# What failed, and why.

REASONS = """
import jax, jax.numpy as jnp, numpy as np

SIZE = %s
device = jax.devices()[0]
make = jax.jit(lambda x: jnp.broadcast_to(x, (SIZE,)) * 2.0)
ways = {
    "block": lambda z: z.block_until_ready(),
    "asarray": np.asarray,
    "tolist": lambda z: z.tolist(),
    "get": jax.device_get,
    "async": lambda z: (z.copy_to_host_async(), np.asarray(z)),
    "argument": lambda z: jax.jit(jnp.sum)(z).block_until_ready(),
    "as large": lambda z: (z * 3).block_until_ready(),
    "asarray of as large": lambda z: np.asarray(z * 3),
    "index": lambda z: float(z[5]),
    "copy": lambda z: z.copy().block_until_ready(),
    "asarray of a copy": lambda z: np.asarray(z.copy()),
    "put": lambda z: jax.device_put(z, device, may_alias=False).block_until_ready(),
    "memoryview": memoryview,
    "pointer": lambda z: z.unsafe_buffer_pointer(),
    "dlpack": np.from_dlpack,
}
for known in (False, True):
    for name, way in ways.items():
        z = make(jnp.float32(1))
        if known:
            try:
                z.block_until_ready()
            except jax.errors.JaxRuntimeError:
                pass
        try:
            way(z)
            print(known, name, "worked")
        except (jax.errors.JaxRuntimeError, BufferError) as e:
            print(known, name, "failed:", e)
"""


def expect_reasons(client, size, needs):
    lines = client(REASONS % size).succeed().stdout.splitlines()
    assert len(lines) == 30
    wrong = [line for line in lines if not re.search(
        rf"failed: RESOURCE_EXHAUSTED: salus: out of memory: \S+ needs {needs} \({needs} kept \+ \S+ "
        rf"scratch\), and the most it can have is 96MiB", line)]
    assert not wrong, "\n".join(wrong)


def test_the_reason_of_what_failed(served):
    """Whoever uses it, however, and whether or not its failure is known already."""
    _, client = served("--memory", "96MiB")
    expect_reasons(client, 64 << 20, r"25\d(\.\d+)?MiB")


def test_the_reason_of_what_this_process_has_no_room_for_either(served):
    _, client = served("--memory", "96MiB")
    expect_reasons(client, 1 << 42, "16TiB")
