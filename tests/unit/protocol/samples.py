"""Random messages and records for tests: every declared class, any legal value of its fields."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from random import Random
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol import messages, records
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.record_batch import Record
from barnabas.protocol.schema import Field, Message, Struct

__all__ = ["MESSAGES", "drop_unknown_tags", "mutated", "random_message", "random_records"]

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXTS = ("", "a", "topic.b_2", "日本語", "😀-key", "x" * 130, "User:alice", "\x00\t\n")
_UNKNOWN_TAGS = (100, 128, 16384, 2**31 - 2)


def _declared() -> list[type[Message]]:
    found: list[type[Message]] = [RequestHeader, ResponseHeader]
    for package in (messages, records):
        for module in pkgutil.iter_modules(package.__path__):
            contents = vars(import_module(f"{package.__name__}.{module.name}")).values()
            found += [
                value
                for value in contents
                if isinstance(value, type)
                and issubclass(value, Message)
                and value.__module__ == f"{package.__name__}.{module.name}"
            ]
    return sorted(found, key=lambda cls: cls.__name__)


MESSAGES = _declared()


def random_message(cls: type[Struct], version: int, random: Random, *, flexible: bool | None = None) -> Any:
    """Return a message of this class whose fields have any values that the version can carry."""
    if flexible is None:
        assert issubclass(cls, Message)
        flexible = cls.is_flexible(version)
    values = {
        field.name: _random_value(field, field.kind, version, random, flexible)
        for field in cls.FIELDS
        if field.in_version(version) and (not field.is_tagged(version) or (flexible and random.random() < 0.5))
    }
    for field in cls.FIELDS:
        # A tagged struct that equals its default is not encoded; a struct that is not encoded is decoded as None.
        if field.type is not None and field.kind == "struct" and field.is_tagged(version):
            if values.get(field.name) == field.type() and not field.is_nullable(version):
                del values[field.name]
    message = cls(**values)
    if flexible and random.random() < 0.3:
        tags = sorted(random.sample(_UNKNOWN_TAGS, random.randint(1, 2)))
        message.unknown_tags = [(tag, random.randbytes(random.choice((0, 1, 5, 130)))) for tag in tags]
    return message


def drop_unknown_tags(struct: Struct) -> None:
    """Remove them here and in all nested structures."""
    struct.unknown_tags = None
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Struct):
                drop_unknown_tags(element)


def _random_value(field: Field, kind: str, version: int, random: Random, flexible: bool) -> Any:
    if kind == field.kind and field.is_nullable(version) and random.random() < 0.25:
        return None
    if kind == "array":
        size = random.choice((0, 1, 1, 2, 3))
        return [_random_value(field, field.element or "", version, random, flexible) for _ in range(size)]
    if kind == "struct":
        assert field.type is not None
        return random_message(field.type, version, random, flexible=flexible)
    if kind == "bool":
        return random.random() < 0.5
    if kind == "string":
        return random.choice(_TEXTS)
    if kind in ("bytes", "records"):
        return random.randbytes(random.choice((0, 1, 7, 130)))
    if kind == "uuid":
        return Uuid(random.randbytes(16))
    if kind == "float64":
        return random.uniform(-1e300, 1e300)
    low, high = _RANGES[kind]
    return random.choice((0, 1, low, high, random.randint(low, high)))


def random_records(random: Random, count: int, *, base_offset: int = 0, gaps: bool = False) -> list[Record]:
    """Return records in order of offset, with the edge cases of each field."""
    found = []
    offset = base_offset
    timestamp = random.choice((0, 1_750_000_000_000, -1))
    for _ in range(count):
        headers = tuple(
            (random.choice(_TEXTS), random.choice((None, b"", random.randbytes(70))))
            for _ in range(random.choice((0, 0, 0, 1, 3)))
        )
        key = random.choice((None, b"", b"key", random.randbytes(100)))
        value = random.choice((None, b"", b"value", random.randbytes(100)))
        if random.random() < 0.02:
            value = random.randbytes(20_000)
        found.append(Record(offset, timestamp + random.choice((0, 1, -1, 100, 2**33)), key, value, headers))
        offset += 1 + (random.choice((0, 1, 70, 9000)) if gaps else 0)
    return found


def mutated(data: bytes, random: Random) -> bytes:
    """Return the bytes with a few of them changed, removed or doubled, or truncated."""
    out = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if not out:
            return bytes(out)
        position = random.randrange(len(out))
        action = random.randrange(6)
        if action == 0:
            out[position] = random.randrange(256)
        elif action == 1:
            out[position] ^= 1 << random.randrange(8)
        elif action == 2:
            del out[position:]
        elif action == 3:
            del out[position]
        elif action == 4:
            out[position:position] = random.randbytes(random.randint(1, 8))
        else:
            out[position : position + 4] = random.choice(
                (b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\x80\x80\x80", bytes(4))
            )
    return bytes(out)
