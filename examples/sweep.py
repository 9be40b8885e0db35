# SPDX-License-Identifier: Apache-2.0
"""A search: all trials of search.py at once, each in a process of its own. They are forked, so JAX is imported once."""

import contextlib
import hashlib
import io
import multiprocessing
import sys
import warnings

from common import arguments

import search


def work(trial, options, results):
    """In the trial's own process: nothing of JAX has started before."""
    sys.argv = ["search.py", "--trial", str(trial), *options]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        search.main()
    results.put((trial, said.getvalue()))


def main():
    args = arguments(__doc__, trials=8, steps=200, batch=128, width=64)
    options = [f"--{name}={value}" for name, value in vars(args).items() if name not in ("trials", "out")]
    warnings.filterwarnings("ignore", "os.fork")  # JAX warns: it cannot know that it has no threads yet
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    children = [fork.Process(target=work, args=(trial, options, results)) for trial in range(args.trials)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    failed = [trial for trial, child in enumerate(children) if child.exitcode != 0]
    if failed:
        sys.exit(f"failed: trials {', '.join(map(str, failed))}")
    said = "".join(text for _, text in sorted(results.get() for _ in children))
    print("\n".join(line for line in said.splitlines() if not line.startswith("digest:")))
    print(f"digest: {hashlib.sha256(said.encode()).hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
