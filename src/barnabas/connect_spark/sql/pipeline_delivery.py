"""How the rows of a batch arrive, with the positions after it: in a topic, or in a table.

Steps of a batch to a topic: (1) rows are written, (2) positions are written. With exactly-once support both are one
transaction; otherwise a crash between them repeats the batch.

Steps of a batch to a table: (1) its start and end are noted among Connect's positions, unless the query has state,
whose checkpoint has them; (2) the table commits rows and the number of the batch; (3) positions are written. After a
crash between (2) and (3) the table has the number, so the batch is not delivered again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.connect.plugins.api import ConsumedOffsets, TaskContext
from barnabas.connect_spark.queries.record_path import RecordPath
from barnabas.connect_spark.queries.row_count import RowCount
from barnabas.connect_spark.queries.source_delivery import TransactionCalls, delivery_of, finish_measured
from barnabas.connect_spark.queries.topic_writer import TopicWriter
from barnabas.connect_spark.sql.declarations import InputDeclaration, OutputDeclaration
from barnabas.connect_spark.sql.pipeline_batch import PipelineBatch
from barnabas.connect_spark.sql.pipeline_positions import InputOffsets, PlannedBatch, RunPosition
from barnabas.connect_spark.sql.rows import key_column, value_column
from barnabas.connect_spark.sql.table_output import TableOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.task_spec import OffsetWriter, TaskSpec

__all__ = ["PipelineDelivery", "TableDelivery", "TopicDelivery"]


class PipelineDelivery(Protocol):
    def open(self, spark: SparkSession) -> None:
        """Prepare for a query, before positions are read. ``spark`` is the worker's session."""

    def delivered(self) -> int | None:
        """Return the id of the last batch that the output itself knows; None if it knows none."""

    def begin_run(self, run: RunPosition) -> None:
        """Note a new run of a query with state, before its first batch."""

    def adopt(self, batch: PipelineBatch) -> None:
        """Write the positions after a batch that was delivered before a crash."""

    def deliver(self, rows: DataFrame, batch: PipelineBatch, gate: BatchGate) -> None:
        """Write the rows and the positions of a batch."""

    def close(self) -> None: ...


class TopicDelivery:
    def __init__(
        self,
        spec: TaskSpec,
        output: OutputDeclaration,
        inputs: Sequence[InputDeclaration],
        path: RecordPath,
        write_offsets: OffsetWriter,
        uses_topics: Callable[[frozenset[str]], None],
        transactions: TransactionCalls | None,
    ) -> None:
        """Raise ConfigException."""
        self._spec = spec
        self._output = output
        self._inputs = [declaration for declaration in inputs if "bootstrap.servers" not in declaration.consumer]
        self._has_transactions = transactions is not None
        self._delivery = delivery_of(spec, write_offsets, transactions)
        self._writer = TopicWriter(spec, path, uses_topics, has_transactions=self._has_transactions)

    def open(self, spark: SparkSession) -> None:
        self._delivery.open(spark)

    def delivered(self) -> int | None:
        return None

    def begin_run(self, run: RunPosition) -> None:
        """With transactions the first batch brings it: without one, nothing was delivered.

        Otherwise a crash may leave only some positions of the first batch. Without this one, the next start would begin
        with an empty state after records that were read.
        """
        if not self._has_transactions:
            self._delivery.finish([run.pair])

    def adopt(self, batch: PipelineBatch) -> None:
        if not self._has_transactions:  # A transaction has all of them.
            self._delivery.finish(batch.pairs)

    def deliver(self, rows: DataFrame, batch: PipelineBatch, gate: BatchGate) -> None:
        topic = str(self._output.topic)
        with self._delivery.batch():
            records = self._records(rows, topic)
            self._writer.write(self._delivery, records, None, frozenset((topic,)), read=batch.records)
            gate.ensure_unfenced()
            finish_measured(self._delivery, self._spec.figures, batch.pairs, self._consumed(batch.ends))

    def close(self) -> None:
        self._delivery.close()

    def _records(self, rows: DataFrame, topic: str) -> DataFrame:
        from pyspark.sql import functions as F

        columns = [F.lit(topic).alias("topic"), value_column(rows, self._output).alias("value")]
        key = key_column(self._output, is_object=False)
        return rows.select(*columns, *(() if key is None else (key.alias("key"),)))

    def _consumed(self, ends: InputOffsets) -> ConsumedOffsets | None:
        """Return offsets for the pipeline's consumer group, in which every tool sees its lag."""
        if not self._has_transactions:
            return None
        found: dict[TopicPartition, int] = {}
        for declaration in self._inputs:
            for partition, end in ends.get(declaration.name, {}).items():
                found[partition] = min(end, found.get(partition, end))
        return ConsumedOffsets(f"connect-{self._spec.task.connector}", found)


class TableDelivery:
    def __init__(
        self,
        spec: TaskSpec,
        output: OutputDeclaration,
        write_offsets: OffsetWriter,
        context_of: Callable[[Mapping[str, str], Mapping[str, object]], TaskContext],
        transactions: TransactionCalls | None,
    ) -> None:
        """Raise ConfigException."""
        self._spec = spec
        self._transactions = transactions
        self._table = TableOutput(output, context_of)
        self._write_offsets = write_offsets

    def open(self, spark: SparkSession) -> None:
        if self._transactions is not None:
            self._transactions.confirm()
            self._transactions.read_offsets_to_end()
        self._table.start(spark)

    def delivered(self) -> int | None:
        return self._table.delivered()

    def begin_run(self, run: RunPosition) -> None:
        self._write_offsets([run.pair])

    def adopt(self, batch: PipelineBatch) -> None:
        self._write_offsets(batch.pairs)

    def deliver(self, rows: DataFrame, batch: PipelineBatch, gate: BatchGate) -> None:
        figures, began_s, count = self._spec.figures, time.monotonic(), RowCount()
        figures.has_read(batch.records)
        if batch.run is None:
            self._write_offsets([PlannedBatch(batch.id, batch.starts, batch.ends).pair])
        self._table.write(count.on(rows), batch.id, gate, keeps=batch.run is not None)
        gate.ensure_unfenced()
        written = (count.result() or (0, 0))[0]
        figures.has_written(read=batch.records, written=written, took_ms=_ms_since(began_s))
        began_s = time.monotonic()
        self._write_offsets(batch.pairs)
        figures.has_committed(_ms_since(began_s))

    def close(self) -> None:
        self._table.stop()


def _ms_since(began_s: float) -> int:
    return int((time.monotonic() - began_s) * 1000)
