"""A worker's metrics, under Kafka's names in Prometheus form (KIP-196, KIP-298, KIP-415, KIP-475, KIP-507).

``kafka.connect:type=connect-worker-rebalance-metrics`` and its attribute ``completed-rebalances-total`` become
``kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total``. A non-numeric value becomes a label of a
gauge that is 1. Values are read from the worker on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from barnabas.connect.decide.herder.herder_counters import StartUps
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from barnabas.connect.decide.herder.herder import Herder
    from barnabas.connect.metrics.task_metrics import MeasuredTasks

__all__ = ["NoticeCounts", "WorkerMetrics"]

_WORKER = "kafka_connect_connect_worker_metrics"
_REBALANCE = "kafka_connect_connect_worker_rebalance_metrics"
_COORDINATOR = "kafka_connect_connect_coordinator_metrics"
_CONNECTOR = "kafka_connect_connector_metrics"
_TASK = "kafka_connect_connector_task_metrics"

_WEBHOOK = "barnabas_connect_webhook"
_SINK_LAG = "barnabas_connect_sink_lag_records"
_WANTED = "barnabas_connect_connector_autoscale_tasks"

_COUNTED = {
    TaskState.RUNNING: "running",
    TaskState.PAUSED: "paused",
    TaskState.FAILED: "failed",
    TaskState.UNASSIGNED: "unassigned",
    TaskState.DESTROYED: "destroyed",
    TaskState.RESTARTING: "restarting",
}


_OWN_OF_TASKS = {
    "barnabas_connect_task_restarts": "How often a task was restarted automatically since its budget was last full.",
    "barnabas_connect_task_last_failure_timestamp": (
        "When the task failed last, in milliseconds since 1970; 0 if a batch has succeeded since."
    ),
    "barnabas_connect_task_skipped_records_total": "Bad records that were left out since the task was created.",
    "barnabas_connect_task_dead_letters_total": "Dead letters that were written since the task was created.",
}


class NoticeCounts(Protocol):
    """The notices of a webhook since the worker started."""

    sent: int
    retries: int
    dropped: dict[str, int]
    """Notices that were not delivered, by reason."""

    @property
    def waiting(self) -> int: ...


class WorkerMetrics:
    """A collector of prometheus-client, by its method ``collect``."""

    def __init__(
        self,
        herder: Herder,
        tasks: MeasuredTasks | None = None,
        notices: NoticeCounts | None = None,
        sink_lags: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """``tasks`` is the task runtime, if it measures the tasks; ``notices`` those of the webhook, if one is set;
        ``sink_lags`` returns the lag of sinks in records."""
        self._herder = herder
        self._tasks = tasks
        self._notices = notices
        self._sink_lags = sink_lags

    def exposition(self) -> tuple[bytes, str]:
        """Return the page and its content type."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterable[Metric]:
        for name, text, value in self._numbers():
            family = _family(name, text)
            family.add_metric([], value)
            yield family
        yield from self._words()
        yield from self._connectors()
        yield from self._measured_tasks()
        if self._notices is not None:
            yield from _webhook_families(self._notices)

    def _numbers(self) -> Iterator[tuple[str, str, float]]:
        herder = self._herder
        running = herder.work.running()
        tasks = sum(isinstance(unit, ConnectorTaskId) for unit in running)
        assigned = herder.assigned_work.assigned
        assigned_tasks = sum(isinstance(unit, ConnectorTaskId) for unit in assigned)
        yield f"{_WORKER}_connector_count", "Connectors that run on this worker.", len(running) - tasks
        yield f"{_WORKER}_task_count", "Tasks that run on this worker.", tasks
        yield from _start_rows(herder.connector_starts, "connector")
        yield from _start_rows(herder.task_starts, "task")
        yield f"{_COORDINATOR}_assigned_connectors", "Connectors of this worker.", len(assigned) - assigned_tasks
        yield f"{_COORDINATOR}_assigned_tasks", "Tasks of this worker.", assigned_tasks
        times, now_ms = herder.rebalance_times, herder.context.outside.monotonic_ms()
        yield f"{_REBALANCE}_epoch", "The generation of the group.", herder.context.group.generation
        yield f"{_REBALANCE}_rebalancing", "1 while the group rebalances.", times.is_rebalancing
        yield f"{_REBALANCE}_completed_rebalances_total", "Rebalances that are over.", times.completed
        yield f"{_REBALANCE}_rebalance_max_time_ms", "The longest of them.", times.max_ms
        average = times.sum_ms / times.completed if times.completed else 0
        yield f"{_REBALANCE}_rebalance_avg_time_ms", "How long they took on average.", average
        since_ms = -1 if times.last_ms is None else now_ms - times.last_ms
        yield f"{_REBALANCE}_time_since_last_rebalance_ms", "Since the last one was over, -1 before any.", since_ms

    def _words(self) -> Iterator[Metric]:
        group = self._herder.context.group
        protocol = GaugeMetricFamily(
            f"{_REBALANCE}_connect_protocol", "The protocol that the group has agreed on.", labels=["connect_protocol"]
        )
        protocol.add_metric([group.protocol_version.name], 1)
        yield protocol
        leader = GaugeMetricFamily(f"{_REBALANCE}_leader_name", "The URL of the leader.", labels=["leader_name"])
        leader.add_metric([group.leader_url or ""], 1)
        yield leader

    def _connectors(self) -> Iterator[Metric]:
        herder = self._herder
        statuses, config = herder.context.statuses, herder.config
        here = sorted(unit for unit in herder.work.running() if isinstance(unit, str))
        for state, word in (("total", "total"), *_COUNTED.items()):
            counts = GaugeMetricFamily(
                f"{_WORKER}_connector_{word}_task_count", f"Tasks: {word}.", labels=["connector"]
            )
            for name in here:
                found = statuses.tasks(name).values()
                counts.add_metric([name], sum(state == "total" or task.state is state for task in found))
            yield counts
        labels = ["connector", "status", "connector_class", "connector_type", "connector_version"]
        connectors = GaugeMetricFamily(f"{_CONNECTOR}_status", "Connectors of this worker.", labels=labels)
        for name in here:
            properties = config.connector_config(name) or {}
            status = statuses.connector(name)
            plugins = herder.context.plugins
            connectors.add_metric(
                [
                    name,
                    "unassigned" if status is None else status.state.value.lower(),
                    properties.get("connector.class") or "",
                    plugins.connector_type(properties).value,
                    plugins.connector_version(properties) or "",
                ],
                1,
            )
        yield connectors
        waiting = GaugeMetricFamily(
            "barnabas_connect_connector_missing_topics",
            "Topics that a sink waits for because they do not exist; a pattern without a topic counts as 1.",
            labels=["connector"],
        )
        for name in here:
            status = statuses.connector(name)
            waiting.add_metric([name], 0 if status is None else len(status.waits_for))
        yield waiting
        yield from self._lags(here)
        yield from self._tasks_of_worker()

    def _lags(self, here: Sequence[str]) -> Iterator[Metric]:
        """Yield the lag of sinks, and the number of tasks that autoscaling wants."""
        lag = GaugeMetricFamily(_SINK_LAG, "Records that a sink has not written yet.", labels=["connector"])
        lags = self._sink_lags()
        for name in here:  # Another worker may have taken over a connector since the last sample.
            if name in lags:
                lag.add_metric([name], lags[name])
        yield lag
        wanted = GaugeMetricFamily(_WANTED, "Tasks that autoscaling wants a sink to have.", labels=["connector"])
        for name in here:
            tasks = self._herder.autoscaling.wanted_tasks(name)
            if tasks is not None:
                wanted.add_metric([name], tasks)
        yield wanted

    def _tasks_of_worker(self) -> Iterator[Metric]:
        """Yield what is known about each task of this worker, also about one that has failed and does not run."""
        herder = self._herder
        statuses, labels = herder.context.statuses, ["connector", "task"]
        tasks = GaugeMetricFamily(f"{_TASK}_status", "Tasks of this worker.", labels=[*labels, "status"])
        families = [_family(name, text, labels) for name, text in _OWN_OF_TASKS.items()]
        for unit in sorted(unit for unit in herder.assigned_work.assigned if isinstance(unit, ConnectorTaskId)):
            status = statuses.task(unit)
            word = "unassigned" if status is None else status.state.value.lower()
            task = [unit.connector, str(unit.task)]
            tasks.add_metric([*task, word], 1)
            failure = herder.statuses.last_failure(unit)
            failed_ms = 0 if failure is None else failure.failed_ms
            values = (herder.automatic_restarts.restart_count(unit), failed_ms, *herder.statuses.counts(unit))
            for family, value in zip(families, values, strict=True):
                family.add_metric(task, value)
        yield tasks
        yield from families

    def _measured_tasks(self) -> Iterator[Metric]:
        """Yield the families. A family has the figures of all tasks."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for unit in self._herder.work.running():
            figures = self._tasks.figures(unit) if self._tasks and isinstance(unit, ConnectorTaskId) else None
            if isinstance(unit, ConnectorTaskId) and figures is not None:
                for name, text, value in figures.metrics():
                    family = families.get(name) or _family(name, text, ["connector", "task"])
                    families[name] = family
                    family.add_metric([unit.connector, str(unit.task)], value)
        yield from families.values()


def _family(name: str, text: str, labels: Sequence[str] = ()) -> CounterMetricFamily | GaugeMetricFamily:
    """Return a counter or a gauge, by the name."""
    if name.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)
    return GaugeMetricFamily(name, text, labels=labels)


def _webhook_families(notices: NoticeCounts) -> Iterator[Metric]:
    numbers: Mapping[str, tuple[str, int]] = {
        "sent_total": ("Notices that the webhook accepted.", notices.sent),
        "retries_total": ("Attempts to send a notice again.", notices.retries),
        "waiting": ("Notices that wait for the webhook.", notices.waiting),
    }
    for name, (text, value) in numbers.items():
        family = _family(f"{_WEBHOOK}_{name}", text)
        family.add_metric([], value)
        yield family
    dropped = _family(f"{_WEBHOOK}_dropped_total", "Notices that were not delivered, by reason.", ["reason"])
    for reason, count in notices.dropped.items():
        dropped.add_metric([reason], count)
    yield dropped


def _start_rows(starts: StartUps, what: str) -> Iterator[tuple[str, str, float]]:
    attempts = starts.succeeded + starts.failed
    yield f"{_WORKER}_{what}_startup_attempts_total", f"Starts of {what}s that were attempted.", attempts
    yield f"{_WORKER}_{what}_startup_success_total", f"Starts of {what}s that succeeded.", starts.succeeded
    yield f"{_WORKER}_{what}_startup_failure_total", f"Starts of {what}s that failed.", starts.failed
    yield (
        f"{_WORKER}_{what}_startup_success_percentage",
        f"The part of starts of {what}s that succeeded, from 0 to 1.",
        starts.succeeded / attempts if attempts else 0,
    )
    yield (
        f"{_WORKER}_{what}_startup_failure_percentage",
        f"The part of starts of {what}s that failed, from 0 to 1.",
        starts.failed / attempts if attempts else 0,
    )
