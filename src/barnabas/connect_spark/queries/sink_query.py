"""A sink's task: Kafka -> converters -> transforms -> ``SinkTask.write``, one micro-batch after another.

The order of steps determines the effect of a crash. (1) The batch is written, (2) its bad records become dead letters,
(3) its end is committed to the consumer group, (4) Spark notes it as finished. After a crash before (3) the batch is
repeated, with the same records and id if the checkpoint exists. After (3) it is never repeated, because the group's
offsets decide. An exactly-once sink stores positions in its target with the data, so (1) is its commit: data that its
target has is not written again, and the group only follows.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin import AdminClient
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, parse_partitions
from barnabas.connect.decide.validation.connector_rules import consumer_group_of
from barnabas.connect.metrics.task_metrics import TaskKind
from barnabas.connect.plugins.api import OffsetRange, RefusedRecord, SinkBatch, SinkTask, TerminalError
from barnabas.connect_spark.positions.checkpoints import Checkpoint, open_checkpoint, planned_checkpoint
from barnabas.connect_spark.positions.group_positions import (
    GroupPositions,
    first_positions,
    from_kafka_json,
    kafka_json,
)
from barnabas.connect_spark.positions.kafka_ranges import KafkaBatches
from barnabas.connect_spark.queries.batch_loop import BatchLoop
from barnabas.connect_spark.queries.connector_topics import create_missing, dead_letter_rule
from barnabas.connect_spark.queries.dead_letters import LOGGED_MAX, log_bad_records, write_dead_letters
from barnabas.connect_spark.queries.error_policy import ErrorPolicy, backoff_s
from barnabas.connect_spark.queries.kafka_settings import (
    admin_settings,
    consumer_settings,
    producer_settings,
    spark_consumer_options,
    spark_producer_options,
)
from barnabas.connect_spark.queries.kept_rows import kept
from barnabas.connect_spark.queries.query_handle import start_query
from barnabas.connect_spark.queries.record_path import (
    ORIGINAL_COLUMNS,
    SINK_COLUMNS,
    RecordPath,
    counted,
    refusing,
    strict,
    used_columns,
)
from barnabas.connect_spark.queries.refused_records import refused_rows
from barnabas.connect_spark.queries.running_query import BatchEnds, RunningQuery
from barnabas.connect_spark.sessions.session_kind import is_remote
from barnabas.connect_spark.sessions.spark_settings import QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    from barnabas.clients.admin.sync_client import SyncAdminClient
    from barnabas.connect_spark.converters.record_batch import RecordBatch
    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.task_spec import TaskSpec

__all__ = ["SinkProgram", "ranges_of"]

log = logging.getLogger(__name__)

_RAW_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

Positions = dict[TopicPartition, int]


def ranges_of(starts: Positions, ends: Positions) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges of a batch. Partitions without new records are omitted."""
    return {
        partition: OffsetRange(starts[partition], end) for partition, end in ends.items() if end > starts[partition]
    }


