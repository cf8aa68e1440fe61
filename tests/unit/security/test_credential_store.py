"""Where SASL looks up credentials, and which values are derived for delegation tokens."""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from hashlib import pbkdf2_hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.config_value import Password
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.protocol.schema import Message
from barnabas.security.credential_publisher import CredentialPublisher
from barnabas.security.delegation_tokens import (
    TokenHmacs,
    TokenScramCredentials,
    expires_at_ms,
    is_concerned,
    is_expired,
    is_owner_or_renewer,
    principal_of,
    token_hmacs_of,
)
from barnabas.security.principal import Principal
from barnabas.security.scram_credentials import credential_of_password, credential_of_salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
NOW_MS = 1_700_000_000_000
SECRET = "the key of all tokens"


class FixedClock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Store(CredentialPublisher):
    """Receives records, as from a loader."""

    def __init__(self, *, has_tokens: bool = True, tokens_kept_max: int = 10) -> None:
        self.clock = FixedClock()
        self.image = MetadataImage.EMPTY
        hmacs = TokenHmacs(SECRET) if has_tokens else None
        super().__init__(clock=self.clock, hmacs=hmacs, tokens_kept_max=tokens_kept_max)

    def replay(self, *records: Message) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        provenance = MetadataProvenance(self.image.offset + len(records), 1, NOW_MS)
        self.image = delta.apply(provenance)
        self.publish(delta, self.image, LoaderManifest(provenance, False))


def credential(name: str, mechanism: int = 1, iterations: int = 4096, key: bytes = b"k") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"salt", stored_key=key, server_key=b"server", iterations=iterations
    )


def token(token_id: str = "t", *, expiry_ms: int = 1000, max_ms: int = 5000, **fields: object) -> DelegationTokenRecord:
    values: dict[str, object] = {"owner": "User:alice", "requester": "User:bob", "renewers": ["User:carol"], **fields}
    return DelegationTokenRecord(
        issue_timestamp=NOW_MS,
        max_timestamp=NOW_MS + max_ms,
        expiration_timestamp=NOW_MS + expiry_ms,
        token_id=token_id,
        **values,  # type: ignore[arg-type]
    )


# SCRAM


def test_a_credential_is_found_by_mechanism_and_user_until_it_is_removed() -> None:
    store = Store()
    assert store.scram_credential(SHA_256, "alice") is None
    store.replay(credential("alice"), credential("alice", 2, 8192, b"other"))
    found = store.scram_credential(SHA_512, "alice")
    assert found is not None
    assert (found.salt, found.stored_key, found.server_key, found.iterations) == (b"salt", b"other", b"server", 8192)
    assert store.scram_credential(SHA_256, "bob") is None
    assert store.scram_credential(ScramMechanism.UNKNOWN, "alice") is None
    store.replay(credential("alice", 1, 5000))
    changed = store.scram_credential(SHA_256, "alice")
    assert changed is not None
    assert changed.iterations == 5000
    store.replay(RemoveUserScramCredentialRecord(name="alice", mechanism=1))
    assert store.scram_credential(SHA_256, "alice") is None
    assert store.scram_credential(SHA_512, "alice") is not None


