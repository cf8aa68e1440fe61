"""The principal builder of the listener writes and reads a client's principal in an envelope."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import PrincipalBuilder
from barnabas.security.request_context import RequestContext
from barnabas.server.listeners.node_listeners import NodeListeners

ALICE = Principal("User", "alice", token_authenticated=True)


class Reversed(PrincipalBuilder):
    def serialize(self, principal: Principal) -> bytes:
        return principal.name[::-1].encode()

    def deserialize(self, data: bytes) -> Any:
        if data == b"broken":
            raise KeyError("raised by a user's class")
        return None if data == b"nobody" else Principal("User", data.decode()[::-1])


def listeners(builder: PrincipalBuilder | None) -> NodeListeners:
    made = NodeListeners.__new__(NodeListeners)
    security = None if builder is None else SimpleNamespace(principal_builder=builder)
    made.by_name = {"CLIENTS": SimpleNamespace(security=security)}  # type: ignore[dict-item]
    return made


def context() -> RequestContext:
    return RequestContext(api_key=ApiKey.CREATE_TOPICS, api_version=7, principal=ALICE, listener_name="CLIENTS")


@pytest.mark.parametrize("builder", [None, Reversed()], ids=["the default", "one of the user's"])
def test_both_sides_agree(builder: PrincipalBuilder | None) -> None:
    both = listeners(builder)
    data = both.serialize_principal(context())
    assert both.deserialize_principal("CLIENTS", data)[:2] == ALICE[:2]
    assert (data == b"ecila") is (builder is not None)


def test_the_default_preserves_that_a_token_was_used() -> None:
    both = listeners(None)
    assert both.deserialize_principal("CLIENTS", both.serialize_principal(context())) == ALICE


@pytest.mark.parametrize("data", [None, b"broken", b"nobody", b"\xff"])
def test_any_error_of_a_builder_is_an_unreadable_principal(data: bytes | None) -> None:
    with pytest.raises(ValueError):
        listeners(Reversed()).deserialize_principal("CLIENTS", data)
