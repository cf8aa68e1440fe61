"""SASL/PLAIN: one message, accepted or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.sasl.plain import PlainServer, plain_users
from barnabas.security.sasl.sasl_client import PlainClient
from barnabas.security.sasl.sasl_server import SaslFailure

USERS = {"alice": "alice-secret", "bob": "böse"}
WRONG = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize("user", USERS)
def test_the_right_password_logs_in(user: str) -> None:
    server = PlainServer(USERS)
    assert server.evaluate_response(PlainClient(user, USERS[user]).evaluate_challenge(b"")) == b""
    assert server.is_complete
    assert server.authorization_id == user


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0nobody\0alice-secret", WRONG),
        (b"\0nobody\0nobody ", WRONG),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob\0alice\0wrong", WRONG),
    ],
)
def test_anything_else_is_refused_with_kafkas_message(message: bytes, reason: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslFailure) as caught:
        server.evaluate_response(message)
    assert caught.value.public_message == reason
    assert "secret" not in caught.value.reason
    assert not server.is_complete


def test_the_own_name_may_be_the_authorization_id() -> None:
    server = PlainServer(USERS)
    server.evaluate_response(b"alice\0alice\0alice-secret")
    assert server.authorization_id == "alice"


def test_users_are_the_options_of_the_jaas_line() -> None:
    assert plain_users({"username": "x", "user_alice": "1", "user_": "2", "user_a_b": "3"}) == {
        "alice": "1", "": "2", "a_b": "3",
    }  # fmt: skip


def test_a_complete_exchange_accepts_nothing_more() -> None:
    server = PlainServer(USERS)
    server.evaluate_response(b"\0alice\0alice-secret")
    with pytest.raises(SaslFailure):
        server.evaluate_response(b"\0alice\0alice-secret")


@given(st.binary(max_size=60))
def test_any_bytes_log_in_or_fail(message: bytes) -> None:
    server = PlainServer({"a": "b", "\ufffd": "\ufffd"})
    try:
        server.evaluate_response(message)
    except SaslFailure:
        assert not server.is_complete
    else:
        assert server.authorization_id in ("a", "\ufffd")
