# SPDX-License-Identifier: Apache-2.0
"""The stage of bench/sharing and bench/memory: a salusd, jobs, and its trace. Not to be run by hand."""

import contextlib
import glob
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from machine import ROOT

MIB = 1 << 20
PLUGIN = ".venv/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
DEADLINE_S = 600


class Lost(Exception):
    """A job failed or died."""


def serve(pipe, env, log):
    """The main function of a job's process. JAX is imported there, not here."""
    import fill_jobs
    import memory_jobs
    import sharing_child

    sharing_child.serve(pipe, env, log, fill_jobs.ACTIONS | memory_jobs.ACTIONS)


class Job:
    """A process of sharing_child.py that runs commands."""

    def __init__(self, stage, env, name):
        self.name = name
        self.pipe, theirs = stage.nursery.Pipe()
        self.process = stage.nursery.Process(target=serve, args=(theirs, env, stage.log))
        self.process.start()
        theirs.close()

    def tell(self, do, *args, **more):
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send((do, args, more))

    def answer(self):
        try:
            if not self.pipe.poll(DEADLINE_S):
                raise Lost(f"{self.name}: no answer in {DEADLINE_S} s")
            good, value = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise Lost(f"{self.name}: died") from None
        if not good:
            raise Lost(f"{self.name}: {value}")
        return value

    def ask(self, do, *args, **more):
        self.tell(do, *args, **more)
        return self.answer()

    def close(self):
        self.pipe.close()
        self.process.join(30)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Trace:
    """The output of `salus trace`."""

    def __init__(self, text):
        root = json.loads(text)["salus"]
        self.dropped = root["dropped"]
        self.entries = [dict(zip(root["columns"], e)) | (e[-1] if isinstance(e[-1], dict) else {})
                        for e in root["entries"]]
        submitted = {}
        self.turns = []
        for e in self.entries:
            if e["what"] == "submit":
                submitted[e["session"], e["iteration"]] = e["now_ns"]
            elif e["what"] == "done":
                self.turns.append({"session": e["session"], "lane": e["lane"], "start": e["start_ns"],
                                   "end": e["end_ns"],
                                   "submitted": submitted.get((e["session"], e["iteration"]), 0)})
        self.turns.sort(key=lambda turn: turn["start"])

    def count(self, what):
        return sum(e["what"] == what for e in self.entries)

    def switches(self):
        """Seconds from the end of one session's iteration to the start of another's, if that one was already queued."""
        gaps = []
        for lane in {t["lane"] for t in self.turns}:
            turns = [t for t in self.turns if t["lane"] == lane]
            gaps += [(b["start"] - a["end"]) / 1e9 for a, b in zip(turns, turns[1:])
                     if a["session"] != b["session"] and b["submitted"] < a["end"]]
        return gaps

    def used(self, session, start_ns, end_ns):
        """Seconds of device time between two moments."""
        return sum(max(0, min(t["end"], end_ns) - max(t["start"], start_ns))
                   for t in self.turns if t["session"] == session) / 1e9

    def overlap(self, since_ns):
        """Of the time in which any lane runs, the share in which more than one does."""
        turns = [t for t in self.turns if t["start"] >= since_ns]
        moments = sorted([(t["start"], 1) for t in turns] + [(t["end"], -1) for t in turns])
        running = some = several = before = 0
        for now, change in moments:
            some += (now - before) * (running > 0)
            several += (now - before) * (running > 1)
            running, before = running + change, now
        return several / some


def discrete_flags(build, flags):
    """Options of salusd for the discrete test device. Its limit leaves what salusd leaves to the vendor: a 32nd part."""
    given = [int(size.removesuffix("MiB")) for flag, size in zip(flags, flags[1:]) if flag == "--memory"]
    limit = (given[-1] if given else 8192) * MIB * 32 // 31 + 4096
    return ["--plugin", os.path.join(build, "tests", "libdiscrete_pjrt.so"), "--plugin-option", "platform=cpu",
            "--plugin-option", f"memory_limit={limit}"]


