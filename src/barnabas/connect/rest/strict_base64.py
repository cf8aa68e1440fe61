"""Base64 as Java's basic decoder reads it: strict characters, optional padding, its error texts.

Other workers log these texts, and the REST captures contain them, so they are Java's.
"""

from __future__ import annotations

import base64
import string

__all__ = ["MalformedBase64", "decode"]

_ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
_VALID = frozenset(_ALPHABET.encode())
_PADDING = ord("=")


class MalformedBase64(ValueError):
    """Invalid base64. The text describes the error."""


def decode(text: str) -> bytes:
    """Return the bytes; empty for an empty text. Raise MalformedBase64."""
    # Java passes the decoder one byte a character, and a question mark for a character without a byte.
    data = text.encode("latin-1", "replace")
    if not data:
        return b""
    if len(data) < 2:
        raise MalformedBase64("Input byte[] should at least have 2 bytes for base64 bytes")
    digits = _digit_count(data)
    rest = digits % 4
    if digits < len(data):
        _check_padding(data, digits)
    if rest == 1:
        raise MalformedBase64("Last unit does not have enough valid bits")
    return base64.b64decode(data[:digits] + b"=" * (-digits % 4))


def _digit_count(data: bytes) -> int:
    """Return how many characters precede the first padding, all of them of the alphabet."""
    for index, value in enumerate(data):
        if value == _PADDING:
            return index
        if value not in _VALID:
            raise MalformedBase64(f"Illegal base64 character {_signed_hex(value)}")
    return len(data)


def _check_padding(data: bytes, digits: int) -> None:
    rest, end = digits % 4, digits + 1
    if rest == 2:
        if data[end : end + 1] != b"=":
            raise MalformedBase64("Input byte array has wrong 4-byte ending unit")
        end += 1
    elif rest == 0:
        raise MalformedBase64("Input byte array has wrong 4-byte ending unit")
    elif rest == 1:
        raise MalformedBase64("Last unit does not have enough valid bits")
    if end < len(data):
        raise MalformedBase64(f"Input byte array has incorrect ending byte at {end}")


def _signed_hex(value: int) -> str:
    """Format a byte as Java does, signed."""
    return format(value - 256 if value > 127 else value, "x")
