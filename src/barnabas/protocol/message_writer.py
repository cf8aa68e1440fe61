"""The source of a writer: runs of fixed-size values become one ``struct`` call, lengths join the run before them."""

from __future__ import annotations

from struct import Struct as Packing
from typing import TYPE_CHECKING

from barnabas.protocol.errors import EncodeError
from barnabas.protocol.message_source import FORMATS, NUMBERS, MessageSource

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Struct

__all__ = ["MessageWriter"]

_SHORT_ARRAY = 8


class MessageWriter(MessageSource):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self.append = "w"

    # --- runs of fixed-size values

    def _packed(self, run: list[tuple[str, str]]) -> str:
        pack = self.constant("P", Packing(">" + "".join(code for code, _ in run)).pack)
        return f"{pack}({', '.join(value for code, value in run if value)})"

    def flush(self) -> None:
        if self.run:
            if all(code == "x" for code, _ in self.run):
                self.emit(f"{self.append}({bytes(len(self.run))!r})")
            else:
                self.emit(f"{self.append}({self._packed(self.run)})")
            self.run = []

    def _flush_with_length(self, length: str, encode: str) -> None:
        """Write the run and then ``length`` as an unsigned varint, in one call when it takes one byte."""
        if self.run:
            short, long_ = self._packed([*self.run, ("B", length)]), self._packed(self.run)
            self.emit(f"{self.append}({short} if {length} < 128 else {long_} + {encode}({length}))")
            self.run = []
        else:
            self.emit(f"{self.append}(ONE_BYTE[{length}] if {length} < 128 else {encode}({length}))")

    # --- fields

    def struct(self, type_: type[Struct], value: str) -> None:
        tagged = []
        for field in type_.FIELDS:
            if not field.in_version(self.version):
                if not field.ignorable:
                    self._refuse_unless_default(type_, field, value)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, f"{value}.{field.name}", self.flexible and field.flexible)
        if self.flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), value)
        self.flush()

    def _refuse_unless_default(self, type_: type[Struct], field: Field, value: str) -> None:
        name = self.fresh("v")
        self.emit(f"{name} = {value}.{field.name}")
        self.emit(f"if {self._differs(field, name)}:")
        self.emit(f"    raise unsupported_field({type_.__name__!r}, {field.name!r}, {self.version})")

    def _differs(self, field: Field, value: str) -> str:
        if field.kind == "struct":
            if field.type is None or (field.is_nullable(self.version) and field.default is None):
                return f"{value} is not None"
            if field.is_nullable(self.version):
                return f"{value} is None or {value} != {self.constant('D', field.type())}"
            return f"{value} is not None and {value} != {self.constant('D', field.type())}"
        if field.default is None:
            return f"{value} is not None"
        if field.kind == "array":
            return f"{value} is None or {value}" if field.nullable[0] <= field.nullable[1] else value
        return f"{value} != {self.constant('D', field.default)}"

    def field(self, field: Field, value: str, flexible: bool) -> None:
        nullable = field.is_nullable(self.version)
        if field.kind == "struct":
            self._struct_field(field, value, nullable)
        elif field.kind == "array":
            self._array(field, value, nullable)
        else:
            self.scalar(field.kind, value, nullable, flexible)

    def scalar(self, kind: str, value: str, nullable: bool, flexible: bool) -> None:
        if kind in FORMATS:
            self.run.append((FORMATS[kind], value))
        elif kind == "string":
            data = self.fresh("b")
            if nullable:
                local = self.fresh("v")
                self.emit(f"{local} = {value}")
                self.emit(f"{data} = {local}.encode() if {local} is not None else None")
                self._length_and_data(data, nullable, flexible, "h", "compact_string_length")
            else:
                self.emit(f"{data} = {value}.encode()")
                self._length_and_data(data, nullable, flexible, "h", "compact_string_length")
        else:
            data = self.fresh("b")
            self.emit(f"{data} = {value}")
            self._length_and_data(data, nullable, flexible, "i", "compact_length")

    def _length_and_data(self, data: str, nullable: bool, flexible: bool, code: str, encode: str) -> None:
        length = self.fresh("l")
        plus = " + 1" if flexible else ""
        if nullable:
            self.emit(f"{length} = len({data}){plus} if {data} is not None else {0 if flexible else -1}")
        else:
            self.emit(f"{length} = len({data}){plus}")
        if flexible:
            self._flush_with_length(length, encode)
        else:
            self.run.append((code, length))
            self.flush()
        self.emit(f"if {data} is not None: {self.append}({data})" if nullable else f"{self.append}({data})")

    def _struct_field(self, field: Field, value: str, nullable: bool) -> None:
        if field.type is None:
            raise EncodeError(f"{field.name} has no type")
        name = self.fresh("o")
        self.emit(f"{name} = {value}")
        if not nullable:
            self.struct(field.type, name)
            return
        self.flush()
        self.emit(f"if {name} is None:")
        self.emit(f"    {self.append}(b'\\xff')")
        self.emit("else:")
        self.indent += 1
        self.run.append(("b", "1"))
        self.struct(field.type, name)
        self.indent -= 1

    def _array(self, field: Field, value: str, nullable: bool) -> None:
        items, length = self.fresh("a"), self.fresh("l")
        plus = " + 1" if self.flexible else ""
        self.emit(f"{items} = {value}")
        if nullable:
            self.emit(f"{length} = len({items}){plus} if {items} is not None else {0 if self.flexible else -1}")
            self.emit(f"{items} = {items} or ()")
        else:
            self.emit(f"{length} = len({items}){plus}")
        if field.element in NUMBERS:
            self._number_array(field.element, items, length)
            return
        self._array_length(length)
        if field.element == "uuid":
            self.emit(f"if {items}: {self.append}(b''.join({items}))")
            return
        item = self.fresh("o")
        self.emit(f"for {item} in {items}:")
        self.indent += 1
        before = len(self.lines)
        if field.type is not None:
            self.struct(field.type, item)
        else:
            self.scalar(field.element or "", item, False, self.flexible)
            self.flush()
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1

    def _array_length(self, length: str) -> None:
        if self.flexible:
            self._flush_with_length(length, "compact_length")
        else:
            self.run.append(("i", length))
            self.flush()

    def _number_array(self, element: str, items: str, length: str) -> None:
        """Write an array. Nearly all are short, and take one call for their length and their items."""
        code = FORMATS[element]
        self.flush()
        prefix = "B" if self.flexible else "i"
        packers = tuple(Packing(f">{prefix}{count}{code}").pack for count in range(_SHORT_ARRAY))
        short = self.constant("A", packers)
        self.emit(f"if len({items}) < {_SHORT_ARRAY}: {self.append}({short}[len({items})]({length}, *{items}))")
        self.emit("else:")
        self.indent += 1
        self._array_length(length)
        self.emit(f"{self.append}(pack('>%d{code}' % len({items}), *{items}))")
        self.indent -= 1

    def _tags(self, fields: list[Field], value: str) -> None:
        unknown = self.fresh("u")
        self.emit(f"{unknown} = {value}.unknown_tags")
        if not fields:
            plain = self._packed([*self.run, ("x", "")]) if self.run else "b'\\0'"
            before = self._packed(self.run) + " + " if self.run else ""
            self.run = []
            self.emit(f"{self.append}({plain} if not {unknown} else {before}write_tagged_fields((), {unknown}))")
            return
        self.flush()
        tags = self.fresh("t")
        self.emit(f"{tags} = []")
        for field in fields:
            name = self.fresh("v")
            self.emit(f"{name} = {value}.{field.name}")
            self.emit(f"if {self._differs(field, name)}:")
            self.indent += 1
            outer, chunks = self.append, self.fresh("c")
            self.append = self.fresh("w")
            self.emit(f"{chunks} = []")
            self.emit(f"{self.append} = {chunks}.append")
            if field.kind == "struct" and field.is_nullable(self.version):
                # Kafka writes a null struct in the tagged section as the one byte of any null, not as marker -1.
                self.emit(f"if {name} is None: {self.append}(b'\\0')")
                self.emit("else:")
                self.indent += 1
            self.field(field, name, self.flexible and field.flexible)
            self.flush()
            if field.kind == "struct" and field.is_nullable(self.version):
                self.indent -= 1
            self.append = outer
            self.emit(f"{tags}.append(({field.tag}, b''.join({chunks})))")
            self.indent -= 1
        self.emit(f"{self.append}(write_tagged_fields({tags}, {unknown}) if {tags} or {unknown} else b'\\0')")
