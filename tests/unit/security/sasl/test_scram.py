"""The SCRAM server: exchanges with our client, tokens, and the information that a guessing client receives."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.security.principal import Principal
from barnabas.security.sasl import scram
from barnabas.security.sasl.credential_store import ScramCredential, TokenCredential
from barnabas.security.sasl.sasl_client import ScramClient
from barnabas.security.sasl.sasl_server import SaslFailure
from barnabas.security.sasl.scram import FakeCredentials, ScramServer, new_nonce
from barnabas.security.sasl.scram_messages import ClientFirst, ServerFirst
from barnabas.security.scram_credentials import credential_of_password
from tests.unit.security.sasl.no_credentials import NoCredentials

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
OWNER = Principal("User", "owner")
HMAC = b64encode(b"h" * 64).decode()
KEY = b"k" * 32
DIGEST = hmac.digest


class Clock:
    now = 1000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


SALT = b"1h0vcfm8sfl9cd3qjcuf7qrdh2"
CREDENTIALS = {
    mechanism: credential_of_password(mechanism, "alice-secret", SALT, 4096) for mechanism in (SHA_256, SHA_512)
}
TOKEN_CREDENTIAL = credential_of_password(SHA_256, HMAC, b"salt of a token", 4096)


class Store(NoCredentials):
    """alice has a password for both mechanisms, weak has too few iterations; one token exists."""

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        if user == "weak":
            return ScramCredential(b"salt", bytes(32), bytes(32), 100)
        return CREDENTIALS[mechanism] if user == "alice" else None

    def delegation_token(self, token_id: str) -> TokenCredential | None:
        if token_id != "token-1":
            return None
        return TokenCredential(token_id, OWNER, HMAC, 5000, {SHA_256: TOKEN_CREDENTIAL})


def server(mechanism: ScramMechanism = SHA_256, clock: Clock | None = None) -> ScramServer:
    return ScramServer(mechanism, Store(), FakeCredentials(KEY), clock or Clock())


def exchange(to: ScramServer, client: ScramClient) -> None:
    message = client.evaluate_challenge(b"")
    while not client.is_complete:
        message = client.evaluate_challenge(to.evaluate_response(message))


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_the_right_password_logs_in_and_the_server_proves_itself(mechanism: ScramMechanism) -> None:
    to = server(mechanism)
    exchange(to, ScramClient(mechanism, "alice", "alice-secret"))
    assert to.is_complete
    assert to.authorization_id == "alice"
    assert to.session_expires_at_ms is None
    assert to.token_owner is None


def test_a_wrong_password_fails_without_a_reason_for_the_client() -> None:
    with pytest.raises(SaslFailure) as caught:
        exchange(server(), ScramClient(SHA_256, "alice", "wrong"))
    assert caught.value.public_message is None


def test_an_unknown_user_looks_like_a_wrong_password() -> None:
    def shapes(user: str) -> tuple[int, bool, str | None, str]:
        to, client = server(), ScramClient(SHA_256, user, "guess")
        challenge = to.evaluate_response(client.evaluate_challenge(b""))
        first = ServerFirst.read(challenge)
        with pytest.raises(SaslFailure) as caught:
            to.evaluate_response(client.evaluate_challenge(challenge))
        shape = bool(re.fullmatch(b"[0-9a-z]{20,26}", first.salt))
        return first.iterations, shape, caught.value.public_message, caught.value.reason

    assert shapes("alice") == shapes("mallory")


def test_an_unknown_users_salt_is_constant_and_differs_between_users() -> None:
    def salt(user: str, fakes: FakeCredentials, mechanism: ScramMechanism = SHA_256) -> bytes:
        return fakes.credential(mechanism, user).salt

    fakes = FakeCredentials(KEY)
    assert salt("mallory", fakes) == salt("mallory", FakeCredentials(KEY))
    assert len({salt("mallory", fakes), salt("mallet", fakes), salt("mallory", fakes, SHA_512)}) == 3
    assert salt("mallory", fakes) != salt("mallory", FakeCredentials())
    assert all(20 <= len(salt(f"user-{index}", fakes)) <= 26 for index in range(100))


def test_user_enumeration_every_node_and_listener_has_the_same_salt_for_the_same_unknown_user() -> None:
    """A real user's salt is the same on every node at any time: a salt that differs would reveal an unknown user."""

    class OfACluster(Store):
        disguise_key = b"of the cluster"

    def salt(user: str, of: Store) -> bytes:
        to = ScramServer(SHA_256, of, FakeCredentials(of.disguise_key), Clock())
        return ServerFirst.read(to.evaluate_response(ScramClient(SHA_256, user, "x").evaluate_challenge(b""))).salt

    assert salt("mallory", OfACluster()) == salt("mallory", OfACluster()) != salt("mallory", Store())
    assert salt("mallory", Store()) != salt("mallory", Store())


