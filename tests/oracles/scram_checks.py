"""SCRAM compared with the answers of Kafka's own classes: formulas, exchanges word by word, and refusals.

One difference is intended: for an unknown user Kafka fails at the first message, which reveals that the user does not
exist. Ours continues and fails at the proof (see ``barnabas.security.sasl.scram``).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

import pytest

from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.security.principal import Principal
from barnabas.security.sasl.credential_store import ScramCredential, TokenCredential
from barnabas.security.sasl.sasl_client import ScramClient
from barnabas.security.sasl.sasl_server import SaslFailure
from barnabas.security.sasl.scram import FakeCredentials, ScramServer, credential_from_text, credential_to_text
from barnabas.security.sasl.scram_messages import ClientFirst, ServerFirst, sasl_name, user_name
from barnabas.security.scram_credentials import credential_of_password, salted_password_of
from tests.unit.security.sasl.no_credentials import NoCredentials

__all__ = ["SCRAM_CHECKS"]

_UNKNOWN_USER = "Authentication failed: Invalid user credentials"
_TOKEN_EXPIRES_AT_MS = 1893456000000


class _Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


class _Store(NoCredentials):
    """A credential store with one user, or one token of ``owner-of-token``."""

    def __init__(self, user: str, credential: ScramCredential, *, is_token: bool = False) -> None:
        self._user = user
        self._credential = credential
        self._is_token = is_token

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._credential if user == self._user and not self._is_token else None

    def delegation_token(self, token_id: str) -> TokenCredential | None:
        if token_id != self._user or not self._is_token:
            return None
        return TokenCredential(
            token_id=token_id,
            owner=Principal("User", "owner-of-token"),
            hmac="",
            expires_at_ms=_TOKEN_EXPIRES_AT_MS,
            scram_credentials=dict.fromkeys(ScramMechanism, self._credential),
        )


def _server(mechanism: ScramMechanism, store: _Store, nonce: str | None = None) -> ScramServer:
    return ScramServer(mechanism, store, FakeCredentials(b"k" * 32), _Clock(), nonce=nonce)


def check_derive(data: dict[str, Any]) -> None:
    mechanism = ScramMechanism.from_name(data["mechanism"])
    salt = bytes.fromhex(data["salt"])
    salted = salted_password_of(mechanism, data["password"], salt, data["iterations"])
    assert salted.hex() == data["saltedPassword"]
    credential = credential_of_password(mechanism, data["password"], salt, data["iterations"])
    assert credential.stored_key.hex() == data["storedKey"]
    assert credential.server_key.hex() == data["serverKey"]
    assert credential_to_text(credential) == data["credentialString"]
    assert credential_from_text(data["credentialString"]) == credential


def check_exchange(data: dict[str, Any]) -> None:
    mechanism = ScramMechanism.from_name(data["mechanism"])
    credential = ScramCredential(
        bytes.fromhex(data["salt"]),
        bytes.fromhex(data["storedKey"]),
        bytes.fromhex(data["serverKey"]),
        data["iterations"],
    )
    messages = [step["message"].encode() for step in data["transcript"]]
    known = "nobody-of-this-name" if data.get("message") == _UNKNOWN_USER else data["user"]
    client_nonce, nonce = _nonces(messages)
    server = _server(mechanism, _Store(known, credential, is_token=data["tokenAuth"]), nonce)
    client = ScramClient(
        mechanism, data["user"], data["passwordTyped"], token_auth=data["tokenAuth"], nonce=client_nonce
    )
    if data["ok"]:
        _run(messages, server, client)
        assert server.is_complete
        assert server.authorization_id == data["authorizationId"]
        if "credentialLifetimeProperty" in data:
            assert str(server.session_expires_at_ms) == data["credentialLifetimeProperty"]
        return
    run = _run_and_prove if data["message"] == _UNKNOWN_USER else _run
    with pytest.raises(SaslFailure):
        run(messages, server, client)
    assert not server.is_complete


def _nonces(messages: list[bytes]) -> tuple[str, str | None]:
    client = messages[0].split(b",r=")[1].split(b",")[0].decode()
    if len(messages) < 2:
        return client, None
    return client, ServerFirst.read(messages[1]).nonce.removeprefix(client)


def _run(messages: list[bytes], server: ScramServer, client: ScramClient) -> None:
    """Run the recorded exchange again; the messages of both our sides must equal the recorded ones."""
    challenge = b""
    for index, message in enumerate(messages):
        if index % 2 == 0:
            assert client.evaluate_challenge(challenge) == message
            challenge = server.evaluate_response(message)
        else:
            assert challenge == message
    if len(messages) == 4:
        assert client.evaluate_challenge(challenge) == b""
        assert client.is_complete


def _run_and_prove(messages: list[bytes], server: ScramServer, client: ScramClient) -> None:
    """Continue where Kafka failed."""
    _run(messages, server, client)
    assert server.server_first is not None
    server.evaluate_response(client.evaluate_challenge(server.server_first.text().encode()))


def check_server_first(data: dict[str, Any]) -> None:
    server = _user_server(data)
    first = data["clientFirst"].encode()
    if data["ok"]:
        challenge = ServerFirst.read(server.evaluate_response(first))
        nonce = ClientFirst.read(first).nonce
        assert (
            f"r={nonce}<nonce>,s={b64encode(challenge.salt).decode()},i={challenge.iterations}"
            == (data["serverFirstWithoutRandom"])
        )
        assert server.is_complete == data["complete"]
        return
    if data["message"] == _UNKNOWN_USER:
        server.evaluate_response(first)
        first = _final("c=biws,r=@,p=#", server, data)
    with pytest.raises(SaslFailure) as caught:
        server.evaluate_response(first)
    if data["exception"].endswith("SaslAuthenticationException"):
        assert caught.value.public_message == data["message"]
    else:
        assert caught.value.public_message is None


def check_server_final(data: dict[str, Any]) -> None:
    server = _user_server(data)
    server.evaluate_response(data["clientFirst"].encode())
    final = _final(data["template"], server, data)
    if data["ok"]:
        server.evaluate_response(final)
        return
    with pytest.raises(SaslFailure) as caught:
        server.evaluate_response(final)
    assert caught.value.public_message is None
    assert not server.is_complete


def _user_server(data: dict[str, Any]) -> ScramServer:
    mechanism = ScramMechanism.from_name(data["mechanism"])
    first = data["clientFirst"]
    user = "weak" if "n=weak," in first else next((u for u in ("us=er", "us,er") if sasl_name(u) in first), "user")
    iterations = 100 if user == "weak" else 4096
    zeros = bytes(_digest_size(mechanism))
    return _server(mechanism, _Store(user, ScramCredential(b"salt", zeros, zeros, iterations)))


def _digest_size(mechanism: ScramMechanism) -> int:
    return hashlib.new(mechanism.digest).digest_size


def _final(template: str, server: ScramServer, data: dict[str, Any]) -> bytes:
    """``@`` is the nonce that the server sent, or 33 zero bytes; ``#`` as many zero bytes as a proof has."""
    assert server.server_first is not None
    size = _digest_size(ScramMechanism.from_name(data["mechanism"]))
    text = template.replace("r=@", f"r={server.server_first.nonce}")
    text = text.replace("p=@", f"p={b64encode(bytes(33)).decode()}")
    return text.replace("p=#", f"p={b64encode(bytes(size)).decode()}").encode()


def check_name(data: dict[str, Any]) -> None:
    assert sasl_name(data["name"]) == data["saslName"]
    assert user_name(data["saslName"]) == data["name"]


def check_unname(data: dict[str, Any]) -> None:
    if data["ok"]:
        assert user_name(data["saslName"]) == data["username"]
    else:
        with pytest.raises(ValueError):
            user_name(data["saslName"])


def check_credential_parse(data: dict[str, Any]) -> None:
    if not data["ok"]:
        with pytest.raises(ValueError):
            credential_from_text(data["text"])
        return
    credential = credential_from_text(data["text"])
    assert credential.salt.hex() == data["salt"]
    assert credential.stored_key.hex() == data["storedKey"]
    assert credential.server_key.hex() == data["serverKey"]
    assert credential.iterations == data["iterations"]


SCRAM_CHECKS = {
    "scram-derive": check_derive,
    "scram-exchange": check_exchange,
    "scram-server-first": check_server_first,
    "scram-server-final": check_server_final,
    "scram-name": check_name,
    "scram-unname": check_unname,
    "scram-credential-parse": check_credential_parse,
}
