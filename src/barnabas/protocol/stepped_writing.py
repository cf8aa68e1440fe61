"""Encodes a long message in steps, between which the event loop serves other clients.

The answer to the creation of 4,000 topics describes the settings of each: encoding it takes a fifth of a second. The
elements of the last list of such a message are encoded some at a time, and so are those of the last list of an element
(the partitions of a topic, the members of a group); the bytes are those of ``Message.write``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.compiler import write_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.protocol.schema import Struct

__all__ = ["takes_steps", "write_in_steps"]

ELEMENTS_A_STEP: Final = 100
"""Up to 5 ms, for topics with all their settings."""
_JOINED_MAX: Final = 65536
"""Chunks with a larger total are not joined: records are not copied."""


_FIXED_SIZES: Final = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "uuid": 16}


class _LastList(NamedTuple):
    """The list of structs at the end of a struct, before its tags. Fields of a fixed size may follow it."""

    name: str
    of_elements: str | None
    """The name of the list of structs at the end of its elements."""
    before: tuple[str, ...]
    """The fields before it."""
    size_after: int
    """The bytes of the fields after it that are not tagged."""


def takes_steps(message: object, version: int) -> bool:
    """Whether ``write_in_steps`` encodes the message in more than one step."""
    return isinstance(message, Message) and _is_long(message, version)


def write_in_steps(message: Any, version: int, chunks: list[bytes]) -> Iterator[None]:
    """Append the encoded message to ``chunks``, as ``Message.write`` does."""
    if not takes_steps(message, version):
        message.write(version, chunks)
        return
    yield from _write_long(message, version, type(message).is_flexible(version), chunks)


def _write_long(struct: Struct, version: int, is_flexible: bool, chunks: list[bytes]) -> Iterator[None]:
    last = _last_list(type(struct), version)
    assert last is not None
    elements: Sequence[Any] = getattr(struct, last.name)
    head, tail = _around_list(struct, last, version, is_flexible)
    count = compact_length(len(elements) + 1) if is_flexible else len(elements).to_bytes(4, "big")
    pieces = [head, count]
    elements_in_step = 0
    for element in elements:
        if last.of_elements is not None and _is_long(element, version):
            _take(pieces, chunks)
            yield from _write_long(element, version, is_flexible, chunks)
            elements_in_step = 0
            continue
        write_struct(element, version, pieces, flexible=is_flexible)
        elements_in_step += 1 if last.of_elements is None else len(getattr(element, last.of_elements) or ()) or 1
        if elements_in_step >= ELEMENTS_A_STEP:
            elements_in_step = 0
            _take(pieces, chunks)
            yield
    pieces.append(tail)
    _take(pieces, chunks)
    if elements_in_step:
        yield


def _take(pieces: list[bytes], chunks: list[bytes]) -> None:
    if sum(map(len, pieces)) <= _JOINED_MAX:
        chunks.append(b"".join(pieces))
    else:
        chunks += pieces
    pieces.clear()


def _around_list(struct: Struct, last: _LastList, version: int, is_flexible: bool) -> tuple[bytes, bytes]:
    """Return the bytes before the length of the list, and those after its elements."""
    emptied: Any = copy(struct)
    setattr(emptied, last.name, [])
    encoded = _encoded(emptied, version, is_flexible)
    untagged = type(struct)(**{name: getattr(struct, name) for name in last.before})
    after = is_flexible + last.size_after  # No tagged fields are one byte.
    end = len(_encoded(untagged, version, is_flexible)) - after
    length_size = 1 if is_flexible else 4
    return encoded[: end - length_size], encoded[end:]


def _encoded(struct: Struct, version: int, is_flexible: bool) -> bytes:
    pieces: list[bytes] = []
    write_struct(struct, version, pieces, flexible=is_flexible)
    return b"".join(pieces)


def _is_long(struct: Struct, version: int) -> bool:
    last = _last_list(type(struct), version)
    if last is None or struct.unknown_tags:
        return False
    elements = getattr(struct, last.name)
    if elements is None:
        return False
    if len(elements) > ELEMENTS_A_STEP:
        return True
    inner = last.of_elements
    return inner is not None and sum(len(getattr(element, inner) or ()) for element in elements) > ELEMENTS_A_STEP


@cache
def _last_list(cls: type[Struct], version: int) -> _LastList | None:
    fields = [field for field in cls.FIELDS if field.in_version(version)]
    untagged = [field for field in fields if not field.is_tagged(version)]
    size_after = 0
    while untagged and untagged[-1].kind in _FIXED_SIZES:
        size_after += _FIXED_SIZES[untagged.pop().kind]
    if not untagged:
        return None
    field = untagged[-1]
    if field.kind != "array" or field.element != "struct" or field.type is None:
        return None
    inner = _last_list(field.type, version)
    before = tuple(field.name for field in untagged[:-1])
    return _LastList(field.name, None if inner is None else inner.name, before, size_after)
