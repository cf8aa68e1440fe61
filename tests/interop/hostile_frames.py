"""Sends frames that no client would send, from many short connections: ``python -m tests.interop.hostile_frames
PORT SEED SECONDS``.

It is a separate process, so that it does not share an interpreter with the measured client. It opens at most a few
hundred connections a second, on the loopback only, and stops after the given time.
"""

from __future__ import annotations

import random
import socket
import sys
import time
from contextlib import suppress

from barnabas.protocol.api_keys import API_TABLE
from barnabas.protocol.headers import RequestHeader, request_header_version

__all__ = ["hostile_bytes"]

PAUSE_S = 0.004


def hostile_bytes(rng: random.Random) -> bytes:
    """Return the bytes of one connection; each kind violates the protocol differently."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice([-1, -(2**31), 2**31 - 1, 104857601]).to_bytes(4, "big", signed=True) + rng.randbytes(26)
    if kind == 1:
        return rng.randbytes(rng.randrange(1, 200))
    if kind == 2:
        return _framed(rng.randbytes(rng.randrange(0, 9)))
    key = rng.choice(list(API_TABLE))
    version = rng.randint(0, API_TABLE[key].highest)
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=rng.getrandbits(31), client_id="hostile"
    ).encode(request_header_version(key, version))
    if kind == 3:
        return _framed(header + rng.randbytes(rng.randrange(0, 300)))
    if kind == 4:
        return _framed(header[: rng.randrange(len(header))])
    if kind == 5:
        # A body that declares two billion elements.
        return _framed(header + b"\x7f\xff\xff\xff" * rng.randrange(1, 6))
    if kind == 6:
        return _framed(header + b"\xff\xff\xff\xff\x0f" * rng.randrange(1, 6))
    odd = rng.choice([-5, 999, 32767]), rng.choice([-1, 99])
    return _framed(odd[0].to_bytes(2, "big", signed=True) + odd[1].to_bytes(2, "big", signed=True) + header[4:])


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def main(port: int, seed: int, seconds: float) -> int:
    rng = random.Random(seed)
    held: list[socket.socket] = []
    count = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), 2)
            connection.sendall(hostile_bytes(rng))
            count += 1
            held.append(connection)  # Left open for some time: a frame that is never completed.
        if len(held) > 100:
            held.pop(0).close()
        time.sleep(PAUSE_S)
    for connection in held:
        connection.close()
    print(count)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
