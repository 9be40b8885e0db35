# SPDX-License-Identifier: Apache-2.0
"""Who runs when: what each policy promises, seen from outside on real jobs.

Durations are compared with others of the same run, never with a clock: the machine is anyone's. What a
test prints is what was measured; its bounds are wider.
"""

import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sharing import JOBS, Watch, ask, go, number, session_named, used_over

pytestmark = pytest.mark.alone

SPIN = JOBS / "spin.py"


@pytest.fixture(scope="module")
def measured():
    """What the first who needs it has measured."""
    return {}


@pytest.fixture
def spin(measured, direct):
    """spin(client, name, ms, iterations, **env): a job of one core with iterations that long. Some
    300 ms of them are under way, so that the device need not wait for a job on a busy machine."""
    if not measured:
        run = direct.start(SPIN, "--trips", 1000, "--iterations", 100)
        go([run])
        run.succeed()
        took_ms = (number(run, "ended") - number(run, "began")) * 1000 / 100
        measured["trips"] = 1000 / took_ms / number(run, "cores")  # by the time it really ran

    def start(client, name, ms, iterations=0, **env):
        return client.start(SPIN, "--trips", max(1, round(ms * measured["trips"])),
                            "--iterations", iterations, "--depth", max(4, 300 // ms),
                            env={"SALUS_JOB_NAME": name, **{k: str(v) for k, v in env.items()}})

    return start


def stop(runs):
    for run in runs:
        run.say("stop")
    for run in runs:
        run.succeed()


def running(runs):
    go(runs)
    for run in runs:
        run.wait_for("running")


# Fair.

SHARES = {
    "one to one, 1 ms beside 50 ms": [(1, 1), (1, 50)],
    "30 to 70": [(30, 5), (70, 5)],
    "30 to 70, long beside short": [(30, 1), (70, 50)],
    "1 to 2 to 4 to 8": [(1, 2), (2, 10), (4, 1), (8, 5)],
}
WINDOW_S = 6


def delayed_s(pid):
    """Seconds that threads of that process could have run and had no core."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[1]) for task in tasks) / 1e9


def shares(daemon, names):
    """Over a window: each one's part of the device time, the part of the window in which the device
    stood still though salusd had a core, and whether everybody had work all the time."""
    delayed = delayed_s(daemon.pid)
    with Watch(daemon) as watch:
        used, wall = used_over(daemon, WINDOW_S, names)
    lost = max(0, wall - sum(used) - (delayed_s(daemon.pid) - delayed)) / wall
    print(f"busy {sum(used) / wall:.3f}, lost {lost:.3f}")
    busy = all(s["queued"] or s["state"] == "running" for s in watch.sessions())
    return [u / sum(used) for u in used], lost, busy


@pytest.mark.parametrize("case", SHARES)
def test_fair_shares(case, served, spin):
    """Device time in proportion to weights, whatever the lengths of iterations; none is wasted."""
    daemon, client = served("--policy", "fair", "--lanes", "1")
    jobs = SHARES[case]
    asked = [weight / sum(w for w, _ in jobs) for weight, _ in jobs]
    names = [f"job{i}" for i in range(len(jobs))]
    runs = [spin(client, name, ms, SALUS_WEIGHT=weight) for name, (weight, ms) in zip(names, jobs)]
    running(runs)
    for _ in range(3):
        got, lost, busy = shares(daemon, names)
        worst = max(abs(a - g) for a, g in zip(asked, got))
        print(f"{case}: worst {worst * 100:.2f} points, always work: {busy}")
        if busy:  # a job that the machine keeps from having work gets less, and should
            break
    stop(runs)
    if not busy:
        pytest.skip("the machine is too busy: jobs did not get to submit their work")
    assert worst <= 0.03, (asked, got)
    assert lost <= 0.05


# Who goes first.

# A job has the device; another comes. Which policy, what is told of each, and what the first one
# does:
# "yields" until the newcomer has ended, "shares", or "keeps" the device as long as it lives. The
# same
# two jobs do something else under another policy, so no case can pass by chance.
LONG, SHORT = {"SALUS_TIME": "200s"}, {"SALUS_TIME": "100s"}
LATER, SOONER = {"SALUS_PRIORITY": 20}, {"SALUS_PRIORITY": 5}
ARRIVALS = [
    ("srtf", LONG, SHORT, "yields"),
    ("srtf", SHORT, LONG, "keeps"),
    ("priority", LATER, SOONER, "yields"),
    ("priority", SOONER, LATER, "keeps"),
    ("las", {}, {}, "yields"),
    ("fifo", {**LONG, **LATER}, {**SHORT, **SOONER}, "keeps"),
    ("fair", {**LONG, **LATER}, {**SHORT, **SOONER}, "shares"),
]


def spent(watch):
    """Device time of the first job while the newcomer ran, and of the newcomer."""
    pairs = [{s["name"]: s["used_s"] for s in sample["sessions"]} for sample in watch.samples
             if any(s["name"] == "newcomer" and s["iterations"] > 1 for s in sample["sessions"])]
    return pairs[-1]["first"] - pairs[0]["first"], pairs[-1]["newcomer"] - pairs[0]["newcomer"]


@pytest.mark.parametrize("policy, first_is, newcomer_is, does", ARRIVALS,
                         ids=[f"{a[0]} {a[3]}" for a in ARRIVALS])
def test_somebody_comes(policy, first_is, newcomer_is, does, served, spin, wait):
    daemon, client = served("--policy", policy, "--lanes", "1")
    first = spin(client, "first", 30, **first_is)
    newcomer = spin(client, "newcomer", 8, 130, **newcomer_is)
    running([first])
    wait(lambda: session_named(daemon, "first")["used_s"] > 1.5, 30, "the first to have a past")
    if does == "keeps":
        go([newcomer])
        wait(lambda: session_named(daemon, "newcomer"), 10, "the newcomer")
        used, _ = used_over(daemon, 1, ["first", "newcomer"])
        stop([first])
        newcomer.succeed()
        assert used[0] > 0.7 and used[1] < 0.06, used  # a program nobody has timed yet may pass
        return
    with Watch(daemon) as watch:
        go([newcomer])
        newcomer.succeed()
    stop([first])
    meanwhile, own = spent(watch)
    print(f"{policy}: the first had {meanwhile:.3f} s while the newcomer had {own:.3f} s")
    if does == "yields":
        assert meanwhile <= 0.2 * own + 0.03  # an iteration was under way
    else:
        assert 0.6 * own <= meanwhile <= 1.6 * own


def test_las_is_level_in_the_end(served, spin, wait):
    """The newcomer catches up, and from then on both get the same."""
    daemon, client = served("--policy", "las", "--lanes", "1")
    first, newcomer = spin(client, "first", 5), spin(client, "newcomer", 8)
    running([first])
    wait(lambda: session_named(daemon, "first")["used_s"] > 1, 20, "the first to have a past")
    running([newcomer])

    def gap():
        return session_named(daemon, "first")["used_s"] - session_named(daemon, "newcomer")["used_s"]

    wait(lambda: gap() < 0.1, 20, "the newcomer to catch up")
    used, _ = used_over(daemon, 2, ["first", "newcomer"])
    stop([first, newcomer])
    assert 0.85 <= used[0] / used[1] <= 1.18, used


@pytest.mark.parametrize("policy, equal", [("rr", "iterations"), ("fair", "used_s")])
def test_what_is_equal(policy, equal, served, spin):
    """rr deals in iterations, fair in time; jobs with iterations of different lengths tell them apart."""
    daemon, client = served("--policy", policy, "--lanes", "1")
    runs = [spin(client, "short", 2), spin(client, "long", 10)]
    running(runs)
    with Watch(daemon, 0.05) as watch:
        time.sleep(3)
    stop(runs)
    ends = [{s["name"]: s for s in sample["sessions"]}
            for sample in (watch.samples[0], watch.samples[-1])]
    ratio = {what: (ends[1]["short"][what] - ends[0]["short"][what]) /
             (ends[1]["long"][what] - ends[0]["long"][what]) for what in ("iterations", "used_s")}
    print(f"{policy}: short to long {ratio}")
    other, = set(ratio) - {equal}
    assert 0.9 <= ratio[equal] <= 1.1
    assert not 0.6 <= ratio[other] <= 1.7


# Pack and mix.


def side_by_side(runs):
    """Run them; from the first's begin to the last's end, and the digests."""
    running(runs)
    for run in runs:
        run.succeed()
    took = max(number(r, "ended") for r in runs) - min(number(r, "began") for r in runs)
    return took, [r.digest for r in runs]


def gain(spin, client, right):
    """Two jobs at once against one after the other; each with the right result."""
    after = 0
    for name in "ab":
        took, digests = side_by_side([spin(client, name, 8, 200)])
        assert digests == [right]
        after += took
    beside, digests = side_by_side([spin(client, name, 8, 200) for name in "ab"])
    assert digests == [right] * 2
    return beside / after


def test_pack_uses_both_cores(served, direct, spin):
    """Two jobs of one core each run side by side, with the results they have alone."""
    alone = spin(direct, "alone", 8, 200)
    go([alone])
    assert number(alone.succeed(), "cores") < 1.2, "the job uses more than one core"
    _, client = served("--policy", "pack", "--lanes", "2")
    tried = []
    while len(tried) < 3 and min(tried, default=1) > 0.75:  # somebody else may need a core
        tried.append(gain(spin, client, alone.digest))
    print(f"side by side / one after the other: {tried}")
    if min(tried) > 0.75 and gain(spin, direct, alone.digest) > 0.65:
        pytest.skip("there are no two cores for us: the vendor's plugin gains nothing, either")
    assert min(tried) <= 0.75


@pytest.mark.devices
@pytest.mark.parametrize("donate", [[], ["--donate"]], ids=["kept", "donated"])
def test_results_when_lanes_come_and_go(donate, served):
    """Jobs that are moved from lane to lane have the results they have alone."""
    job = [JOBS / "train.py", "--wait", "--width", 300, "--batch", 512, "--steps", 400, "--sync",
           *donate]
    daemon, client = served("--policy", "fair", "--lanes", "1")
    alone = [client.start(*job, "--seed", seed) for seed in range(3)]
    for run in alone:
        go([run])
        run.succeed()
    runs = [client.start(*job, "--seed", seed) for seed in range(3)]
    go(runs)
    seen = set()
    while any(run.code is None for run in runs):
        for policy in ("pack", "fair"):
            ask(daemon, "policy", name=policy, lanes=2 if policy == "pack" else 1)
            time.sleep(0.02)
            seen |= {(s["id"], s["lane"]) for s in ask(daemon, "ps")["sessions"]}
    moved = {i for i, lane in seen if (i, 0) in seen and (i, 1) in seen}
    print(f"{len(moved)} jobs were moved")
    assert [r.succeed().digest for r in runs] == [r.digest for r in alone]
    assert moved


def latencies(run):
    return sorted(float(s) for s in re.findall(r"^answer \S+: \S+ (\S+)$", run.stdout, re.M))


@pytest.mark.parametrize("policy", ["mix", "srtf"])
def test_mix_serves_beside_training(policy, served, spin, wait):
    """Under mix a request does not wait for a training iteration; under srtf it does."""
    daemon, client = served("--policy", policy, *([] if policy == "mix" else ["--lanes", "1"]))
    training = spin(client, "training", 100, SALUS_TIME="100s")
    serving = client.start(JOBS / "serve.py", 0, 256,
                           env={"SALUS_JOB_NAME": "serving", "SALUS_TIME": "20s"})
    running([serving])
    ask(daemon, "set", job="serving", kind="inference")
    running([training])
    wait(lambda: session_named(daemon, "training")["used_s"] > 0.3, 20, "training to go on")
    for i in range(20):
        serving.say(str(i))
        serving.wait_for(f"answer {i}:")
    lanes = {name: session_named(daemon, name)["lane"] for name in ("training", "serving")}
    stop([training])
    serving.succeed()
    median = latencies(serving)[10]
    print(f"{policy}: half of the requests within {median * 1000:.1f} ms, lanes {lanes}")
    if policy == "mix":
        assert lanes["training"] != lanes["serving"]
        assert median < 0.03
    else:
        assert median > 0.03
