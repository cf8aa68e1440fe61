"""``kafka.request.logger`` at DEBUG: a line for each request with its sender and API, and none of its contents."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.network.api_handler import HandlerTable
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.principal import Principal

TABLE = HandlerTable("barnabas.broker.apis", {ApiKey.SASL_HANDSHAKE: (0, 1)})


def processed() -> None:
    header = RequestHeader(
        request_api_key=ApiKey.SASL_HANDSHAKE, request_api_version=1, correlation_id=5, client_id="billing"
    )
    frame = bytearray(header.encode(1) + SaslHandshakeRequest(mechanism="hidden").encode(1))
    connection: Any = SimpleNamespace(
        principal=Principal("User", "alice"),
        peer_host="192.0.2.7",
        peer_port=4711,
        listener_name="SASL",
        connection_id="1",
    )
    dispatcher = RequestDispatcher(server=None, handlers=TABLE, authorizer=AllowAllAuthorizer(), stats={})
    assert dispatcher.process(connection, frame)


def test_a_request_is_logged_if_enabled(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "kafka.request.logger"):
        processed()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "Completed request SASL_HANDSHAKE version 1 from User:alice (client 'billing', 192.0.2.7) over SASL: "
    )
    assert "hidden" not in line


def test_debugging_everything_else_does_not_log_requests(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        processed()
    assert not [record for record in caplog.records if record.name == "kafka.request.logger"]
