"""Executes one entry of the catalogue: ``python -m tests.siege.attacker NAME SCENE SECONDS SEED``.

It is a separate process, so that it shares no interpreter with the well-behaved client. It prepares its payloads,
prints ``ready``, begins when it reads a line, stops after the given time, and prints its counts as JSON.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import ssl
import sys
import time
from contextlib import suppress
from typing import Any

from tests.siege.catalogue import ENTRIES
from tests.siege.entry import Entry, Way
from tests.siege.stage import Scene, logged_in, password

__all__ = ["Attack"]

_PAUSE_S = 0.002
_YIELDS = 5
"""A real attacker has its own machine: here it yields the processors to the node and to the well-behaved client."""


class Attack:
    """One running entry: its connections, what each still has to send, and counts."""

    def __init__(self, entry: Entry, scene: Scene, rng: random.Random) -> None:
        self.entry = entry
        self.scene = scene
        self.payloads = entry.payloads(scene, rng)
        self.sent = self.answers = self.closed = self.opened = 0
        self.in_flight = self.in_flight_max = 0
        self._selector = selectors.DefaultSelector()
        self._number = 0

    def run(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        open_count = 0
        while time.monotonic() < deadline:
            while open_count < self.entry.connections:
                if not self._open():
                    break
                open_count += 1
            for key, mask in self._selector.select(0.05):
                stream: _Stream = key.data
                if mask & selectors.EVENT_WRITE:
                    stream.write(self)
                is_open = stream.is_open
                if is_open and mask & selectors.EVENT_READ:
                    is_open = stream.read(self)
                if not is_open:
                    self._selector.unregister(key.fileobj)
                    self.in_flight -= stream.unanswered
                    stream.connection.close()
                    self.closed += 1
                    open_count -= 1
                    time.sleep(_PAUSE_S)
                else:
                    self._selector.modify(key.fileobj, stream.events(), stream)
        return {
            "sent": self.sent,
            "answers": self.answers,
            "closed": self.closed,
            "opened": self.opened,
            "in_flight": self.in_flight_max,
        }

    def _open(self) -> bool:
        port = self.scene.ports[self.entry.listener]
        try:
            connection = _connect(self.entry, port)
        except OSError:
            time.sleep(0.02)
            return False
        self.opened += 1
        connection.setblocking(False)
        stream = _Stream(connection, self.payloads, self.entry.way, self._number)
        self._number += 1
        self._selector.register(connection, stream.events(), stream)
        return True

    def count_sent(self, count: int) -> None:
        self.sent += count
        self.in_flight += count
        self.in_flight_max = max(self.in_flight_max, self.in_flight)


def _connect(entry: Entry, port: int) -> socket.socket:
    if entry.user is not None:
        client = logged_in(port, entry.user) if "SSL" not in entry.listener else None
        if client is not None:
            return client._socket
    connection = socket.create_connection(("127.0.0.1", port), 10)
    if "SSL" in entry.listener and not entry.is_below_tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = context.wrap_socket(connection)
        if entry.user is not None:
            from tests.interop.attacker import authenticate, handshake, read_frame

            for frame in (handshake(), authenticate(f"\0{entry.user}\0{password(entry.user)}".encode())):
                connection.sendall(frame)
                read_frame(connection)
    return connection


class _Stream:
    """One connection: it sends payload after payload in the way of the entry."""

    def __init__(self, connection: socket.socket, payloads: list[bytes], way: Way, number: int) -> None:
        self.connection = connection
        self.unanswered = 0
        self.is_open = True
        self._payloads = payloads
        self._next = number
        self._way = way
        self._left = memoryview(b"")
        self._answer = bytearray()
        self._unread = 0
        self._pause_until = 0.0
        self._load()

    def _load(self) -> None:
        self._left = memoryview(self._payloads[self._next % len(self._payloads)])
        self._next += 1

    def events(self) -> int:
        reads = selectors.EVENT_READ if self._way is not Way.NEVER_READ else 0
        return reads | (selectors.EVENT_WRITE if self._left else 0) or selectors.EVENT_READ

    def write(self, attack: Attack) -> None:
        piece = self._left[:1] if self._way is Way.DRIP else self._left[:262144]
        try:
            count = self.connection.send(piece)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self.is_open = False
            return
        if self._way is Way.DRIP:
            time.sleep(_PAUSE_S)
        self.unanswered += count
        attack.count_sent(count)
        self._left = self._left[count:]
        if not self._left and self._way in (Way.PIPELINE, Way.NEVER_READ):
            self._load()

    def read(self, attack: Attack) -> bool:
        """Return False if the node closed the connection."""
        if self._way is Way.NEVER_READ:
            return True
        try:
            data = self.connection.recv(262144)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        if not data:
            return False
        self._count(data, attack)
        return True

    def _count(self, data: bytes, attack: Attack) -> None:
        """Answers are frames; only their sizes are read."""
        if self._unread >= len(data):
            self._unread -= len(data)
            ended = not self._unread
        else:
            self._answer += data[self._unread :]
            ended, self._unread = self._unread > 0, 0
            while len(self._answer) >= 4:
                size = int.from_bytes(self._answer[:4], "big")
                if len(self._answer) - 4 < size:
                    self._unread = size - (len(self._answer) - 4)
                    self._answer.clear()
                    break
                del self._answer[: 4 + size]
                ended = True
                attack.answers += 1
        if ended:
            attack.in_flight -= self.unanswered
            self.unanswered = 0
            if not self._left and self._way is not Way.HOLD:
                self._load()


def main(name: str, scene: str, seconds: float, seed: int) -> int:
    given = json.loads(scene)
    found = Scene(given["ports"], bytes.fromhex(given["topic_id"]), bytes.fromhex(given["own_topic_id"]))
    entry = next(entry for entry in ENTRIES if entry.name == name)
    attack = Attack(entry, found, random.Random(seed))
    os.nice(_YIELDS)
    print("ready", flush=True)
    sys.stdin.readline()
    with suppress(KeyboardInterrupt):
        print(json.dumps(attack.run(seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
