"""The server of SASL/OAUTHBEARER (RFC 7628): one message with a bearer token, which a validator checks.

A refused token is answered with a small JSON object; the client then sends a single 0x01 and the exchange ends.
Extensions (``name=value`` next to the token) are parsed and kept, as in Kafka; nothing depends on them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.security.sasl.sasl_server import SaslFailure

if TYPE_CHECKING:
    from barnabas.security.principal import Principal

__all__ = ["BearerToken", "InitialResponse", "InvalidToken", "OAuthBearerServer", "TokenValidator"]

_MESSAGE_BYTES_MAX = 64 * 1024
_SEPARATOR = "\x01"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_INITIAL_RESPONSE = re.compile(rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTHORIZATION = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_REFUSAL = '{"status":"invalid_token"}'


class InvalidToken(Exception):
    """The reason to refuse a token; the text has nothing of the token but names of claims."""


class BearerToken(NamedTuple):
    """The claims of a valid token."""

    subject: str
    expires_at_ms: int
    scope: frozenset[str] = frozenset()


class TokenValidator(Protocol):
    def validate(self, token: str) -> BearerToken:
        """Return the claims or raise InvalidToken. Must return immediately: it runs on the event loop."""
        ...


class InitialResponse(NamedTuple):
    """The parsed message of the client."""

    token: str
    authorization_id: str
    extensions: dict[str, str]

    @classmethod
    def read(cls, data: bytes) -> InitialResponse:
        """Raises SaslFailure."""
        if len(data) > _MESSAGE_BYTES_MAX:
            raise SaslFailure(f"an OAUTHBEARER message longer than {_MESSAGE_BYTES_MAX} bytes")
        match = _INITIAL_RESPONSE.fullmatch(data.decode("utf-8", "replace"))
        if match is None:
            raise SaslFailure("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(_SEPARATOR) if pair)
        authorization = pairs.pop("auth", None)
        if authorization is None:
            raise SaslFailure("Invalid OAUTHBEARER client first message: 'auth' not specified")
        bearer = _AUTHORIZATION.fullmatch(authorization)
        if bearer is None:
            raise SaslFailure("Invalid OAUTHBEARER client first message: invalid 'auth' format")
        if bearer["scheme"].lower() != "bearer":
            raise SaslFailure("Invalid scheme in OAUTHBEARER client first message")
        return cls(bearer["token"], match["authzid"] or "", pairs)


class OAuthBearerServer:
    __slots__ = ("_refusal", "_token", "_validator", "authorization_id", "extensions", "is_complete")

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._token: BearerToken | None = None
        self._refusal: str | None = None
        self.authorization_id = ""
        self.extensions: dict[str, str] = {}
        self.is_complete = False

    @property
    def session_expires_at_ms(self) -> int | None:
        return None if self._token is None else self._token.expires_at_ms

    @property
    def token_owner(self) -> Principal | None:
        return None

    def evaluate_response(self, response: bytes) -> bytes:
        if self.is_complete:
            raise SaslFailure("a message after a complete exchange")
        if self._refusal is not None:
            raise SaslFailure(self._refusal, public_message=_REFUSAL)
        initial = InitialResponse.read(response)
        try:
            token = self._validator.validate(initial.token)
        except InvalidToken as error:
            self._refusal = str(error)
            return _REFUSAL.encode()
        if initial.authorization_id and initial.authorization_id != token.subject:
            raise SaslFailure(
                "the authorization id is not the token's principal name",
                public_message=(
                    f"Authentication failed: Client requested an authorization id ({initial.authorization_id}) that is "
                    f"different from the token's principal name ({token.subject})"
                ),
            )
        self._token = token
        self.authorization_id = token.subject
        self.extensions = initial.extensions
        self.is_complete = True
        return b""
