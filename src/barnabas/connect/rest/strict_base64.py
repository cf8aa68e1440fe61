"""Base64 as Java's basic decoder reads it: strict characters, padding that may be missing, its words for what is wrong.

Other workers see these words in their logs, and the REST captures have them, so they are Java's.
"""

from __future__ import annotations

import base64
import string

__all__ = ["MalformedBase64", "decode"]

_ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
_VALID = frozenset(_ALPHABET.encode())
_PADDING = ord("=")


class MalformedBase64(ValueError):
    """The text says what is wrong."""


def decode(text: str) -> bytes:
    """The bytes; an empty text is none. Raises MalformedBase64."""
    # Java gives the decoder one byte a character, and a question mark for what has no byte.
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
    """How many characters come before the first padding, all of them of the alphabet."""
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
    """A Java byte is signed."""
    return format(value - 256 if value > 127 else value, "x")
