"""A client's principal in an envelope is written and read by the principal builder of the listener."""

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
            raise KeyError("what a user's class does")
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


def test_the_default_keeps_that_a_token_was_used() -> None:
    both = listeners(None)
    assert both.deserialize_principal("CLIENTS", both.serialize_principal(context())) == ALICE


@pytest.mark.parametrize("data", [None, b"broken", b"nobody", b"\xff"])
def test_whatever_goes_wrong_in_a_builder_is_a_principal_that_cannot_be_read(data: bytes | None) -> None:
    with pytest.raises(ValueError):
        listeners(Reversed()).deserialize_principal("CLIENTS", data)