class Daemon:
    """The salusd of one row, and its jobs. Closing it ends all of them."""

    def __init__(self, stage, flags, log_level):
        self.stage = stage
        stage.daemons += 1
        self.socket = os.path.join(stage.dir, f"s{stage.daemons}")
        self.log = self.socket + ".log"
        self.env = stage.base | {"SALUS_SOCKET": self.socket, "SALUS_LOG": log_level}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [os.path.join(stage.build, "bin", "salusd"), "--socket", self.socket, "--cache",
                 os.path.join(stage.dir, "cache"), "--no-profiles", *flags,
                 *(discrete_flags(stage.build, flags) if stage.is_discrete else [])],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.jobs = []
        end = time.monotonic() + DEADLINE_S
        while self.salus("ping", check=False) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                sys.exit("bench/sharing: salusd did not start:\n" + self.read_log())
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            job.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_S)

    def read_log(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def salus(self, *args, check=True):
        run = subprocess.run([os.path.join(self.stage.build, "bin", "salus"), *map(str, args)], env=self.env,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S)
        if run.returncode != 0 and check:
            sys.exit(f"bench/sharing: salus {' '.join(map(str, args))}: {run.stderr}{self.read_log()[-3000:]}")
        return run.stdout if run.returncode == 0 else None

    def ps(self):
        return json.loads(self.salus("ps", "--json"))

    def view(self):
        """What `salus ps --json` prints. Asks the daemon itself: starting `salus` for each sample takes too long."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.socket)
            peer.sendall(json.dumps({"op": "ps"}).encode() + b"\n")
            return json.loads(peer.makefile().readline())

    def session(self, job):
        return next(s["id"] for s in self.ps()["sessions"] if s["name"] == job.name)

    def trace(self):
        path = self.socket + ".trace"
        self.salus("trace", "-o", path)
        with open(path) as file:
            return Trace(file.read())

    def pages(self, way):
        """Seconds of each page-out, or of each page-in."""
        found = re.findall(rf"paging: {way} session=\d+ buffers=\d+ us=(\d+)", self.read_log())
        return [int(us) / 1e6 for us in found]

    def job_env(self, name, **wishes):
        """What `salus run` puts into the environment of a job."""
        plugin = os.path.join(self.stage.build, "lib", "libsalus_pjrt.so")
        env = {"SALUS_SOCKET": self.socket, "SALUS_JOB_NAME": name, "PJRT_NAMES_AND_LIBRARY_PATHS": "cpu:" + plugin}
        return env | {f"SALUS_{k.upper()}": str(v) for k, v in wishes.items()}

    def started(self, _pid, _arrival):
        """Called when the process of a script has started."""

    def start_job(self, name, **wishes):
        """Starts a job. Its process may not be ready yet."""
        self.jobs.append(Job(self.stage, self.job_env(name, **wishes), name))
        return self.jobs[-1]

    def start_jobs(self, *names, **wishes):
        """Starts jobs, and waits until their clients are connected."""
        jobs = [self.start_job(name, **wishes) for name in names]
        for job in jobs:
            job.tell("devices")
        for job in jobs:
            job.answer()
        return jobs


class Accounts:
    """Samples the accounted memory of the daemon ten times a second, and records the maximum."""

    def __init__(self, daemon):
        self.daemon, self.most, self.samples, self.ended = daemon, 0, 0, threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.ended.wait(0.1):
            device = self.daemon.ps()["device"]
            self.most = max(self.most, device["persist_bytes"] + device["lane_sum_bytes"])
            self.samples += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Stage:
    """Starts daemons and jobs. Measures the time of one product when it is created."""

    def __init__(self, build, folder, is_discrete=False):
        self.build, self.dir, self.daemons, self.is_discrete = build, folder, 0, is_discrete
        self.log = os.path.join(folder, "jobs.log")
        self.base = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "SALUS_", "PJRT_"))}
        self.base |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
        # Jobs are forked from a process with one thread: it has imported JAX and computed nothing.
        os.environ.clear()
        os.environ.update(self.base | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.path.join(ROOT, "bench"),
                                       "PYTHONWARNINGS": "ignore:os.fork"})
        self.nursery = multiprocessing.get_context("forkserver")
        self.nursery.set_forkserver_preload(["fill_jobs", "memory_jobs"])
        self.vendor = os.path.join(folder, "plugin.json")
        with open(self.vendor, "w") as file:
            json.dump({"library_path": glob.glob(os.path.join(ROOT, PLUGIN))[0],
                       "create_options": {"cpu_device_count": 1}}, file)
        with contextlib.closing(self.inproc_job("pace")) as job:
            self.product_s = job.ask("pace")

    def inproc_job(self, name):
        return Job(self, {"PJRT_NAMES_AND_LIBRARY_PATHS": "cpu:" + self.vendor}, name)

    def read_log(self):
        """The end of the jobs' stderr."""
        with contextlib.suppress(OSError), open(self.log, errors="replace") as file:
            return file.read()[-3000:]
        return ""

    def daemon(self, *flags, log_level="warn"):
        return Daemon(self, flags, log_level)

    def products(self, milliseconds):
        """The number of products in an iteration of this length."""
        return max(1, round(milliseconds / 1e3 / self.product_s))
