"""Kafka's UUID: sixteen bytes, written as URL-safe base64 without padding (22 characters)."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from typing import ClassVar

__all__ = ["Uuid"]

_RESERVED_BELOW = 100
_TEXT_LENGTH_MAX = 24


class Uuid(bytes):
    """An immutable 16-byte id that hashes and compares as its bytes."""

    __slots__ = ()

    ZERO: ClassVar[Uuid]
    ONE: ClassVar[Uuid]
    METADATA_TOPIC_ID: ClassVar[Uuid]

    @classmethod
    def from_string(cls, text: str) -> Uuid:
        """Parse the textual form; raises ValueError for anything that is not 16 bytes of base64."""
        if len(text) > _TEXT_LENGTH_MAX:
            raise ValueError(
                f"Input string with prefix `{text[:_TEXT_LENGTH_MAX]}` is too long to be decoded as a base64 UUID"
            )
        try:
            raw = _decode(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a base64 UUID") from error
        if len(raw) != 16:
            raise ValueError(
                f"Input string `{text}` decoded as {len(raw)} bytes, "
                "which is not equal to the expected 16 bytes of a base64-encoded UUID"
            )
        return cls(raw)

    @classmethod
    def from_int(cls, value: int) -> Uuid:
        return cls(value.to_bytes(16, "big"))

    def to_int(self) -> int:
        return int.from_bytes(self, "big")

    @property
    def is_reserved(self) -> bool:
        """True for the ids below 100, which Kafka reserves (directory ids, metadata topic)."""
        return self.to_int() < _RESERVED_BELOW

    def __str__(self) -> str:
        return urlsafe_b64encode(self).rstrip(b"=").decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


def _decode(text: str) -> bytes:
    """Decode URL-safe base64 as Java does: padding may be missing but not wrong, "+" and "/" are invalid."""
    if "+" in text or "/" in text or (text.endswith("=") and len(text) % 4):
        raise ValueError("not URL-safe base64")
    return b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)


Uuid.ZERO = Uuid(bytes(16))
Uuid.ONE = Uuid.from_int(1)
Uuid.METADATA_TOPIC_ID = Uuid.ONE
