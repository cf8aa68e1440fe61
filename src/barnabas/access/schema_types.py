"""Types of a file's values. Each type reads its part of the tree and generates its part of the JSON schema.

So the schema and the reader share one definition. After an error, reading continues with ``BAD`` for the invalid
value, so that all errors of a file are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Protocol

from barnabas.access.document_tree import ListNode, MapNode, Node, Problem, ScalarNode

__all__ = [
    "BAD",
    "AnyText",
    "Either",
    "Field",
    "Items",
    "Number",
    "Record",
    "Shape",
    "Table",
    "Text",
    "is_bad",
    "shown",
]

BAD: Final = object()
_LONG = 60


def is_bad(value: object) -> bool:
    return value is BAD


def shown(text: str) -> str:
    """Format a value for a message."""
    return repr(text if len(text) <= _LONG else text[:_LONG] + "...")


class Shape(Protocol):
    def read(self, node: Node, path: str, problems: list[Problem]) -> Any: ...

    def schema(self) -> dict[str, object]: ...


class Text(NamedTuple):
    """A text. ``parse`` converts it to a value, and raises ValueError for an invalid text."""

    parse: Callable[[str], Any]
    what: str
    pattern: str = ""
    words: tuple[str, ...] = ()
    """All valid texts, if they can be listed."""
    is_null_allowed: bool = False

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        if not isinstance(node, ScalarNode):
            problems.append(Problem(node.line, path, f"expected {self.what}, found {_kind(node)}"))
            return BAD
        if node.is_null:
            if self.is_null_allowed:
                return None
            problems.append(Problem(node.line, path, f"expected {self.what}, found no value"))
            return BAD
        try:
            return self.parse(node.text)
        except ValueError as error:
            problems.append(Problem(node.line, path, str(error)))
            return BAD

    def schema(self) -> dict[str, object]:
        schema: dict[str, object] = {"type": ["string", "null"] if self.is_null_allowed else "string"}
        schema["description"] = self.what
        if self.words:
            schema["enum"] = list(self.words)
        if self.pattern:
            schema["pattern"] = self.pattern
        return schema


class Number(NamedTuple):
    what: str
    least: int
    most: int | None = None
    is_whole: bool = True

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        bounds = f"{self.least} or more" if self.most is None else f"from {self.least} to {self.most}"
        expected = f"{self.what} is a {'whole ' if self.is_whole else ''}number, {bounds}"
        if not isinstance(node, ScalarNode) or node.is_null:
            problems.append(Problem(node.line, path, f"{expected}; found {_kind(node)}"))
            return BAD
        try:
            value = int(node.text) if self.is_whole else float(node.text)
        except ValueError:
            problems.append(Problem(node.line, path, f"{shown(node.text)}: {expected}"))
            return BAD
        if not self.least <= value or (self.most is not None and value > self.most) or value == float("inf"):
            problems.append(Problem(node.line, path, f"{shown(node.text)}: {expected}"))
            return BAD
        return value

    def schema(self) -> dict[str, object]:
        schema: dict[str, object] = {"type": "integer" if self.is_whole else "number", "description": self.what}
        schema["minimum"] = self.least
        if self.most is not None:
            schema["maximum"] = self.most
        return schema


class AnyText(NamedTuple):
    """The value of a setting: the unchanged text, or a list, whose items are joined by commas."""

    what: str

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        if isinstance(node, ScalarNode) and not node.is_null:
            return node.text
        if isinstance(node, ListNode):
            parts = [item.text for item in node.items if isinstance(item, ScalarNode) and not item.is_null]
            if len(parts) == len(node.items):
                return ",".join(parts)
        problems.append(
            Problem(node.line, path, f"expected {self.what}, found {_kind(node)}; omit the key to use the default")
        )
        return BAD

    def schema(self) -> dict[str, object]:
        scalar = ["string", "number", "boolean"]
        return {"type": [*scalar, "array"], "items": {"type": scalar}, "description": self.what}


class Items(NamedTuple):
    """A list. If ``is_one_allowed``, a single item need not be in a list."""

    item: Shape
    what: str
    is_one_allowed: bool = False
    least: int = 0

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        if not isinstance(node, ListNode):
            if self.is_one_allowed:
                value = self.item.read(node, path, problems)
                return BAD if is_bad(value) else [value]
            problems.append(Problem(node.line, path, f"expected a list of {self.what}, found {_kind(node)}"))
            return BAD
        if len(node.items) < self.least:
            problems.append(Problem(node.line, path, f"the list of {self.what} is empty"))
            return BAD
        values = [self.item.read(item, f"{path}[{index}]", problems) for index, item in enumerate(node.items)]
        return [value for value in values if not is_bad(value)]

    def schema(self) -> dict[str, object]:
        array: dict[str, object] = {"type": "array", "items": self.item.schema()}
        if self.least:
            array["minItems"] = self.least
        return {"anyOf": [self.item.schema(), array]} if self.is_one_allowed else array


class Field(NamedTuple):
    shape: Shape
    what: str
    is_required: bool = False


class Record(NamedTuple):
    """A mapping with known keys. The result also contains ``line``, for later error messages."""

    fields: Mapping[str, Field]
    what: str

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        if isinstance(node, ScalarNode) and node.is_null and not any(f.is_required for f in self.fields.values()):
            return {"line": node.line}
        if not isinstance(node, MapNode):
            problems.append(
                Problem(node.line, path, f"expected {self.what} with {_and(self.fields)}, found {_kind(node)}")
            )
            return BAD
        values: dict[str, object] = {"line": node.line}
        is_whole = True
        for key, child in _unique(node, path, problems):
            field = self.fields.get(key.text)
            if field is None:
                problems.append(Problem(key.line, path, _unknown(key.text, self.what, self.fields)))
                continue
            value = field.shape.read(child, _below(path, key.text), problems)
            if is_bad(value):
                is_whole = False
            else:
                values[key.text] = value
        for name, field in self.fields.items():
            if field.is_required and all(key.text != name for key, _ in node.items):
                problems.append(Problem(node.line, path, f"{self.what} lacks {name!r}: {field.what}"))
                is_whole = False
        return values if is_whole or not path else BAD

    def schema(self) -> dict[str, object]:
        properties = {name: {**field.shape.schema(), "description": field.what} for name, field in self.fields.items()}
        schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
        required = [name for name, field in self.fields.items() if field.is_required]
        if required:
            schema["required"] = required
        return schema


class Table(NamedTuple):
    """A mapping with arbitrary keys. The result maps each parsed key to (line, value)."""

    key: Text
    value: Shape
    what: str

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        if isinstance(node, ScalarNode) and node.is_null:
            return {}
        if not isinstance(node, MapNode):
            problems.append(Problem(node.line, path, f"expected {self.what}, found {_kind(node)}"))
            return BAD
        values: dict[Any, tuple[int, Any]] = {}
        for key, child in _unique(node, path, problems):
            name = self.key.read(key, path, problems)
            value = self.value.read(child, _below(path, key.text), problems)
            if not is_bad(name) and not is_bad(value):
                values[name] = key.line, value
        return values

    def schema(self) -> dict[str, object]:
        schema: dict[str, object] = {"type": "object", "additionalProperties": self.value.schema()}
        names = {key: value for key, value in self.key.schema().items() if key in ("enum", "pattern")}
        if names:
            schema["propertyNames"] = names
        return schema


class Either(NamedTuple):
    """A text in the short notation, or a record."""

    short: Text
    full: Shape

    def read(self, node: Node, path: str, problems: list[Problem]) -> Any:
        shape: Shape = self.short if isinstance(node, ScalarNode) else self.full
        return shape.read(node, path, problems)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [self.short.schema(), self.full.schema()]}


def _unique(node: MapNode, path: str, problems: list[Problem]) -> list[tuple[ScalarNode, Node]]:
    first: dict[str, int] = {}
    found = []
    for key, child in node.items:
        if key.text in first:
            text = f"{shown(key.text)} is listed twice; the first time in line {first[key.text]}"
            problems.append(Problem(key.line, path, text))
        else:
            first[key.text] = key.line
            found.append((key, child))
    return found


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _unknown(key: str, what: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{what} has no {shown(key)}{hint}; valid are {', '.join(known)}"


def _and(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(names)


def _kind(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return "nothing" if node.is_null else shown(node.text)
    return "a list" if isinstance(node, ListNode) else "a map of keys and values"
