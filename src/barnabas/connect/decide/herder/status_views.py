"""Statuses as the REST API shows them: with Kafka's fields, or with details that only our workers know.

Kafka's own clients refuse an unknown field, so details are returned only on request. Without them, the ``trace`` of
running work says what does not look healthy: the last failure while no batch has succeeded since, or topics that a sink
waits for.
"""

from __future__ import annotations

from barnabas.connect.decide.autoscaling.autoscale_settings import AutoscaleSettings
from barnabas.connect.decide.backing_stores.status_records import Status
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.entities import (
    ConnectorDetails,
    ConnectorState,
    LastFailure,
    LastScaling,
    TaskDetails,
    TaskStatus,
)
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["connector_details", "connector_state", "task_details", "task_status", "waiting_text"]

_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def waiting_text(topics: tuple[str, ...]) -> str:
    """Return a sentence about the topics that a sink waits for; empty if there are none."""
    if not topics:
        return ""
    if "=" in topics[0]:  # A setting with its pattern: no topic has this character in its name.
        return f"It waits for topics: none matches {topics[0]}."
    text = "topic {} does not exist" if len(topics) == 1 else "topics {} do not exist"
    return f"It waits for topics: {text.format(', '.join(topics))}, or this worker may not describe them."


def connector_state(status: Status) -> ConnectorState:
    return ConnectorState(status.state.value, status.worker_id, status.version, _text(status))


def task_status(task: ConnectorTaskId, status: Status) -> TaskStatus:
    return TaskStatus(task.task, status.state.value, status.worker_id, status.version, _text(status))


def connector_details(status: Status, config: ConfigMap) -> ConnectorDetails:
    return ConnectorDetails(
        status.state.value,
        status.worker_id,
        status.version,
        _text(status),
        last_failure=_last_failure(status),
        waits_for=status.waits_for,
        dead_letter_topic=(config.get(_DEAD_LETTERS) or "").strip(),
        autoscaling=None if AutoscaleSettings.of(config) is None else _last_scaling(status),
    )


def task_details(task: ConnectorTaskId, status: Status) -> TaskDetails:
    return TaskDetails(
        task.task,
        status.state.value,
        status.worker_id,
        status.version,
        _text(status),
        last_failure=_last_failure(status),
        skipped_records=status.skipped_records,
        dead_letters=status.dead_letters,
    )


def _text(status: Status) -> str:
    return "\n".join(filter(None, (status.text, waiting_text(status.waits_for))))


def _last_scaling(status: Status) -> LastScaling | None:
    scaling = status.scaling
    return None if scaling is None else LastScaling(scaling.decided_ms, scaling.tasks, scaling.reason)


def _last_failure(status: Status) -> LastFailure | None:
    failure = status.failure
    if failure is None:
        return None
    return LastFailure(failure.failed_ms, failure.reason, failure.restarts, failure.restarts_max, failure.next)
