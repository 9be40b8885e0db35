# SPDX-License-Identifier: Apache-2.0
"""Every 100th call of the vendor is slow, or never returns, while six jobs run: only the sessions concerned wait.

    SALUS_BUILD           build directory                                  (build)
    SALUS_TEST_PATIENCE   factor on every deadline, for sanitizers         (1)
"""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from liar import PATIENCE, Client, Daemon, HungUp, Silence, delete_record, soon, wait_until  # noqa: E402

ADD = "fake 1\noutput u8 4 = add 0 1\n"
JOBS = 6
SLOW_S = 1.0


class Job(threading.Thread):
    """Adds one to an array, again and again, and looks at the outcome."""

    def __init__(self, daemon, number, steps):
        super().__init__(daemon=True)
        self.client = Client(daemon.path, name=b"job%d" % number)
        self.number, self.steps = number, steps
        self.spans = []  # when each step began and ended
        self.moved = None  # when it got on last
        self.outcome = None
        self.patience = 180  # longer than any test waits: a job that is held up fails no step

    def run(self):
        try:
            self.work()
        except (HungUp, Silence, ValueError) as failure:
            self.outcome = failure

    def work(self):
        c = self.client
        self.moved = time.monotonic()
        program = c.compile(ADD, seconds=self.patience)
        last, one = c.upload(bytes([self.number] * 4)), c.upload(b"\1" * 4)
        for _ in range(self.steps):
            begin = time.monotonic()
            out = c.run(program, [last, one], seconds=self.patience)
            self.moved = time.monotonic()
            self.spans.append((begin, self.moved))
            c.send(delete_record(last))
            last = out
        got = c.download(last, 4, seconds=self.patience)
        self.outcome = "right" if got == bytes([(self.number + self.steps) % 256] * 4) else got

    def stalls(self):
        """Steps that a slow call held up."""
        return [(begin, end) for begin, end in self.spans if end - begin > 0.8 * SLOW_S]

    def went_on(self, begin, end):
        """Did a step of ours end then? Not if we had none to do, or were held up ourselves."""
        if not self.spans or self.spans[-1][1] < end or any(b < end and begin < e for b, e in self.stalls()):
            return True
        return any(begin < e < end for _, e in self.spans)


@pytest.fixture
def start(tmp_path):
    daemons = []

    def begin(faults):
        daemons.append(Daemon(tmp_path, "--plugin", faults, "--lanes", str(JOBS)))
        return daemons[0]

    yield begin
    for d in daemons:
        d.process.kill()
        d.process.wait()
        assert "Sanitizer" not in d.log, d.log[-6000:]


def run_jobs(daemon, steps, until):
    """Six jobs; the daemon is asked all the time, until a condition on the jobs holds."""
    jobs = [Job(daemon, i, steps) for i in range(JOBS)]
    for job in jobs:
        job.start()
    end = soon(120)
    while not until(jobs):
        assert time.monotonic() < end, [(job.number, len(job.spans), job.outcome) for job in jobs]
        assert daemon.answers()
        assert len(daemon.sessions()) == JOBS
        time.sleep(0.01)
    return jobs


def test_slow_calls_delay_their_own_session(start):
    daemon = start(f"fake:slow@100:{int(SLOW_S * 1000)}")
    jobs = run_jobs(daemon, 150, lambda jobs: all(job.outcome for job in jobs))
    assert [job.outcome for job in jobs] == ["right"] * JOBS
    stalls = [(job, span) for job in jobs for span in job.stalls()]
    assert stalls  # else nothing was tried
    for job, (begin, end) in stalls:
        for other in jobs:
            assert other is job or other.went_on(begin, end), (job.number, other.number)
    for job in jobs:
        job.client.close()
    wait_until(lambda: not daemon.sessions(), 30, "the sessions to go")
    daemon.stop()


def has_settled(jobs):
    """All are done, or have done nothing for a while."""
    now = time.monotonic()
    return all(job.outcome or (job.moved and now - job.moved > 3 * PATIENCE) for job in jobs)


def test_endless_calls_hold_up_their_own_session(start):
    daemon = start("fake:endless@100")
    # A step makes two calls: at most four of them are the hundredth, two hundredth...
    jobs = run_jobs(daemon, 35, has_settled)
    done = [job for job in jobs if job.outcome]
    assert [job.outcome for job in done] == ["right"] * len(done)
    assert 2 <= len(done) < JOBS
    # Those that are held up can be ended, and are seen until the vendor lets go of them, which it
    # does not.
    for job in jobs:
        job.client.socket.close()
    wait_until(lambda: len(daemon.sessions()) <= JOBS - len(done) + 1, 10, "the sessions that are done to go")
    assert any(s["state"] == "closing" for s in daemon.sessions()), daemon.sessions()
    with Client(daemon.path) as newcomer:
        assert newcomer.compile(ADD)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(5 * PATIENCE) == 0, daemon.log[-6000:]
