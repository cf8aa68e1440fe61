"""The interface for authors of transforms, predicates and converters: what happens to records between Kafka and a
connector, as expressions of Spark.

A transform is a class with its settings and one method, which changes columns::

    class Shout(Transform):
        version = "1.0"
        config_def = ConfigDef([ConfigKey("mark", default="!", documentation="What is appended.")])

        def apply(self, record):
            return record.with_value(F.concat(F.upper(record.value), F.lit(self.settings["mark"])))

Spark plans the expression once for each kind of record, so no record passes through Python, unless the expression is a
pandas function (``pyspark.sql.functions.pandas_udf``). Then Spark passes whole columns, and the function's package must
be installed where Spark's executors run.

An object is created for each task and lives as long as the task. Types are Spark's; data without a schema is VARIANT.
Expressions must accept nulls, and also the data of records that an earlier step has rejected.

Nothing here imports PySpark, and a plugin's module should import it inside of methods: a worker lists and validates
plugins without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigValue

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

__all__ = ["CheckedColumn", "Converter", "Predicate", "RecordColumns", "RecordPlugin", "Transform", "UnsupportedData"]


class UnsupportedData(Exception):
    """No record with data of these types can be processed. All of them become bad records with this text."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """A record as columns. ``with_*`` return a changed one; unchanged columns cost nothing."""

    topic: Column
    partition: Column
    offset: Column
    """Null in a source."""
    timestamp: Column
    key: Column
    value: Column
    headers: Column
    """``array<struct<key: string, value: variant, schema: string>>``, the schema as Connect's JSON; it may be null."""
    key_type: DataType
    value_type: DataType
    error: Column | None = None
    """Why a record can't be processed, as text; null where it can. Such records become bad records."""

    def with_value(self, value: Column) -> RecordColumns:
        return replace(self, value=value)

    def with_key(self, key: Column) -> RecordColumns:
        return replace(self, key=key)

    def with_topic(self, topic: Column) -> RecordColumns:
        return replace(self, topic=topic)

    def with_headers(self, headers: Column) -> RecordColumns:
        return replace(self, headers=headers)

    def with_error(self, error: Column) -> RecordColumns:
        return replace(self, error=error)


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """The result of a converter: data, and for each record the reason why it can't be converted, or null."""

    column: Column
    error: Column | None = None


class RecordPlugin:
    """The common base of transforms, predicates and converters; derive from one of these."""

    version: ClassVar[str | None] = None
    """The version in listings and for version ranges, such as "1.4.0"."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The plugin's own settings. Users write them with the prefix of the alias, or of the converter."""

    aliases: ClassVar[tuple[str, ...]] = ()
    """Other full names, such as the Java class whose settings this one understands."""

    def __init__(self, settings: Mapping[str, ConfigValue]) -> None:
        """``settings`` are those of ``config_def``, checked and typed. Raise ConfigException for rules between them."""
        self.settings = settings


class Transform(RecordPlugin):
    """Changes records. Users choose it with ``transforms.<alias>.type``, and may give it a predicate."""

    def apply(self, record: RecordColumns) -> RecordColumns:
        """Return the changed record. Raise UnsupportedData if it accepts no data of these types.

        Called once for each pair of types, not for each record.
        """
        raise NotImplementedError


class Predicate(RecordPlugin):
    """Decides to which records a transform applies. Users choose it with ``predicates.<alias>.type``."""

    def test(self, record: RecordColumns) -> Column:
        """Return a boolean for each record. Null counts as false."""
        raise NotImplementedError


class Converter(RecordPlugin):
    """Converts the bytes of keys or values to typed data and back. Users choose it with ``value.converter`` or
    ``key.converter``; their headers have the built-in converters."""

    def data_type(self) -> DataType | str:
        """Return the type of ``decode``; as text it is DDL, such as ``struct<id: bigint, name: string>``."""
        raise NotImplementedError

    def decode(self, data: Column) -> Column | CheckedColumn:
        """Return the data of bytes, in ``data_type()``. Null bytes are a record without a value, and stay null."""
        raise NotImplementedError

    def encode(self, data: Column, data_type: DataType) -> Column | CheckedColumn:
        """Return the bytes of data of this type. Raise UnsupportedData for a type that it can't write.

        Null stays null: it is a tombstone.
        """
        raise NotImplementedError
