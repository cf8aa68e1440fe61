"""Replay the status topic: the state of every connector and task, as far as this worker has read.

Each worker writes its own statuses, and a worker that loses a task may write after its new owner. So UNASSIGNED of a
task does not replace RUNNING of the same or a later generation, and that of a connector does not replace RUNNING of a
later one; only its counts and failure are taken over. For the same reason a worker that gives up work makes a "safe"
write: ``may_write_safely`` says whether no other worker has written in a later generation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from barnabas.connect.decide.backing_stores.config_records import InvalidRecord
from barnabas.connect.decide.backing_stores.internal_json import JsonValue, MalformedJson, parse_json
from barnabas.connect.decide.backing_stores.status_records import (
    ConnectorKey,
    Status,
    StatusKey,
    TaskKey,
    TopicKey,
    TopicStatus,
    parse_status,
    parse_topic_status,
    status_key,
)
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = ["ConnectorStatusChanged", "StatusEvent", "StatusState", "TaskStatusChanged", "TopicStatusChanged"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorStatusChanged:
    """The status is None if it was removed, and with it the statuses of its tasks."""

    connector: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusChanged:
    task: ConnectorTaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicStatusChanged:
    topic: str
    connector: str
    status: TopicStatus | None


StatusEvent: TypeAlias = ConnectorStatusChanged | TaskStatusChanged | TopicStatusChanged


class StatusState:
    """Records of different partitions may arrive in any order; those of one key arrive in order."""

    def __init__(self) -> None:
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, TopicStatus]] = {}

    # --- queries

    def connectors(self) -> list[str]:
        """Return all connectors with a status, by name."""
        return sorted(self._connectors)

    def connector(self, connector: str) -> Status | None:
        return self._connectors.get(connector)

    def task(self, task: ConnectorTaskId) -> Status | None:
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> dict[ConnectorTaskId, Status]:
        """Return the tasks in numerical order."""
        found = self._tasks.get(connector, {})
        return {ConnectorTaskId(connector, number): found[number] for number in sorted(found)}

    def all_tasks(self) -> list[ConnectorTaskId]:
        return [
            ConnectorTaskId(connector, number) for connector in sorted(self._tasks) for number in self._tasks[connector]
        ]

    def topics(self, connector: str) -> Mapping[str, TopicStatus]:
        """Return the topics that a connector has used since the last reset, by name."""
        return dict(sorted(self._topics.get(connector, {}).items()))

    def may_write_safely(self, what: str | ConnectorTaskId, status: Status) -> bool:
        """Return whether a safe write is allowed, for a connector by its name or for a task."""
        known = self.connector(what) if isinstance(what, str) else self.task(what)
        return known is None or known.worker_id == status.worker_id or known.generation <= status.generation

    # --- records

    def replay(self, key: str | bytes | None, value: bytes | None) -> list[StatusEvent]:
        """Apply a record. An unreadable record is logged and changes nothing."""
        text = key.decode(errors="replace") if isinstance(key, bytes) else key
        try:
            found = status_key(text or "")
            event = self._replay(found, None if value is None else parse_json(value))
        except (InvalidRecord, MalformedJson) as error:
            log.warning("a record of the status topic, %s, was ignored: %s", text, error)
            return []
        return [] if event is None else [event]

    def _replay(self, key: StatusKey, value: JsonValue) -> StatusEvent | None:
        match key:
            case ConnectorKey(connector):
                return self._replay_connector(connector, None if value is None else parse_status(value))
            case TaskKey(task):
                return self._replay_task(task, None if value is None else parse_status(value))
            case TopicKey(topic, connector):
                return self._replay_topic(topic, connector, None if value is None else parse_topic_status(value))

    def _replay_connector(self, connector: str, status: Status | None) -> StatusEvent | None:
        if status is None:
            self._connectors.pop(connector, None)
            self._tasks.pop(connector, None)
        elif _is_running(known := self._connectors.get(connector), status) and known.generation > status.generation:
            self._connectors[connector] = _kept(known, status)
            return None
        else:
            self._connectors[connector] = status
        return ConnectorStatusChanged(connector, status)

    def _replay_task(self, task: ConnectorTaskId, status: Status | None) -> StatusEvent | None:
        tasks = self._tasks.setdefault(task.connector, {})
        if status is None:
            tasks.pop(task.task, None)
            if not tasks:
                del self._tasks[task.connector]
        elif _is_running(known := tasks.get(task.task), status) and known.generation >= status.generation:
            tasks[task.task] = _kept(known, status)
            return None
        else:
            tasks[task.task] = status
        return TaskStatusChanged(task, status)

    def _replay_topic(self, topic: str, connector: str, status: TopicStatus | None) -> StatusEvent:
        topics = self._topics.setdefault(connector, {})
        if status is None:
            topics.pop(topic, None)
            if not topics:
                del self._topics[connector]
        else:
            topics[topic] = status
        return TopicStatusChanged(topic, connector, status)


def _kept(known: Status, given_up: Status) -> Status:
    """Return the known status with what the report that it is given up says about the time before.

    The same worker knows best. Another one knows only earlier counts.
    """
    if known.worker_id == given_up.worker_id:
        return replace(
            known,
            failure=given_up.failure,
            skipped_records=given_up.skipped_records,
            dead_letters=given_up.dead_letters,
        )
    return replace(
        known,
        skipped_records=max(known.skipped_records, given_up.skipped_records),
        dead_letters=max(known.dead_letters, given_up.dead_letters),
    )


def _is_running(known: Status | None, status: Status) -> TypeGuard[Status]:
    """Return whether one worker owns it, and the status is another worker's report that it gave it up."""
    return status.state is TaskState.UNASSIGNED and known is not None and known.state is TaskState.RUNNING
