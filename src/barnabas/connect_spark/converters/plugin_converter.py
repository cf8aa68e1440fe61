"""A converter of another package (``connect.plugins.record_plugins``) as one of the worker's converters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import types as t

from barnabas.connect.plugins.record_plugins import CheckedColumn, UnsupportedData
from barnabas.connect.plugins.record_plugins import Converter as ConverterPlugin
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["PluginConverter"]


@dataclass(frozen=True)
class PluginConverter(Converter):
    plugin: ConverterPlugin

    java_class: ClassVar[str] = ""

    def __post_init__(self) -> None:
        # Dead letters name the class of the plugin.
        object.__setattr__(self, "java_class", f"{type(self.plugin).__module__}.{type(self.plugin).__qualname__}")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        raise NotImplementedError("a plugin is created with its own settings")

    @cached_property
    def _schema(self) -> ConnectSchema | None:
        found = self.plugin.data_type()
        return connect_schema(t.DataType.fromDDL(found) if isinstance(found, str) else found)

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        made = _checked(self.plugin.decode(prepared))
        return Decoded(self._schema, made.column.cast(spark_type(self._schema)), made.error)

    def from_connect(self, datum: Datum) -> Encoded:
        try:
            made = _checked(self.plugin.encode(datum.column, spark_type(datum.schema)))
        except UnsupportedData as error:
            raise DataException(str(error)) from error
        return Encoded(made.column.cast("binary"), made.error)

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        raise DataException(f"{self.java_class} converts no headers")


def _checked(made: Column | CheckedColumn) -> CheckedColumn:
    return made if isinstance(made, CheckedColumn) else CheckedColumn(made)