def test_keys_equal_those_of_rfc_7677() -> None:
    """The example exchange of the RFC: user "user", password "pencil"."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = credential_of_password(SHA_256, "pencil", salt, 4096)
    salted = pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    assert found == credential_of_salted_password(SHA_256, salted, salt, 4096)
    import hmac

    nonces = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonces},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonces}"
    ).encode()
    signature = hmac.digest(found.server_key, exchange, "sha256")
    assert signature == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


# Tokens


def test_user_enumeration_the_usual_iterations_are_those_of_most_users() -> None:
    store = Store()
    assert store.usual_iterations(SHA_256) == SCRAM_ITERATIONS_MIN
    store.replay(credential("a", iterations=16384), credential("b", iterations=16384), credential("c", iterations=8192))
    assert store.usual_iterations(SHA_256) == 16384
    assert store.usual_iterations(SHA_512) == SCRAM_ITERATIONS_MIN
    store.replay(credential("a", iterations=8192))
    assert store.usual_iterations(SHA_256) == 8192


def test_user_enumeration_all_nodes_of_a_cluster_use_the_same_fake_salts() -> None:
    def key(cluster_id: str) -> bytes:
        return CredentialPublisher(clock=FixedClock(), hmacs=None, cluster_id=cluster_id).disguise_key

    assert key("one") == key("one") != key("two")
    assert b"one" not in key("one")


def test_user_enumeration_the_token_secret_hides_fake_salts_from_cluster_id_holders() -> None:
    def key(secret: str | None) -> bytes:
        hmacs = None if secret is None else TokenHmacs(secret)
        return CredentialPublisher(clock=FixedClock(), hmacs=hmacs, cluster_id="one").disguise_key

    assert key(SECRET) == key(SECRET)
    assert len({key(None), key(SECRET), key("another")}) == 3


def test_user_enumeration_salts_of_tokens_look_like_those_of_known_and_unknown_users() -> None:
    assert re.fullmatch(b"[0-9a-z]{20,26}", TokenHmacs(SECRET).salt_of("t", SHA_256))


def test_a_token_logs_in_with_its_id_and_hmac() -> None:
    store = Store()
    store.replay(token())
    found = store.delegation_token("t")
    assert found is not None
    assert found.owner == Principal("User", "alice")
    assert b64decode(found.hmac) == TokenHmacs(SECRET).hmac_of("t")
    assert found.expires_at_ms == NOW_MS + 1000
    for mechanism, size in ((SHA_256, 32), (SHA_512, 64)):
        derived = found.scram_credentials[mechanism]
        assert derived == credential_of_password(mechanism, found.hmac, derived.salt, SCRAM_ITERATIONS_MIN)
        assert len(derived.stored_key) == size
    assert set(found.scram_credentials) == {SHA_256, SHA_512}
    assert len(found.scram_credentials) == 2
    with pytest.raises(KeyError):
        found.scram_credentials[ScramMechanism.UNKNOWN]


@pytest.mark.parametrize(("expiry_ms", "max_ms"), [(1000, 5000), (5000, 1000)])
def test_an_expired_token_is_not_found(expiry_ms: int, max_ms: int) -> None:
    store = Store()
    store.replay(token(expiry_ms=expiry_ms, max_ms=max_ms))
    store.clock.ms = NOW_MS + 1000
    assert store.delegation_token("t") is not None
    store.clock.ms += 1
    assert store.delegation_token("t") is None
    store.replay(token(expiry_ms=3000))
    assert store.delegation_token("t") is not None


def test_a_removed_token_is_not_found_despite_cached_keys() -> None:
    store = Store()
    store.replay(token())
    found = store.delegation_token("t")
    assert found is not None
    assert found.scram_credentials[SHA_256]
    store.replay(RemoveDelegationTokenRecord(token_id="t"))
    assert store.delegation_token("t") is None


def test_without_a_secret_key_no_token_is_found() -> None:
    store = Store(has_tokens=False)
    store.replay(token())
    assert store.delegation_token("t") is None
    assert token_hmacs_of(None) is None
    assert token_hmacs_of(Password("")) is None


def test_before_the_first_image_no_user_is_known() -> None:
    store = Store()
    assert store.delegation_token("t") is None
    assert store.scram_credential(SHA_256, "alice") is None


def test_derived_keys_are_cached_for_some_tokens_and_reproducible() -> None:
    store = Store(tokens_kept_max=2)
    store.replay(*(token(f"t{i}") for i in range(5)))
    first = store.delegation_token("t0")
    assert first is not None
    derived = first.scram_credentials[SHA_256]
    again = store.delegation_token("t0")
    assert again is not None
    assert again.scram_credentials[SHA_256] is derived
    for i in range(1, 5):
        assert store.delegation_token(f"t{i}") is not None
    after = store.delegation_token("t0")
    assert after is not None
    assert after.scram_credentials[SHA_256] is not derived
    assert after.scram_credentials[SHA_256] == derived, "the salt does not change within a login"


def test_salts_differ_between_tokens_and_mechanisms() -> None:
    hmacs = TokenHmacs(SECRET)
    salts = {hmacs.salt_of(token_id, mechanism) for token_id in ("a", "b") for mechanism in (SHA_256, SHA_512)}
    assert len(salts) == 4
    assert TokenHmacs("another").salt_of("a", SHA_256) not in salts


def test_owners_and_renewers_may_change_a_token_and_requesters_may_see_it() -> None:
    record = token(renewers=["User:carol", "Group:staff"])
    for text, may_change, may_see in (
        ("User:alice", True, True),
        ("User:carol", True, True),
        ("Group:staff", True, True),
        ("User:bob", False, True),
        ("Group:alice", False, False),
        ("User:dave", False, False),
    ):
        who = principal_of(text)
        assert (is_owner_or_renewer(record, who), is_concerned(record, who)) == (may_change, may_see), text
    assert is_owner_or_renewer(record, Principal("User", "alice", True))
    assert not is_owner_or_renewer(token(owner="User:a:b"), Principal("User:a", "b")), "a name may have a colon"


def test_a_token_ends_at_its_expiry_or_maximum_lifetime() -> None:
    assert expires_at_ms(token(expiry_ms=9, max_ms=5)) == NOW_MS + 5
    assert not is_expired(token(expiry_ms=5), NOW_MS + 5)
    assert is_expired(token(expiry_ms=5), NOW_MS + 6)


IDS = st.sampled_from([f"id{i}" for i in range(12)])


@given(st.lists(st.tuples(IDS, st.booleans(), st.booleans()), max_size=60))
def test_a_token_is_found_by_its_hmac_after_changes_of_others(steps: list[tuple[str, bool, bool]]) -> None:
    hmacs = TokenHmacs(SECRET)
    tokens: PersistentMap[str, DelegationTokenRecord] = PersistentMap()
    for token_id, is_put, is_looked_up in steps:
        tokens = tokens.updated({token_id: token(token_id)}) if is_put else tokens.updated({}, [token_id])
        if is_looked_up:
            for other_id in (f"id{i}" for i in range(12)):
                assert hmacs.find(hmacs.hmac_of(other_id), tokens) is tokens.get(other_id)
    assert hmacs.find(b"", tokens) is None
    assert hmacs.find(b"x" * 64, tokens) is None


def test_a_thousand_removed_tokens_leave_no_trace() -> None:
    hmacs = TokenHmacs(SECRET)
    tokens: PersistentMap[str, DelegationTokenRecord] = PersistentMap()
    for i in range(5000):
        token_id = f"t{i}"
        tokens = tokens.updated({token_id: token(token_id)}, [f"t{i - 3}"])
        assert hmacs.find(hmacs.hmac_of(token_id), tokens) is tokens[token_id]
    assert hmacs.find(hmacs.hmac_of("t4990"), tokens) is None
    assert len(hmacs._ids) < 2000


# Secrets


def test_no_repr_or_log_line_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = Store()
    store.replay(token(), credential("alice", key=b"stored key bytes"))
    found = store.delegation_token("t")
    scram = store.scram_credential(SHA_256, "alice")
    assert found is not None
    derived = found.scram_credentials[SHA_256]
    hmacs = TokenHmacs(SECRET)
    printed = " ".join(
        repr(holder)
        for holder in (store, store.image, store.image.scram, store.image.scram.by_key, scram, found, derived, hmacs)
        if holder is not None
    )
    printed += repr(found.scram_credentials) + repr(TokenScramCredentials(hmacs, "t", found.hmac)) + caplog.text
    for secret in (SECRET, found.hmac, "stored key bytes", repr(derived.stored_key), repr(derived.salt)):
        assert secret.strip("b'") not in printed