class SinkProgram:
    def __init__(self, spec: TaskSpec, task: SinkTask, path: RecordPath) -> None:
        """Raise ConfigException or TerminalError for settings that can't be used."""
        self._spec = spec
        self._task = task
        self._path = path
        self._policy = ErrorPolicy.of(spec.connector_config)
        self._settings = QuerySettings.of(spec.connector_config, spec.worker_config)
        self._consumer = consumer_settings(spec.worker_config, spec.connector_config)
        self._partitions = _partitions(spec)
        self._columns = used_columns(task)
        self._refuses = type(task).refused is not SinkTask.refused
        self._is_fixed = False
        """Whether the task writes the output of the running query."""
        self._is_kept = False
        """Whether a batch is used several times: for its good records, for the log and for dead letters."""
        self._is_counted = False
        """Whether the output of the running query has the bad records, to be counted and left out."""
        self._bad_records = 0
        """The number of bad records of the last batch."""
        spec.figures.is_of(TaskKind.SINK, partitions=len(self._partitions))
        self._admin: SyncAdminClient | None = None
        self._is_started = False
        self._positions: Positions = {}
        """Where the running query began."""

    # ---- QueryProgram

    def start(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        if not self._is_started:
            self._is_started = True
            self._task.start(spark)
            self._prepare_dead_letters()
        group = GroupPositions(
            self._admin_client(), consumer_group_of(self._spec.task.connector, self._spec.connector_config)
        )
        self._positions = self._where_to_begin(group)
        truth = kafka_json(self._positions)
        checkpoint = self._checkpoint(group, truth)

        def process(frame: DataFrame, number: int, handle: BatchEnds) -> None:
            batch = replace(self._batch(checkpoint.first_id, number, handle), control=gate)
            if batch.ranges:
                self._handle(frame, batch, gate, group)

        if is_remote(spark):
            return self._loop(spark, gate, checkpoint, group, process)
        return start_query(
            self._prepared(self._read(spark, truth)),
            process,
            gate,
            checkpoint,
            name=self._spec.query_name,
            trigger_interval_ms=self._settings.trigger_interval_ms,
        )

    def _loop(
        self,
        spark: SparkSession,
        gate: BatchGate,
        checkpoint: Checkpoint,
        group: GroupPositions,
        process: Callable[[DataFrame, int, BatchEnds], None],
    ) -> RunningQuery:
        self._is_kept = self._policy.wants_bad_records
        is_committed = self._consumer.get("isolation.level") == "read_committed"
        batches = KafkaBatches(
            spark,
            self._reader_options(),
            self._positions,
            lambda: group.bounds(self._partitions, is_committed=is_committed),
            self._settings.batch_records_max,
            checkpoint,
            process,
            lambda rows, took_ms: None,  # Processed records are already measured.
        )
        return BatchLoop(self._spec.query_name, batches, gate, self._settings.trigger_interval_ms / 1000, spark).begin()

    def pause(self) -> None:
        pass

    def close(self) -> None:
        try:
            if self._is_started:
                self._task.stop()
        finally:
            self._spec.remove_scratch()
            if self._admin is not None:
                self._admin.close()

    # ---- positions

    def _where_to_begin(self, group: GroupPositions) -> Positions:
        known = group.committed(self._partitions)
        noted: Positions = {}
        if self._task.exactly_once:
            noted = dict(self._task.positions(self._partitions) or {})
            behind = {partition: position for partition, position in noted.items() if known.get(partition) != position}
            if behind:
                group.commit(behind)  # The crash was between the target and the group.
            known |= noted
        bounds = group.bounds(self._partitions)
        _refuse_lost(noted, bounds)
        positions, warnings = first_positions(self._partitions, known, bounds, self._consumer["auto.offset.reset"])
        for warning in warnings:
            log.warning("task %s: %s", self._spec.task, warning)
        return positions

    def _checkpoint(self, group: GroupPositions, truth: dict[str, dict[str, int]]) -> Checkpoint:
        now_ms = time.time_ns() // 1_000_000
        checkpoint = open_checkpoint(self._spec.folder / "checkpoint", truth, lambda ends: ends[0], now_ms=now_ms)
        planned = group.planned(self._partitions, self._positions) if self._task.repeats_batches else {}
        ends = group.bounds(list(planned)) if planned else {}
        planned = {partition: end for partition, end in planned.items() if end <= ends[partition][1]}
        if not planned:
            return checkpoint
        return planned_checkpoint(checkpoint, truth, [kafka_json(self._positions | planned)], now_ms=now_ms)

    def _batch(self, first_id: int, number: int, handle: BatchEnds) -> SinkBatch:
        ends = handle.ends(number)
        before = handle.ends(number - 1) if number else None
        if ends is None or (number and before is None):
            raise RuntimeError(f"the checkpoint in {self._spec.folder} does not know batch {number}, which is running")
        starts = self._positions if before is None else from_kafka_json(before[0])
        return SinkBatch(first_id + number, ranges_of(starts, from_kafka_json(ends[0])))

    # ---- records

    def _reader_options(self) -> dict[str, str]:
        return spark_consumer_options(self._consumer, f"connector-consumer-{self._spec.task}")

    def _read(self, spark: SparkSession, truth: dict[str, dict[str, int]]) -> DataFrame:
        assigned = {topic: sorted(map(int, partitions)) for topic, partitions in truth.items()}
        return (
            spark.readStream.format("kafka")
            .options(**self._reader_options())
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(truth))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", self._settings.batch_records_max)
            .load()
        )

    def _prepared(self, raw: DataFrame) -> DataFrame:
        """What the query reads, and if possible all that becomes of it before the task writes it.

        Spark would compute each column for each record if a task names no columns.
        """
        raw = raw.select(*_RAW_COLUMNS)
        self._is_fixed = self._is_kept = self._is_counted = False
        names_originals = not set(self._columns).isdisjoint(ORIGINAL_COLUMNS)
        # Records that ``write`` refuses are found among the raw ones.
        takes_raw = names_originals or self._columns == SINK_COLUMNS
        if takes_raw and not self._policy.wants_bad_records:
            return raw
        fixed = None if names_originals else self._path.fixed_batch(raw, self._columns)
        can_fail = fixed is None or fixed.can_fail or self._refuses
        self._is_kept = self._policy.wants_bad_records and can_fail
        if takes_raw:
            return raw
        if fixed is None or (fixed.can_fail and self._policy.wants_bad_records):
            return raw
        if self._refuses and self._task.refused(fixed.frame) is not None:
            return raw
        self._is_fixed, self._is_counted = True, fixed.can_fail and self._policy.tolerates
        if self._is_counted:
            merged = self._path.merged_batch([fixed], self._columns, takes_variant=False)
            return merged.frame.select(*self._columns, "failure")
        return self._path.sink_frame([strict(fixed)], self._columns)

    def _handle(self, frame: DataFrame, batch: SinkBatch, gate: BatchGate, group: GroupPositions) -> None:
        figures, began_s = self._spec.figures, time.monotonic()
        records = sum(offsets.end - offsets.start for offsets in batch.ranges.values())
        figures.has_read(records)
        if self._task.repeats_batches:
            group.plan(batch.ranges)
        self._write(frame, batch, gate)
        figures.has_written(read=records, written=records - self._bad_records, took_ms=_ms_since(began_s))
        gate.ensure_unfenced()
        began_s = time.monotonic()
        try:
            group.commit(batch.positions)
        except Exception:
            figures.has_committed(0, succeeded=False)
            raise
        figures.has_committed(_ms_since(began_s))

    def _write(self, frame: DataFrame, batch: SinkBatch, gate: BatchGate) -> None:
        """Write, with the retries that ``errors.retry.*`` allow."""
        if self._is_fixed or not self._is_kept:
            self._write_repeatedly(frame, batch, gate)
            return
        with kept(frame.select(*_RAW_COLUMNS)) as records:
            self._write_repeatedly(records, batch, gate)

    def _write_repeatedly(self, frame: DataFrame, batch: SinkBatch, gate: BatchGate) -> None:
        began = time.monotonic()
        attempt = 0
        while True:
            try:
                return self._write_once(frame, batch, gate)
            except TerminalError:
                raise
            except Exception as error:
                wait_s = backoff_s(attempt, self._policy, int((time.monotonic() - began) * 1000))
                if wait_s is None or "USER_RAISED_EXCEPTION" in str(error):
                    raise
                log.warning("task %s: batch %d failed, retrying: %s", self._spec.task, batch.id, error)
                self._spec.figures.has_retried()
                gate.wait(wait_s)
                attempt += 1

    def _write_once(self, frame: DataFrame, batch: SinkBatch, gate: BatchGate) -> None:
        from pyspark.sql import Observation

        self._bad_records = 0
        if self._is_counted:
            observation = Observation()
            good = counted(frame, observation).filter("failure IS NULL")
            self._task.write(good.select(*self._columns), batch)
            self._count_skipped([observation])
            return
        if self._is_fixed:
            self._task.write(frame, batch)
            return
        batches = self._path.sink_batches(frame.select(*_RAW_COLUMNS))
        if self._refuses:
            takes_variant = self._task.takes_variant
            merged = self._path.merged_batch(batches, self._columns, takes_variant=takes_variant)
            batches = [refusing(merged, self._task)]
        if not self._policy.tolerates or not any(batch.can_fail for batch in batches):
            if not self._policy.tolerates:
                batches = [strict(batch) for batch in batches]
            self._report_refused(frame, self._task.write(self._given(batches), batch), gate)
            return
        watched = [(batch, Observation()) for batch in batches]
        observed = [batch.with_frame(counted(batch.frame, observation)) for batch, observation in watched]
        refused = self._task.write(self._given(observed), batch)
        self._report_bad(batches, [observation for _, observation in watched], batch, gate)
        self._report_refused(frame, refused, gate)

    def _report_bad(
        self, batches: Sequence[RecordBatch], observations: Sequence[Observation], batch: SinkBatch, gate: BatchGate
    ) -> None:
        """Report the records that could not be converted."""
        if not self._policy.wants_bad_records:
            self._count_skipped(observations)
            return
        failures = _failures(observations, batch)
        if failures != 0:
            gate.ensure_unfenced()
            with ExitStack() as stack:  # They are converted once for the log, for dead letters, and for their number.
                bad = [stack.enter_context(kept(converted.failed)) for converted in batches]
                self._report_bad_records(bad, failures)

    def _report_refused(self, frame: DataFrame, refused: Sequence[RefusedRecord] | None, gate: BatchGate) -> None:
        """Report the records that the target refused. Raise TerminalError if bad records are not tolerated."""
        if not refused:
            return
        if not self._policy.tolerates:
            first = refused[0]
            raise TerminalError(f"the record at {first.partition}, offset {first.offset} was refused: {first.message}")
        gate.ensure_unfenced()
        task_class = type(self._task)
        rows = refused_rows(frame.select(*_RAW_COLUMNS), refused, f"{task_class.__module__}.{task_class.__qualname__}")
        self._report_bad_records([rows], len(refused))

    def _given(self, batches: Sequence[RecordBatch]) -> DataFrame:
        """Return the good rows, as the task receives them."""
        if self._refuses:
            return batches[0].good.select(*self._columns)
        return self._path.sink_frame(batches, self._columns)

    def _count_skipped(self, observations: Sequence[Observation]) -> None:
        """Count the bad records that the first action on the batch has left out. Nothing else examines them."""
        found = [_metrics(observation) or {} for observation in observations]
        count = sum(int(metrics.get("failures", 0)) for metrics in found)
        self._bad_records += count
        self._spec.figures.has_failed(count, skipped=True)
        self._spec.figures.has_skipped(count, dead_letters=0)

    def _report_bad_records(self, bad: Sequence[DataFrame], count: int | None) -> None:
        figures = self._spec.figures
        count = sum(bad_record.count() for bad_record in bad) if count is None else count
        self._bad_records += count
        if self._policy.is_logged:
            log_bad_records(bad, self._spec.task, self._policy)
        figures.has_failed(count, skipped=True, logged=min(count, LOGGED_MAX) if self._policy.is_logged else 0)
        if self._policy.dead_letter_topic:
            settings = producer_settings(self._spec.worker_config, self._spec.connector_config)
            options = spark_producer_options(settings, f"connector-dlq-producer-{self._spec.task}")
            try:
                write_dead_letters(bad, self._spec.task, self._policy, options)
            except Exception:
                figures.has_sent_dead_letters(count, succeeded=False)
                raise
            figures.has_sent_dead_letters(count)
        figures.has_skipped(count, dead_letters=count if self._policy.dead_letter_topic else 0)

    def _prepare_dead_letters(self) -> None:
        if self._policy.tolerates and self._policy.dead_letter_topic:
            settings = admin_settings(self._spec.worker_config, self._spec.connector_config)
            rule = dead_letter_rule(self._policy.dead_letter_replication_factor)
            with AdminClient.sync(properties=settings) as admin:
                create_missing(admin, {self._policy.dead_letter_topic: rule})

    def _admin_client(self) -> SyncAdminClient:
        if self._admin is None:
            self._admin = AdminClient.sync(properties=self._consumer)
        return self._admin