def test_user_enumeration_an_unknown_user_has_the_usual_iterations() -> None:
    class Careful(Store):
        def usual_iterations(self, mechanism: ScramMechanism) -> int:
            return 16384

    def iterations(extension: dict[str, str]) -> int:
        to = ScramServer(SHA_256, Careful(), FakeCredentials(KEY), Clock())
        return ServerFirst.read(
            to.evaluate_response(ClientFirst.of("mallory", "n", extension).text().encode())
        ).iterations

    assert iterations({}) == 16384
    assert iterations({"tokenauth": "true"}) == 4096


def test_oversized_messages_are_refused_before_they_are_parsed() -> None:
    """Parsing half a megabyte of extensions would delay all other clients for a tenth of a second."""
    with pytest.raises(SaslFailure, match="longer than"):
        server().evaluate_response(b"n,,n=alice,r=nonce" + b",a=b" * 10_000)
    assert server().evaluate_response(b"n,,n=alice,r=nonce" + b",a=b" * 5_000)


def test_an_unknown_user_cannot_log_in_even_with_its_fake_keys() -> None:
    """The proof that matches the fake stored key can't be computed, and would not count if it could."""
    to, client = server(), ScramClient(SHA_256, "mallory", "guess")
    to.evaluate_response(client.evaluate_challenge(b""))
    to._credential = credential_of_password(SHA_256, "guess", SALT, 4096)
    assert to.server_first is not None
    to._sent = ServerFirst(to.server_first.nonce, SALT, 4096)
    with pytest.raises(SaslFailure):
        to.evaluate_response(client.evaluate_challenge(to._sent.text().encode()))


