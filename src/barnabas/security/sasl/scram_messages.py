"""The messages of SCRAM (RFC 5802, section 7), parsed as in Kafka: any other form is refused.

Kafka's deviations: user names and values are ASCII; a reserved ``m=`` attribute is skipped instead of refused; the
channel binding (``c=``) is ignored because channels are never bound; and extensions of the final message are not
signed.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

__all__ = [
    "TOKEN_AUTH_EXTENSION",
    "ClientFinal",
    "ClientFirst",
    "InvalidScramMessage",
    "ServerFinal",
    "ServerFirst",
    "sasl_name",
    "user_name",
]

TOKEN_AUTH_EXTENSION = "tokenauth"

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_VALUE_SAFE = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,"
    rf"{_RESERVED}(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS},p=(?P<proof>{_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE_SAFE}))|(?:v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class InvalidScramMessage(ValueError):
    """The text is not the expected message. The error does not repeat it: it may contain a secret."""


class ClientFirst(NamedTuple):
    authorization_id: str
    """The authorization id as a SASL name, not decoded; empty if absent."""
    name: str
    """The user as a SASL name."""
    nonce: str
    extensions: dict[str, str]
    bare: str
    """The signed part: the message without its GS2 header, and without a reserved attribute."""

    @property
    def is_token_authenticated(self) -> bool:
        return self.extensions.get(TOKEN_AUTH_EXTENSION, "").lower() == "true"

    @classmethod
    def read(cls, data: bytes) -> ClientFirst:
        match = _match(_CLIENT_FIRST, data, "client first message")
        extensions = dict(item.split("=", 1) for item in match["extensions"].split(",") if item)
        return cls(match["authzid"] or "", match["name"], match["nonce"], extensions, match["bare"])

    def text(self) -> str:
        authorization_id = f"a={self.authorization_id}" if self.authorization_id else ""
        return f"n,{authorization_id},{self.bare}"

    @classmethod
    def of(cls, user: str, nonce: str, extensions: dict[str, str]) -> ClientFirst:
        parts = [f"n={sasl_name(user)}", f"r={nonce}", *(f"{key}={value}" for key, value in extensions.items())]
        return cls("", sasl_name(user), nonce, extensions, ",".join(parts))


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def read(cls, data: bytes) -> ServerFirst:
        match = _match(_SERVER_FIRST, data, "server first message")
        iterations = int(match["iterations"][:10])
        if not 0 < iterations < 2**31:
            raise InvalidScramMessage("Invalid SCRAM server first message format: invalid iterations")
        return cls(match["nonce"], b64decode(match["salt"]), iterations)

    def text(self) -> str:
        return f"r={self.nonce},s={b64encode(self.salt).decode()},i={self.iterations}"


class ClientFinal(NamedTuple):
    channel_binding: str
    nonce: str
    proof: bytes

    @classmethod
    def read(cls, data: bytes) -> ClientFinal:
        match = _match(_CLIENT_FINAL, data, "client final message")
        return cls(match["channel"], match["nonce"], b64decode(match["proof"]))

    @property
    def without_proof(self) -> str:
        return f"c={self.channel_binding},r={self.nonce}"

    def text(self) -> str:
        return f"{self.without_proof},p={b64encode(self.proof).decode()}"


class ServerFinal(NamedTuple):
    signature: bytes
    error: str = ""

    @classmethod
    def read(cls, data: bytes) -> ServerFinal:
        match = _match(_SERVER_FINAL, data, "server final message")
        if match["error"] is not None:
            return cls(b"", match["error"])
        return cls(b64decode(match["signature"]))

    def text(self) -> str:
        return f"v={b64encode(self.signature).decode()}"


def sasl_name(user: str) -> str:
    """Return a user name in the form of a message."""
    return user.replace("=", "=3D").replace(",", "=2C")


def user_name(name: str) -> str:
    """Return the user name of a SASL name. Raises ValueError for an equals sign that escapes nothing."""
    with_commas = name.replace("=2C", ",")
    if "=" in with_commas.replace("=3D", ""):
        raise ValueError("Invalid username: an equals sign in it is not escaped")
    return with_commas.replace("=3D", "=")


def _match(pattern: re.Pattern[str], data: bytes, what: str) -> re.Match[str]:
    match = pattern.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise InvalidScramMessage(f"Invalid SCRAM {what} format")
    return match
