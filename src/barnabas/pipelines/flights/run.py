"""One run from beginning to end: start node and worker, create connectors, send flights, check and plot the result.

Every step first looks at what already exists. So a run that was killed anywhere can simply be started again:

- the run reads the topics to learn which flights are missing, and sends only these;
- the connectors are in the worker's topics; their positions are in their consumer groups or beside their data;
- a run that starts over removes connectors, positions, topics and results, in an order that is safe under kills.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from rich.console import Console

from barnabas.connect.decide.validation.connector_rules import consumer_group
from barnabas.connect.rest.connect_client import ConnectClient
from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import FlightDataset, SourceTotals, find_dataset
from barnabas.pipelines.flights.flight_connectors import FlightConnectors, connector_configs
from barnabas.pipelines.flights.flight_producer import FlightProducer
from barnabas.pipelines.flights.flight_topic import FlightTopic, FlightTopics
from barnabas.pipelines.flights.interruption import Interruption
from barnabas.pipelines.flights.local_node import LocalNode
from barnabas.pipelines.flights.local_worker import LocalWorker, internal_topics
from barnabas.pipelines.flights.options import FlightsOptions
from barnabas.pipelines.flights.progress import RunProgress, run_progress
from barnabas.pipelines.flights.report import report
from barnabas.pipelines.flights.run_directory import RunDirectory
from barnabas.pipelines.flights.starting_point import RunRecord, RunState, StartingPoint, starting_point
from barnabas.spark.connector_jars import cache_directory, connector_jars
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import find_java

__all__ = ["FlightsRun"]

_POLL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""How often to request states from the worker. Positions are requested with every poll."""


