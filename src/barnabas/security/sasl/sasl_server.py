"""The server's side of one exchange: the client's bytes in, the answer's bytes out, until the client has logged in.

A server is created for each exchange and dropped after it. It does no I/O and knows nothing about frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.security.principal import Principal

__all__ = ["SaslFailure", "SaslServer"]


class SaslFailure(Exception):
    """The client's proof is wrong, or its message violates the mechanism. The exchange is over.

    ``public_message`` is sent to the client; if it is None, the authenticator only reports that the login failed.
    ``reason`` is for our log: it reveals neither passwords nor tokens, nor whether the user exists.
    """

    def __init__(self, reason: str, *, public_message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.public_message = public_message

    @classmethod
    def public(cls, message: str) -> SaslFailure:
        """A failure whose reason the client may read."""
        return cls(message, public_message=message)


class SaslServer(Protocol):
    """Read-only attributes are None or False until ``is_complete``."""

    def evaluate_response(self, response: bytes) -> bytes:
        """Return the next challenge, possibly empty. Raises SaslFailure; no other exception may escape."""
        ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def authorization_id(self) -> str: ...

    @property
    def session_expires_at_ms(self) -> int | None:
        """When the client's credential (a token) expires, in wall-clock time; None if it doesn't."""
        ...

    @property
    def token_owner(self) -> Principal | None:
        """The owner of the delegation token that the client logged in with; None without a token."""
        ...
