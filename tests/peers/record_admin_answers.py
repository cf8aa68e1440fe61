"""Send a real Kafka all requests of ``admin_requests``, or of ``mutation_requests``, and record its answers.

::

    python -m tests.peers.record_admin_answers BROKER_PORT CONTROLLER_PORT > admin-answers-4.3.1.jsonl
    python -m tests.peers.record_admin_answers BROKER_PORT > mutation-answers-4.3.1.jsonl

The node must be a freshly formatted combined node with id 1 and default settings.
"""

from __future__ import annotations

import json
import socket
import sys
from importlib import import_module
from struct import Struct
from typing import Any

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from tests.peers.admin_requests import requests_for_broker, requests_for_controller
from tests.peers.mutation_requests import mutations

_HEADER = Struct(">hhihx")
_LENGTH = Struct(">i")


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def ask(self, request: Any, version: int) -> Any:
        info = API_TABLE[ApiKey(request.API_KEY)]
        head = _HEADER.pack(request.API_KEY, version, 1, -1)
        if version < info.request_flexible_since:
            head = head[:-1]
        frame = head + request.encode(version)
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
        (size,) = _LENGTH.unpack(self._read(4))
        body = self._read(size)
        module = import_module(f"barnabas.protocol.messages.{ApiKey(request.API_KEY).name.lower()}")
        offset = 5 if version >= info.response_flexible_since else 4
        return getattr(module, f"{info.name}Response").decode(body, version, offset)

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the node closed the connection")
            data += chunk
        return data


def main(broker_port: int, controller_port: int | None = None) -> None:
    groups = [("broker", broker_port, mutations())]
    if controller_port is not None:
        groups = [
            ("broker", broker_port, requests_for_broker()),
            ("controller", controller_port, requests_for_controller()),
        ]
    for listener, port, cases in groups:
        connection = Connection(port)
        for name, request, version in cases:
            answer = connection.ask(request, version).to_json(version)
            print(json.dumps({"listener": listener, "case": name, "answer": answer}, sort_keys=True))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
