"""All converters of a connector together: raw Kafka records <-> RecordBatches.

Rows of one schema are processed together, because a column of Spark has one type. Only where a converter can't know the
schemas (JsonConverter with ``schemas.enable``, converters with a registry) does a query find those of the micro-batch;
it reads the batch once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.converter_registry import converter_of
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.record_batch import (
    FAILURE,
    HEADERS,
    ORIGINAL_TYPES,
    RAW_HEADERS,
    Datum,
    RecordBatch,
    Stage,
)
from barnabas.connect_spark.converters.schema_merging import inferred_type, merged_type, moved
from barnabas.connect_spark.converters.session_cache import SessionCache
from barnabas.connect_spark.converters.source_frame import source_batch
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from barnabas.connect.plugins.record_plugins import RecordPlugin

__all__ = ["RecordConverter", "failure_of"]

_PLACE = ("topic", "partition", "offset", "timestamp")
_FRAME = (*_PLACE, "key", "value", "headers")
_ORIGINALS = {f"original_{name}": name for name in ("topic", "partition", "offset")}
_DEFAULT_HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def failure_of(stage: Stage, java_class: str, error: Column, exception_class: Column | None = None) -> Column:
    """Return the value of ``failure``: null without an error."""
    thrown = F.lit("org.apache.kafka.connect.errors.DataException") if exception_class is None else exception_class
    failure = F.struct(
        F.lit(str(stage)).alias("stage"),
        F.lit(java_class).alias("executing_class"),
        thrown.alias("exception_class"),
        error.alias("message"),
    )
    return F.when(error.isNotNull(), failure)


@dataclass(frozen=True)
class _Columns:
    columns: tuple[Column, ...]
    key_schema: ConnectSchema | None
    value_schema: ConnectSchema | None
    can_fail: bool = True
    read_columns: tuple[Column, ...] = ()
    """For data from Kafka, a step before: ``columns`` are made of these."""


@dataclass(frozen=True)
class RecordConverter:
    key: Converter
    value: Converter
    header: Converter
    _decoded: SessionCache[_Columns] = field(default_factory=SessionCache, compare=False, repr=False)
    _encoded: SessionCache[_Columns] = field(default_factory=SessionCache, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugins: Mapping[str, type[RecordPlugin]] | None = None,
    ) -> RecordConverter:
        """Create the connector's converters with the settings below ``key.converter`` etc., else the worker's with its
        own.

        Raise ConfigException for an unknown class or an invalid setting.
        """

        def find(setting: str, otherwise: str) -> Converter:
            config = connector_config if connector_config.get(setting) else worker_config
            prefix = setting + "."
            below = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
            return converter_of(setting, config.get(setting) or otherwise, below, plugins)

        return cls(find("key.converter", ""), find("value.converter", ""), find("header.converter", _DEFAULT_HEADER))

    @property
    def knows_schemas(self) -> bool:
        """Return whether the schemas of all records are known before any record is read."""
        return all(
            converter.frame(F.col(name)) is None and converter.variety(F.col(name)) is None
            for name, converter in (("key", self.key), ("value", self.value))
        )

    # ---- From Kafka ----

    def for_stream(self, topic: str) -> RecordConverter:
        """Return the converter of a topic whose schemas are known before any record, as far as its converters can.

        Raise TerminalError or RegistryUnreachable.
        """
        return replace(self, key=self.key.stream_reader(topic), value=self.value.stream_reader(topic))

    def to_connect(self, raw: DataFrame) -> list[RecordBatch]:
        """Convert records for a sink.

        ``raw`` has the columns of Spark's Kafka source with ``includeHeaders``: topic, partition, offset, timestamp,
        key, value, headers; other columns are ignored. It should be cached if it is costly to read.
        """
        return self._reading(raw)._to_connect(raw)

    def _reading(self, raw: DataFrame) -> RecordConverter:
        """Return the converter for the schemas that these records name. It reads them once, if they name any."""
        named = {
            name: frame.alias(name)
            for name, converter in (("key", self.key), ("value", self.value))
            if (frame := converter.frame(F.col(name))) is not None
        }
        if not named:
            return self
        row = raw.select(*named.values()).agg(*(F.collect_set(name).alias(name) for name in named)).collect()[0]
        frames = {name: sorted(bytes(frame) for frame in row[name]) for name in named}
        return replace(self, key=_reader(self.key, frames.get("key")), value=_reader(self.value, frames.get("value")))

    def _to_connect(self, raw: DataFrame) -> list[RecordBatch]:
        headers = F.col("headers") if "headers" in raw.columns else F.lit(None).cast(RAW_HEADERS)
        own = {
            "headers": headers,
            "raw_key": F.col("key"),
            "raw_value": F.col("value"),
            "key": _prepared(self.key, F.col("key")),
            "value": _prepared(self.value, F.col("value")),
        }
        prepared = raw.select(*_PLACE, *(column.alias(name) for name, column in own.items()))
        key_variety, value_variety = self.key.variety(F.col("key")), self.value.variety(F.col("value"))
        if key_variety is None and value_variety is None:
            return [self._batch(prepared, None, None)]
        varieties = prepared.withColumns(
            {
                "key_variety": F.lit(None).cast("string") if key_variety is None else key_variety,
                "value_variety": F.lit(None).cast("string") if value_variety is None else value_variety,
            }
        )
        found = varieties.select("key_variety", "value_variety").distinct().collect()
        pairs = sorted(((row[0], row[1]) for row in found), key=lambda pair: (pair[0] or "", pair[1] or ""))
        if len(pairs) < 2:
            return [self._batch(prepared, *(pairs[0] if pairs else (None, None)))]
        return [
            self._batch(
                varieties.filter(F.col("key_variety").eqNullSafe(key) & F.col("value_variety").eqNullSafe(value)),
                key,
                value,
            )
            for key, value in pairs
        ]

    def _batch(self, prepared: DataFrame, key_variety: str | None, value_variety: str | None) -> RecordBatch:
        varieties = (key_variety, value_variety)
        kind = (self.key, self.value, *varieties)
        made = self._decoded.get(prepared.sparkSession, kind, lambda: self._decoding(*varieties))
        frame = prepared.select(*made.read_columns).select(*made.columns)
        return RecordBatch(frame, made.key_schema, made.value_schema, made.can_fail)

    def _decoding(self, key_variety: str | None, value_variety: str | None) -> _Columns:
        key, read_key = _decoded_once(self.key, "key", key_variety)
        value, read_value = _decoded_once(self.value, "value", value_variety)
        headers, header_error = self._headers(F.col("headers"))
        failure = self._failure(key.error, value.error, header_error)
        columns = (
            *(F.col(name) for name in _PLACE),
            key.column.alias("key"),
            value.column.alias("value"),
            headers.alias("headers"),
            failure.cast(FAILURE).alias("failure"),
            _original().alias("original"),
        )
        errors = (key.error, value.error, header_error)
        read_columns = (*(F.col(name) for name in (*_PLACE, "headers", "raw_key", "raw_value")), read_key, read_value)
        return _Columns(columns, key.schema, value.schema, any(error is not None for error in errors), read_columns)

    def _failure(self, key: Column | None, value: Column | None, header: Column | None) -> Column:
        """Return the first error. If none is possible the optimizer sees that, and examines no row."""
        found = [
            failure_of(stage, converter.java_class, error)
            for stage, converter, error in (
                (Stage.KEY_CONVERTER, self.key, key),
                (Stage.VALUE_CONVERTER, self.value, value),
                (Stage.HEADER_CONVERTER, self.header, header),
            )
            if error is not None
        ]
        return F.coalesce(*found) if found else F.lit(None).cast(FAILURE)

    def _headers(self, headers: Column) -> tuple[Column, Column | None]:
        def typed(header: Column) -> Column:
            read = self.header.header_to_connect(header["value"])
            return F.struct(header["key"].alias("key"), read.value.alias("value"), read.schema.alias("schema"))

        def error(header: Column) -> Column | None:
            return self.header.header_to_connect(header["value"]).error

        return _of_each(headers, typed).cast(HEADERS), _first(headers, error)

    # ---- To Kafka ----

    def from_source(self, frame: DataFrame) -> RecordBatch:
        """Convert the frame of ``SourceTask.read``: topic, value, and optionally partition, timestamp, key, headers.

        The result has the Connect schemas of its types. VARIANT is schemaless. Raise DataException for columns that a
        record does not have, or whose type Connect does not have.
        """
        return source_batch(frame)

    def from_connect(self, batches: Sequence[RecordBatch], topics: frozenset[str] | None = None) -> DataFrame:
        """Convert records for sources, and for sinks that write to topics. ``topics`` are all of theirs, if known.

        The columns are topic, partition, offset, timestamp, key and value (binary), headers (``RAW_HEADERS``), failure,
        original. Rows that failed earlier have a null key and value.
        """
        frames = (self._writing(batch, topics)._raw(batch) for batch in batches)
        return reduce(lambda combined, other: combined.unionByName(other), frames)

    def _writing(self, batch: RecordBatch, topics: frozenset[str] | None) -> RecordConverter:
        """Return the converter for the topics of a batch. It reads the batch once if they matter and are unknown."""

        @cache
        def all_topics() -> frozenset[str]:
            if topics is not None:
                return topics
            if batch.frame.isStreaming:
                raise TerminalError(
                    "the topics of this source are not known before it runs, and their schemas must be registered: "
                    "set value.converter.value.subject.name.strategy=RecordNameStrategy, and the key's likewise, or "
                    "use a worker with its own Spark"
                )
            return frozenset(str(row[0]) for row in batch.good.select("topic").distinct().collect())

        key = self.key if "key" in batch.absent else self.key.writer(batch.key_schema, all_topics)
        value = self.value.writer(batch.value_schema, all_topics)
        return self if key is self.key and value is self.value else replace(self, key=key, value=value)

    def _raw(self, batch: RecordBatch) -> DataFrame:
        kind = (batch.key_schema, batch.value_schema, batch.can_fail, batch.absent)
        key = (self.key, self.value, *kind)
        made = self._encoded.get(batch.frame.sparkSession, key, lambda: self._encoding(*kind))
        return batch.frame.select(*made.columns)

    def _encoding(
        self,
        key_schema: ConnectSchema | None,
        value_schema: ConnectSchema | None,
        can_fail: bool,
        absent: frozenset[str],
    ) -> _Columns:
        def encoded(converter: Converter, schema: ConnectSchema | None, name: str) -> Encoded:
            if name in absent:
                return Encoded(F.lit(None).cast("binary"), None)
            good = F.when(F.col("failure").isNull(), F.col(name)) if can_fail else F.col(name)
            return _encoded(converter, Datum(schema, good))

        key, value = encoded(self.key, key_schema, "key"), encoded(self.value, value_schema, "value")
        headers, header_error = F.lit(None).cast(RAW_HEADERS), None
        if "headers" not in absent:
            headers, header_error = self._raw_headers(F.col("headers"))
        failure = F.coalesce(F.col("failure"), self._failure(key.error, value.error, header_error))
        columns = (
            *(F.col(name) for name in _PLACE),
            key.column.alias("key"),
            value.column.alias("value"),
            headers.alias("headers"),
            failure.cast(FAILURE).alias("failure"),
            F.col("original"),
        )
        return _Columns(columns, key_schema, value_schema)

    def _raw_headers(self, headers: Column) -> tuple[Column, Column | None]:
        def raw(header: Column) -> Column:
            content = self.header.header_from_connect(header["value"], header["schema"]).column
            return F.struct(header["key"].alias("key"), content.alias("value"))

        def error(header: Column) -> Column | None:
            return self.header.header_from_connect(header["value"], header["schema"]).error

        return _of_each(headers, raw).cast(RAW_HEADERS), _first(headers, error)

    # ---- For plugins ----

    @staticmethod
    def merged(batches: Sequence[RecordBatch], columns: Sequence[str] = _FRAME, *, infers: bool = True) -> RecordBatch:
        """Merge all batches, bad rows included, with the wanted keys and values in the types of ``to_frame``.

        Without ``infers`` schemaless data stays VARIANT.
        """
        types = {
            name: [_actual_type(batch, name) if infers else _declared_type(batch, name) for batch in batches]
            for name in ("key", "value")
            if name in columns
        }
        targets = {name: _settled(merged_type(kinds)) for name, kinds in types.items()}

        def column(batch: RecordBatch, at: int, name: str) -> Column:
            if name not in types:
                return F.lit(None).alias(name) if name in ("key", "value") else F.col(name)
            return moved(F.col(name), _source(batch, name, types[name][at]), targets[name]).alias(name)

        names = (*_FRAME, "failure", "original")
        frames = [batch.frame.select(*(column(batch, at, name) for name in names)) for at, batch in enumerate(batches)]
        frame = reduce(lambda combined, other: combined.union(other), frames)
        return RecordBatch(frame, None, None, any(batch.can_fail for batch in batches))

    @staticmethod
    def to_frame(batches: Sequence[RecordBatch], columns: Sequence[str] = _FRAME) -> DataFrame:
        """Return one DataFrame for ``SinkTask.write``: the wanted columns of all good rows, in Connect's order.

        Different schemas are merged: a field that a record lacks is null, and types that don't fit together become
        VARIANT. Schemaless data gets the type that holds all of it, so that no field is lost.
        """
        wanted = [name for name in (*_FRAME, *_ORIGINALS) if name in columns]
        data = [name for name in ("key", "value") if name in wanted]
        types = {name: [_actual_type(batch, name) for batch in batches] for name in data}
        targets = {name: _settled(merged_type(kinds)) for name, kinds in types.items()}

        def column(batch: RecordBatch, at: int, name: str) -> Column:
            if name in _ORIGINALS:
                return F.col("original")[_ORIGINALS[name]].alias(name)
            if name not in types:
                return F.col(name)
            return moved(F.col(name), _source(batch, name, types[name][at]), targets[name]).alias(name)

        frames = [batch.good.select(*(column(batch, at, name) for name in wanted)) for at, batch in enumerate(batches)]
        return reduce(lambda combined, other: combined.union(other), frames)


def _prepared(converter: Converter, data: Column) -> Column:
    """Return what the converter prepares, evaluated once for each record."""
    prepared = converter.prepare(data)
    return prepared if prepared is data or converter.prepares_once else _once(prepared)


def _decoded_once(converter: Converter, name: str, variety: str | None) -> tuple[Decoded, Column]:
    """Return the decoded column, and the one from which it takes value and error."""
    column = F.col(name)
    decoded = _decoded(converter, column, variety)
    typed = decoded.column.cast(spark_type(decoded.schema))
    if decoded.error is None or converter.prepares_once:
        return Decoded(decoded.schema, typed, decoded.error), column
    both = _once(F.struct(typed.alias("decoded"), decoded.error.alias("error"))).alias(name)
    return Decoded(decoded.schema, column["decoded"], column["error"]), both


def _once(column: Column) -> Column:
    """Return the same column, evaluated once for each record.

    The optimizer copies a column's expression to each of its uses, so it would parse a record once for each of its
    fields. It copies none that is not deterministic, and to it the number of a partition is not.
    """
    return F.when(F.spark_partition_id() >= 0, column)


def _original() -> Column:
    """Return the record as it was read. Made last, and of single columns, it costs nothing unless a step uses it."""
    raw_names = {"key": "raw_key", "value": "raw_value"}
    return F.struct(*(F.col(raw_names.get(name, name)).cast(kind).alias(name) for name, kind in ORIGINAL_TYPES.items()))


def _of_each(headers: Column, change: Callable[[Column], Column]) -> Column:
    """Convert each header. Without headers return nothing of it, because the optimizer would not see that."""
    return F.when(headers.isNotNull(), F.transform(headers, change))


def _first(headers: Column, error: Callable[[Column], Column | None]) -> Column | None:
    """Return the first error of a record's headers; None if none of them can have one."""
    if error(F.get(headers, F.lit(0))) is None:
        return None

    def of_one(header: Column) -> Column:
        found = error(header)
        return no_error() if found is None else found

    errors = F.transform(headers, of_one)
    return F.get(F.filter(errors, lambda message: message.isNotNull()), F.lit(0))


