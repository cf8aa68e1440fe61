"""The steps between Kafka and a plugin: for a sink converters, then transforms; for a source the reverse.

A bad record alone does not end a query: the step that rejects it writes a reason to the column ``failure``
(``record_batch.FAILURE``), and later steps don't change such rows. The last step decides about them. Without
tolerance, evaluating the reason raises an error that names topic, partition and offset. With it, such rows are skipped
and counted while the good ones are written. Only if bad rows exist is the batch read once more, for the log and the
dead-letter topic. So a stream without bad records has no extra cost, and no record passes through Python.

If no step depends on the records of a micro-batch, all of them are part of the streaming query (``fixed_batch``). The
query is then built once and not for each batch, and columns that the task does not use are never computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from barnabas.connect.plugins.api import SinkTask, TerminalError
from barnabas.connect_spark.converters.record_batch import FAILURE, RecordBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from barnabas.connect.plugins.record_plugins import RecordPlugin

__all__ = [
    "ORIGINAL_COLUMNS",
    "SINK_COLUMNS",
    "ConverterPath",
    "RecordPath",
    "counted",
    "raising",
    "refusing",
    "strict",
    "used_columns",
]

SINK_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns that ``SinkTask.write`` receives."""

ORIGINAL_COLUMNS = ("original_topic", "original_partition", "original_offset")
"""The place of a record in Kafka, for tasks that name these columns."""


class RecordPath(Protocol):
    """Converters and transforms of one connector."""

    def sink_batches(self, raw: DataFrame) -> list[RecordBatch]:
        """Convert and transform the records of Spark's Kafka source. Return one batch for each pair of schemas."""

    def sink_frame(self, batches: Sequence[RecordBatch], columns: Sequence[str] = SINK_COLUMNS) -> DataFrame:
        """Return the good rows of all batches, for ``SinkTask.write``."""

    def merged_batch(
        self, batches: Sequence[RecordBatch], columns: Sequence[str], *, takes_variant: bool
    ) -> RecordBatch:
        """Merge all batches, bad rows included, in the types of ``sink_frame``.

        With ``takes_variant`` data without a schema stays VARIANT.
        """

    def fixed_batch(self, raw: DataFrame, columns: Sequence[str]) -> RecordBatch | None:
        """Return the only one of ``sink_batches``, for a whole stream.

        None where schemas, or the types of these columns, depend on the records of a micro-batch.
        """

    def source_records(self, frame: DataFrame, topics: frozenset[str] | None = None) -> DataFrame:
        """Transform and convert the frame of ``SourceTask.read``. ``topics`` are all topics of the frame, if known.

        The columns are topic, partition, timestamp, key and value as bytes, headers, failure.
        """


class ConverterPath:
    """The converters and transforms that the settings name."""

    def __init__(
        self,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugins: Mapping[str, type[RecordPlugin]] | None = None,
    ) -> None:
        """Create them. ``plugins`` are those of other packages, by full name. Raise ConfigException."""
        from barnabas.connect_spark.converters.record_converter import RecordConverter
        from barnabas.connect_spark.transforms.transform_chain import TransformChain

        self._converter = RecordConverter.of(connector_config, worker_config, plugins)
        self._transforms = TransformChain.of(connector_config, plugins)

    def sink_batches(self, raw: DataFrame) -> list[RecordBatch]:
        return self._transforms.apply(self._converter.to_connect(raw))

    def sink_frame(self, batches: Sequence[RecordBatch], columns: Sequence[str] = SINK_COLUMNS) -> DataFrame:
        return self._converter.to_frame(batches, columns)

    def merged_batch(
        self, batches: Sequence[RecordBatch], columns: Sequence[str], *, takes_variant: bool
    ) -> RecordBatch:
        return self._converter.merged(batches, columns, infers=not takes_variant)

    def fixed_batch(self, raw: DataFrame, columns: Sequence[str]) -> RecordBatch | None:
        if not self._converter.knows_schemas:
            return None
        batches = self.sink_batches(raw)
        schemas = {"key": batches[0].key_schema, "value": batches[0].value_schema}
        if len(batches) > 1 or any(schema is None and name in columns for name, schema in schemas.items()):
            return None
        return batches[0]

    def source_records(self, frame: DataFrame, topics: frozenset[str] | None = None) -> DataFrame:
        batches = self._transforms.apply([self._converter.from_source(frame)])
        # A transform may change the topic.
        return self._converter.from_connect(batches, None if self._transforms.steps else topics)


def used_columns(task: SinkTask) -> tuple[str, ...]:
    """Return the columns that the task uses, from ``SINK_COLUMNS``, in this order. Raise TerminalError."""
    names = task.columns()
    if names is None:
        return SINK_COLUMNS
    known = (*SINK_COLUMNS, *ORIGINAL_COLUMNS)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise TerminalError(
            f"{type(task).__name__}.columns returns {', '.join(unknown) or 'none'}; a sink can use {', '.join(known)}"
        )
    return tuple(name for name in known if name in names)


def strict(batch: RecordBatch) -> RecordBatch:
    """Make bad records fail the batch."""
    return batch.with_frame(raising(batch.frame)) if batch.can_fail else batch


def raising(frame: DataFrame) -> DataFrame:
    """Return the same rows. Evaluating the failure of a bad row raises its error."""
    from pyspark.sql import functions as F

    original = F.col("original")
    place = F.concat(
        F.lit(" of the record at "),
        original["topic"],
        F.lit("-"),
        original["partition"].cast("string"),
        F.lit(", offset "),
        original["offset"].cast("string"),
    )

    def raised(failure: Column) -> Column:
        reason = F.concat(
            F.lit("Tolerance exceeded in error handler: "),
            failure["stage"],
            F.coalesce(place, F.lit("")),
            F.lit(" failed in "),
            failure["executing_class"],
            F.lit(": "),
            failure["exception_class"],
            F.lit(": "),
            failure["message"],
        )
        return F.raise_error(reason).cast(FAILURE)

    # In a lambda function the failure is written once. Otherwise Spark would copy all of its expression to each of its
    # fields, and Java does not compile methods of that size.
    failure = F.col("failure")
    error = F.get(F.transform(F.array(failure), raised), F.lit(0))
    return frame.withColumn("failure", F.when(failure.isNotNull(), error))


def refusing(batch: RecordBatch, task: SinkTask) -> RecordBatch:
    """Mark records that the task itself refuses as bad records of the stage TASK_PUT."""
    from pyspark.sql import functions as F

    message = task.refused(batch.frame)
    if message is None:
        return batch
    failure = F.struct(
        F.lit("TASK_PUT").alias("stage"),
        F.lit(f"{type(task).__module__}.{type(task).__qualname__}").alias("executing_class"),
        F.lit("org.apache.kafka.connect.errors.DataException").alias("exception_class"),
        message.alias("message"),
    )
    found = F.when(F.col("failure").isNull() & message.isNotNull(), failure.cast(FAILURE))
    frame = batch.frame.withColumn("failure", F.coalesce(F.col("failure"), found))
    return replace(batch, frame=frame, can_fail=True)


def counted(frame: DataFrame, observation: Observation) -> DataFrame:
    """Return the same rows. The first action on them counts them as ``rows``, and the bad ones as ``failures``."""
    from pyspark.sql import functions as F

    return frame.observe(observation, F.count(F.lit(1)).alias("rows"), F.count("failure").alias("failures"))
