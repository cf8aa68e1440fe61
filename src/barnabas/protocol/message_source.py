"""A function under construction: its lines, its constants, and the wire types of both compilers."""

from __future__ import annotations

from struct import calcsize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.schema import Struct

__all__ = ["FORMATS", "NUMBERS", "MessageSource", "minimum_size"]

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
NUMBERS = frozenset(FORMATS) - {"uuid"}


def minimum_size(kind: str, type_: type[Struct] | None, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this kind takes on the wire."""
    if kind in FORMATS:
        return calcsize(">" + FORMATS[kind])
    if kind == "struct" and type_ is not None:
        total = 1 if flexible else 0
        for field in type_.FIELDS:
            if field.in_version(version) and not field.is_tagged(version):
                if field.kind == "struct" and field.is_nullable(version):
                    total += 1
                else:
                    total += minimum_size(field.kind, field.type, version, flexible)
        return total
    if flexible:
        return 1
    return 2 if kind == "string" else 4


class MessageSource:
    """Lines of a function under construction, with the constants that they name."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, object] = {}
        self.run: list[tuple[str, str]] = []
        self._counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def function(self, signature: str, names: dict[str, object], label: str) -> object:
        source = f"def {signature}:\n" + "\n".join(self.lines) + "\n"
        scope = {**names, **self.names}
        exec(compile(source, f"<{label}>", "exec"), scope)
        return scope[signature.split("(")[0]]
