# SPDX-License-Identifier: Apache-2.0
"""Sessions that are paged out: every bit comes back, and a death meanwhile costs nobody else anything."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import JOBS, MIB, Holder, ask, go, session_named, wait_for


def state_of(daemon, name):
    session = session_named(daemon, name)
    return session and session["state"]


def parts(run):
    return dict(re.findall(r"^(made|read|deleted|computed|left): ([0-9a-f]{64})$", run.stdout, re.M))


def push_out(daemon, other, name, mib):
    """Have the other need memory until that session is paged out."""
    other.do("put", mib)
    wait_for(lambda: state_of(daemon, name) == "paged", 20, f"{name} to be paged out")


# Every bit.


@pytest.mark.devices
def test_every_kind_of_array(served, direct):
    """Arrays of all types and layouts, read, deleted and used after they were paged out."""
    run = direct.start(JOBS / "zoo.py")
    for _ in range(6):
        run.say("go on")
    right = parts(run.succeed())
    assert len(right) == 5

    daemon, client = served("--memory", "72MiB")
    other = Holder(client, "other")
    run = client.start(JOBS / "zoo.py", env={"SALUS_JOB_NAME": "zoo"})
    go([run])
    run.wait_for("made:")
    push_out(daemon, other, "zoo", 40)
    kept = other.do("use")
    paged = session_named(daemon, "zoo")
    run.say("read while it is out")
    run.wait_for("read:")
    assert state_of(daemon, "zoo") == "paged", "reading brings nothing back"
    assert session_named(daemon, "other")["paged_bytes"] == 0
    run.say("delete some while it is out")
    run.wait_for("deleted:")
    wait_for(lambda: session_named(daemon, "zoo")["persist_bytes"] < paged["persist_bytes"], 5,
             "what was deleted to be free")
    assert state_of(daemon, "zoo") == "paged"
    run.say("compute with what is left")
    run.wait_for("computed:")
    assert other.do("use") == kept
    wait_for(lambda: state_of(daemon, "zoo") == "paged", 20, "zoo to be paged out again")
    run.say("read what is left")
    run.wait_for("left:")
    run.say("end")
    assert parts(run.succeed()) == right
    other.end()


@pytest.mark.parametrize("donate", [[], ["--donate"]], ids=["kept", "donated"])
def test_weights_come_back(donate, served):
    """Two jobs that fit only one at a time train in turns, as if each were alone."""
    job = ["--wait", "--width", 300, "--batch", 512, "--steps", 60, "--ballast", 40, "--sync", *donate]
    daemon, client = served()
    alone = [client.start(JOBS / "train.py", *job, "--seed", seed) for seed in (0, 1)]
    for run in alone:
        go([run])
        run.succeed()
    daemon, client = served("--memory", "72MiB", env={"SALUS_LOG": "debug"})
    runs = [client.start(JOBS / "train.py", *job, "--seed", seed) for seed in (0, 1)]
    go(runs)
    assert [r.succeed().digest for r in runs] == [r.digest for r in alone]
    out = daemon.log.count("paging: out ")
    print(f"paged out {out} times")
    assert out >= 2


# Time.


def copy_s(size):
    """Seconds to copy so many bytes to where nothing was before."""
    source = np.ones(size, np.uint8)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        source.copy()
        best = min(best, time.perf_counter() - began)
    return best


@pytest.mark.alone
def test_paging_is_as_fast_as_copying(served, patience):
    mib = 400
    daemon, client = served("--memory", "600MiB", env={"SALUS_LOG": "debug"})
    a, b = Holder(client, "a"), Holder(client, "b", 1)
    a.do("make", mib)
    of_a = a.do("use")
    b.do("make", mib)
    of_b = b.do("use")
    for _ in range(3):
        assert a.do("use") == of_a
        assert b.do("use") == of_b
    copy = copy_s(mib * MIB)
    ratios = {}
    for way in ("out", "in"):
        us = times_of(way, daemon)
        ratios[way] = min(us) / 1e6 / copy
        print(f"ratio of paging {way} to a copy: {ratios[way]:.2f} ({us} us for {mib} MiB)")
    a.end()
    b.end()
    assert max(ratios.values()) <= 3 * patience


def times_of(way, daemon):
    """Microseconds of each time that a session was paged out, or in."""
    us = [int(u) for u in re.findall(rf"paging: {way} session=.* us=(\d+)", daemon.log)]
    assert us, daemon.log
    return us


@pytest.mark.alone
def test_shared_uploads_are_paged_without_copies(served, patience, on_the_host):
    """An upload that the device reads in the memory of its job stays there: a copy would only take more."""
    mib = 400
    daemon, client = served("--memory", "600MiB", env={"SALUS_LOG": "debug"})
    a, b = Holder(client, "a"), Holder(client, "b", 1)
    right = []
    for holder in (a, b):
        holder.do("put", mib)
        right.append((holder.do("use"), holder.do("read")))
    for _ in range(3):
        assert [(holder.do("use"), holder.do("read")) for holder in (a, b)] == right
    copy = copy_s(mib * MIB)
    for way in ("out", "in"):
        us = times_of(way, daemon)
        print(f"paging {way}: {us} us for {mib} MiB, which take {copy * 1e6:.0f} us to copy")
        assert min(us) / 1e6 <= copy / 4 * patience
    a.end()
    b.end()


# Death.


def gone_and_free(daemon, survivor, name):
    """That session is gone, and the whole device is the survivor's."""
    wait_for(lambda: session_named(daemon, name) is None, 10, f"{name} to be gone")
    survivor.do("put", 50)  # does not fit beside what the dead one had
    now = ask(daemon, "ps")
    held = sum(s["held_bytes"] for s in now["sessions"])
    assert now["device"]["persist_bytes"] == held, now


def kill(holder):
    os.kill(holder.run.pid, signal.SIGKILL)
    holder.run.process.wait()


@pytest.mark.parametrize("moment", ["paging out", "paged", "paging in", "waiting", "others wait"])
def test_death(moment, served, device):
    """kill -9 at the worst moment: the others go on, and the memory is theirs. Computed arrays are copied; uploads
    may stay where they are."""
    # The discrete device copies in the background. So that it still does at the death, it is slow.
    slow = ["--plugin-option", "bandwidth=500000000"] if device == "discrete" else []
    daemon, client = served("--memory", "600MiB", *slow)
    victim, other = Holder(client, "victim"), Holder(client, "other", 1)

    def victim_is(*states):
        return lambda: state_of(daemon, "victim") in states

    if moment == "waiting":
        other.do("make", 400)
        right = other.do("use")
        victim.begin("make", 350)
        wait_for(victim_is("waiting"), 10, "the victim to wait")
        kill(victim)
    else:
        victim.do("make", 350)
        other.begin("make", 400)
        if moment == "others wait":
            wait_for(lambda: state_of(daemon, "other") == "waiting", 10, "the other to wait")
        elif moment == "paging out":
            wait_for(victim_is("paging out"), 10, "the victim to be paged out")
        else:
            wait_for(victim_is("paged"), 10, "the victim to be out")
        if moment == "paging in":
            other.answer()
            victim.begin("use")
            wait_for(lambda: state_of(daemon, "victim") not in ("paged", "waiting"), 10, "the victim to come back")
        kill(victim)
        if moment != "paging in":
            other.answer()
        right = other.do("use")
    assert other.do("use") == right
    gone_and_free(daemon, other, "victim")
    other.end()
