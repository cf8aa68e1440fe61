"""The connectors of the run: created and removed by REST, watched by REST and by their committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.connect.rest.connect_client import ConnectClient, RequestRefused, WorkerUnreachable
from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.flight_topic import FlightTopics
from barnabas.pipelines.flights.run_directory import RunDirectory

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import Document

__all__ = ["FLIGHT_DELAYS", "FlightConnectors", "connector_configs", "failure_of"]

FLIGHT_DELAYS = "barnabas.pipelines.flights.connectors:FlightDelays"
"""The run's own connector, which the settings of its worker must list."""

_NOT_FOUND = 404
_START_SECONDS_MAX = 300.0
_STOP_SECONDS_MAX = 90.0
_FAILED_SECONDS_MAX = 60.0
"""How long a task may stay failed: the worker restarts it automatically."""
_COLUMNS = """row BIGINT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, time_hour TIMESTAMP, \
dep_delay INT, arr_delay INT, distance INT"""
"""The fields of a flight that are landed; the others stay in the topics."""
_VALUES = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.barnabas.schema": _COLUMNS,
    "value.converter.barnabas.schema.unknown.fields": "ignore",
    "errors.tolerance": "all",  # Records that are not flights are skipped and counted, and don't block the others.
}


def connector_configs(
    topics: FlightTopics, directory: RunDirectory, batch_records_max: int
) -> dict[str, dict[str, str]]:
    """Return the settings of each connector, by name. All read the topics that match the pattern, also later ones."""
    common = {
        "topics.regex": topics.pattern,
        "tasks.max": "1",
        "barnabas.batch.records.max": str(batch_records_max),
    }
    name = topics.first.name
    return {
        f"{name}-delays": {
            **common,
            "connector.class": FLIGHT_DELAYS,
            "directory": str(directory.path),
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
        f"{name}-to-files": {
            **common,
            **_VALUES,
            "connector.class": "TopicToFiles",
            "directory": str(directory.landed),
            "record.columns": "topic,partition,offset",
        },
        f"{name}-to-database": {
            **common,
            **_VALUES,
            "connector.class": "JdbcSink",
            "connection.url": f"jdbc:sqlite:{directory.database}",
            "table.name.format": "flights",
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "row",
        },
    }


@dataclass(slots=True)
class FlightConnectors:
    client: ConnectClient
    configs: Mapping[str, Mapping[str, str]]
    check: Callable[[], None]
    """Raise PipelineError when the node or the worker has ended."""
    notify: Callable[[str], None]
    _failed_since: dict[str, float] = field(default_factory=dict)
    _checked: float = 0.0

    def create(self) -> None:
        """Create the missing connectors. Change those that exist with other settings."""
        for name, config in self.configs.items():
            if self._config(name) != {"name": name, **config}:
                self._ask(lambda name=name, config=config: self.client.put_config(name, config))  # type: ignore[misc]

    def await_running(self) -> None:
        """Wait until each connector has a running task. The first such task has started Spark."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while waiting := [name for name in self.configs if not _runs(self._status(name))]:
            self.check()
            self.check_tasks()
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"{', '.join(waiting)}: no task was running after {_START_SECONDS_MAX:.0f} s. "
                    f"See {self.client.url}/connectors/{waiting[0]}/status"
                )
            time.sleep(0.25)

    def remove(self) -> None:
        """Stop the tasks, then delete the connectors. Afterwards no connector writes."""
        known = set(self._ask(self.client.connectors) or ())
        existing = [name for name in self.configs if name in known]
        for name in existing:
            self._ask(lambda name=name: self.client.change_state(name, "stop"))  # type: ignore[misc]
        deadline = time.monotonic() + _STOP_SECONDS_MAX
        for name in existing:
            while (status := self._status(name)) is not None and status["tasks"]:
                self.check()
                if time.monotonic() > deadline:
                    raise PipelineError(
                        f"the tasks of {name} did not stop. See {self.client.url}/connectors/{name}/status"
                    )
                time.sleep(0.1)
            self._ask(lambda name=name: self.client.delete(name))  # type: ignore[misc]

    def check_tasks(self, *, every: float = 0.0) -> None:
        """Raise PipelineError, with the reason, for a task that stays failed. Report a task that failed just now.

        Do nothing if the last check was less than ``every`` seconds ago.
        """
        now = time.monotonic()
        if now - self._checked < every:
            return
        self._checked = now
        for name in self.configs:
            reason = failure_of(self._status(name))
            if reason is None:
                self._failed_since.pop(name, None)
            elif name not in self._failed_since:
                self._failed_since[name] = now
                self.notify(f"connector {name} has failed, and its worker restarts it: {reason}")
            elif now - self._failed_since[name] > _FAILED_SECONDS_MAX:
                raise PipelineError(
                    f"connector {name} stays failed: {reason}. See {self.client.url}/connectors/{name}/status"
                )

    def _config(self, name: str) -> Document | None:
        config: Document | None = self._ask(lambda: self.client.config(name))
        return config

    def _status(self, name: str) -> Document | None:
        status: Document | None = self._ask(lambda: self.client.status(name))
        return status

    def _ask(self, request: Callable[[], Any]) -> Any:
        """Return the answer; None for 404. Raise PipelineError, for a dead worker with the last lines of its log."""
        try:
            return request()
        except RequestRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise PipelineError(f"the worker at {self.client.url} refuses: {error}") from error
        except WorkerUnreachable as error:
            self.check()
            raise PipelineError(str(error)) from error


def failure_of(status: Document | None) -> str | None:
    """Return one line that says why a connector or one of its tasks has failed."""
    if status is None:
        return None
    for status_part in (status["connector"], *status["tasks"]):
        if status_part["state"] == "FAILED":
            lines = [line.strip() for line in str(status_part.get("trace", "")).splitlines() if line.strip()]
            return lines[0] if lines else "for no known reason"
    return None


def _runs(status: Document | None) -> bool:
    return bool(status and status["tasks"] and all(task["state"] == "RUNNING" for task in status["tasks"]))
