# SPDX-License-Identifier: Apache-2.0
"""What a new user gets wrong on the first day, and the sentence that helps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import BUILD, Fixed, salus  # noqa: E402

PING = {"ok": True, "version": "0.1.0", "pid": 1, "platform": "cpu", "policy": "fair", "uptime_s": 1}


@pytest.mark.parametrize("words, says", [
    (["pasue", "3"], 'salus: there is no command "pasue"; did you mean pause?\n'),
    (["limit"], "did you mean limits?"),
    (["why"], "salus why: JOB is missing: an id or a name of `salus ps`\n"),
    (["pause"], "salus pause: JOB is missing"),
    (["set"], "salus set: JOB is missing"),
    (["set", "3"], "salus set: KEY=VALUE is missing"),
    (["ps", "--jsno"], "salus ps: there is no option --jsno; did you mean --json?"),
    (["top", "--intervall", "1s"], "salus top: there is no option --intervall; did you mean --interval?"),
    (["top", "--interval", "2"], 'salus top: --interval: "2" has no unit; expected a duration such as 2s'),
    (["set", "3", "time=20"], 'salus set: time is "20", expected a duration such as 90min'),
    (["set", "3", "limit=4"], "limit is \"4\", expected a size such as 4GiB"),
    (["trace", "--outptu", "x"], "salus trace: there is no option --outptu; did you mean --output?"),
    (["trace", "-o"], "salus trace: -o needs a value"),
    (["run", "--policy", "srtf", "--", "true"],
     "salus run: there is no option --policy: one policy ranks all jobs, and `salus policy NAME` chooses it\n"),
    (["run", "--wieght", "2", "--", "true"], "salus run: there is no option --wieght; did you mean --weight?"),
    (["run", "--name"], "salus run: --name needs a value"),
    (["run"], "salus run: CMD is missing"),
    (["run", "--time", "20", "--", "true"],
     'salus run: --time: "20" has no unit; expected a duration such as 20s or 20min\n'),
    (["run", "--reserve", "2,1", "--", "true"], '"2" has no unit; expected a size such as 2GiB or 2MiB'),
    (["sim", "--memroy", "1GiB"], "salus sim: there is no option --memroy; did you mean --memory?"),
    (["sim", "--memory", "15.6"], 'salus sim: --memory: "15.6" has no unit; expected a size such as 15.6GiB'),
    (["sim", "--switch", "3"], '"3" has no unit'),
    (["sim", "--page-bandwidth", "12"], '"12" has no unit; expected a rate such as 12GB/s'),
])
def test_a_slip_is_answered_with_what_was_meant(words, says):
    said = salus(*words, status=64)
    assert says in said and len(said.splitlines()) <= 2


def test_a_word_that_is_near_nothing_gets_the_list():
    said = salus("training", status=64)
    assert said.startswith('salus: there is no command "training"\n') and "did you mean" not in said
    assert "  sim  " in said


@pytest.mark.parametrize("words, says", [
    (["--memory", "64"], '--memory: "64" has no unit; expected a size such as 64GiB or 64MiB\n'),
    (["--idle-exit", "10"], '--idle-exit: "10" has no unit; expected a duration such as 10s or 10min\n'),
    (["--cache-size", "4"], '"4" has no unit'),
    (["--compile-memory", "4"], '"4" has no unit'),
    (["--log-size", "4"], '"4" has no unit'),
    (["--limit", "job-arena=4"], '"4" has no unit'),
    (["--limit", "job-bufers=7"], 'there is no limit "job-bufers"; did you mean job-buffers?'),
    (["--memroy", "64GiB"], "there is no option --memroy; did you mean --memory?"),
    (["--memory"], "--memory needs a value"),
])
def test_the_daemon_says_what_was_meant(tmp_path, words, says):
    done = subprocess.run([BUILD / "bin" / "salusd", "--socket", tmp_path / "s", *words], capture_output=True,
                          text=True, timeout=60)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("salusd: ") and says in done.stderr


@pytest.mark.parametrize("mode, status", [(None, 127), (0o644, 126)])
def test_a_script_is_no_command(tmp_path, mode, status):
    script = tmp_path / "train.py"
    if mode:
        script.write_text("print(1)\n")
        script.chmod(mode)
    word = script if mode else "train.py"
    daemon = Fixed(Path(os.path.relpath(tmp_path)) / "s", PING)
    try:
        said = salus("run", "--", word, socket=daemon.path, status=status)
    finally:
        daemon.close()
    assert said == f"salus: {word} is not a command; did you mean python {word}?\n"
