"""The errors of decoders are ``DecodeError`` and its subclasses.

They mean that bytes of a peer or of the disk do not have the expected form: the connection closes, the file is damaged.
``EncodeError`` is for the other direction: our own code tried to encode a message that its version cannot carry.
"""

__all__ = [
    "BufferUnderflow",
    "CorruptRecordError",
    "DecodeError",
    "DecodeLimitExceeded",
    "DecompressionLimitExceeded",
    "EncodeError",
    "InvalidCompressedData",
    "InvalidLength",
    "InvalidRecordError",
    "InvalidTaggedFields",
    "InvalidVarint",
    "TooManyElements",
    "TrailingBytes",
    "UnexpectedNull",
    "UnknownMessageType",
    "UnsupportedCompression",
    "UnsupportedMagic",
    "UnsupportedVersion",
]


class DecodeError(Exception):
    """The bytes are not a value of the expected type. A decoder raises no other error."""


class DecodeLimitExceeded(DecodeError):
    """The message has more elements or tagged fields than its reader accepts; nothing was allocated for them."""


class TooManyElements(DecodeLimitExceeded):
    """The message has more elements in total than its reader accepts."""


class BufferUnderflow(DecodeError):
    """The bytes end before the value does."""


class InvalidLength(DecodeError):
    """A length or count is negative where it may not be, or larger than the remaining bytes could hold."""


class InvalidVarint(DecodeError):
    """A variable-length integer is longer than its type allows."""


class UnexpectedNull(DecodeError):
    """A field that is not nullable is null."""


class InvalidTaggedFields(DecodeError):
    """The tagged fields of a structure are out of order, doubled, or of a size that does not fit their value."""


class UnsupportedVersion(DecodeError):
    """The message exists, but not in this version."""


class UnknownMessageType(DecodeError):
    """The number (of an API, a record, a key) is unknown."""


class TrailingBytes(DecodeError):
    """A value that must fill its frame leaves bytes unread."""


class CorruptRecordError(DecodeError):
    """A record batch contradicts itself: length, checksum, attributes, counts or the framing of a record."""


class InvalidRecordError(CorruptRecordError):
    """A record inside a batch whose frame and checksum are right cannot be read."""


class UnsupportedMagic(DecodeError):
    """The record format is not version 2. The two older ones (magic 0 and 1) are refused, not converted."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record batch magic {magic} is not supported: only record format 2 is read and written")
        self.magic = magic


class UnsupportedCompression(CorruptRecordError):
    """The attributes name a compression type that does not exist."""


class InvalidCompressedData(CorruptRecordError):
    """The compressed bytes cannot be decompressed."""


class DecompressionLimitExceeded(CorruptRecordError):
    """The decompressed bytes would be more than the stated limit."""


class EncodeError(ValueError):
    """A value that cannot be written: out of the range of its type, or set in a version without the field."""
