"""The port through which SASL reads the credentials of a login.

SCRAM credentials and delegation tokens live in the metadata log; its follower implements ``CredentialStore``.
An implementation answers from memory and immediately: it is called on the event loop, during an exchange. None of
these values shows its secrets in its repr.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.common.scram_mechanism import ScramMechanism
    from barnabas.security.principal import Principal

__all__ = ["CredentialStore", "ScramCredential", "TokenCredential"]


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A server's form of a password (RFC 5802): it can check a proof, but not create one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """One delegation token. A client logs in with the token's id as user and its HMAC, in base64, as password."""

    token_id: str
    owner: Principal
    hmac: str = field(repr=False)
    """Base64, as the owner received it."""
    expires_at_ms: int
    """The earlier of its expiry and its end of life. The port may still return an expired token; SASL refuses it."""
    scram_credentials: Mapping[ScramMechanism, ScramCredential] = field(repr=False)
    """Derived from ``hmac``. The mapping may derive them on first access: PBKDF2 takes milliseconds."""


class CredentialStore(Protocol):
    @property
    def disguise_key(self) -> bytes:
        """The key for salts of unknown users; the same in the cluster, so that all nodes answer alike.

        Empty where it may differ each time.
        """
        ...

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        """The iterations of most users of the mechanism, for unknown users."""
        ...

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """The user's credential for this mechanism; None if the user does not exist or has none."""
        ...

    def delegation_token(self, token_id: str) -> TokenCredential | None: ...
