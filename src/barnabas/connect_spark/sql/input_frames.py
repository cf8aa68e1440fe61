"""The inputs of a query as DataFrames: records of topics as typed columns, and tables.

A topic's value that is an object becomes columns, one for each field; any other value is the column ``value``. Beside
them are the columns of ``METADATA_COLUMNS``, of which a field of the same name takes the place. Converters are
Connect's, as expressions of Spark.

A stream needs its columns before any record. JSON without a schema is one column of the type VARIANT. Of a schema
registry it takes the versions that the topic's subject has when the query starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog, require_iceberg
from barnabas.connect_spark.connectors.iceberg.iceberg_table import quoted_name
from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.positions.group_positions import kafka_json
from barnabas.connect_spark.queries.kafka_settings import spark_consumer_options
from barnabas.connect_spark.queries.record_path import raising
from barnabas.connect_spark.sessions.object_stores import require_s3
from barnabas.connect_spark.sessions.spark_packages import DELTA, require_package
from barnabas.connect_spark.sql.declarations import (
    EVENT_TIME,
    METADATA_COLUMNS,
    InputDeclaration,
    InvalidDeclaration,
    TableKind,
    TableLocation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from barnabas.connect_spark.converters.record_batch import RecordBatch

__all__ = ["INPUT_OPTION", "input_frame", "input_outline"]

INPUT_OPTION = "barnabas.input"
"""An option of the reader, by which the plan of a query says which input a source is."""
_HEADERS = "array<struct<key: string, value: string>>"

Offsets = Mapping[TopicPartition, int]


def input_frame(
    spark: SparkSession,
    declaration: InputDeclaration,
    client: Mapping[str, str],
    *,
    streaming: bool,
    starts: Offsets | None = None,
    ends: Offsets | None = None,
    records_max: int | None = None,
    tolerates: bool = False,
    with_headers: bool = True,
) -> DataFrame:
    """Return the input. ``client`` are the settings of the Kafka client, without those of the input.

    ``starts`` are the next offsets to read of all partitions, and ``ends`` those after the last record; ``ends`` are
    for a DataFrame that is not ``streaming``. ``records_max`` limits a batch of a stream. Records that can't be
    converted raise an error when they are read, or are left out if the query ``tolerates`` them.
    Without headers their column is null.

    Raise InvalidDeclaration or TerminalError.
    """
    if declaration.table is not None:
        return _table_frame(spark, declaration.table, declaration.options, f"inputs.{declaration.name}.")
    reader = _Topic(spark, declaration, client, tolerates=tolerates, with_headers=with_headers)
    return reader.stream(starts or {}, records_max) if streaming else reader.records(starts or {}, ends or {})


def input_outline(spark: SparkSession, declaration: InputDeclaration, frame: DataFrame, folder: str) -> DataFrame:
    """Return a DataFrame with the columns of an input ``frame``, and without what its converters do. It is never read:
    its plan shows what a query does with the input. ``folder`` is any that exists."""
    if declaration.topic is None:
        return frame
    return _Topic(spark, declaration, {}, tolerates=False, with_headers=False).outline(frame.schema, folder)


def _table_frame(spark: SparkSession, table: TableLocation, options: Mapping[str, str], prefix: str) -> DataFrame:
    """Return the table. ``prefix`` is that of its settings, for messages.

    Raise TerminalError, or Spark's AnalysisException for a table that can't be read.
    """
    require_s3(spark, table.address, f"{prefix}table")
    if table.kind is TableKind.DELTA:
        require_package(spark, DELTA, str(table))
        return spark.read.format("delta").load(table.address)
    if table.kind is TableKind.ICEBERG:
        require_iceberg(spark)
        catalog = IcebergCatalog.of(options)
        require_s3(spark, catalog.properties.get("warehouse", ""), f"{prefix}catalog.warehouse")
        catalog.open(spark)
        return spark.table(f"{catalog.name}.{quoted_name(table.address.split('.'))}")
    return spark.read.parquet(table.address)


class _Topic:
    def __init__(
        self,
        spark: SparkSession,
        declaration: InputDeclaration,
        client: Mapping[str, str],
        *,
        tolerates: bool,
        with_headers: bool,
    ) -> None:
        self._spark = spark
        self._declaration = declaration
        self._tolerates = tolerates
        settings = {**client, **declaration.consumer}
        self._options = {
            **spark_consumer_options(settings, settings.get("client.id", f"sql-{declaration.name}")),
            "includeHeaders": str(with_headers).lower(),
            "failOnDataLoss": "true",
            INPUT_OPTION: declaration.name,
        }
        self._converter = RecordConverter.of(declaration.converters, {})

    def records(self, starts: Offsets, ends: Offsets) -> DataFrame:
        reader = self._spark.read.format("kafka").options(**self._options)
        raw = (
            reader.option("assign", json.dumps(_assigned(starts)))
            .option("startingOffsets", json.dumps(kafka_json(starts)))
            .option("endingOffsets", json.dumps(kafka_json(ends)))
            .load()
        )
        frames = [self._good(batch) for batch in self._converter.to_connect(raw)]
        return _combined([self._with_event_time(self._columns(frame)) for frame in frames])

    def stream(self, starts: Offsets, records_max: int | None) -> DataFrame:
        declaration = self._declaration
        reader = self._spark.readStream.format("kafka").options(**self._options)
        if records_max is not None:
            reader = reader.option("maxOffsetsPerTrigger", records_max)
        # Subscribed and not assigned: Spark then finds partitions that are added later.
        raw = (
            reader.option("subscribe", str(declaration.topic))
            .option("startingOffsets", json.dumps(kafka_json(starts)))
            .load()
        )
        return self._timed(self._columns(self._good(self._stream_batch(raw))))

    def outline(self, schema: StructType, folder: str) -> DataFrame:
        """Return a stream of the same columns that is never read."""
        columns = [field for field in schema.fields if field.name != EVENT_TIME]
        return self._timed(self._spark.readStream.schema(StructType(columns)).json(folder))

    def _timed(self, frame: DataFrame) -> DataFrame:
        """Return the rows with their event time, its watermark, and without duplicates."""
        frame = self._with_event_time(frame)
        if self._declaration.watermark is not None:
            frame = frame.withWatermark(self._time_column(frame), self._declaration.watermark)
        return self._deduplicated(frame)

    def _stream_batch(self, raw: DataFrame) -> RecordBatch:
        converter = self._converter.for_stream(str(self._declaration.topic))
        if not converter.knows_schemas:
            raise self._invalid(
                "format",
                "the schema of a record is in the record, and the columns of a query must be known before: use json "
                "with a schema, or a format with a schema registry.",
            )
        try:
            return converter.to_connect(raw)[0]
        except DataException as error:
            raise self._invalid("format", str(error)) from None

    def _good(self, batch: RecordBatch) -> DataFrame:
        if not batch.can_fail:
            return batch.frame
        return (batch.frame if self._tolerates else raising(batch.frame)).filter("failure IS NULL")

    def _columns(self, frame: DataFrame) -> DataFrame:
        """Return the fields of the value, and the metadata."""
        kind = frame.schema["value"].dataType
        values = {"value": F.col("value")}
        if isinstance(kind, StructType):
            values = {name: F.col("value").getField(name) for name in kind.fieldNames()}
        taken = {name.lower() for name in values}
        metadata = {name: column for name, column in _metadata().items() if name.lower() not in taken}
        return frame.select(*(column.alias(name) for name, column in {**values, **metadata}.items()))

    def _with_event_time(self, frame: DataFrame) -> DataFrame:
        given = self._declaration.event_time
        if given is None:
            return frame
        try:
            kind = frame.select(F.expr(given)).schema[0].dataType.simpleString()
        except Exception as error:
            raise self._invalid("event.time", f"{given} can't be computed: {_first_line(error)}") from None
        if not kind.startswith("timestamp"):
            raise self._invalid(
                "event.time",
                f"{given} is of the type {kind}, and must be a timestamp, for example timestamp_millis({given}).",
            )
        return frame if given in frame.columns else frame.withColumn(EVENT_TIME, F.expr(given))

    def _time_column(self, frame: DataFrame) -> str:
        given = self._declaration.event_time
        if given is None:
            return "_timestamp"
        return given if given in frame.columns else EVENT_TIME

    def _deduplicated(self, frame: DataFrame) -> DataFrame:
        declaration = self._declaration
        columns = declaration.deduplicate_by
        missing = [name for name in columns if name not in frame.columns]
        if missing:
            raise self._invalid("deduplicate.by", f"{', '.join(missing)}: the input has {', '.join(frame.columns)}.")
        if not columns:
            return frame
        if declaration.watermark is None:
            return frame.dropDuplicates(list(columns))
        return frame.dropDuplicatesWithinWatermark(list(columns))

    def _invalid(self, setting: str, text: str) -> InvalidDeclaration:
        return InvalidDeclaration({f"inputs.{self._declaration.name}.{setting}": [text]})


def _metadata() -> dict[str, Column]:
    columns: list[Column] = [F.col(name) for name in ("topic", "partition", "offset", "timestamp", "key")]
    headers = F.col("original")["headers"].cast(_HEADERS)
    return dict(zip(METADATA_COLUMNS, [*columns, headers], strict=True))


def _combined(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of records with several schemas: a column that some lack is null there."""
    first, *others = frames
    for other in others:
        first = first.unionByName(other, allowMissingColumns=True)
    return first


def _assigned(offsets: Offsets) -> dict[str, list[int]]:
    assigned: dict[str, list[int]] = {}
    for topic, partition in sorted(offsets):
        assigned.setdefault(topic, []).append(partition)
    return assigned


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
