"""The log names each client that requests an unsupported API once, with a limit on the lines for all clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.unsupported_requests import MissingFeatures
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext


def context(client_id: str, *, software: str = "librdkafka") -> RequestContext:
    made = RequestContext(
        api_key=ApiKey.FIND_COORDINATOR,
        api_version=2,
        client_id=client_id,
        principal=Principal("User", "alice"),
        client_host="192.0.2.7",
        listener_name="SASL",
    )
    peer: Any = SimpleNamespace(peer_port=4711, client_software_name=software, client_software_version="2.16")
    made.peer = peer
    return made


def test_the_client_is_named_in_full_and_once(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingFeatures()
    for _ in range(3):
        missing.refusal("transactions", "use none", context("billing"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "listener SASL: cannot serve 192.0.2.7:4711: client 'billing' (librdkafka 2.16) of User:alice requests "
        "transactions, which this broker does not support: use none"
    )


def test_a_client_without_a_software_name_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    MissingFeatures().refusal("transactions", "use none", context("a\nb", software="unknown"))
    assert "client 'a\\nb' (unknown software)" in caplog.text


def test_many_clients_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    missing = MissingFeatures()
    for number in range(10_000):
        missing.refusal("transactions", "use none", context(f"client-{number}"))
    assert len(caplog.records) < 50