class FlightsRun:
    def __init__(self, options: FlightsOptions, environment: Mapping[str, str], console: Console) -> None:
        self._options = options
        self._environment = environment
        self._console = console
        self._directory = RunDirectory(options.run_directory)
        self._node: LocalNode | None = None
        self._worker: LocalWorker | None = None
        self._processed: dict[str, int] = {}

    def run(self, interruption: Interruption) -> None:
        """Run to the end. No child outlives it. Raise PipelineError, SparkUnavailable or Interrupted."""
        started = time.monotonic()
        resources = ExitStack()
        try:
            resources.callback(self._directory.close)
            self._directory.open()
            dataset = find_dataset(flights=self._options.flights)
            # The worker would do both itself, but report an error as a trace.
            connector_jars(cache_directory(self._environment), find_java(self._environment), self._print)
            worker = self._choose_worker()
            bootstrap_server = self._start_node(resources, worker)
            topics = FlightTopics(
                bootstrap_server,
                self._options.topic,
                flights=self._options.flights,
                partitions=self._options.partitions,
            )
            record, totals = self._stream(topics, dataset, worker, resources)
            self._conclude(record, totals, topics, dataset)
            self._print(f"finished in {time.monotonic() - started:.0f} s")
            self._say_where(bootstrap_server)
        except (PipelineError, SparkUnavailable) as error:
            if self._directory.is_full():  # Node, worker, producer and Spark each report it differently.
                raise PipelineError(
                    f"the disk of {self._directory.path} is full: free some space and start again to resume "
                    f"the run. The first error was: {error}"
                ) from error
            raise
        finally:
            interruption.shield()
            resources.close()

    # ---- node and worker

    def _choose_worker(self) -> LocalWorker:
        """Print the console's address first: it serves during the whole run."""
        worker = LocalWorker(
            self._directory,
            topic=self._options.topic,
            cores=self._options.cores,
            keep=self._options.keep,
            node_port=self._options.port,
        )
        self._print(f"console        {worker.url}/console, as soon as the worker is ready")
        return worker

    def _start_node(self, resources: ExitStack, worker: LocalWorker) -> str:
        if self._options.bootstrap_server is not None:
            # Fails immediately if no broker answers.
            FlightTopic(self._options.bootstrap_server, self._options.topic).id()
            return self._options.bootstrap_server
        self._node = LocalNode(
            self._directory, port=self._options.port, keep=self._options.keep, worker_port=worker.port
        )
        resources.callback(self._node.process.stop)
        self._print(self._node.start())
        self._node.await_ready()
        self._print(
            f"the node is ready at {self._node.bootstrap_server} (process {self._node.process.record.process_id})"
        )
        return self._node.bootstrap_server

    def _start_worker(self, worker: LocalWorker, bootstrap_server: str, resources: ExitStack) -> ConnectClient:
        self._worker = worker
        resources.callback(worker.process.stop)
        self._print(worker.start(bootstrap_server))
        client = resources.enter_context(ConnectClient(worker.url))
        worker.await_ready(client)
        self._print(f"the worker is ready (process {worker.process.record.process_id})")
        return client

    # ---- the stream

    def _stream(
        self, topics: FlightTopics, dataset: FlightDataset, worker: LocalWorker, resources: ExitStack
    ) -> tuple[RunRecord, SourceTotals]:
        """Let the connectors process every flight. Unless the worker is kept, it has stopped when this returns."""
        start, wanted = self._starting_point(topics)
        if not start.resumes:
            self._directory.write_record(wanted)  # After a kill from here on, the next run starts over.
        client = self._start_worker(worker, topics.bootstrap_server, resources)
        configs = connector_configs(topics, self._directory, self._options.batch_records_max)
        connectors = FlightConnectors(client, configs, self._check, self._print)
        record = self._directory.record() if start.resumes else self._start_over(topics, connectors, wanted)
        assert record is not None
        connectors.create()
        self._print(f"connectors {', '.join(configs)}: created by REST; Spark is starting for their tasks")
        began = time.monotonic()
        connectors.await_running()
        self._print(f"Spark runs after {time.monotonic() - began:.0f} s")
        self._print(f"they read the topics that match {topics.pattern}; streaming {self._options.flights:,} flights")
        producer = FlightProducer(topics, dataset, rate=self._options.rate, resume=start.resumes, notify=self._print)
        try:
            self._watch(topics, connectors, producer)
        finally:
            producer.stop()
        if not self._options.keep and not worker.process.record.kept:
            worker.process.stop()
        return record, producer.totals

    def _starting_point(self, topics: FlightTopics) -> tuple[StartingPoint, RunRecord]:
        options = self._options
        wanted = RunRecord(
            options.bootstrap_server, options.topic, options.flights, options.partitions, topic_id=topics.first.id()
        )
        names = (topics.second.name, *internal_topics(options.topic).values())
        others = [name for name in names if FlightTopic(topics.bootstrap_server, name).id() is not None]
        start = starting_point(
            self._directory.record(), wanted, topic_id=wanted.topic_id, others=others, is_restart=options.fresh
        )
        self._print(start.text)
        return start, wanted

    def _start_over(self, topics: FlightTopics, connectors: FlightConnectors, wanted: RunRecord) -> RunRecord:
        """Remove the connectors before the results, and their positions before the new topics exist."""
        connectors.remove()
        self._directory.forget_results()
        topics.delete()
        for name in connectors.configs:
            topics.forget_group(consumer_group(name))
        record = replace(wanted, state=RunState.STREAMING, topic_id=topics.first.create(self._options.partitions))
        self._directory.write_record(record)
        return record

    def _watch(self, topics: FlightTopics, connectors: FlightConnectors, producer: FlightProducer) -> None:
        """Produce, and wait until every connector has committed all flights."""
        names = list(connectors.configs)
        progress = run_progress(self._console, connectors=names, total=self._options.flights)
        progress.start()
        try:
            producer.start()
            while producer.is_alive():
                self._look(topics, connectors, producer, progress)
                producer.join(_POLL_SECONDS)
            if producer.error is not None:
                self._check()  # If the node has died, that is the cause.
                raise producer.error
            ends = topics.ends()
            while not all(_is_done(topics.committed(consumer_group(name)), ends) for name in names):
                self._look(topics, connectors, producer, progress)
                time.sleep(_POLL_SECONDS)
            progress.update(produced=producer.produced, processed=self._read_positions(topics, names))
        finally:
            progress.stop()

    def _look(
        self, topics: FlightTopics, connectors: FlightConnectors, producer: FlightProducer, progress: RunProgress
    ) -> None:
        self._check()
        connectors.check_tasks(every=_LOOK_SECONDS)
        progress.update(produced=producer.produced, processed=self._read_positions(topics, list(connectors.configs)))

    def _read_positions(self, topics: FlightTopics, names: list[str]) -> dict[str, int]:
        self._processed = {name: sum(topics.committed(consumer_group(name)).values()) for name in names}
        return self._processed

    def _check(self) -> None:
        for process in (self._node, self._worker):
            if process is not None:
                process.process.check_alive()

    # ---- the end

    def _conclude(self, record: RunRecord, totals: SourceTotals, topics: FlightTopics, dataset: FlightDataset) -> None:
        records = sum(topics.ends().values())
        try:
            report(self._directory, totals, dataset.airline_names(), records=records, console=self._console)
        except PipelineError:
            self._directory.write_record(replace(record, state=RunState.STARTING))  # The next run starts over.
            raise
        self._directory.write_record(replace(record, state=RunState.FINISHED))

    def _say_where(self, bootstrap_server: str) -> None:
        directory = self._directory
        self._print(f"result table   {directory.delays}")
        self._print(f"flights        {directory.landed}")
        if directory.database.exists():
            self._print(f"database       {directory.database}")
        self._print(f"plot           {directory.plot}")
        self._print(
            f"worker         {directory.worker_properties} (log: {directory.worker_log}, Spark's: {directory.worker})"
        )
        if self._node is None:
            self._print(f"topics         {self._options.topic} and others that begin with it, at {bootstrap_server}")
        else:
            self._print(f"node's data    {directory.node} (log: {directory.node_log})")
        self._say_what_stays_up(bootstrap_server)

    def _say_what_stays_up(self, bootstrap_server: str) -> None:
        up = []
        for process in (self._node, self._worker):
            if process is None or not process.process.is_running_now:
                continue
            if self._options.keep:
                process.process.leave_up()
            if process.process.record.kept:
                up.append(process)
        if not up:
            return
        if self._node in up:
            self._print(f"the node stays up: bootstrap server {bootstrap_server}, topic {self._options.topic}")
        if self._worker is not None and self._worker in up:
            self._print(f"the worker stays up: {self._worker.url}, console {self._worker.url}/console")
            self._print(f"status         barnabas connect status --worker {self._worker.url}")
        self._print(
            f"stop with      kill {' '.join(str(process.process.record.process_id) for process in reversed(up))}"
        )

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def _is_done(committed: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> bool:
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())
