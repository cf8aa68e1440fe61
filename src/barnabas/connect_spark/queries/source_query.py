"""A source's task: ``SourceTask.read`` -> transforms -> converters -> Kafka, one micro-batch after another.

The order of steps: a batch is (1) written to its topics, (2) its positions are written to the offset topic, (3) Spark
notes it as finished. After a crash before (2) it is written again; after (2) never, because the offset topic decides.
With exactly-once delivery (1) and (2) are one transaction (``source_delivery``), which takes several batches if the
task says where it ends.

Where a query begins: a plugin that defines Connect positions (``offsets_of``) reads them itself, so its query always
has a fresh checkpoint. For other plugins the positions are Spark's own, stored unchanged (``spark_positions``). A fresh
checkpoint is then written as if its first batch had ended there, which Spark's sources support. Records may have
positions of their own, as columns (``record_positions``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.connect.decide.tasks.transaction_requests import TransactionEnd, TransactionRequests
from barnabas.connect.metrics.task_metrics import TaskKind
from barnabas.connect.plugins.api import ConsumedOffsets, SourceOffset, SourceTask, TerminalError
from barnabas.connect_spark.positions.checkpoints import Checkpoint, fresh_checkpoint, open_checkpoint
from barnabas.connect_spark.positions.spark_positions import SparkPositions
from barnabas.connect_spark.queries.batch_loop import BatchLoop, PolledBatches
from barnabas.connect_spark.queries.followed_query import FollowedQuery, refuse_unfollowable
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask, Poller
from barnabas.connect_spark.queries.query_handle import start_query
from barnabas.connect_spark.queries.record_path import RecordPath
from barnabas.connect_spark.queries.record_positions import (
    POSITION_COLUMNS,
    TRANSACTION,
    Part,
    check_positions,
    has_positions,
    parts_of,
)
from barnabas.connect_spark.queries.running_query import BatchEnds, RunningQuery
from barnabas.connect_spark.queries.source_delivery import (
    ExactlyOnce,
    Offsets,
    TransactionCalls,
    delivery_of,
    finish_measured,
    producer_options,
)
from barnabas.connect_spark.queries.topic_writer import TopicWriter
from barnabas.connect_spark.sessions.session_kind import is_remote
from barnabas.connect_spark.sessions.spark_settings import QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.task_spec import OffsetWriter, SourceOffsetReader, TaskSpec

__all__ = ["SourceProgram"]

log = logging.getLogger(__name__)

_COLUMNS = frozenset({"topic", "value", "key", "partition", "timestamp", "headers", *POSITION_COLUMNS, TRANSACTION})
BatchPositions = tuple[Offsets, ConsumedOffsets | None]
"""The positions after a batch, and offsets of a consumer group to commit with them."""

_BATCH_S_MAX = 10
"""When a batch of a source that always finds more ends, so that its progress is visible."""


class SourceProgram:
    def __init__(
        self,
        spec: TaskSpec,
        new_task: Callable[[], SourceTask],
        path: RecordPath,
        read_offset: SourceOffsetReader,
        write_offsets: OffsetWriter,
        uses_topics: Callable[[frozenset[str]], None],
        transactions: TransactionCalls | None = None,
        requests: TransactionRequests | None = None,
    ) -> None:
        """``transactions`` are the calls of a task with exactly-once delivery, ``requests`` those of a task that ends
        its transactions itself.

        Raise ConfigException for settings that can't be used.
        """
        self._spec = spec
        self._new_task = new_task
        self._task = new_task()
        self._requests = requests
        self._spark_positions = SparkPositions(spec.task, spec.work, read_offset)
        self._settings = QuerySettings.of(spec.connector_config, spec.worker_config)
        self._delivery = delivery_of(spec, write_offsets, transactions)
        if transactions is not None:
            self._settings = self._settings.with_transactions(spec.connector_config, spec.worker_config)
        has_transactions = transactions is not None
        self._writer = TopicWriter(spec, path, uses_topics, has_transactions=has_transactions)
        self._is_started = False
        self._poller: Poller | None = None
        spec.figures.is_of(TaskKind.SOURCE, has_transactions=has_transactions)

    # ---- QueryProgram

    def start(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        self._delivery.open(spark)
        if not self._is_started:
            self._is_started = True
            self._task.start(spark)
        if is_remote(spark):
            return self._start_remote(spark, gate)
        if isinstance(self._task, PolledSourceTask):
            pending = self._end_polling()
            interval_s = self._settings.trigger_interval_ms / 1000
            pool = self._spec.task.connector
            self._poller = poller = Poller(self._task, spark, gate, interval_s, pending, pool=pool)

            def process_polled(frame: DataFrame, number: int, handle: BatchEnds) -> None:
                began_s = time.monotonic()
                polled = poller.take()
                while polled is not None:
                    for frame_read in polled.frames:
                        _check(frame_read, is_streaming=False)
                    self._deliver(polled.frames, gate, _ends_of(polled), polled.counts, polled.topics)
                    poller.done()
                    is_time = time.monotonic() - began_s >= _BATCH_S_MAX
                    polled = None if is_time else poller.take_next()

            query = self._query(poller.ticks, process_polled, gate)
            poller.begin()
            return query
        records = self._task.read(spark)
        _check(records, is_streaming=True)

        def process(frame: DataFrame, number: int, handle: BatchEnds) -> None:
            self._deliver([frame], gate, lambda: self._ends(handle, number))

        return self._query(records, process, gate)

    def _start_remote(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        if not isinstance(self._task, PolledSourceTask):
            return self._follow(spark, gate)

        def deliver(frames: Sequence[DataFrame], offsets: Sequence[SourceOffset]) -> None:
            for records in frames:
                _check(records, is_streaming=False)
                _refuse_positions(records)
            self._deliver(frames, gate, lambda: (_pairs(offsets), None))

        batches = PolledBatches(self._task, spark, gate, deliver, lambda rows, took_ms: None)
        interval_s = self._settings.trigger_interval_ms / 1000
        return BatchLoop(self._spec.query_name, batches, gate, interval_s, spark).begin()

    def _follow(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        """Follow a query on the server. Its positions must be Connect's: Spark's own need the checkpoint, which is the
        server's.

        Raise TerminalError for features that are impossible there.
        """
        if self._is_exactly_once:
            raise TerminalError(
                f"exactly-once delivery is impossible for {type(self._task).__name__} on a Spark Connect server, whose "
                "own producers write the batches of a streaming DataFrame. Use a worker with "
                "barnabas.connect.spark.master=local[*] or spark://host:port, or exactly.once.source.support=disabled"
            )
        refuse_unfollowable(self._task, self._writer.topic_rules, self._writer.policy)
        records = self._task.read(spark)
        _check(records, is_streaming=True)
        _refuse_positions(records)
        query = (
            self._writer.converted(records)
            .writeStream.queryName(self._spec.query_name)
            .format("kafka")
            .options(**producer_options(self._spec))
            .option("checkpointLocation", str(self._spec.folder / "followed" / uuid4().hex))
            .trigger(processingTime=f"{self._settings.trigger_interval_ms} milliseconds")
            .start()
        )
        return FollowedQuery(
            query,
            gate,
            lambda ends: self._finish(self._offsets(ends), None, TransactionEnd.COMMIT),
            self._spec.note_batch,
        ).begin()

    def pause(self) -> None:
        """Abort an open transaction. Its task is ahead of its positions, so a new one continues."""
        if self._delivery.abandon():
            self._spec.figures.has_abandoned_transaction()
            self._end_polling()
            self._task.stop()
            self._task, self._is_started = self._new_task(), False
            if self._requests is not None:
                self._requests.clear()

    def close(self) -> None:
        self._end_polling()
        self._delivery.close()
        try:
            if self._is_started:
                self._task.stop()
        finally:
            self._spec.remove_scratch()

    def _query(
        self, records: DataFrame, process: Callable[[DataFrame, int, BatchEnds], None], gate: BatchGate
    ) -> RunningQuery:
        return start_query(
            records,
            process,
            gate,
            self._checkpoint(records),
            name=self._spec.query_name,
            trigger_interval_ms=self._settings.trigger_interval_ms,
        )

    def _end_polling(self) -> Polled | None:
        poller, self._poller = self._poller, None
        if poller is None:
            return None
        poller.join()
        return poller.pending

    # ---- transactions

    def _deliver(
        self,
        frames: Sequence[DataFrame],
        gate: BatchGate,
        ends: Callable[[], BatchPositions],
        counts: Sequence[int | None] | None = None,
        topics: frozenset[str] | None = None,
    ) -> None:
        """Write a batch, and end the transactions that end in it. ``ends`` are the positions after it.

        Only a frame that is alone may have positions of its own.
        """
        if len(frames) != 1 or not has_positions(frames[0]):
            with self._delivery.batch():
                for frame, rows in zip(frames, counts or [None for _ in frames], strict=True):
                    self._writer.write(self._delivery, frame, rows, topics)
                gate.ensure_unfenced()
                self._finish(*ends(), self._requested_end())
            return
        with parts_of(frames[0], has_boundaries=self._requests is not None) as parts:
            for part in parts:
                with self._delivery.batch():
                    self._writer.write(self._delivery, part.records)
                    gate.ensure_unfenced()
                    self._finish_part(part, ends if part is parts[-1] else None)

    def _finish_part(self, part: Part, ends: Callable[[], BatchPositions] | None) -> None:
        """End the transaction by the mark of the part, otherwise by the request for its batch, if ``ends`` is given."""
        consumed, requested = None, TransactionEnd.NONE
        if ends is not None:
            consumed, requested = ends()[1], self._requested_end()
        self._finish(part.offsets, consumed, requested if part.end is TransactionEnd.NONE else part.end)

    def _requested_end(self) -> TransactionEnd:
        return TransactionEnd.COMMIT if self._requests is None else self._requests.take()

    def _finish(self, offsets: Offsets, consumed: ConsumedOffsets | None, end: TransactionEnd) -> None:
        finish_measured(self._delivery, self._spec.figures, offsets, consumed, end)

    # ---- positions

    @property
    def _is_exactly_once(self) -> bool:
        return isinstance(self._delivery, ExactlyOnce)

    def _ends(self, handle: BatchEnds, number: int) -> BatchPositions:
        ends = handle.ends(number)
        if ends is None:
            raise RuntimeError(f"the checkpoint in {self._spec.folder} does not know batch {number}")
        consumed = self._task.consumed_offsets(ends) if self._is_exactly_once else None
        return self._offsets(ends), consumed

    def _checkpoint(self, records: DataFrame) -> Checkpoint:
        folder, now_ms = self._spec.folder / "checkpoint", time.time_ns() // 1_000_000
        tells_positions = type(self._task).offsets_of is not SourceTask.offsets_of
        if tells_positions or has_positions(records) or isinstance(self._task, PolledSourceTask):
            return fresh_checkpoint(folder, now_ms=now_ms)
        ends = self._spark_positions.stored()
        work = self._spec.work.partition
        return open_checkpoint(folder, ends, lambda found: found, now_ms=now_ms, spark_ends=ends, work=work)

    def _offsets(self, ends: Sequence[object]) -> list[tuple[Mapping[str, object], Mapping[str, object] | None]]:
        positions = self._task.offsets_of(ends)
        return self._spark_positions.pairs(ends) if positions is None else _pairs(positions)


def _refuse_positions(records: DataFrame) -> None:
    if has_positions(records):
        raise TerminalError("records with positions of their own need Spark in the worker or in a cluster, not sc://")


def _ends_of(polled: Polled) -> Callable[[], BatchPositions]:
    return lambda: (_pairs(polled.offsets), None)


def _pairs(offsets: Sequence[SourceOffset]) -> list[tuple[Mapping[str, object], Mapping[str, object] | None]]:
    return [(source_offset.partition, source_offset.offset) for source_offset in offsets]


def _check(records: DataFrame, *, is_streaming: bool) -> None:
    """Raise TerminalError for columns that no converter could use."""
    if is_streaming and not records.isStreaming:
        raise TerminalError(
            "SourceTask.read returned a DataFrame that is read once; a task needs one from spark.readStream."
        )
    check_positions(records)
    columns = set(records.columns)
    missing, unknown = {"topic", "value"} - columns, columns - _COLUMNS
    if missing or unknown:
        raise TerminalError(
            "SourceTask.read returned the columns "
            f"{', '.join(records.columns)}. A source returns topic and value, optionally key, partition, timestamp, "
            "headers, source_partition with source_offset, and transaction; "
            + "; ".join(
                [f"{name} is missing" for name in sorted(missing)] + [f"{name} is unknown" for name in sorted(unknown)]
            )
        )
