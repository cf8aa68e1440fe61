"""SASL/PLAIN (RFC 4616): ``[authzid] NUL user NUL password`` in one message, compared with the listener's JAAS line.

The line's options ``user_<name>="<password>"`` are the users. Passwords are compared in constant time, also for an
unknown user. An authorization id must be empty or the user's own name.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from barnabas.security.sasl.sasl_server import SaslFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.security.principal import Principal

__all__ = ["PlainServer", "plain_users"]

_USER_OPTION = "user_"
_TOKENS_COUNTED = 4


def plain_users(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords in a JAAS line's options, by user name."""
    return {name[len(_USER_OPTION) :]: value for name, value in options.items() if name.startswith(_USER_OPTION)}


class PlainServer:
    __slots__ = ("_passwords", "authorization_id", "is_complete")

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.authorization_id = ""
        self.is_complete = False

    @property
    def session_expires_at_ms(self) -> int | None:
        return None

    @property
    def token_owner(self) -> Principal | None:
        return None

    def evaluate_response(self, response: bytes) -> bytes:
        if self.is_complete:
            raise SaslFailure("a second message after a complete exchange")
        authorization_id, user, password = _tokens(response)
        if not user:
            raise SaslFailure.public("Authentication failed: username not specified")
        if not password:
            raise SaslFailure.public("Authentication failed: password not specified")
        if not self._is_right(user, password):
            raise SaslFailure.public("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslFailure.public(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authorization_id = user
        self.is_complete = True
        return b""

    def _is_right(self, user: str, password: str) -> bool:
        expected = self._passwords.get(user)
        known = expected is not None
        shown = password.encode()
        return hmac.compare_digest((expected if expected is not None else password + " ").encode(), shown) and known


def _tokens(response: bytes) -> tuple[str, str, str]:
    """Decode as Java does: invalid UTF-8 becomes U+FFFD, which no password contains."""
    tokens = response.decode("utf-8", "replace").split("\0", _TOKENS_COUNTED)[:_TOKENS_COUNTED]
    if len(tokens) != 3:
        raise SaslFailure.public(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
    return tokens[0], tokens[1], tokens[2]
