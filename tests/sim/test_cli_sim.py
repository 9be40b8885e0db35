# SPDX-License-Identifier: Apache-2.0
"""`salus sim` from outside: what it prints, writes and refuses."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from policies import policies  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SALUS = Path(os.environ.get("SALUS_BUILD", ROOT / "build")) / "bin" / "salus"
DATA = ROOT / "data"
SVG = "{http://www.w3.org/2000/svg}"

KEYS = {"policy", "makespan_s", "mean_jct_s", "median_jct_s", "p95_jct_s", "max_jct_s",
        "mean_queue_s", "busy_share", "switches", "page_outs", "refused", "peak_resident"}
POLICIES = policies()
GOOD = "job,submit_s,duration_s,persistent_mib,ephemeral_mib\na,0,2,100,200\nb,1,1,100,200\n"


def salus(*args, cwd=None, stdout=subprocess.PIPE):
    return subprocess.run([SALUS, "sim", *map(str, args)], cwd=cwd, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=120)


def simulate(cwd, trace, *args, memory="1GiB", policy="fifo"):
    """Run on a trace given as text or bytes, in an empty directory of its own."""
    (cwd / "t.csv").write_bytes(trace if isinstance(trace, bytes) else trace.encode())
    return salus("--workload", "t.csv", "--memory", memory, "--policy", policy, *args, cwd=cwd)


def report(*args, refused="", **kwargs):
    """What it found out; refused is the beginning of the sentence about refused jobs."""
    run = simulate(*args, **kwargs)
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith(f"salus sim: {refused}" if refused else "") and bool(refused) == bool(run.stderr)
    return json.loads(run.stdout)["policies"]


def files(directory):
    return sorted(p.name for p in directory.iterdir())


# Policies.


def test_help_and_errors_name_every_policy():
    listed = salus("--policies").stdout.splitlines()
    assert len(POLICIES) >= 8 and all(len(line.split()) > 3 for line in listed)
    assert "\n".join(["Policies:", *listed, ""]) in salus("--help").stdout
    refusal = salus("--workload", "t.csv", "--memory", "1GiB", "--policy", "lifo")
    assert refusal.returncode == 64
    assert f'no policy "lifo"; there are {", ".join(POLICIES)}\n' in refusal.stderr


def test_tuning_changes_the_schedule(tmp_path):
    """Only one of the two fits. If copies need not pay, they swap more often."""
    trace = GOOD.replace("2,100,200", "60,900,100").replace("1,100,200", "60,900,100")
    plain, tuned = (report(tmp_path, trace, "--json", "--page-bandwidth", "1GB/s", *more, policy="fair")[0]
                    for more in ((), ("--tune", "page_margin=1")))
    assert tuned["page_outs"] > 2 * plain["page_outs"] > 0


@pytest.mark.parametrize("tune, says", [
    ("page_margin", "expected NAME=VALUE"), ("boost=1s", "what can be: alike, page_margin"),
    ("guess=x", "guess: "), ("page_margin=1000001", "expected 0 to 1000000")])
def test_bad_tuning_is_refused(tmp_path, tune, says):
    run = simulate(tmp_path, GOOD, "--tune", tune, policy="fair,srtf")
    assert run.returncode == 64 and says in run.stderr


# Report.


def test_json_has_the_promised_keys(tmp_path):
    both = report(tmp_path, GOOD, "--json", policy="fifo,srtf")
    assert [p["policy"] for p in both] == ["fifo", "srtf"]
    for policy in both:
        assert KEYS <= set(policy)
    fifo = both[0]
    assert fifo["makespan_s"] == pytest.approx(3)
    assert fifo["mean_jct_s"] == pytest.approx(2)  # a: 2, b: 3 - 1
    assert fifo["mean_queue_s"] == pytest.approx(0.5)
    assert fifo["busy_share"] == pytest.approx(1)
    assert (fifo["refused"], fifo["page_outs"], fifo["switches"]) == (0, 0, 1)
    (fifo,) = report(tmp_path, GOOD + "c,1,6,100,200\n", "--json")  # 2, 2 and 8
    assert (fifo["median_jct_s"], fifo["max_jct_s"]) == (pytest.approx(2), pytest.approx(8))
    assert fifo["p95_jct_s"] == pytest.approx(2 + 0.9 * 6)


def test_a_duration_is_met_to_the_end(tmp_path):
    """Also if it is no whole number of iterations."""
    (fifo,) = report(tmp_path, "job,submit_s,duration_s\na,0,1.234\nb,0,0.05\n", "--json", "--jobs")
    assert [job["device_s"] for job in fifo["jobs"]] == [pytest.approx(1.234), pytest.approx(0.05)]
    assert [job["iterations"] for job in fifo["jobs"]] == [13, 1]


def test_lanes_share_what_the_device_can_do(tmp_path):
    header = "job,submit_s,iterations,iter_ms,util\n"
    (both,) = report(tmp_path, header + "a,0,10,100,0.25\nb,0,10,100,0.25\n", "--json", policy="pack")
    assert (both["makespan_s"], both["busy_share"]) == (pytest.approx(1), pytest.approx(0.5))
    (both,) = report(tmp_path, header + "a,0,10,100,1\nb,0,25,80,0.5\n", "--json", policy="pack")
    # One and a half of a device until a ends, then b alone for the other half of its length.
    assert both["makespan_s"] == pytest.approx(1.5 + 1)
    assert both["busy_share"] == pytest.approx((1.5 + 0.5) / 2.5)


def test_requests_come_when_they_should(tmp_path):
    """Three services, each with a rhythm of its own, on a device that is always free when one is asked."""
    header = "job,submit_s,iterations,iter_ms,kind,requests_per_s\n"
    rows = "a,0,20,1,inference,10\nb,0.03,20,1,inference,20\nc,0.01,20,1,inference,10\n"
    (mix,) = report(tmp_path, header + rows, "--json", "--jobs", policy="mix")
    for job, end_s in zip(mix["jobs"], (1.901, 0.03 + 0.951, 0.01 + 1.901)):
        assert job["end_s"] == pytest.approx(end_s)
        assert (job["mean_latency_s"], job["max_latency_s"]) == (pytest.approx(1e-3), pytest.approx(1e-3))


def test_the_earliest_deadline_runs_first(tmp_path):
    """Four services come at once to one lane. Under mix the last one waits for the three before it."""
    header = "job,submit_s,iterations,iter_ms,requests_per_s,deadline_ms\n"
    rows = "b,0,20,6,10,100\nc,0,20,6,10,100\nd,0,20,6,10,100\na,0.0005,20,2,10,10\n"
    late = {}
    for policy in "mix", "deadline":
        (result,) = report(tmp_path, header + rows, "--json", "--jobs", "--lanes", "2", policy=policy)
        late[policy] = [job["late"] for job in result["jobs"]]
    assert late == {"mix": [0, 0, 0, 20], "deadline": [0, 0, 0, 0]}


def test_deadlines_that_cannot_be_met_are_refused(tmp_path):
    header = "job,submit_s,iterations,iter_ms,requests_per_s,deadline_ms\n"
    rows = "a,0,50,12,20,20\nlong,0,50,30,5,20\nthird,0,50,10,20,20\ntrain,0,50,10,,\n"
    (result,) = report(tmp_path, header + rows, "--json", "--jobs", "--check", policy="deadline",
                       refused="2 of 4 jobs refused under deadline: their deadlines cannot be met; "
                               "long (30ms, due within 20ms): the iteration takes longer than its deadline")
    assert [job["refused"] for job in result["jobs"]] == [False, True, True, False]
    (result,) = report(tmp_path, header + rows, "--json", policy="mix")
    assert result["refused"] == 0
    run = simulate(tmp_path, header + rows, "--jobs", policy="deadline")
    assert "third                           0.0 refused: the deadlines of all sessions need more" in run.stdout


def test_the_kind_of_a_service_is_found(tmp_path):
    """It shares a lane with training until it has shown its rhythm. Then its requests do not wait."""
    header = "job,submit_s,iterations,iter_ms,kind,requests_per_s,util\n"
    latency = {}
    for kind in "inference", "":
        rows = f"train,0,400,100,training,,0.5\nserve,0,1000,2,{kind},25,0.5\n"
        (mix,) = report(tmp_path, header + rows, "--json", "--jobs", "--check", policy="mix")
        latency[kind] = mix["jobs"][1]
        assert mix["peak_lanes"] == 2
    assert latency["inference"]["max_latency_s"] == pytest.approx(0.002)
    assert latency[""]["max_latency_s"] > 0.02  # at first
    assert latency[""]["mean_latency_s"] < 0.01


def test_partitions(tmp_path):
    """Each job has a slice to itself for as long as all of them; what fits nowhere is refused."""
    trace = "job,submit_s,duration_s,persistent_mib,ephemeral_mib\n" + "".join(
        f"{job}\n" for job in ("a,0,1,200,100", "b,0,1,300,100", "c,0,2,500,100", "d,0,4,600,100", "e,0,1,1000,100"))
    (static,) = report(tmp_path, trace, "--static", "--json", policy="fifo", refused="1 of 5 jobs")[-1:]
    assert (static["policy"], static["devices"], static["refused"]) == ("static", 2, 1)
    assert static["makespan_s"] == pytest.approx(4 + 1)  # a beside d, b beside c
    assert static["busy_share"] == pytest.approx((5 + 3) / (5 * 2))


def test_copies_go_one_after_the_other(tmp_path):
    """Two jobs of 400 MiB make room for a third; each has run before, so that there is something to copy."""
    trace = ("job,submit_s,duration_s,persistent_mib,ephemeral_mib,priority\n"
             "a,0,5,400,10,2\nb,0.5,5,400,10,1\nc,1,5,900,10,0\n")
    (result,) = report(tmp_path, trace, "--json", "--jobs", "--page-bandwidth", "100MiB/s", policy="priority")
    assert result["jobs"][2]["queue_s"] == pytest.approx(4 + 4)


def test_switching_costs_what_is_asked_for(tmp_path):
    """Device time is lost whenever a lane goes from one job to another, and only then."""
    trace = "job,submit_s,iterations,iter_ms\na,0,10,5\nb,0,10,5\n"
    (free,) = report(tmp_path, trace, "--json", policy="rr")
    assert free["switches"] == 19
    assert free["makespan_s"] == pytest.approx(0.1, abs=1e-9)
    (dear,) = report(tmp_path, trace, "--json", "--switch", "1ms", policy="rr")
    assert dear["switches"] == 19
    assert dear["makespan_s"] == pytest.approx(0.119, abs=1e-9)
    (once,) = report(tmp_path, trace, "--json", "--switch", "1ms", policy="fifo")
    assert once["switches"] == 1
    assert once["makespan_s"] == pytest.approx(0.101, abs=1e-9)
    # The first job of a lane replaces nobody, and one that runs alone never switches.
    for more in ([], ["--switch", "1s"]):
        (alone,) = report(tmp_path, trace.rsplit("b,", 1)[0], "--json", *more, policy="rr")
        assert (alone["switches"], alone["makespan_s"]) == (0, pytest.approx(0.05, abs=1e-9))
    # A lane for each: nobody takes over from anybody.
    (apart,) = report(tmp_path, trace, "--json", "--switch", "1ms", "--lanes", "2", policy="rr")
    assert apart["switches"] == 0


def test_text_has_a_row_for_each_policy_and_job(tmp_path):
    run = simulate(tmp_path, GOOD, "--jobs", policy="fifo,fair")
    assert run.returncode == 0
    starts = [line.split()[0] for line in run.stdout.splitlines() if line]
    assert starts == ["policy", "fifo", "fair", "fifo", "job", "a", "b", "fair", "job", "a", "b"]


def test_the_name_of_the_workload_before_is_understood(tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    run = salus("--trace", "t.csv", "--memory", "1GiB", "--policy", "fifo", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert "--trace" not in salus("--help").stdout


def test_a_job_larger_than_the_device_is_refused_and_said_so(tmp_path):
    trace = GOOD + "huge,1,1,2000,1\n"
    why = ("1 of 3 jobs refused: they need more memory than the device has (1GiB); "
           "huge needs 1.95GiB and 1MiB of scratch\n")
    (fifo,) = report(tmp_path, trace, "--json", "--jobs", refused=why)
    assert fifo["refused"] == 1
    assert [j["job"] for j in fifo["jobs"] if j["refused"]] == ["huge"]
    assert fifo["makespan_s"] == pytest.approx(3)
    assert fifo["mean_jct_s"] == pytest.approx(2)  # of those that ran
    both = simulate(tmp_path, trace, "--jobs", policy="fifo,srtf")
    assert (both.returncode, both.stderr) == (0, "salus sim: " + why)
    assert "refused: needs more than the device has" in both.stdout


def test_a_trace_of_refused_jobs_only_has_a_picture_too(tmp_path):
    run = simulate(tmp_path, "job,submit_s,duration_s,persistent_mib\nhuge,5,1,9999\n", "--svg",
                   "o.svg", "--chrome", "o.json", "--json")
    assert run.returncode == 1
    assert run.stderr.startswith("salus sim: 1 of 1 jobs refused: ")
    assert json.loads(run.stdout)["policies"][0]["refused"] == 1
    xml.parse(tmp_path / "o.svg")
    events = json.loads((tmp_path / "o.json").read_text())["traceEvents"]
    assert [e["args"]["reason"] for e in events if e["name"] == "refuse"]


@pytest.mark.parametrize("trace", [
    GOOD.replace("\n", "\r\n"),
    "\ufeff" + GOOD,
    "\ufeff" + GOOD.replace("\n", "\r\n"),
    GOOD.rstrip("\n"),
    GOOD.replace("\n", "\n\n"),
    GOOD.replace(",", " , "),
], ids=["crlf", "bom", "both", "no last newline", "blank lines", "blanks"])
def test_other_spellings_of_a_trace(tmp_path, trace):
    assert report(tmp_path, trace, "--json") == report(tmp_path, GOOD, "--json")


# Bad input.

HEADER = "job,submit_s,iterations,iter_ms\n"
ROW = "a,0,10,5\n"

BAD = {
    "unknown column": ("job,submit_s,duration_s,colour\na,0,1,red\n", 1),
    "column twice": ("job,submit_s,duration_s,job\na,0,1,b\n", 1),
    "no job column": ("submit_s,duration_s\n0,1\n", 1),
    "no submit_s column": ("job,duration_s\na,1\n", 1),
    "no length column": ("job,submit_s,iterations\na,0,1\n", 1),
    "quoted header": ('"job",submit_s,duration_s\na,0,1\n', 1),
    "empty file": ("", 1),
    "header only": (HEADER, 1),
    "bad number": (HEADER + ROW + "b,0,ten,5\n", 3),
    "number with a tail": (HEADER + "b,0,10,5ms\n", 2),
    "half an iteration": (HEADER + "b,0,1.5,5\n", 2),
    "no iterations": (HEADER + "b,0,0,5\n", 2),
    "negative time": (HEADER + ROW + ROW.replace("a", "b") + "c,-1,10,5\n", 4),
    "nan": (HEADER + "a,nan,10,5\n", 2),
    "inf": (HEADER + "a,inf,10,5\n", 2),
    "huge number": (HEADER + "a,1e999,10,5\n", 2),
    "too large": (HEADER + "a,1e10,10,5\n", 2),
    "product too large": (HEADER + "a,0,1e9,1e9\n", 2),
    "duplicate job": (HEADER + ROW + "b,0,10,5\n" + ROW, 4),
    "blank lines count": (HEADER + "\n\n" + ROW + "\n" + ROW, 6),
    "duration and iterations": ("job,submit_s,duration_s,iterations,iter_ms\na,0,1,,\nb,0,1,2,3\n", 3),
    "no length": ("job,submit_s,duration_s,iterations,iter_ms\na,0,,,\n", 2),
    "half a length": ("job,submit_s,duration_s,iterations,iter_ms\na,0,,3,\n", 2),
    "too few cells": (HEADER + "a,0,10\n", 2),
    "too many cells": (HEADER + "a,0,10,5,6\n", 2),
    "empty name": (HEADER + ",0,10,5\n", 2),
    "empty time": (HEADER + "a,,10,5\n", 2),
    "quote": (HEADER + '"a",0,10,5\n', 2),
    "NUL byte": (HEADER + "a\0b,0,10,5\n", 2),
    "escape character": (HEADER + "a\x1b[31m,0,10,5\n", 2),
    "not UTF-8": (HEADER.encode() + b"a\xff,0,10,5\n", 2),
    "overlong UTF-8": (HEADER.encode() + b"a\xc0\xaf,0,10,5\n", 2),
    "half a character": (HEADER.encode() + b"a,0,10,5\xe2\x82\n", 2),
    "no character": ((HEADER + "a\uffff,0,10,5\n").encode(), 2),
    "unknown kind": (HEADER.replace("\n", ",kind\n") + "a,0,10,5,mining\n", 2),
    "requests of a training job": (HEADER.replace("\n", ",kind,requests_per_s\n") + "a,0,10,5,training,1\n", 2),
    "no deadline": (HEADER.replace("\n", ",deadline_ms\n") + "a,0,10,5,0\n", 2),
    "util above 1": (HEADER.replace("\n", ",util\n") + "a,0,10,5,1.1\n", 2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_traces_are_named_by_line(tmp_path, name):
    trace, line = BAD[name]
    run = simulate(tmp_path, trace, "--svg", "o.svg", "--chrome", "o.json")
    assert run.returncode == 65
    assert re.fullmatch(rf"t\.csv:{line}: [^\n]+, expected [^\n]+\n", run.stderr), run.stderr
    assert run.stdout == ""
    assert files(tmp_path) == ["t.csv"]


def test_missing_trace(tmp_path):
    run = salus("--workload", "none.csv", "--memory", "1GiB", "--policy", "fifo", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (66, "")
    assert run.stderr == "none.csv: No such file or directory\n"


def test_a_directory_is_no_trace(tmp_path):
    assert salus("--workload", tmp_path, "--memory", "1GiB", "--policy", "fifo").returncode == 66


@pytest.mark.parametrize("args", [
    "",
    "--memory 1GiB --policy fifo",
    "--workload t.csv --policy fifo",
    "--workload t.csv --memory 1GiB",
    "--workload t.csv --memory 1GiB --policy best",
    "--workload t.csv --memory 1GiB --policy fifo,",
    "--workload t.csv --memory 0 --policy fifo",
    "--workload t.csv --memory 1Gb --policy fifo",
    "--workload t.csv --memory 15.6 --policy fifo",
    "--workload t.csv --memory 64 --policy fifo",
    "--workload t.csv --memory -1 --policy fifo",
    "--workload t.csv --memory 1GiB --policy fifo --lanes 0",
    "--workload t.csv --memory 1GiB --policy fifo --lanes 65",
    "--workload t.csv --memory 1GiB --policy fifo --page-bandwidth 0",
    "--workload t.csv --memory 1GiB --policy fifo --switch soon",
    "--workload t.csv --memory 1GiB --policy fifo --colour",
    "--workload t.csv --memory 1GiB --policy fifo more",
    "--workload t.csv --memory 1GiB --policy fifo --svg",
    "--workload t.csv --memory 1GiB --static --svg o.svg",
])
def test_bad_calls(tmp_path, args):
    (tmp_path / "t.csv").write_text(GOOD)
    run = salus(*args.split(), cwd=tmp_path)
    assert (run.returncode, run.stdout) == (64, "")
    assert run.stderr.endswith("Try `salus sim --help`.\n")
    assert files(tmp_path) == ["t.csv"]


# Bad output.


@pytest.mark.parametrize("option", ["--svg", "--chrome"])
def test_outputs_that_cannot_be_created(tmp_path, option):
    (tmp_path / "taken").mkdir()
    for path in ["none/o.out", "taken"]:
        run = simulate(tmp_path, GOOD, option, path)
        assert (run.returncode, run.stdout) == (73, "")
        assert run.stderr.startswith("salus: ") and run.stderr.count("\n") == 1
        assert files(tmp_path) == ["t.csv", "taken"] and files(tmp_path / "taken") == []


@pytest.mark.parametrize("option", ["--svg", "--chrome"])
def test_a_device_is_written_to_and_not_replaced(tmp_path, option):
    # A link, so that whatever goes wrong stays in our directory.
    (tmp_path / "full").symlink_to("/dev/full")
    run = simulate(tmp_path, GOOD, option, "full")
    assert (run.returncode, run.stdout) == (73, "")
    assert "No space left" in run.stderr
    assert files(tmp_path) == ["full", "t.csv"] and (tmp_path / "full").is_symlink()


def test_a_pipe_is_written_to(tmp_path):
    read, write = os.pipe()
    with os.fdopen(read) as pipe:
        (tmp_path / "t.csv").write_text(GOOD)
        run = subprocess.run([SALUS, "sim", "--workload", "t.csv", "--memory", "1GiB", "--policy", "fifo",
                              "--chrome", f"/dev/fd/{write}"], cwd=tmp_path, pass_fds=[write],
                             capture_output=True, timeout=60)
        os.close(write)
        assert run.returncode == 0, run.stderr
        assert json.load(pipe)["traceEvents"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--jobs"], ["--json", "--jobs"]])
def test_full_disk_behind_stdout(options):
    with open("/dev/full", "w") as full:
        run = salus("--workload", DATA / "fair3.csv", "--memory", "15.6GiB", "--policy", "fair", *options,
                    stdout=full)
    assert run.returncode == 1
    assert run.stderr.startswith("salus: cannot write the report")


# Picture.

ODD_NAMES = ["<&>'", "a]]>b", "back\\slash", "é 漢字 🚀", "&amp;", "x" * 300, "</title>"]
ODD = "job,submit_s,duration_s,persistent_mib,ephemeral_mib\n" + "".join(
    f"{name},{i},2,100,200\n" for i, name in enumerate(ODD_NAMES))


def draw(directory, trace, policy, memory="15.6GiB"):
    run = salus("--workload", trace, "--memory", memory, "--policy", policy, "--svg", directory / "o.svg")
    assert run.returncode == 0, run.stderr
    return xml.parse(directory / "o.svg").getroot()


def texts(root, tag):
    return ["".join(e.itertext()) for e in root.iter(SVG + tag)]


def test_odd_names_come_through_the_picture(tmp_path):
    (tmp_path / "t.csv").write_text(ODD)
    root = draw(tmp_path, tmp_path / "t.csv", "fair", "1GiB")
    told = {title.split("\n")[0] for title in texts(root, "title")}
    assert told == set(ODD_NAMES)
    labels = texts(root, "text")
    assert "<&>'" in labels and "x" * 22 + "…" in labels


def test_picture_has_a_block_for_each_policy(tmp_path):
    words = texts(draw(tmp_path, DATA / "trace100.csv", "fifo,srtf"), "text")
    assert [w[:4] for w in words if "makespan303.4 min" in w] == ["fifo", "srtf"]
    assert words.count("lane 0") == 2
    assert "300 min" in words and "10 GiB" in words


def test_picture_tells_turns(tmp_path):
    """Iterations of one job without a break are one turn; those of another begin a new one."""
    (tmp_path / "t.csv").write_text("job,submit_s,iterations,iter_ms\na,0,3,10000\nb,0,3,10000\n")
    for policy, turns in (("rr", "ababab"), ("fifo", "ab")):
        told = texts(draw(tmp_path, tmp_path / "t.csv", policy, "1GiB"), "title")
        assert "".join(title[0] for title in told if re.search(r"\n\S+( \S+)? to ", title)) == turns


@pytest.mark.parametrize("trace, policy", [
    ("trace100", "fair"), ("inference42", "mix"), ("search_superres_128", "pack"),
    ("search_superres_128", "rr")])
def test_picture_stays_small(tmp_path, trace, policy):
    root = draw(tmp_path, DATA / f"{trace}.csv", policy)
    assert (tmp_path / "o.svg").stat().st_size < 3e6
    width, height = (float(root.get(key)) for key in ("width", "height"))
    for rect in root.iter(SVG + "rect"):
        if rect.get("class") == "tip":
            assert 0 <= float(rect.get("x")) and float(rect.get("width")) >= 0
            assert float(rect.get("x")) + float(rect.get("width")) <= width
            assert float(rect.get("y")) + float(rect.get("height")) <= height
    for path in root.iter(SVG + "path"):
        assert "nan" not in path.get("d") and "inf" not in path.get("d")


# Trace events.


def trace_events(directory, trace, policy, memory="15.6GiB", *args):
    run = salus("--workload", trace, "--memory", memory, "--policy", policy, "--chrome",
                directory / "o.json", "--json", "--jobs", *args)
    assert run.returncode == 0, run.stderr
    root = json.loads((directory / "o.json").read_text())
    assert root["displayTimeUnit"] in ("ms", "ns")
    return root["traceEvents"], json.loads(run.stdout)["policies"]


def ns(event, key):
    return round(event[key] * 1000)


def tracks(events):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def check_no_overlap(intervals):
    by_track = defaultdict(list)
    for e in intervals:
        by_track[e["pid"], e["tid"]].append((ns(e, "ts"), ns(e, "ts") + ns(e, "dur")))
    for track, turns in by_track.items():
        turns.sort()
        for (_, end), (start, _) in zip(turns, turns[1:]):
            assert start >= end, track


def test_odd_names_come_through_the_events(tmp_path):
    (tmp_path / "t.csv").write_text(ODD)
    events, _ = trace_events(tmp_path, tmp_path / "t.csv", "fair", "1GiB")
    assert {name for (_, tid), name in tracks(events).items() if tid >= 1000} == set(ODD_NAMES)


@pytest.mark.parametrize("trace, policy, memory", [
    ("fair3", "fair,rr,las", "15.6GiB"), ("equal20", "pack,mix", "15.6GiB"),
    ("inference42", "mix", "15.6GiB"), ("inference42", "fair", "6GiB"), ("tiresias60", "srtf", "15.6GiB")])
def test_every_iteration_runs_once_and_lanes_never_overlap(tmp_path, trace, policy, memory):
    events, policies = trace_events(tmp_path, DATA / f"{trace}.csv", policy, memory)
    names = tracks(events)
    intervals = [e for e in events if e["ph"] == "X"]
    check_no_overlap(intervals)
    for pid, result in enumerate(policies, 1):
        wanted = Counter((j["job"], i) for j in result["jobs"] if not j["refused"]
                         for i in range(j["iterations"]))
        lanes = [e for e in intervals if e["pid"] == pid and e.get("cat") == "lane"]
        jobs = [e for e in intervals if e["pid"] == pid and e.get("cat") == "iteration"]
        assert Counter((e["name"], e["args"]["iteration"]) for e in lanes) == wanted
        assert Counter((names[pid, e["tid"]], e["args"]["iteration"]) for e in jobs) == wanted
        assert all(re.fullmatch(r"lane \d+", names[pid, e["tid"]]) for e in lanes)
        outs = [e for e in intervals if e["pid"] == pid and e["name"] == "page_out"]
        assert len(outs) == result["page_outs"]
        ends = defaultdict(int)
        for e in jobs:
            ends[names[pid, e["tid"]]] = max(ends[names[pid, e["tid"]]], ns(e, "ts") + ns(e, "dur"))
        for job in result["jobs"]:
            assert ends[job["job"]] == pytest.approx(job["end_s"] * 1e9, abs=100)


def test_processes_are_policies(tmp_path):
    events, _ = trace_events(tmp_path, DATA / "fair3.csv", ",".join(POLICIES))
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == POLICIES


def test_counters_keep_within_the_device_and_end_at_nothing(tmp_path):
    events, _ = trace_events(tmp_path, DATA / "inference42.csv", "fair", "6GiB")
    memory = [e["args"] for e in events if e["name"] == "memory (MiB)"]
    queue = [e["args"] for e in events if e["name"] == "iterations"]
    for now in memory:
        assert min(now.values()) >= 0
        assert sum(now.values()) == pytest.approx(6 * 1024, abs=0.01)
    assert memory[-1]["persistent"] == memory[-1]["lanes"] == 0
    assert max(now["running"] for now in queue) >= 1
    assert queue[-1] == {"waiting": 0, "running": 0}
