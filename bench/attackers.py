# SPDX-License-Identifier: Apache-2.0
"""The attacks of bench/attacks, each a process that runs next to honest jobs: attackers.py NAME SOCKET. Not to be run
by hand."""

import os
import socket
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "unit", "service"))

RING = 4 << 20


def begin():
    """Reports that the attack has begun."""
    print("begin", flush=True)


# Through JAX.


def cheap(_):
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 1e38, lambda c: (c[0] + 1, c[1] * 1.0000001),
                                             (x, jnp.float32(1))))
    out = f(jnp.float32(0))
    begin()
    jax.block_until_ready(out)


def products(_):
    import jax
    import jax.numpy as jnp

    out = jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 1e38, lambda c: (c[0] + 1, jnp.tanh(c[1] @ c[1])),
                                               (x, jnp.eye(400))))(jnp.float32(0))
    begin()
    jax.block_until_ready(out)


def compiles(_):
    """Compiles two programs of 40,000 operations, from two clients: this process and a child."""
    import jax
    import jax.numpy as jnp

    factor = 1 + (os.fork() == 0)

    def slow(x):
        for i in range(10000):
            x = jnp.sin(x * (factor + i * 1e-6)) + jnp.roll(x, i % 7)
        return x

    lowered = jax.jit(slow).lower(jnp.ones(16))
    begin()
    lowered.compile()


# Without.


def bell(path):
    from liar import Client

    c = Client(path)
    os.set_blocking(c.bell, False)
    begin()
    while True:
        try:
            os.write(c.bell, bytes(65536))
        except BlockingIOError:
            pass


def keep_full(c, data):
    from liar import TAIL

    while not c.hung_up():
        if RING - (c.submit.at - c.submit.words[TAIL]) > 2 * len(data):
            c.submit.write(data)
            c.submit.show()
        c.ring()


def deletes(path):
    from liar import Client, delete_record

    begin()
    keep_full(Client(path), delete_record() * 4096)


def arrays(path):
    """Makes as many arrays as the limit allows, then more, which fail."""
    from liar import F32, TAIL, Client, upload_record

    c = Client(path)
    begin()
    for _ in range(200000):
        while RING - (c.submit.at - c.submit.words[TAIL]) < 4096:
            if c.hung_up():
                time.sleep(3600)
        c.send(upload_record(c.new(), [0], b"", kind=F32))
    time.sleep(3600)


def hellos(path):
    """Sends hellos with a weight that is refused."""
    from liar import U32, Client, HungUp

    begin()
    while True:
        try:
            Client(path, weight_milli=U32).close()
        except (HungUp, OSError):
            pass


def unread(path, op, sessions):
    from liar import Client

    clients = [Client(path) for _ in range(sessions)]
    begin()
    askers = []
    while clients is not None:
        try:
            askers.append(socket.socket(socket.AF_UNIX))
            askers[-1].connect(path)
            askers[-1].sendall(b'{"op": "%s"}\n' % op)
        except OSError:
            pass
        if len(askers) > 500:
            askers.pop(0).close()
        time.sleep(0.001)


def answers(path):
    unread(path, b"ps", 150)


def traces(path):
    unread(path, b"trace", 0)


def awaits(path):
    """Asks for the outcome of an upload again and again, and never reads the answers."""
    import struct

    from liar import Client, record

    c = Client(path)
    a = c.upload(b"abcd")
    begin()
    keep_full(c, record(10, struct.pack("<QQ", 7, a)) * 4096)


def texts(path):
    """Sends invalid programs of 400 MiB, one after the other."""
    from liar import Client, compile_record

    c = Client(path)
    code, segment, size = c.grow(400 << 20)
    if code:
        sys.exit(f"no shared memory: {code}")
    where = c.put(0, b"#" * (400 << 20), segment=segment)
    begin()
    while True:
        request = c.new()
        c.send(compile_record(request, c.new(), where))
        c.answer(request, 60)


ATTACKS = {f.__name__: f for f in (cheap, products, compiles, bell, deletes, arrays, hellos, answers, traces, awaits,
                                   texts)}

if __name__ == "__main__":
    ATTACKS[sys.argv[1]](sys.argv[2])
    time.sleep(3600)
