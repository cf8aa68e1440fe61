"""The corpus format of a message: its JSON form, and the unknown tagged fields beside it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from barnabas.protocol.schema import Message, Struct

__all__ = ["attach_unknown_tags", "message_class", "record_class", "sorted_tags", "unknown_tags_of"]

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def message_class(api: str, kind: str) -> type[Message]:
    """Return the class of an API's request or response; ``kind`` is one of these words."""
    return _class(f"barnabas.protocol.messages.{snake_case(api)}", f"{api}{kind.capitalize()}")


def record_class(name: str) -> type[Message]:
    return _class(f"barnabas.protocol.records.{snake_case(name)}", name)


def unknown_tags_of(message: Struct) -> list[dict[str, Any]]:
    """Return the unknown tagged fields of a message and of every struct in it, sorted by position."""
    return sorted(_walk(message, ""), key=_order)


def attach_unknown_tags(message: Struct, tags: list[dict[str, Any]]) -> None:
    for tag in tags:
        struct: Any = message
        for name, index in _STEP.findall(tag["path"]):
            if index:
                struct = struct[int(index)]
            else:
                field = next(field for field in struct.FIELDS if field.json_name == name)
                struct = getattr(struct, field.name)
        struct.unknown_tags = [*(struct.unknown_tags or ()), (tag["tag"], bytes.fromhex(tag["hex"]))]


def sorted_tags(tags: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return sorted(tags or [], key=_order)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name.replace("KRaft", "Kraft")).lower()


def _class(module: str, name: str) -> type[Message]:
    cls: type[Message] = getattr(import_module(module), name)
    return cls


def _walk(struct: Struct, path: str) -> list[dict[str, Any]]:
    found = [{"path": path, "tag": tag, "hex": bytes(data).hex()} for tag, data in struct.unknown_tags or ()]
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        below = f"{path}.{field.json_name}" if path else field.json_name
        if isinstance(value, Struct):
            found += _walk(value, below)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Struct):
                    found += _walk(item, f"{below}[{index}]")
    return found


def _order(tag: dict[str, Any]) -> tuple[str, int]:
    return tag["path"], tag["tag"]
