"""Transforms and predicates of other packages (``connect.plugins.record_plugins``) as steps of a chain.

A plugin returns expressions. Their types, from which schemas follow, are those that Spark's analysis finds; it reads no
record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.errors import InvariantViolated
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.record_plugins import Predicate as PredicatePlugin
from barnabas.connect.plugins.record_plugins import RecordColumns, UnsupportedData
from barnabas.connect.plugins.record_plugins import Transform as TransformPlugin
from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type
from barnabas.connect_spark.transforms.record_expressions import Operand, Outcome, Record
from barnabas.connect_spark.transforms.transform import Predicate, Transform

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["PluginPredicate", "PluginTransform"]

_UNCHANGEABLE = ("partition", "offset", "timestamp", "key_type", "value_type")


@dataclass(frozen=True)
class PluginTransform(Transform):
    plugin: TransformPlugin

    name: ClassVar[str] = ""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        raise NotImplementedError("a plugin is created with its own settings")

    def apply(self, record: Record) -> Outcome:
        before = _columns_of(record)
        try:
            after = self.plugin.apply(before)
        except UnsupportedData as error:
            raise DataException(str(error)) from error
        self._check(before, after)
        key, value = (
            operand if changed is given else self._operand(changed, record)
            for operand, given, changed in (
                (record.key, before.key, after.key),
                (record.value, before.value, after.value),
            )
        )
        result = replace(record, topic=after.topic, headers=after.headers, key=key, value=value)
        return Outcome(result, after.error)

    def _check(self, before: RecordColumns, after: object) -> None:
        name = type(self.plugin).__qualname__
        if not isinstance(after, RecordColumns):
            raise TerminalError(f"{name}.apply returned {type(after).__name__}, not the changed record")
        changed = [part for part in _UNCHANGEABLE if getattr(after, part) is not getattr(before, part)]
        if changed:
            raise TerminalError(f"{name}.apply changed {', '.join(changed)}, which a transform can't change")

    @staticmethod
    def _operand(column: Column, record: Record) -> Operand:
        if record.type_of is None:
            raise InvariantViolated("a record of a chain knows the types of its columns")
        found = record.type_of(column)
        schema = connect_schema(found)
        kind = spark_type(schema)
        return Operand.of(schema, column if kind == found else column.cast(kind))


@dataclass(frozen=True)
class PluginPredicate(Predicate):
    plugin: PredicatePlugin

    name: ClassVar[str] = ""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        raise NotImplementedError("a plugin is created with its own settings")

    def test(self, record: Record) -> Column:
        try:
            return F.coalesce(self.plugin.test(_columns_of(record)), F.lit(False))
        except UnsupportedData as error:
            raise TerminalError(f"{type(self.plugin).__qualname__} can't test these records: {error}") from error


def _columns_of(record: Record) -> RecordColumns:
    key_schema, value_schema = record.schemas
    return RecordColumns(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key.whole,
        record.value.whole,
        record.headers,
        spark_type(key_schema),
        spark_type(value_schema),
    )
