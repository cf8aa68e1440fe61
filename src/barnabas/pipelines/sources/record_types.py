"""The types of records in a metadata log, and their fields as Spark types.

A type is named as its class: ``AccessControlEntryRecord``. Fields have the names of Kafka's JSON form. Uuids are
texts in Kafka's form, bytes are binary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from barnabas.pipelines.sources.errors import InvalidOption
from barnabas.protocol.record_serde import metadata_record_class, metadata_record_types
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.protocol.schema import Field, Message, Struct

__all__ = ["converter_of", "known_types", "parse_types", "record_struct"]

_CONTROL: Mapping[str, type[Message]] = {
    cls.__name__: cls
    for cls in (LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord, VotersRecord)
}
_SCALARS: Mapping[str, DataType] = {
    "bool": BooleanType(),
    "int8": IntegerType(),
    "int16": IntegerType(),
    "uint16": IntegerType(),
    "int32": IntegerType(),
    "uint32": LongType(),
    "int64": LongType(),
    "float64": DoubleType(),
    "uuid": StringType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "records": BinaryType(),
}


@cache
def known_types() -> Mapping[str, type[Message]]:
    """Return the class of each type, in the order of their numbers; control records last."""
    names = metadata_record_types()
    return {**{name: metadata_record_class(type_id) for type_id, name in sorted(names.items())}, **_CONTROL}


def parse_types(names: Iterable[str]) -> frozenset[str]:
    """Return the types with these names, which may lack ``Record``. Raises InvalidOption for an unknown one."""
    known = {name.casefold(): name for name in known_types()}
    short = {text.removesuffix("record").removesuffix("message"): name for text, name in known.items()}
    found = set()
    for name in names:
        text = name.casefold()
        match = known.get(text) or short.get(text)
        if match is None:
            close = get_close_matches(text, list(known), n=1, cutoff=0.5)
            hint = f" (did you mean {known[close[0]]}?)" if close else ""
            raise InvalidOption(
                f"option types: {name} is not a type of record{hint}; types: {', '.join(known.values())}"
            )
        found.add(match)
    return frozenset(found)


def record_struct(types: frozenset[str]) -> StructType:
    """Return a struct with a field for each type, of which a row has one, and the others are null.

    Parquet has no empty structs, so a type without fields is true instead.
    """
    chosen = [(name, cls) for name, cls in known_types().items() if not types or name in types]
    return StructType([StructField(name, _struct_type(cls) if cls.FIELDS else BooleanType()) for name, cls in chosen])


def _struct_type(cls: type[Struct]) -> StructType:
    return StructType([StructField(field.json_name, _field_type(field, field.kind)) for field in cls.FIELDS])


def _field_type(field: Field, kind: str) -> DataType:
    if kind == "array":
        return ArrayType(_field_type(field, field.element or ""))
    if kind == "struct":
        assert field.type is not None
        return _struct_type(field.type)
    return _SCALARS[kind]


@cache
def converter_of(cls: type[Struct]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that makes a message of this class a dict for Arrow. Secret fields become null."""
    fields = [(field.name, field.json_name, _value_converter(field, field.kind)) for field in cls.FIELDS]

    def convert(struct: Any) -> dict[str, Any]:
        return {json_name: to_value(getattr(struct, name)) for name, json_name, to_value in fields}

    return convert


def _value_converter(field: Field, kind: str) -> Callable[[Any], Any]:
    if kind == "array":
        element = _value_converter(field, field.element or "")
        return lambda items: None if items is None else [element(item) for item in items]
    if kind == "struct":
        assert field.type is not None
        convert = converter_of(field.type)
        return lambda struct: None if struct is None else convert(struct)
    return (lambda value: None if value is None else str(value)) if kind == "uuid" else _unchanged


def _unchanged(value: Any) -> Any:
    return value
