"""Provides SASL with the credentials of the newest metadata image.

A change takes effect with its image, before the controller answers the request for it.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN
from barnabas.security.delegation_tokens import (
    TokenHmacs,
    TokenScramCredentials,
    expires_at_ms,
    is_expired,
    principal_of,
)
from barnabas.security.sasl.credential_store import ScramCredential, TokenCredential

if TYPE_CHECKING:
    from barnabas.common.clock import Clock
    from barnabas.common.scram_mechanism import ScramMechanism
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.persistent_map import PersistentMap
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord

__all__ = ["CredentialPublisher"]

_TOKENS_KEPT_MAX = 10_000
"""Tokens whose derived credentials are kept, at some 500 bytes each. Others are derived again, in milliseconds."""


class CredentialPublisher:
    """A MetadataPublisher, and the node's CredentialStore. Without ``hmacs`` no token is known."""

    def __init__(
        self,
        *,
        clock: Clock,
        hmacs: TokenHmacs | None,
        cluster_id: str = "",
        tokens_kept_max: int = _TOKENS_KEPT_MAX,
    ) -> None:
        self._clock = clock
        self._cluster_id = cluster_id
        self._usual: tuple[object, dict[int, int]] = (None, {})
        self._hmacs = hmacs
        self._kept_max = tokens_kept_max
        self._image: MetadataImage | None = None
        self._kept: OrderedDict[str, _KeptToken] = OrderedDict()

    # --- MetadataPublisher

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        self._image = new_image

    # --- CredentialStore

    @property
    def disguise_key(self) -> bytes:
        """Derived from a value that every node has: the token secret, else the cluster id, shown only after a login."""
        if not self._cluster_id:
            return b""
        secret = self._cluster_id.encode() if self._hmacs is None else self._hmacs.key_for(self._cluster_id)
        return hmac.digest(secret, b"salts of unknown users", "sha256")

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        """Computed once for each change of the credentials."""
        if self._image is None:
            return SCRAM_ITERATIONS_MIN
        scram = self._image.scram
        if self._usual[0] is not scram:
            counts: dict[int, Counter[int]] = {}
            for record in scram.by_key.values():
                counts.setdefault(record.mechanism, Counter())[record.iterations] += 1
            self._usual = (scram, {key: max(votes, key=lambda n: (votes[n], -n)) for key, votes in counts.items()})
        return self._usual[1].get(int(mechanism), SCRAM_ITERATIONS_MIN)

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        record = None if self._image is None else self._image.scram.by_key.get((int(mechanism), user))
        if record is None:
            return None
        return ScramCredential(
            salt=record.salt, stored_key=record.stored_key, server_key=record.server_key, iterations=record.iterations
        )

    def delegation_token(self, token_id: str) -> TokenCredential | None:
        """None for a token that is expired: the controller may need a while to remove it."""
        if self._image is None or self._hmacs is None:
            return None
        tokens: PersistentMap[str, DelegationTokenRecord] = self._image.delegation_tokens.by_key
        token = tokens.get(token_id)
        if token is None or is_expired(token, self._clock.now_ms()):
            return None
        kept = self._keep(token_id, self._hmacs)
        return TokenCredential(
            token_id=token_id,
            owner=principal_of(token.owner),
            hmac=kept.hmac,
            expires_at_ms=expires_at_ms(token),
            scram_credentials=kept.scram_credentials,
        )

    def _keep(self, token_id: str, hmacs: TokenHmacs) -> _KeptToken:
        kept = self._kept.get(token_id)
        if kept is not None:
            self._kept.move_to_end(token_id)
            return kept
        kept = self._kept[token_id] = _KeptToken(token_id, hmacs)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return kept


class _KeptToken:
    """The values derived from a token's id and the secret alone, independent of its expiry."""

    __slots__ = ("hmac", "scram_credentials")

    def __init__(self, token_id: str, hmacs: TokenHmacs) -> None:
        self.hmac = b64encode(hmacs.hmac_of(token_id)).decode()
        self.scram_credentials = TokenScramCredentials(hmacs, token_id, self.hmac)
