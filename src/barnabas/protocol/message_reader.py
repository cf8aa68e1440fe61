"""The source of a reader: every value gets a variable; a struct is built when its last field has been read."""

from __future__ import annotations

from struct import Struct as Packing
from typing import TYPE_CHECKING

from barnabas.protocol.errors import EncodeError
from barnabas.protocol.message_source import FORMATS, NUMBERS, MessageSource, minimum_size
from barnabas.protocol.utf8 import JAVA_REPLACE

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Struct

__all__ = ["MessageReader"]


class MessageReader(MessageSource):
    """Every value read gets a variable; a struct is built when its last field has been read."""

    def flush(self) -> None:
        if self.run:
            packing = Packing(">" + "".join(code for code, _ in self.run))
            unpack = self.constant("U", packing.unpack_from)
            names = "".join(f"{name}, " for _, name in self.run)
            self.emit(f"{names}= {unpack}(buf, p)")
            self.emit(f"p += {packing.size}")
            self.run = []

    def unsigned_varint(self, name: str) -> None:
        self.run.append(("B", name))
        self.flush()
        self.emit(f"if {name} > 127: {name}, p = read_unsigned_varint(buf, p - 1)")

    def struct(self, type_: type[Struct], target: str) -> None:
        values: list[tuple[Field, str]] = []
        tagged: list[tuple[Field, str]] = []
        late: list[str] = []
        for field in type_.FIELDS:
            name = self.fresh("f")
            values.append((field, name))
            if field.in_version(self.version) and not field.is_tagged(self.version):
                self.field(field, name, self.flexible and field.flexible, late)
            elif field.in_version(self.version) and self.flexible:
                tagged.append((field, name))
        refused = tuple(
            field.tag for field in type_.FIELDS if field.tag is not None and not field.is_tagged(self.version)
        )
        unknown = self._tags(tagged, refused) if self.flexible else "None"
        self.flush()
        for line in late:
            self.emit(line)
        new, cls = self.constant("N", type_.__new__), self.constant("C", type_)
        self.emit(f"{target} = {new}({cls})")
        for field, name in values:
            if not field.in_version(self.version) or (field.is_tagged(self.version) and not self.flexible):
                name = self._default(field)
            self.emit(f"{target}.{field.name} = {name}")
        self.emit(f"{target}.unknown_tags = {unknown}")

    def _default(self, field: Field) -> str:
        if field.kind == "array" and field.default is not None:
            return "[]"
        if field.kind == "struct":
            return "None" if field.default is None or field.type is None else f"{self.constant('C', field.type)}()"
        if field.default in (None, True, False, "", b"") or isinstance(field.default, int):
            return repr(field.default)
        return self.constant("D", field.default)

    def field(self, field: Field, name: str, flexible: bool, late: list[str]) -> None:
        nullable = field.is_nullable(self.version)
        if field.kind == "struct":
            self._struct_field(field, name, nullable)
        elif field.kind == "array":
            self._array(field, name, nullable)
        else:
            self.scalar(field.kind, name, nullable, flexible, field.name, late)

    def scalar(self, kind: str, name: str, nullable: bool, flexible: bool, label: str, late: list[str]) -> None:
        if kind in FORMATS:
            self.run.append((FORMATS[kind], name))
            if kind == "uuid":
                late.append(f"{name} = Uuid({name})")
            return
        length, end = self.fresh("l"), self.fresh("e")
        if flexible:
            self.unsigned_varint(length)
            self.emit(f"if {length} > 0:")
        else:
            self.run.append(("h" if kind == "string" else "i", length))
            self.flush()
            self.emit(f"if {length} >= 0:")
        self.indent += 1
        self.emit(f"{end} = p + {length}" + (" - 1" if flexible else ""))
        self.emit(f"if {end} > n: raise underflow({label!r})")
        if kind == "string":
            if flexible:
                self.emit(f"if {length} > 32768: raise too_long({label!r}, {length})")
            self.emit(f"{name} = str(buf[p:{end}], 'utf-8', {JAVA_REPLACE!r})")
        elif kind == "records":
            self.emit(f"{name} = memoryview(buf)[p:{end}]")
        else:
            self.emit(f"{name} = bytes(buf[p:{end}])")
        self.emit(f"p = {end}")
        self.indent -= 1
        self._otherwise_null(name, nullable, label)

    def _otherwise_null(self, name: str, nullable: bool, label: str) -> None:
        self.emit(f"else: {name} = None" if nullable else f"else: raise null_not_allowed({label!r})")

    def _struct_field(self, field: Field, name: str, nullable: bool) -> None:
        if field.type is None:
            raise EncodeError(f"{field.name} has no type")
        self.flush()
        if not nullable:
            self.struct(field.type, name)
            return
        marker = self.fresh("m")
        self.run.append(("b", marker))
        self.flush()
        self.emit(f"if {marker} < 0: {name} = None")
        self.emit("else:")
        self.indent += 1
        self.struct(field.type, name)
        self.indent -= 1

    def _array(self, field: Field, name: str, nullable: bool) -> None:
        length = self.fresh("l")
        if self.flexible:
            self.unsigned_varint(length)
            self.emit(f"{length} -= 1")
        else:
            self.run.append(("i", length))
            self.flush()
        self.emit(f"if {length} >= 0:")
        self.indent += 1
        least = minimum_size(field.element or "", field.type, self.version, self.flexible)
        self.emit(f"if {length} * {max(least, 1)} > n - p: raise underflow({field.name!r})")
        self._spend(length)
        if field.element in NUMBERS:
            code = FORMATS[field.element]
            self.emit(f"{name} = list(unpack_from('>%d{code}' % {length}, buf, p))")
            self.emit(f"p += {length} * {least}")
        else:
            self.emit(f"{name} = []")
            append, item = self.fresh("x"), self.fresh("o")
            self.emit(f"{append} = {name}.append")
            self.emit(f"for _ in range({length}):")
            self.indent += 1
            if field.type is not None:
                self.struct(field.type, item)
            else:
                late: list[str] = []
                self.scalar(field.element or "", item, False, self.flexible, field.name, late)
                self.flush()
                for line in late:
                    self.emit(line)
            self.emit(f"{append}({item})")
            self.indent -= 1
        self.indent -= 1
        self._otherwise_null(name, nullable, field.name)

    def _spend(self, count: str) -> None:
        self.emit(f"left -= {count}")
        self.emit("if left < 0: raise too_many_elements(limits.elements)")

    def _tags(self, tagged: list[tuple[Field, str]], refused: tuple[int, ...]) -> str:
        """``refused`` are tags of fields in other versions: Kafka does not treat them as unknown."""
        count, unknown = self.fresh("t"), self.fresh("u")
        tag, size = self.fresh("t"), self.fresh("s")
        self.unsigned_varint(count)
        self.emit(f"{unknown} = None")
        for field, name in tagged:
            self.emit(f"{name} = {self._default(field)}")
        self.emit(f"if {count}:")
        self.indent += 1
        self.emit(f"if {count} > limits.tagged_fields: raise too_many_tags({count}, limits.tagged_fields)")
        self._spend(count)
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        self.emit(f"{tag}, p = read_unsigned_varint(buf, p)")
        self.emit(f"{size}, p = read_unsigned_varint(buf, p)")
        word = "if"
        for field, name in tagged:
            self.emit(f"{word} {tag} == {field.tag}:")
            self.indent += 1
            late: list[str] = []
            if field.kind == "struct" and field.is_nullable(self.version):
                self._tagged_nullable_struct(field, name)
            else:
                self.field(field, name, True, late)
            self.flush()
            for line in late:
                self.emit(line)
            self.indent -= 1
            word = "elif"
        if refused:
            self.emit(f"{word} {tag} in {refused!r}: raise wrong_tag({tag}, {self.version})")
            word = "elif"
        self.emit("else:" if word == "elif" else "if True:")
        self.indent += 1
        self.emit(f"if {size} < 0 or {size} > n - p: raise underflow('tagged field')")
        self.emit(f"if {unknown} is None: {unknown} = []")
        self.emit(f"{unknown}.append(({tag}, bytes(buf[p:p + {size}])))")
        self.emit(f"p += {size}")
        self.indent -= 3
        return unknown

    def _tagged_nullable_struct(self, field: Field, name: str) -> None:
        """Read a struct whose marker is an unsigned varint, where 0 is null."""
        if field.type is None:
            raise EncodeError(f"{field.name} has no type")
        marker = self.fresh("m")
        self.emit(f"{marker}, p = read_unsigned_varint(buf, p)")
        self.emit(f"if {marker} == 0: {name} = None")
        self.emit("else:")
        self.indent += 1
        self.struct(field.type, name)
        self.indent -= 1
