"""Delegation tokens: their validity and their owners.

A token is an entry of the metadata log. Its HMAC, which the owner logs in with, is not stored: it is computed from
``delegation.token.secret.key`` and the token's id. So every node must have the same key, and a reader of the log
learns no HMAC.
"""

from __future__ import annotations

import hmac
from collections.abc import Container, Iterator, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.security.principal import Principal
from barnabas.security.sasl.credential_store import ScramCredential
from barnabas.security.scram_credentials import credential_of_password

if TYPE_CHECKING:
    from barnabas.common.config_value import Password
    from barnabas.metadata.persistent_map import PersistentMap
    from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord

__all__ = [
    "TokenHmacs",
    "TokenScramCredentials",
    "expires_at_ms",
    "is_concerned",
    "is_expired",
    "is_owner_or_renewer",
    "principal_of",
    "token_hmacs_of",
]

_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def principal_of(text: str) -> Principal:
    """Return the principal that a record names as ``Type:name``; a name may have colons."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def is_owner_or_renewer(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether the principal may change the token; the requester of another's token may not."""
    return _is_one_of(principal, (token.owner, *token.renewers))


def is_concerned(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether the principal may see the token; as in Kafka, the requester may."""
    return _is_one_of(principal, (token.owner, token.requester, *token.renewers))


def _is_one_of(principal: Principal, texts: Container[str]) -> bool:
    # In the text of a record the first colon ends the type, so a record can't name a type with a colon.
    return ":" not in principal.type and str(principal) in texts


def expires_at_ms(token: DelegationTokenRecord) -> int:
    """The last millisecond in which the token is valid."""
    return min(token.expiration_timestamp, token.max_timestamp)


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return expires_at_ms(token) < now_ms


class TokenHmacs:
    """The HMACs of one secret: of a token, and back to the token.

    Looking a token up by its HMAC needs the HMACs of all tokens. They are kept under a digest, so that the time of a
    lookup reveals nothing about them. A lookup updates them with the changes of the image since the last lookup.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._ids: dict[bytes, str] = {}
        self._tokens: PersistentMap[str, DelegationTokenRecord] | None = None

    def __repr__(self) -> str:
        return f"TokenHmacs({len(self._ids)} known)"

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def key_for(self, purpose: str) -> bytes:
        """Return another secret that all nodes share; never a token's HMAC, because ids have no spaces."""
        return self.hmac_of(f"key for {purpose}")

    def salt_of(self, token_id: str, mechanism: ScramMechanism) -> bytes:
        """Return a salt that only the secret can predict, and that is the same for each request.

        It looks like a user's: it must not reveal whether a guessed id exists.
        """
        from barnabas.security.sasl.scram import random_text

        data = hmac.digest(self._secret, f"{mechanism.mechanism_name} salt {token_id}".encode(), "sha512")
        return random_text(data).encode()

    def find(self, wanted: bytes, tokens: PersistentMap[str, DelegationTokenRecord]) -> DelegationTokenRecord | None:
        """The token among ``tokens`` that has this HMAC."""
        self._follow(tokens)
        token = tokens.get(self._ids.get(sha256(wanted).digest(), ""))
        if token is None or not compare_digest(self.hmac_of(token.token_id), wanted):
            return None
        return token

    def _follow(self, tokens: PersistentMap[str, DelegationTokenRecord]) -> None:
        if tokens is self._tokens:
            return
        before = self._tokens
        if before is None or len(self._ids) > 2 * len(tokens) + 1000:
            self._ids.clear()  # Mostly of deleted tokens.
            new: Iterator[str] = iter(tokens)
        else:
            new = tokens.keys_not_shared_with(before)
        for token_id in new:
            self._ids[sha256(self.hmac_of(token_id)).digest()] = token_id
        self._tokens = tokens


def token_hmacs_of(secret_key: Password | None) -> TokenHmacs | None:
    """The HMACs of ``delegation.token.secret.key``; without a key no token is valid."""
    return TokenHmacs(secret_key.value) if secret_key is not None and secret_key.value else None


class TokenScramCredentials(Mapping[ScramMechanism, ScramCredential]):
    """A token's SCRAM credentials, derived on first use: a login needs one mechanism, not both."""

    __slots__ = ("_derived", "_hmacs", "_password", "_token_id")

    def __init__(self, hmacs: TokenHmacs, token_id: str, password: str) -> None:
        self._hmacs = hmacs
        self._token_id = token_id
        self._password = password
        self._derived: dict[ScramMechanism, ScramCredential] = {}

    def __getitem__(self, mechanism: ScramMechanism) -> ScramCredential:
        known = self._derived.get(mechanism)
        if known is None:
            if mechanism not in _MECHANISMS:
                raise KeyError(mechanism)
            salt = self._hmacs.salt_of(self._token_id, mechanism)
            known = credential_of_password(mechanism, self._password, salt, SCRAM_ITERATIONS_MIN)
            self._derived[mechanism] = known
        return known

    def __iter__(self) -> Iterator[ScramMechanism]:
        return iter(_MECHANISMS)

    def __len__(self) -> int:
        return len(_MECHANISMS)

    def __repr__(self) -> str:
        return f"TokenScramCredentials({self._token_id!r})"
