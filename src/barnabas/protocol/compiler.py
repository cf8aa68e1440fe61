"""Compiles a declared message at one version to a reader and a writer of straight-line source.

Runs of fixed-size fields become one ``struct`` call, lengths join the run before them, nested structs are
inlined as loops: no per-field dispatch is left. Both functions are kept on the class, one per version.

A reader accepts the same bytes as Kafka's generated readers: invalid UTF-8 becomes U+FFFD, any byte but 0 is
true, varints may be overlong, tags may have any order. A length is checked against the remaining bytes
before anything is allocated for it; so are counts of elements and of tagged fields, against the ``DecodeLimits``.
"""

from __future__ import annotations

from struct import error as packing_error
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.compiler_runtime import (
    ONE_BYTE,
    compact_length,
    compact_string_length,
    misuse,
    null_not_allowed,
    read_unsigned_varint,
    too_long,
    too_many_elements,
    too_many_tags,
    underflow,
    unsupported_field,
    write_tagged_fields,
    wrong_tag,
)
from barnabas.protocol.decode_limits import UNLIMITED
from barnabas.protocol.errors import DecodeError, EncodeError
from barnabas.protocol.message_reader import MessageReader
from barnabas.protocol.message_writer import MessageWriter

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message, Struct

__all__ = ["compile_reader", "compile_writer", "encode_struct", "write_struct"]


def compile_writer(cls: type[Message], version: int) -> Any:
    """A function ``(message, append)`` that appends the encoded pieces; kept on the class."""
    _check_version(cls, version, EncodeError)
    cls._writers[version] = writer = _compile_writer(cls, version, cls.is_flexible(version))
    return writer


def encode_struct(struct: Struct, version: int, *, flexible: bool) -> bytes:
    """Encode a nested struct as inside a message of that version: for responses joined from kept pieces."""
    chunks: list[bytes] = []
    write_struct(struct, version, chunks, flexible=flexible)
    return b"".join(chunks)


def write_struct(struct: Struct, version: int, chunks: list[bytes], *, flexible: bool) -> None:
    """Append to ``chunks`` what ``encode_struct`` returns."""
    writers = type(struct)._writers
    writer = writers.get(version)
    if writer is None:
        writer = writers[version] = _compile_writer(type(struct), version, flexible)
    writer(struct, chunks.append)


def _compile_writer(cls: type[Struct], version: int, flexible: bool) -> Any:
    source = MessageWriter(version, flexible)
    source.emit("try:")
    source.indent += 1
    source.emit("pass")
    source.struct(cls, "o")
    source.indent -= 1
    source.emit("except (AttributeError, TypeError, ValueError, OverflowError, packing_error) as error:")
    source.emit("    raise misuse(o, error) from error")
    names = {
        "ONE_BYTE": ONE_BYTE,
        "compact_length": compact_length,
        "compact_string_length": compact_string_length,
        "misuse": misuse,
        "pack": pack,
        "packing_error": packing_error,
        "unsupported_field": unsupported_field,
        "write_tagged_fields": write_tagged_fields,
    }
    return source.function("write(o, w)", names, f"{cls.__name__} v{version} writer")


def compile_reader(cls: type[Message], version: int) -> Any:
    """A function ``(buffer, offset, limits=UNLIMITED) -> (message, end)``; kept on the class."""
    _check_version(cls, version, DecodeError)
    source = MessageReader(version, cls.is_flexible(version))
    source.emit("n = len(buf)")
    source.emit("left = limits.elements")
    source.emit("try:")
    source.indent += 1
    source.struct(cls, "o")
    source.emit("return o, p")
    source.indent -= 1
    source.emit("except (IndexError, packing_error) as error:")
    source.emit(f"    raise underflow({cls.__name__!r}) from error")
    names = {
        "UNLIMITED": UNLIMITED,
        "Uuid": Uuid,
        "null_not_allowed": null_not_allowed,
        "wrong_tag": wrong_tag,
        "packing_error": packing_error,
        "read_unsigned_varint": read_unsigned_varint,
        "too_long": too_long,
        "too_many_elements": too_many_elements,
        "too_many_tags": too_many_tags,
        "underflow": underflow,
        "unpack_from": unpack_from,
    }
    cls._readers[version] = reader = source.function(
        "read(buf, p, limits=UNLIMITED)", names, f"{cls.__name__} v{version} reader"
    )
    return reader


def _check_version(cls: type[Message], version: int, error: type[Exception]) -> None:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise error(f"{cls.__name__} has no version {version}; it has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}")
