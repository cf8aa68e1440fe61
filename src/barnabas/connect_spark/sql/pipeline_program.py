"""Run a pipeline: topics and tables -> query -> a topic or a table, one micro-batch after another.

A query **without state** begins where Connect's positions of its inputs say, with a fresh checkpoint. A query **with
state** has a checkpoint that is kept, in the folder of its run (``state_folder``), and Spark's number of a batch is
stored with its rows. A batch that Spark repeats although it was delivered is run for its state only (``query_state``).
How rows and positions arrive together is decided in ``pipeline_delivery``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.clients.admin import AdminClient
from barnabas.connect.metrics.task_metrics import TaskKind
from barnabas.connect.plugins.api import TaskContext, TerminalError
from barnabas.connect_spark.positions.checkpoints import Checkpoint, fresh_checkpoint
from barnabas.connect_spark.queries.error_policy import ErrorPolicy
from barnabas.connect_spark.queries.kafka_settings import consumer_settings
from barnabas.connect_spark.queries.query_handle import start_query
from barnabas.connect_spark.sessions.session_kind import is_remote
from barnabas.connect_spark.sessions.shared_folder import place_of, require_shared_place
from barnabas.connect_spark.sessions.spark_settings import QuerySettings
from barnabas.connect_spark.sql.declarations import (
    InputDeclaration,
    InvalidDeclaration,
    OutputDeclaration,
    OutputMode,
    TableKind,
)
from barnabas.connect_spark.sql.input_frames import input_frame, input_outline
from barnabas.connect_spark.sql.pipeline_batch import PipelineBatch, offsets_of
from barnabas.connect_spark.sql.pipeline_positions import (
    InputOffsets,
    RunPosition,
    read_batch,
    read_inputs,
    read_run,
)
from barnabas.connect_spark.sql.pipeline_query import PipelineQuery
from barnabas.connect_spark.sql.pipeline_session import active, pipeline_session
from barnabas.connect_spark.sql.plan_facts import PlanFacts, plan_facts
from barnabas.connect_spark.sql.query import InvalidQuery, may_use_headers
from barnabas.connect_spark.sql.query_state import NEW_START
from barnabas.connect_spark.sql.rows import check_rows
from barnabas.connect_spark.sql.starting_offsets import partitions_of, starting_offsets
from barnabas.connect_spark.sql.state_folder import StateFolder, StateRun
from barnabas.connect_spark.sql.table_files import TableFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.connect_spark.queries.batch_gate import BatchGate
    from barnabas.connect_spark.queries.running_query import BatchEnds, RunningQuery
    from barnabas.connect_spark.queries.task_spec import SourceOffsetReader, TaskSpec
    from barnabas.connect_spark.sql.pipeline_delivery import PipelineDelivery
    from barnabas.connect_spark.sql.query import Query

__all__ = ["NOT_REMOTE", "PipelineProgram", "PipelineSettings"]

log = logging.getLogger(__name__)

NOT_REMOTE = (
    "SqlPipeline does not run on a Spark Connect server (sc://), whose queries can't call the worker. Use a worker "
    "with barnabas.connect.spark.master=local[*] or spark://host:port"
)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    inputs: Sequence[InputDeclaration]
    output: OutputDeclaration
    state_location: str
    """A folder; empty for the task's own."""
    shuffle_partitions: int | None
    batch_records_max: int | None


