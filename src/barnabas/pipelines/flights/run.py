"""One run from beginning to end: node and Spark up, query first, then the flights, then the proof and the pictures.

Every step asks what is there already, so that a run that was killed anywhere can simply be started again:

- the topic is read to learn which flights it lacks; only these are sent;
- the query continues from its checkpoint, which belongs to one topic id: a topic made anew is read from its beginning;
- the tables are unions by row number: what was merged before may be merged again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import FlightDataset, SourceTotals, find_dataset
from barnabas.pipelines.flights.flight_producer import FlightProducer
from barnabas.pipelines.flights.flight_topic import FlightTopic
from barnabas.pipelines.flights.interruption import Interruption
from barnabas.pipelines.flights.job import (
    SPARK_SETTINGS,
    FlightTables,
    check_query,
    is_reading,
    read_topic,
    start_query,
    stop_query,
)
from barnabas.pipelines.flights.local_node import LocalNode
from barnabas.pipelines.flights.options import FlightsOptions
from barnabas.pipelines.flights.progress import RunProgress, run_progress
from barnabas.pipelines.flights.report import report
from barnabas.pipelines.flights.run_directory import RunDirectory
from barnabas.pipelines.flights.starting_point import RunRecord, RunState, starting_point
from barnabas.spark.connector_jars import cache_directory, connector_jars
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import JavaRuntime, find_java
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["FlightsRun"]

_POLL_SECONDS = 0.25
_FIRST_TRIGGER_SECONDS_MAX = 300.0


class FlightsRun:
    def __init__(self, options: FlightsOptions, environment: Mapping[str, str], console: Console) -> None:
        self._options = options
        self._environment = environment
        self._console = console
        self._directory = RunDirectory(options.run_directory)
        self._tables = FlightTables(self._directory.path, scratch=self._directory.scratch)
        self._node: LocalNode | None = None

    def run(self, interruption: Interruption) -> None:
        """No child outlives it. Raises PipelineError or SparkUnavailable with what a person can do, or Interrupted."""
        started = time.monotonic()
        resources = ExitStack()
        try:
            resources.callback(self._directory.close)
            self._directory.open()
            dataset = find_dataset(flights=self._options.flights)
            java = find_java(self._environment)
            jars = connector_jars(cache_directory(self._environment), java, self._tell)
            bootstrap_server = self._start_node(resources)
            record, totals = self._stream(bootstrap_server, dataset, java, jars)
            self._conclude(record, totals, dataset)
            self._tell(f"finished in {time.monotonic() - started:.0f} s")
            self._say_where(bootstrap_server)
        except (PipelineError, SparkUnavailable) as error:
            if self._directory.is_full():  # Node, producer and Spark each have their own words for it.
                raise PipelineError(
                    f"the disk of {self._directory.path} is full: free some space and start again, the run goes on "
                    f"where it was. What failed first: {error}"
                ) from error
            raise
        finally:
            interruption.shield()
            resources.close()

    def _start_node(self, resources: ExitStack) -> str:
        if self._options.bootstrap_server is not None:
            FlightTopic(self._options.bootstrap_server, self._options.topic).id()  # Says at once if nobody answers.
            return self._options.bootstrap_server
        self._node = LocalNode(self._directory, port=self._options.port, keep=self._options.keep)
        resources.callback(self._node.stop)
        self._tell(self._node.start())
        return self._node.bootstrap_server

    def _stream(
        self, bootstrap_server: str, dataset: FlightDataset, java: JavaRuntime, jars: list[Path]
    ) -> tuple[RunRecord, SourceTotals]:
        """Let the query process every flight. Spark is gone again when this returns."""
        self._tell("starting Spark")
        with spark_session(
            "barnabas flights",
            master=f"local[{self._options.cores}]",
            jars=jars,
            java=java,
            work=self._directory.spark,
            settings=SPARK_SETTINGS,
        ) as spark:
            if self._node is not None:
                self._node.await_ready()
                self._tell(f"the node is ready at {bootstrap_server} (process {self._node.process_id})")
            topic = FlightTopic(bootstrap_server, self._options.topic)
            record, resumes = self._prepare_topic(topic)
            query = self._start_query(spark, record, bootstrap_server)
            producer = FlightProducer(topic, dataset, rate=self._options.rate, resume=resumes)
            try:
                self._await_first_trigger(query)
                self._watch(query, producer)
            finally:
                producer.stop()
                stop_query(query)
        return record, producer.totals

    def _prepare_topic(self, topic: FlightTopic) -> tuple[RunRecord, bool]:
        """The record of this run, with the id of a topic that is there, and whether it continues a former run."""
        options = self._options
        former = self._directory.record()
        wanted = RunRecord(options.bootstrap_server, options.topic, options.flights, options.partitions)
        topic_id = topic.id()
        start = starting_point(former, wanted, topic_id=topic_id, is_fresh_asked=options.fresh)
        self._tell(start.text)
        if start.resumes and former is not None:
            self._tables.load()
            return former, True
        # In this order, so that whatever is left after a kill in between still counts as not begun.
        self._directory.write_record(replace(wanted, topic_id=topic_id))
        self._directory.forget_results()
        if topic_id is not None:
            topic.delete()
        record = replace(wanted, state=RunState.STREAMING, topic_id=topic.create(options.partitions))
        self._directory.write_record(record)
        return record, False

    def _start_query(self, spark: SparkSession, record: RunRecord, bootstrap_server: str) -> StreamingQuery:
        records = read_topic(
            spark,
            bootstrap_server=bootstrap_server,
            topic=record.topic,
            batch_records_max=self._options.batch_records_max,
        )
        return start_query(records, self._tables, checkpoint=self._directory.checkpoints / str(record.topic_id))

    def _await_first_trigger(self, query: StreamingQuery) -> None:
        deadline = time.monotonic() + _FIRST_TRIGGER_SECONDS_MAX
        while not is_reading(query, self._tables):
            self._check(query)
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"the query did not begin to read within {_FIRST_TRIGGER_SECONDS_MAX:.0f} s. "
                    f"Spark's log: {self._directory.spark / 'spark.log'}"
                )
            time.sleep(0.1)
        self._tell(f"the query is reading topic {self._options.topic}; streaming {self._options.flights:,} flights")

    def _watch(self, query: StreamingQuery, producer: FlightProducer) -> None:
        """Produce, and wait until the query has processed all of it."""
        progress = run_progress(self._console, topic=self._options.topic, total=self._options.flights)
        progress.start()
        try:
            producer.start()
            self._draw_while(producer, query, producer, progress)
            if producer.error is not None:
                self._check(query)  # If the node has died, that is the cause.
                raise producer.error
            caught_up = threading.Thread(target=_process_all_available, args=[query], daemon=True)
            caught_up.start()
            self._draw_while(caught_up, query, producer, progress)
            self._check(query)
            progress.update(produced=producer.produced, processed=self._tables.flight_count)
        finally:
            progress.stop()

    def _draw_while(
        self, thread: threading.Thread, query: StreamingQuery, producer: FlightProducer, progress: RunProgress
    ) -> None:
        while thread.is_alive():
            self._check(query)
            progress.update(produced=producer.produced, processed=self._tables.flight_count)
            thread.join(_POLL_SECONDS)

    def _check(self, query: StreamingQuery) -> None:
        if self._node is not None:
            self._node.check_alive()
        check_query(query, log=self._directory.spark / "spark.log")

    def _conclude(self, record: RunRecord, totals: SourceTotals, dataset: FlightDataset) -> None:
        if self._tables.foreign_records:
            self._tell(f"{self._tables.foreign_records} records of the topic were no flights, and were left out")
        try:
            report(self._tables, totals, dataset.airline_names(), plot=self._directory.plot, console=self._console)
        except PipelineError:
            self._directory.write_record(replace(record, state=RunState.STARTING))  # The next run starts over.
            raise
        self._directory.write_record(replace(record, state=RunState.FINISHED))

    def _say_where(self, bootstrap_server: str) -> None:
        self._tell(f"result table   {self._tables.delays.path}")
        self._tell(f"flights        {self._tables.flights.path}")
        self._tell(f"plot           {self._directory.plot}")
        self._tell(f"Spark's log    {self._directory.spark / 'spark.log'}")
        if self._node is None:
            self._tell(f"topic          {self._options.topic} at {bootstrap_server}")
            return
        self._tell(f"node's data    {self._directory.node} (log: {self._directory.node_log})")
        if self._options.keep:
            self._node.leave_up()
        if self._node.is_kept:
            self._tell(f"the node stays up: bootstrap server {bootstrap_server}, topic {self._options.topic}")
            self._tell(f"stop it with   kill {self._node.process_id}")

    def _tell(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def _process_all_available(query: StreamingQuery) -> None:
    """Ends early when the query fails or is stopped: the watching thread finds out itself."""
    try:
        query.processAllAvailable()
    except Exception:
        return
