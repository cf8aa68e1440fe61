"""The client's side of SASL, for barnabas's own clients and tools. Challenges in, responses out.

An exchange begins with ``evaluate_challenge(b"")``, which returns the first message, and continues until
``is_complete``. SCRAM is complete only when the server has proved that it knows the password too (RFC 5802): a server
that only reports success is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Protocol

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN
from barnabas.security.sasl.sasl_server import SaslFailure
from barnabas.security.sasl.scram import new_nonce, server_signature, sign, signed_text
from barnabas.security.sasl.scram_messages import (
    TOKEN_AUTH_EXTENSION,
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
)
from barnabas.security.scram_credentials import salted_password_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.common.scram_mechanism import ScramMechanism

__all__ = ["OAuthBearerClient", "PlainClient", "SaslClient", "ScramClient"]

_NO_CHANNEL_BINDING = "biws"
_ITERATIONS_MAX = 1_000_000
"""Each iteration costs the client time: a server that requires more than half a second is not answered."""
_SEPARATOR = "\x01"
_EXTENSION_NAME = re.compile("[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class SaslClient(Protocol):
    """One exchange. ``mechanism_name`` is the mechanism for SaslHandshake."""

    mechanism_name: str

    def evaluate_challenge(self, challenge: bytes) -> bytes:
        """Return the next message, b"" when none is due. Raises SaslFailure when the server's proof is wrong."""
        ...

    @property
    def is_complete(self) -> bool: ...


class PlainClient:
    mechanism_name = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user or "\0" in password:
            raise ValueError("neither user nor password may contain a NUL character")
        self._message = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def evaluate_challenge(self, challenge: bytes) -> bytes:
        if self.is_complete:
            if challenge:
                raise SaslFailure.public("the server continues after a complete PLAIN exchange")
            return b""
        self.is_complete = True
        return self._message


class ScramClient:
    """``token_auth`` means that the user is a delegation token's id and the password its HMAC in base64."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: str,
        *,
        token_auth: bool = False,
        extensions: Mapping[str, str] | None = None,
        nonce: str | None = None,
    ) -> None:
        self.mechanism_name = mechanism.mechanism_name
        self._mechanism = mechanism
        self._password = password
        all_extensions = dict(extensions or {})
        if token_auth:
            all_extensions[TOKEN_AUTH_EXTENSION] = "true"
        self._first = ClientFirst.of(user, nonce or new_nonce(), all_extensions)
        self._has_begun = False
        self._expected_signature: bytes | None = None
        self.is_complete = False

    def evaluate_challenge(self, challenge: bytes) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            return self._first.text().encode()
        if self.is_complete:
            raise SaslFailure.public("the server continues after a complete SCRAM exchange")
        try:
            if self._expected_signature is None:
                return self._prove(ServerFirst.read(challenge))
            self._check(ServerFinal.read(challenge))
        except ValueError as error:
            raise SaslFailure.public(str(error)) from None
        return b""

    def _prove(self, sent: ServerFirst) -> bytes:
        if not sent.nonce.startswith(self._first.nonce):
            raise SaslFailure.public("Invalid server nonce: does not start with client nonce")
        if sent.iterations < SCRAM_ITERATIONS_MIN:
            raise SaslFailure.public(
                f"Requested iterations {sent.iterations} is less than the minimum {SCRAM_ITERATIONS_MIN} for "
                f"{self._mechanism.name}"
            )
        if sent.iterations > _ITERATIONS_MAX:
            raise SaslFailure.public(f"Requested iterations {sent.iterations} are more than {_ITERATIONS_MAX}")
        digest = self._mechanism.digest
        salted = salted_password_of(self._mechanism, self._password, sent.salt, sent.iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        final = ClientFinal(_NO_CHANNEL_BINDING, sent.nonce, b"")
        text = signed_text(self._first, sent, final)
        signature = sign(hashlib.new(digest, client_key).digest(), text, digest)
        self._expected_signature = server_signature(hmac.digest(salted, b"Server Key", digest), text, digest)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        return final._replace(proof=proof).text().encode()

    def _check(self, final: ServerFinal) -> None:
        if final.error:
            raise SaslFailure.public(
                f"Sasl authentication using {self.mechanism_name} failed with error: {final.error}"
            )
        if not hmac.compare_digest(final.signature, self._expected_signature or b""):
            raise SaslFailure.public("Invalid server signature in server final message")
        self.is_complete = True


class OAuthBearerClient:
    """RFC 7628. ``token`` returns the token of each exchange, as text."""

    mechanism_name = "OAUTHBEARER"

    def __init__(self, token: Callable[[], str], extensions: Mapping[str, str] | None = None) -> None:
        for name, value in (extensions or {}).items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"{name!r} is not a name and value that a SASL extension may have")
        self._token = token
        self._extensions = dict(extensions or {})
        self._has_begun = False
        self.is_complete = False

    def evaluate_challenge(self, challenge: bytes) -> bytes:
        """If the server refuses the token, send the empty answer that lets it report the failure, then fail."""
        if not self._has_begun:
            self._has_begun = True
            pairs = "".join(f"{name}={value}{_SEPARATOR}" for name, value in self._extensions.items())
            return f"n,,{_SEPARATOR}auth=Bearer {self._token()}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()
        if challenge:
            return _SEPARATOR.encode()
        self.is_complete = True
        return b""