def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in HMACs; those of the fake salt are computed for known users too."""

    calls: list[object] = []

    def counting(*args: Any) -> bytes:
        calls.append(args)
        return DIGEST(*args)

    def cost(user: str) -> int:
        calls.clear()
        to, client = server(), ScramClient(SHA_256, user, "guess")
        first = client.evaluate_challenge(b"")
        monkeypatch.setattr(scram.hmac, "digest", counting)  # type: ignore[attr-defined]
        challenge = to.evaluate_response(first)
        monkeypatch.setattr(scram.hmac, "digest", DIGEST)  # type: ignore[attr-defined]
        final = client.evaluate_challenge(challenge)
        monkeypatch.setattr(scram.hmac, "digest", counting)  # type: ignore[attr-defined]
        with pytest.raises(SaslFailure):
            to.evaluate_response(final)
        monkeypatch.setattr(scram.hmac, "digest", DIGEST)  # type: ignore[attr-defined]
        return len(calls)

    assert cost("mallory") == cost("alice")


def test_too_few_iterations_are_refused() -> None:
    with pytest.raises(SaslFailure, match="Iterations 100 is less than the minimum 4096 for SCRAM_SHA_256"):
        server().evaluate_response(b"n,,n=weak,r=abc")


def test_a_token_logs_its_owner_in_until_it_expires() -> None:
    to = server()
    exchange(to, ScramClient(SHA_256, "token-1", HMAC, token_auth=True))
    assert to.authorization_id == "owner"
    assert to.token_owner == OWNER
    assert to.session_expires_at_ms == 5000


@pytest.mark.parametrize(
    ("user", "password", "now"), [("token-1", HMAC, 5000), ("token-2", HMAC, 0), ("alice", HMAC, 0)]
)
def test_expired_and_unknown_tokens_and_unknown_users_fail_at_the_proof(user: str, password: str, now: int) -> None:
    clock = Clock()
    clock.now = now
    to, client = server(clock=clock), ScramClient(SHA_256, user, password, token_auth=True)
    challenge = to.evaluate_response(client.evaluate_challenge(b""))
    with pytest.raises(SaslFailure) as caught:
        to.evaluate_response(client.evaluate_challenge(challenge))
    assert caught.value.public_message is None
    assert to.authorization_id == ""


def test_a_token_that_expires_during_the_exchange_fails() -> None:
    clock = Clock()
    to, client = server(clock=clock), ScramClient(SHA_256, "token-1", HMAC, token_auth=True)
    challenge = to.evaluate_response(client.evaluate_challenge(b""))
    clock.now = 5000
    with pytest.raises(SaslFailure):
        to.evaluate_response(client.evaluate_challenge(challenge))


def test_a_token_is_not_a_user_without_the_extension() -> None:
    with pytest.raises(SaslFailure):
        exchange(server(), ScramClient(SHA_256, "token-1", HMAC))


@pytest.mark.parametrize(
    "final",
    ["c=biws,r=@,p=AAAA", "c=biws,r=@x,p=AAAA", "c=biws,r=@", "", "c=biws,r=@,p=" + b64encode(bytes(33)).decode()],
)
def test_an_invalid_final_message_is_an_authentication_failure(final: str) -> None:
    to = server()
    first = ServerFirst.read(to.evaluate_response(b"n,,n=alice,r=abc"))
    with pytest.raises(SaslFailure):
        to.evaluate_response(final.replace("@", first.nonce).encode())
    assert not to.is_complete


@given(st.lists(st.binary(max_size=80) | st.sampled_from([b"n,,n=alice,r=abc", b"c=biws,r=abc,p=AAAA"]), max_size=4))
def test_any_messages_only_fail(messages: list[bytes]) -> None:
    to = server()
    for message in messages:
        try:
            to.evaluate_response(message)
        except SaslFailure:
            break
    assert not to.is_complete


def test_nonces_have_kafkas_form_and_differ() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(20 <= len(nonce) <= 26 and nonce.isalnum() for nonce in nonces)


def test_a_client_rejects_a_server_that_does_not_know_the_password() -> None:
    client = ScramClient(SHA_256, "alice", "alice-secret", nonce="abc")
    client.evaluate_challenge(b"")
    client.evaluate_challenge(ServerFirst("abcdef", b"salt", 4096).text().encode())
    with pytest.raises(SaslFailure, match="Invalid server signature"):
        client.evaluate_challenge(b"v=" + b64encode(bytes(32)))
    assert not client.is_complete


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "does not start with client nonce"),
        (b"r=abcdef,s=c2FsdA==,i=4095", "less than the minimum 4096"),
        (b"r=abcdef,s=c2FsdA==,i=99999999999", "invalid iterations"),
        (b"r=abcdef,s=c2FsdA==,i=1000001", "are more than 1000000"),
        (b"nonsense", "Invalid SCRAM server first message"),
    ],
)
def test_a_client_refuses_an_invalid_challenge(challenge: bytes, reason: str) -> None:
    client = ScramClient(SHA_256, "alice", "alice-secret", nonce="abc")
    client.evaluate_challenge(b"")
    with pytest.raises(SaslFailure, match=reason):
        client.evaluate_challenge(challenge)
