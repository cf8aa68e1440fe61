"""Send a real Kafka's controller every envelope of ``envelope_requests``, and record its answers.

::

    python -m tests.peers.record_envelope_answers FOLDER > envelope-answers-4.3.1.jsonl

It starts the node itself, in an empty folder.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from struct import Struct
from typing import Any

from barnabas.protocol.api_keys import API_TABLE
from barnabas.protocol.headers import ResponseHeader, response_header_version
from barnabas.protocol.messages.envelope import EnvelopeResponse
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.envelope_requests import EnvelopeCase, envelopes
from tests.peers.node_process import NodeProcess, free_ports

__all__ = ["answer_of", "collect_answers", "settings"]

_LENGTH = Struct(">i")
_ENVELOPE_HEADER = bytes.fromhex("003a0000000000090006") + b"broker" + b"\0"


def settings(node: NodeProcess, sasl_port: int) -> dict[str, str]:
    """Return the settings of a combined node with a second controller listener, where bob logs in."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-secret";'
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port},"
        f"SECURE://127.0.0.1:{sasl_port}",
        "controller.listener.names": "CONTROLLER,SECURE",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "a-secret-for-this-run",
    }


class _Connection(RawClient):
    def envelope(self, case: EnvelopeCase) -> EnvelopeResponse | None:
        """Return the answer, or None if the node closed the connection."""
        frame = _ENVELOPE_HEADER + case.frame
        try:
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            (size,) = _LENGTH.unpack(self._read(4))
            return EnvelopeResponse.decode(self._read(size), 0, 5)
        except (TimeoutError, ConnectionError):
            return None


def answer_of(case: EnvelopeCase, response: EnvelopeResponse | None) -> Any:
    """Return an envelope's answer as JSON: its error, and the inner answer."""
    if response is None:
        return "closed"
    if response.response_data is None:
        return {"error": response.error_code}
    if case.inner is None:
        return {"error": response.error_code, "inside": response.response_data.hex()}
    key, version = case.inner
    data = response.response_data
    header, position = ResponseHeader.read(data, 0, response_header_version(key, version))
    message = import_module(f"barnabas.protocol.messages.{key.name.lower()}")
    body = getattr(message, f"{API_TABLE[key].name}Response").decode(data, version, position)
    inside = _without_secrets(body.to_json(version))
    return {"error": response.error_code, "correlation": header.correlation_id, "inside": inside}


_SECRET = ("hmac", "tokenId", "issueTimestampMs", "expiryTimestampMs", "maxTimestampMs")


def _without_secrets(answer: Any) -> Any:
    """Remove the token and its times, which differ from run to run."""
    return {key: "new" if key in _SECRET and value not in ("", -1, 0) else value for key, value in answer.items()}


def collect_answers(controller_port: int, sasl_port: int) -> dict[str, Any]:
    """Return a controller's answer to every envelope."""
    answers = {}
    plain, bob = _Connection(controller_port), _Connection(sasl_port)
    bob.log_in("bob", "bob-secret")
    for case in envelopes():
        response = (bob if case.as_bob else plain).envelope(case)
        answers[case.name] = answer_of(case, response)
        if response is None:
            plain = _Connection(controller_port)
    plain.close()
    bob.close()
    return answers


def main(folder: Path) -> None:
    (sasl_port,) = free_ports(1)
    node = KafkaNode(folder)
    node.change_settings(settings(node, sasl_port))
    node.start()
    try:
        for name, answer in collect_answers(node.controller_port, sasl_port).items():
            print(json.dumps({"case": name, "answer": answer}, sort_keys=True))
    finally:
        node.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
