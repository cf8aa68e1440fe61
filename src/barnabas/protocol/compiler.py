"""Turns a declared message at one version into a reader and a writer of straight-line source.

Runs of fixed-size fields become one ``struct`` call, lengths join the run before them, nested structs are
inlined as loops: no per-field dispatch is left. Both functions are kept on the class, one per version.

What a reader accepts is what Kafka's generated readers accept: invalid UTF-8 becomes U+FFFD, any byte but 0 is
true, varints may be overlong, tags may come in any order. A length is checked against the bytes that are left
before anything is allocated for it.
"""

from __future__ import annotations

from struct import Struct as Packing
from struct import calcsize
from struct import error as packing_error
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
    underflow,
    unsupported_field,
    write_tagged_fields,
    wrong_tag,
)
from barnabas.protocol.errors import DecodeError, EncodeError
from barnabas.protocol.utf8 import JAVA_REPLACE

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Message, Struct

__all__ = ["compile_reader", "compile_writer", "encode_struct"]

_FORMATS = {
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
_NUMBERS = frozenset(_FORMATS) - {"uuid"}
_SHORT_ARRAY = 8


def _minimum_size(kind: str, type_: type[Struct] | None, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this kind takes on the wire."""
    if kind in _FORMATS:
        return calcsize(">" + _FORMATS[kind])
    if kind == "struct" and type_ is not None:
        total = 1 if flexible else 0
        for field in type_.FIELDS:
            if field.in_version(version) and not field.is_tagged(version):
                if field.kind == "struct" and field.is_nullable(version):
                    total += 1
                else:
                    total += _minimum_size(field.kind, field.type, version, flexible)
        return total
    if flexible:
        return 1
    return 2 if kind == "string" else 4


class _Source:
    """Lines of a function under construction, with the constants that they name."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self._counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix: str) -> str:
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def function(self, signature: str, names: dict[str, Any], label: str) -> Any:
        source = f"def {signature}:\n" + "\n".join(self.lines) + "\n"
        scope = {**names, **self.names}
        exec(compile(source, f"<{label}>", "exec"), scope)
        return scope[signature.split("(")[0]]


class _Writer(_Source):
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
        if kind in _FORMATS:
            self.run.append((_FORMATS[kind], value))
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
        if field.element in _NUMBERS:
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
        """Short arrays, which nearly all are, take one call for their length and their items."""
        code = _FORMATS[element]
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


def compile_writer(cls: type[Message], version: int) -> Any:
    """A function ``(message, append)`` that appends the encoded pieces; kept on the class."""
    _check_version(cls, version, EncodeError)
    cls._writers[version] = writer = _compile_writer(cls, version, cls.is_flexible(version))
    return writer


def encode_struct(struct: Struct, version: int, *, flexible: bool) -> bytes:
    """A nested struct as it stands inside a message of that version: for answers joined from kept pieces."""
    writers = type(struct)._writers
    writer = writers.get(version)
    if writer is None:
        writer = writers[version] = _compile_writer(type(struct), version, flexible)
    chunks: list[bytes] = []
    writer(struct, chunks.append)
    return b"".join(chunks)


def _compile_writer(cls: type[Struct], version: int, flexible: bool) -> Any:
    from struct import pack

    source = _Writer(version, flexible)
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


class _Reader(_Source):
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
        if kind in _FORMATS:
            self.run.append((_FORMATS[kind], name))
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
        least = _minimum_size(field.element or "", field.type, self.version, self.flexible)
        self.emit(f"if {length} * {max(least, 1)} > n - p: raise underflow({field.name!r})")
        if field.element in _NUMBERS:
            code = _FORMATS[field.element]
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

    def _tags(self, tagged: list[tuple[Field, str]], refused: tuple[int, ...]) -> str:
        """``refused`` are tags of fields that other versions have: Kafka does not take them for unknown ones."""
        count, unknown = self.fresh("t"), self.fresh("u")
        tag, size = self.fresh("t"), self.fresh("s")
        self.unsigned_varint(count)
        self.emit(f"{unknown} = None")
        for field, name in tagged:
            self.emit(f"{name} = {self._default(field)}")
        self.emit(f"if {count}:")
        self.indent += 1
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
        """Here the marker before the struct is an unsigned varint, and 0 is null."""
        if field.type is None:
            raise EncodeError(f"{field.name} has no type")
        marker = self.fresh("m")
        self.emit(f"{marker}, p = read_unsigned_varint(buf, p)")
        self.emit(f"if {marker} == 0: {name} = None")
        self.emit("else:")
        self.indent += 1
        self.struct(field.type, name)
        self.indent -= 1


def compile_reader(cls: type[Message], version: int) -> Any:
    """A function ``(buffer, offset) -> (message, end)``; kept on the class."""
    _check_version(cls, version, DecodeError)
    from struct import unpack_from

    source = _Reader(version, cls.is_flexible(version))
    source.emit("n = len(buf)")
    source.emit("try:")
    source.indent += 1
    source.struct(cls, "o")
    source.emit("return o, p")
    source.indent -= 1
    source.emit("except (IndexError, packing_error) as error:")
    source.emit(f"    raise underflow({cls.__name__!r}) from error")
    names = {
        "Uuid": Uuid,
        "null_not_allowed": null_not_allowed,
        "wrong_tag": wrong_tag,
        "packing_error": packing_error,
        "read_unsigned_varint": read_unsigned_varint,
        "too_long": too_long,
        "underflow": underflow,
        "unpack_from": unpack_from,
    }
    cls._readers[version] = reader = source.function("read(buf, p)", names, f"{cls.__name__} v{version} reader")
    return reader


def _check_version(cls: type[Message], version: int, error: type[Exception]) -> None:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise error(f"{cls.__name__} has no version {version}; it has versions {cls.MIN_VERSION} to {cls.MAX_VERSION}")
