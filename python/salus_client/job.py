# SPDX-License-Identifier: Apache-2.0
"""Is this process a job of Salus, on which platform, and through which library?

Two ways make a process a job:

    `salus run`, `salus env`   set SALUS_PLUGIN, and list that library in PJRT_NAMES_AND_LIBRARY_PATHS
    the client wheel           SALUS_SOCKET names a salusd that answers

Without either, the process is no job, and nothing changes. With SALUS_REQUIRED=1 it fails instead.
"""

import json
import os
import socket
import stat

LIST = "PJRT_NAMES_AND_LIBRARY_PATHS"
ANSWER_S = 5  # longest time that an answer may take
ANSWER_BYTES = 1 << 16  # an answer is not read beyond this size


class Unreachable(Exception):
    """No salusd answers; the text says where, and why."""


def launched_platform():
    """The platform for which `salus run` or `salus env` lists our library; None: they did not."""
    ours = os.environ.get("SALUS_PLUGIN")
    for entry in os.environ.get(LIST, "").split(","):
        name, _, path = entry.partition(":")
        if ours and name and path == ours:
            return name
    return None


def library_path():
    """libsalus_pjrt.so: the one of `salus run`, or the one that was installed with this package."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsalus_pjrt.so")
    return os.environ.get("SALUS_PLUGIN") or beside


def is_required():
    return os.environ.get("SALUS_REQUIRED", "") not in ("", "0")


def read_answer(connection):
    answer = b""
    while not answer.endswith(b"\n") and len(answer) < ANSWER_BYTES:
        piece = connection.recv(4096)
        if not piece:
            break
        answer += piece
    return json.loads(answer)


def ask_platform(path):
    """Asks the salusd behind a socket for its platform."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise Unreachable(f"{path} is no socket")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(b'{"op": "ping"}\n')
            answer = read_answer(connection)
    except OSError as error:
        raise Unreachable(f"no salusd answers at {path}: {error.strerror or error}") from None
    except ValueError:
        raise Unreachable(f"what answers at {path} is no salusd") from None
    platform = answer.get("platform") if isinstance(answer, dict) else None
    if not isinstance(platform, str) or not platform:
        raise Unreachable(f"what answers at {path} is no salusd")
    return platform


def platform():
    """The platform of the salusd whose job this process is; None: it is no job.

    Raises Unreachable if the process must be a job (SALUS_REQUIRED) and no salusd answers.
    """
    launched = launched_platform()
    if launched:
        return launched
    path = os.environ.get("SALUS_SOCKET")
    try:
        if not path:
            raise Unreachable("SALUS_SOCKET is not set")
        return ask_platform(path)
    except Unreachable:
        if is_required():
            raise
        return None