class PipelineProgram:
    def __init__(
        self,
        spec: TaskSpec,
        context: TaskContext,
        query: Query,
        settings: PipelineSettings,
        delivery: PipelineDelivery,
        read_offset: SourceOffsetReader,
        *,
        has_transactions: bool,
    ) -> None:
        """Raise ConfigException."""
        self._spec = spec
        self._context = context
        self._query = query
        self._given = settings
        self._delivery = delivery
        self._read_offset = read_offset
        self._settings = QuerySettings.of(spec.connector_config, spec.worker_config)
        if has_transactions:
            self._settings = self._settings.with_transactions(spec.connector_config, spec.worker_config)
        self._tolerates = ErrorPolicy.of(spec.connector_config).tolerates
        self._consumer = consumer_settings(spec.worker_config, spec.connector_config)
        location = settings.state_location
        self._states = StateFolder(Path(location) if location else spec.folder / "state", spec.task.connector)
        self._session: SparkSession | None = None
        spec.figures.is_of(TaskKind.SOURCE, has_transactions=has_transactions)

    # ---- QueryProgram

    def start(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        if is_remote(spark):
            raise TerminalError(NOT_REMOTE)
        session = self._session or pipeline_session(spark, self._given.shuffle_partitions)
        self._session = session
        with active(spark):
            self._delivery.open(spark)
        self._adopt_delivered()
        starts = self._starts()
        with active(session):
            inputs, rows, facts = self._plan(session, starts)
        run = self._run(spark, facts, starts, int(session.conf.get("spark.sql.shuffle.partitions") or 1))
        checkpoint = self._fresh() if run is None else run.checkpoint
        batches = _Batches(self._delivery, facts.sources, starts, checkpoint.first_id, run, self._states)
        try:
            query = start_query(
                rows,
                lambda frame, number, handle: batches.process(frame, number, handle, gate),
                gate,
                checkpoint,
                name=self._spec.query_name,
                trigger_interval_ms=self._settings.trigger_interval_ms,
                output_mode="update" if self._given.output.mode is OutputMode.UPSERT else "append",
            )
        except Exception as error:
            explained = _explained(error)
            if explained is None:
                raise
            raise explained from None
        return PipelineQuery(query, facts.sources, self._table_files(inputs), self._context.report)

    def pause(self) -> None:
        pass

    def close(self) -> None:
        try:
            self._delivery.close()
        finally:
            self._spec.remove_scratch()

    # ---- positions

    def _adopt_delivered(self) -> None:
        """Advance the positions if the last batch was delivered, and not all of them were written after it."""
        planned = read_batch(self._read_offset)
        if planned is None or self._delivery.delivered() != planned.id:
            return
        partitions = {name: list(of_input) for name, of_input in planned.ends.items()}
        if planned.is_unwritten(read_inputs(self._read_offset, partitions)):
            log.info("batch %d is in the table, and positions after it were not written: writing them", planned.id)
            self._delivery.adopt(PipelineBatch(planned.id, planned.starts, planned.ends))

    def _starts(self) -> dict[str, dict[TopicPartition, int]]:
        starts = {}
        for declaration in self._topics:
            with AdminClient.sync(properties=self._client(declaration)) as admin:
                partitions = partitions_of(admin, str(declaration.topic))
                known = read_inputs(self._read_offset, {declaration.name: partitions})[declaration.name]
                starts[declaration.name] = starting_offsets(admin, declaration, known, partitions)
        return starts

    @property
    def _topics(self) -> list[InputDeclaration]:
        return [declaration for declaration in self._given.inputs if declaration.topic is not None]

    def _client(self, declaration: InputDeclaration) -> dict[str, str]:
        return {**self._consumer, **declaration.consumer}

    def _fresh(self) -> Checkpoint:
        return fresh_checkpoint(self._spec.folder / "checkpoint", now_ms=self._new_id())

    def _new_id(self) -> int:
        """Return an id that no batch had, even if the clock was set back."""
        return max(time.time_ns() // 1_000_000, (self._delivery.delivered() or 0) + 1)

    def _run(self, spark: SparkSession, facts: PlanFacts, starts: InputOffsets, partitions: int) -> StateRun | None:
        """Return the run of a query with state. Raise TerminalError for a state that can't be used."""
        position = read_run(self._read_offset)
        if not facts.is_stateful:
            if position is not None:
                raise TerminalError(
                    "the query has no state any more, and this pipeline has one. Nothing was read and nothing deleted. "
                    f"Restore the query, or {NEW_START}."
                )
            return None
        place = place_of(spark)
        if not self._given.state_location and place is not None:
            raise TerminalError(f"state.location: Spark runs on {place}: set a folder that the worker and it share.")
        require_shared_place(spark, self._given.state_location or "/", "state.location")
        described = facts.as_json(partitions)
        if position is None:
            run = self._states.begin(described, starts, now_ms=self._new_id())
            self._delivery.begin_run(run.position)
            return run
        partitions_read = {name: list(of_input) for name, of_input in starts.items()}
        known = read_inputs(self._read_offset, partitions_read)
        return self._states.resume(position, described, known, self._delivery.delivered())

    # ---- the query

    def _table_files(self, inputs: Mapping[str, DataFrame]) -> TableFiles:
        tables = {given.name: given.table for given in self._given.inputs if given.table is not None}
        return TableFiles(inputs[name] for name, table in tables.items() if table.kind is TableKind.PARQUET)

    def _plan(
        self, session: SparkSession, starts: InputOffsets
    ) -> tuple[Mapping[str, DataFrame], DataFrame, PlanFacts]:
        """Return the inputs, the rows as a stream, and what is known about it. Raise TerminalError."""
        try:
            inputs = {declaration.name: self._input(session, declaration, starts) for declaration in self._given.inputs}
            rows = self._query(session, inputs)
            if not rows.isStreaming:
                raise InvalidQuery("the query reads no topic: a pipeline has at least one topic among its inputs.")
            check_rows(rows, self._given.output)
            return inputs, rows, plan_facts(rows, self._query(session, self._outlines(session, inputs)))
        except InvalidQuery as error:
            raise TerminalError(f"query: {error}") from None
        except InvalidDeclaration as error:
            raise TerminalError(str(error)) from None

    def _outlines(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        folder = self._context.scratch.as_uri()
        return {given.name: input_outline(session, given, inputs[given.name], folder) for given in self._given.inputs}

    def _input(self, session: SparkSession, declaration: InputDeclaration, starts: InputOffsets) -> DataFrame:
        client = {"isolation.level": "read_committed", **self._consumer}
        client["client.id"] = f"connector-consumer-{self._spec.task}-{declaration.name}"
        most = self._given.batch_records_max or self._settings.batch_records_max
        return input_frame(
            session,
            declaration,
            client,
            streaming=True,
            starts=starts.get(declaration.name),
            records_max=most,
            tolerates=self._tolerates,
            with_headers=may_use_headers(self._query, declaration.event_time or "", *declaration.deduplicate_by),
        )


class _Batches:
    """Processes the batches of one start of the query."""

    def __init__(
        self,
        delivery: PipelineDelivery,
        sources: Sequence[str],
        starts: InputOffsets,
        first_id: int,
        run: StateRun | None,
        states: StateFolder,
    ) -> None:
        self._delivery = delivery
        self._sources = sources
        self._starts = starts
        self._first_id = first_id
        self._run = run
        self._states = states
        self._is_first = True

    def process(self, frame: DataFrame, number: int, handle: BatchEnds, gate: BatchGate) -> None:
        ends = self._offsets(handle, number)
        before = self._offsets(handle, number - 1) if number else self._starts
        batch = PipelineBatch(self._first_id + number, before, ends, self._at(number), is_first=self._is_first)
        if self._run is not None and number <= self._run.delivered:
            log.info("batch %d was delivered before: it is run for the state of the query only", number)
            frame.write.format("noop").mode("overwrite").save()
            gate.ensure_unfenced()
            self._delivery.adopt(batch)  # A crash may have left only some of its positions.
            return
        self._delivery.deliver(frame, batch, gate)
        self._is_first = False
        if self._run is not None and self._run.is_new and number == 0:
            self._states.remove_earlier(self._run.position.run)

    def _at(self, number: int) -> RunPosition | None:
        return None if self._run is None else RunPosition(self._run.position.run, number)

    def _offsets(self, handle: BatchEnds, number: int) -> InputOffsets:
        ends = handle.ends(number)
        if ends is None:
            raise RuntimeError(f"the checkpoint does not know batch {number}")
        return offsets_of(self._sources, ends)


def _explained(error: Exception) -> TerminalError | None:
    """Return an error that no restart can fix, if the query is one that Spark can't run as a stream."""
    if type(error).__name__ not in ("AnalysisException", "UnsupportedOperationException"):
        return None
    text = str(error).partition("\nJVM stacktrace")[0].partition(";")[0].strip().splitlines()[0]
    advice = ""
    if "watermark" in text:
        advice = (
            " Either set output.mode=upsert with output.key, which replaces the rows of a group whenever they change, "
            "or give the input a watermark and group by a window of its event time."
        )
    return TerminalError(f"query: it can't be run as a stream. Spark says: {text}.{advice}")