def _partitions(spec: TaskSpec) -> list[TopicPartition]:
    text = spec.task_config.get(TASK_PARTITIONS)
    if text is None:
        raise TerminalError(
            f"the settings of task {spec.task} don't say which partitions it reads ({TASK_PARTITIONS}): they were made "
            "by another kind of worker. Restart the connector on a worker that has its class, which makes them "
            "again."
        )
    try:
        return parse_partitions(text)
    except ValueError as error:
        raise TerminalError(str(error)) from None


def _refuse_lost(noted: Positions, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Refuse a partition that ends before the target's position: it is a new topic of the same name."""
    for partition, position in noted.items():
        if position > bounds[partition][1]:
            raise TerminalError(
                f"{partition} ends at offset {bounds[partition][1]}, but the target of the connector has all before "
                f"{position} already: the topic was recreated. Reset the offsets of the connector to read it from its "
                "beginning."
            )


def _failures(observations: Sequence[Observation], batch: SinkBatch) -> int | None:
    """Return how many bad records the batch had; None if that is not certain.

    Only the first action on a DataFrame is observed. If that action read fewer rows than may exist, for instance only
    to test whether any exists, the number is unknown, and the batch is examined once more.
    """
    rows = failures = 0
    for observation in observations:
        found = _metrics(observation)
        if found is None:
            return None
        rows += found["rows"]
        failures += found["failures"]
    return failures if rows >= sum(offsets.end - offsets.start for offsets in batch.ranges.values()) else None


def _ms_since(began_s: float) -> int:
    return int((time.monotonic() - began_s) * 1000)


def _metrics(observation: Observation) -> dict[str, Any] | None:
    """Return the metrics; None without an action, because waiting for them would last forever."""
    if not hasattr(observation, "_jo"):  # Of a Spark Connect client's, which waits for nothing.
        metrics: dict[str, Any] = observation.get
        return metrics or None
    if observation._jo is None:
        return None
    deadline = time.monotonic() + 2
    while not observation._jo.future().isCompleted():
        if time.monotonic() > deadline:
            return None
        time.sleep(0.005)
    return dict(observation.get)
