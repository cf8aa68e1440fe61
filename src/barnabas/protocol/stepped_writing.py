"""A long message is encoded in steps, between which the event loop serves others.

The answer to the creation of 4,000 topics describes the settings of each: to encode it takes a fifth of a second. The
elements of the last list of such a message are encoded some at a time; the bytes are those of ``Message.write``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field

__all__ = ["takes_steps", "write_in_steps"]

ELEMENTS_A_STEP: Final = 100
"""Up to 5 ms, for topics with all their settings."""


def takes_steps(message: Any, version: int) -> bool:
    """Whether ``write_in_steps`` encodes the message in more than one step."""
    return _long_list(message, version) is not None


def write_in_steps(message: Any, version: int, chunks: list[bytes]) -> Iterator[None]:
    """Append the encoded message to ``chunks``, as ``Message.write`` does."""
    field = _long_list(message, version)
    if field is None:
        message.write(version, chunks)
        return
    is_flexible = type(message).is_flexible(version)
    elements: Sequence[Any] = getattr(message, field.name)
    head, tail = _around_list(message, field, version, is_flexible)
    count = compact_length(len(elements) + 1) if is_flexible else len(elements).to_bytes(4, "big")
    chunks += (head, count)
    for start in range(0, len(elements), ELEMENTS_A_STEP):
        some = elements[start : start + ELEMENTS_A_STEP]
        chunks.append(b"".join([encode_struct(element, version, flexible=is_flexible) for element in some]))
        yield
    chunks.append(tail)


def _around_list(message: Message, field: Field, version: int, is_flexible: bool) -> tuple[bytes, bytes]:
    """What comes before the length of the list, which is the last field, and what comes after its elements."""
    emptied = copy(message)
    setattr(emptied, field.name, [])
    encoded = emptied.encode(version)
    length_size, tail_size = (1, 1) if is_flexible else (4, 0)
    end = len(encoded) - tail_size
    return encoded[: end - length_size], encoded[end:]


def _long_list(message: Any, version: int) -> Field | None:
    """The list of structs that ends the message, if it is long. After tags there would be more to encode."""
    if not isinstance(message, Message) or getattr(message, "unknown_tags", None):
        return None
    last: Field | None = None
    for field in type(message).FIELDS:
        if not field.in_version(version):
            continue
        if field.is_tagged(version):
            return None
        last = field
    if last is None or last.kind != "array" or last.element != "struct":
        return None
    elements = getattr(message, last.name)
    return last if elements is not None and len(elements) > ELEMENTS_A_STEP else None