def _decoded(converter: Converter, prepared: Column, variety: str | None) -> Decoded:
    try:
        return converter.to_connect(prepared, variety)
    except DataException as error:
        return Decoded(None, F.lit(None).cast("variant"), F.lit(str(error)))


def _encoded(converter: Converter, datum: Datum) -> Encoded:
    try:
        return converter.from_connect(datum)
    except DataException as error:
        # A null needs no converter: every converter accepts a tombstone.
        return Encoded(F.lit(None).cast("binary"), F.when(datum.column.isNotNull(), F.lit(str(error))))


def _reader(converter: Converter, frames: Sequence[bytes] | None) -> Converter:
    return converter if frames is None else converter.reader(frames)


def _schema(batch: RecordBatch, name: str) -> ConnectSchema | None:
    return batch.key_schema if name == "key" else batch.value_schema


def _actual_type(batch: RecordBatch, name: str) -> t.DataType:
    schema = _schema(batch, name)
    return inferred_type(batch.good, F.col(name)) if schema is None else spark_type(schema)


def _declared_type(batch: RecordBatch, name: str) -> t.DataType:
    return spark_type(_schema(batch, name))


def _source(batch: RecordBatch, name: str, actual: t.DataType) -> t.DataType:
    """Return the column's type: VARIANT for schemaless data, whatever type it fits."""
    if _schema(batch, name) is not None:
        return actual
    return t.NullType() if isinstance(actual, t.NullType) else t.VariantType()


def _settled(kind: t.DataType) -> t.DataType:
    return t.StringType() if isinstance(kind, t.NullType) else kind
