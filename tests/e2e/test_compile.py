# SPDX-License-Identifier: Apache-2.0
"""What one job asks of the compiler costs that job alone: time, memory, and the wait of others."""

import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sharing import ask

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("SALUS_TEST_PYTHON", ROOT / ".venv" / "bin" / "python"))

# Takes minutes and a gigabyte to compile; a factor makes it another program.
SLOW = """
import sys, threading, jax, jax.numpy as jnp
def slow(factor):
    def f(x):
        for i in range(3000):
            x = jnp.sin(x * (factor + i * 1e-6)) + jnp.roll(x, i % 7)
        return x
    return jax.jit(f).lower(jnp.ones(16))
"""
SMALL = """
import jax, jax.numpy as jnp
print("begin", flush=True)
print("result", float(jax.jit(lambda x: x * 17 + 4)(jnp.ones(()))), flush=True)
input()
"""


def rss_bytes(pid, field="VmRSS"):
    return int(re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1]) << 10


def test_slow_programs_end_with_their_job(served, wait):
    """Two jobs keep all helpers busy. A third waits, is told so, and goes on when one of the two leaves; nothing of the
    two is left behind."""
    daemon, client = served("--cache", "none")
    jobs = [client.start(SLOW + f"lowered = slow({k})\nprint('compiling', flush=True)\nlowered.compile()",
                         env={"SALUS_JOB_NAME": f"slow{k}"}) for k in (1, 2)]
    for job in jobs:
        job.wait_for("compiling")
    wait(lambda: ask(daemon, "ps")["programs"]["running"] == 2, 30, "both to be compiled")
    busy = daemon.helpers()
    assert len(busy) == 2
    cold = client.start(SMALL, env={"SALUS_JOB_NAME": "cold"})
    cold.wait_for("begin")
    told = re.compile(r"^salus: cold \(id \d+\) is waiting for the compiler: its program has waited for .* and is number 1 "
                      r"in the queue; the compiler is at work for slow\d \(id \d+\), for .*slow\d \(id", re.M)
    wait(lambda: told.search(cold.stderr), 30, "the third to be told")
    why = json.loads(daemon.salus("why", "cold", "--json").stdout)
    assert why["waits_for"] == "compile" and {h["name"] for h in why["holders"]} == {"slow1", "slow2"}, why
    assert "its program has been compiled for" in daemon.salus("why", "slow1").stdout
    jobs[0].kill()
    cold.wait_for("result 21.0")
    wait(lambda: re.search(r"^salus: cold \(id \d+\) goes on after \d+s$", cold.stderr, re.M), 15, "it to be told again")
    jobs[1].kill()
    wait(lambda: not set(busy) & set(daemon.helpers()), 10, "the two helpers to be gone")
    assert len(daemon.helpers()) <= 1 and all(rss_bytes(p) < 200 << 20 for p in daemon.helpers())
    cold.say("")
    cold.succeed()


def test_one_job_never_has_all_helpers(served, wait):
    daemon, client = served("--cache", "none")
    greedy = client.start(SLOW + """
for lowered in [slow(k) for k in (1, 2, 3)]:
    threading.Thread(target=lowered.compile, daemon=True).start()
print("compiling", flush=True)
input()
""")
    greedy.wait_for("compiling", 120)
    wait(lambda: ask(daemon, "ps")["programs"]["running"] == 1, 30, "one to be compiled")
    cold = client.start(SMALL)
    cold.wait_for("result 21.0")
    assert ask(daemon, "ps")["programs"]["running"] == 1
    cold.say("")
    cold.succeed()
    greedy.kill()


def refused(client, *, program="slow(1)"):
    run = client(SLOW + f"""
try:
    {program}.compile()
except Exception as error:
    print("caught", error)
print(float(jax.jit(lambda x: x * 17 + 4)(jnp.ones(()))))
""")
    assert run.code == 0 and "21.0" in run.stdout, run.describe()
    return run.stdout


def test_a_program_that_takes_too_long(served):
    daemon, client = served("--cache", "none", "--compile-time", "2s")
    assert re.search(r"caught DEADLINE_EXCEEDED: .* longer than 2s .*--compile-time", refused(client))


def test_a_program_that_takes_too_much_memory(served):
    daemon, client = served("--cache", "none", "--compile-memory", "160MiB")
    assert re.search(r"caught RESOURCE_EXHAUSTED: .* more than 160MiB of memory .*--compile-memory", refused(client))


def test_memory_of_a_compilation_goes_back(served, wait):
    """The helper stays, and has nothing to do."""
    daemon, client = served("--cache", "none")
    client.start(SLOW.replace("3000", "60") + "slow(1).compile()").succeed(120)
    (helper,) = daemon.helpers()
    wait(lambda: rss_bytes(helper) < rss_bytes(helper, "VmHWM") - (32 << 20), 20, "the memory to go back")


# Dumps.

DUMPED = """
import jax, jax.numpy as jnp
print("sum", float(jax.jit(lambda x: jnp.tanh(x) @ x)(jnp.ones((8, 8))).sum()))
"""


def dumped(folder):
    return {re.sub(r"module_\d{4}\.jit_\w+\.", "", path.name) for path in folder.iterdir()}


def test_a_job_dumps_its_programs(served, tmp_path):
    """As it does without Salus: its own process writes, into a folder that did not exist."""
    daemon, _ = served()
    folder, script = tmp_path / "new" / "dump", tmp_path / "job.py"
    script.write_text(DUMPED)
    run = daemon.salus("run", "--", "env", f"XLA_FLAGS=--xla_dump_to={folder}", PYTHON, script, deadline_s=120)
    assert run.returncode == 0 and "dump" not in run.stderr, run.stderr
    assert dumped(folder) == {"before_optimizations.mlirbc", "before_optimizations.txt",
                              "cpu_after_optimizations.hlo.pb", "cpu_after_optimizations.txt"}
    before = "".join(path.read_text() for path in folder.glob("*.before_optimizations.txt"))
    after = "".join(path.read_text() for path in folder.glob("*.cpu_after_optimizations.txt"))
    assert before.count("HloModule") == after.count("HloModule") > 0
    assert "tanh" in before and "is_scheduled=true" in after and "is_scheduled" not in before
    assert not list(daemon.folder.rglob("module_*")), "the daemon writes no dumps"


def test_a_job_without_our_module_is_told_that_there_is_no_text(served, tmp_path):
    """unless it asks for protobufs."""
    _, client = served()
    for form, told in ("", 1), (" --xla_dump_hlo_as_text", 1), (" --xla_dump_hlo_as_proto", 0):
        folder = tmp_path / f"dump{len(form)}"
        run = client.start(DUMPED, env={"XLA_FLAGS": f"--xla_dump_to={folder}{form}"}).succeed()
        assert run.stderr.count("writes no text") == told
        assert dumped(folder) == {"before_optimizations.mlirbc", "cpu_after_optimizations.hlo.pb"}


def test_a_dump_that_cannot_be_written(served, tmp_path):
    """costs a line, not the job."""
    (tmp_path / "file").write_text("no folder")
    _, client = served()
    run = client.start(DUMPED, env={"XLA_FLAGS": f"--xla_dump_to={tmp_path / 'file' / 'dump'}"}).succeed()
    assert "sum" in run.stdout and "--xla_dump_to" in run.stderr
    assert (tmp_path / "file").read_text() == "no folder"
