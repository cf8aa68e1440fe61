"""Transforms of headers: DropHeaders, HeaderFrom, InsertHeader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.record_batch import HEADERS
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter, schema_text
from barnabas.connect_spark.converters.variants import variant_of
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import replaces_null, struct_like, with_default, with_defaults
from barnabas.connect_spark.transforms.transform import SidedTransform, Transform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["DropHeaders", "HeaderFrom", "InsertHeader"]


@dataclass(frozen=True)
class DropHeaders(Transform):
    headers: tuple[str, ...]

    name: ClassVar[str] = "DropHeaders"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(names(settings["headers"]))

    def apply(self, record: Record) -> Outcome:
        kept = F.filter(record.headers, lambda header: ~header["key"].isin(*self.headers))
        return Outcome(replace(record, headers=kept))


@dataclass(frozen=True)
class InsertHeader(Transform):
    header: str
    literal: str

    name: ClassVar[str] = "InsertHeader"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["header"]), str(settings["value.literal"]))

    def apply(self, record: Record) -> Outcome:
        read = SimpleHeaderConverter().header_to_connect(F.lit(self.literal).cast("binary"))
        added = _header(self.header, read.value, read.schema)
        return Outcome(replace(record, headers=_with_headers(record.headers, added)))


@dataclass(frozen=True)
class HeaderFrom(SidedTransform):
    fields: tuple[str, ...]
    headers: tuple[str, ...]
    moves: bool
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "HeaderFrom"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        fields, headers = names(settings["fields"]), names(settings["headers"])
        if len(fields) != len(headers):
            raise ConfigException(
                "fields", list(fields), "'fields' config must have the same number of elements as 'headers' config."
            )
        return cls(fields, headers, settings["operation"] == "move", replaces_null(settings))

    @property
    def _purpose(self) -> str:
        return "header move" if self.moves else "header copy"

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, self._purpose)
            values = [F.try_element_at(members, F.lit(field)) for field in self.fields]
            added = [
                _header(name, F.when(~F.is_variant_null(value), value), F.lit(None))
                for name, value in zip(self.headers, values, strict=True)
            ]
            if self.moves:
                members = F.map_filter(members, lambda name, _: ~name.isin(*self.fields))
            changed = Operand.of_members(operand.present, members)
        else:
            schema, columns, wrong = require_struct(operand, self._purpose)
            added, changed = self._typed(schema, columns, operand)
        headers = _with_headers(record.headers, *added)
        return Outcome(replace(record.with_operand(self.side, changed), headers=headers), wrong)

    def _typed(
        self, schema: ConnectSchema, columns: Mapping[str, Column], operand: Operand
    ) -> tuple[list[Column], Operand]:
        added = []
        for field, name in zip(self.fields, self.headers, strict=True):
            found = schema.field_by_name.get(field)
            if found is None:
                raise DataException(f"{field} is not a valid field name")
            column = with_default(found.schema, columns[field], self.replaces)
            added.append(_header(name, variant_of(found.schema, column), F.lit(schema_text(found.schema))))
        if not self.moves:
            return added, operand
        kept = tuple(field for field in schema.fields if field.name not in self.fields)
        values = with_defaults(kept, columns, self.replaces)
        return added, Operand.of_fields(struct_like(schema, kept), operand.present, values)


def _header(name: str, value: Column, schema: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"), schema.cast("string").alias("schema"))


def _with_headers(headers: Column, *added: Column) -> Column:
    """Append headers, each a struct of HEADERS, to the existing ones."""
    present = F.coalesce(headers, F.array().cast(HEADERS))
    return F.concat(present, F.array(*added).cast(HEADERS)) if added else present
