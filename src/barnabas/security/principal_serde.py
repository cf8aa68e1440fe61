"""Encodes a principal for forwarded requests: Kafka's DefaultPrincipalData.

Two bytes of version (0 is the only one), then type, name and whether a delegation token authenticated it.
"""

from __future__ import annotations

from barnabas.protocol.errors import DecodeError, UnsupportedVersion
from barnabas.protocol.record_serde import decode_versioned, encode_versioned
from barnabas.protocol.records.default_principal_data import DefaultPrincipalData
from barnabas.security.principal import Principal

__all__ = ["InvalidPrincipalBytes", "deserialize_principal", "serialize_principal"]

_VERSION = 0


class InvalidPrincipalBytes(ValueError):
    """The bytes are not a principal: their envelope is answered with PRINCIPAL_DESERIALIZATION_FAILURE."""


def serialize_principal(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    return encode_versioned(data, _VERSION)


def deserialize_principal(data: bytes | memoryview | None) -> Principal:
    """Raises InvalidPrincipalBytes for null, for bytes that end too early, and for another version."""
    if data is None:
        raise InvalidPrincipalBytes("the bytes are missing")
    try:
        read, version = decode_versioned(DefaultPrincipalData, data)
        if version != _VERSION:
            raise UnsupportedVersion(f"Invalid principal data version {version}")
    except DecodeError as error:
        raise InvalidPrincipalBytes(str(error)) from error
    return Principal(read.type, read.name, read.token_authenticated)
