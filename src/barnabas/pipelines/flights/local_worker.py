"""A Connect worker as a child process, with its properties and its Spark files in the run's folder.

Its topics and its group are named after the flights' topic, so that runs on one cluster don't share a group.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping

from barnabas.common.properties_file import MalformedProperties, format_properties, parse_properties
from barnabas.connect.rest.connect_client import ConnectClient, RequestRefused, WorkerUnreachable
from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.child_process import HOST, ChildProcess, ProcessRecord, free_ports, is_free
from barnabas.pipelines.flights.flight_connectors import FLIGHT_DELAYS
from barnabas.pipelines.flights.run_directory import RunDirectory, write_durably

__all__ = ["SPARK_SETTINGS", "LocalWorker", "internal_topics"]

_READY_TIMEOUT_SECONDS = 120.0
_BATCH_MS_MAX = "30000"
"""A batch that runs when a topic is added may finish; otherwise it would be repeated."""
_CONF = "barnabas.connect.spark.conf."

SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # Its re-planning costs more than these small stages.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # Carrier hours of a month: some 5,000.
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    # The optimizing compiler would double the CPU time of the first minute, and the run ends before that pays off.
    # JSON and plans are short-lived: a large young generation is collected a third as often.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn450m -XX:MetaspaceSize=192m",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


def internal_topics(topic: str) -> dict[str, str]:
    """Return the worker's three internal topics, by the settings that name them."""
    return {
        "config.storage.topic": f"{topic}-connect-configs",
        "offset.storage.topic": f"{topic}-connect-offsets",
        "status.storage.topic": f"{topic}-connect-status",
    }


class LocalWorker:
    def __init__(
        self, directory: RunDirectory, *, topic: str, cores: str, keep: bool, node_port: int | None = None
    ) -> None:
        """Choose the port, so that the console's address is known before the worker starts. The port is not
        ``node_port``."""
        self._directory = directory
        self._topic = topic
        self._cores = cores
        self.process = ChildProcess(
            "worker",
            argument=str(directory.worker_properties),
            record=directory.worker_record,
            log=directory.worker_log,
            keep=keep,
        )
        former = self.process.former()
        self._former = former if former is not None and self.process.is_running(former) else None
        """The worker that an earlier run left running."""
        if former is not None and (self._former or (former.port != node_port and is_free(former.port))):
            self.port = former.port
        else:
            (self.port,) = free_ports(1, without=node_port)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self, bootstrap_server: str) -> str:
        """Start the worker, or take over the one that an earlier run left. Say which."""
        if self._former is not None and self.process.is_running(self._former):
            self._check_cluster(self._former, bootstrap_server)
            return self.process.take_over(self._former)
        self._directory.worker.mkdir(exist_ok=True)
        shutil.rmtree(self._directory.worker / "scratch", ignore_errors=True)
        write_durably(self._directory.worker_properties, format_properties(self._properties(bootstrap_server)))
        # SIGKILL: unfinished work is repeated, and a graceful end could take longer than the next start.
        self.process.start(
            ["worker", str(self._directory.worker_properties)], ProcessRecord(0, self.port), end_by=signal.SIGKILL
        )
        return f"starting a Connect worker, its settings are in {self._directory.worker_properties}"

    def await_ready(self, client: ConnectClient) -> None:
        def is_ready() -> bool:
            try:
                client.connectors()
            except (RequestRefused, WorkerUnreachable):
                return False
            return True

        self.process.await_ready(is_ready, seconds=_READY_TIMEOUT_SECONDS)

    def _check_cluster(self, former: ProcessRecord, bootstrap_server: str) -> None:
        """Raise PipelineError if the worker runs for another cluster or topic."""
        try:
            settings = parse_properties(self._directory.worker_properties.read_text()).values
        except (OSError, MalformedProperties):
            settings = {}
        wanted = self._properties(bootstrap_server)
        if any(settings.get(name) != wanted[name] for name in ("bootstrap.servers", "group.id")):
            raise PipelineError(
                f"a worker of an earlier run still runs (process {former.process_id}), for "
                f"{settings.get('bootstrap.servers', 'another cluster')}. Stop it first: kill {former.process_id}"
            )

    def _properties(self, bootstrap_server: str) -> Mapping[str, str]:
        return {
            "bootstrap.servers": bootstrap_server,
            "group.id": f"{self._topic}-connect",
            "listeners": self.url,
            **internal_topics(self._topic),
            "config.storage.replication.factor": "-1",
            "offset.storage.replication.factor": "-1",
            "status.storage.replication.factor": "-1",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "task.shutdown.graceful.timeout.ms": _BATCH_MS_MAX,
            "barnabas.connect.plugins": FLIGHT_DELAYS,
            "barnabas.connect.spark.master": f"local[{self._cores}]",
            "barnabas.connect.spark.directory": str(self._directory.worker),
            **{f"{_CONF}{name}": value for name, value in SPARK_SETTINGS.items()},
        }
