"""The port of the herder to everything outside it: topics, group, connectors, tasks, other workers, and time.

The herder's methods await these. So each operation reads from top to bottom, a test or a simulator can replace the rest
of the worker, and no decision depends on a socket or a clock. The rules for an implementation:

* A method that fails raises a ConnectError or an OSError.
* A method finishes its work even if the caller is cancelled, so an abandoned request leaves nothing half done.
* Everything runs on one event loop, and a slow method waits without blocking it.
* Conditions that coroutines wait for (``until``) are evaluated again after ``state_changed``, and after each await of
  one of these methods, because the caller may then have changed something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.decide.notices.failure_notice import FailureNotice
from barnabas.connect.decide.tasks.task_runtime import TaskListener
from barnabas.connect.entities import ConfigInfos, ConnectorOffset, ConnectorOffsets, OffsetChange
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState

__all__ = ["Background", "ConfigMap", "ErrorListener", "Outside", "TaskToStart"]

ConfigMap = Mapping[str, str | None]
"""Settings of a connector or task as written, with references to secrets instead of the secrets."""


@dataclass(frozen=True, slots=True)
class TaskToStart:
    """A task as the config topic describes it."""

    task: ConnectorTaskId
    connector_config: ConfigMap
    task_config: ConfigMap
    target_state: TargetState
    generation: int
    """The generation of the group."""
    task_configs: Sequence[ConfigMap] = ()
    """The configs of all tasks of the connector, in order: they show how the work is divided."""
    applied_config: ConfigMap | None = None
    """The connector's settings from which the task configs were created."""
    transactional_id: str | None = None
    """For a source with exactly-once delivery: the id of its producer, which earlier runs of the task had too."""
    confirm: Callable[[], Awaitable[None]] | None = None
    """With ``transactional_id``: await it when the producer has fenced earlier ones, before the first record. It raises
    a ConnectError if newer task configs exist, or if another worker owns the task."""


class ErrorListener(Protocol):
    """Receives the errors of work on this worker. Its methods must not wait."""

    def notice(self, notice: FailureNotice) -> None:
        """A connector or task has failed, or has recovered."""

    def skipped(self, task: ConnectorTaskId, records: int, dead_letters: int, at_ms: int) -> None:
        """A task has left out bad records, of which some became dead letters. Milliseconds since 1970."""


class Background(Protocol):
    """A coroutine that runs beside its starter."""

    def cancel(self) -> object: ...


class Outside(Protocol):
    # -- time, conditions, and background work

    def monotonic_ms(self) -> float:
        """Return a monotonic time to measure durations."""

    def now_ms(self) -> int:
        """Return the wall clock, for times in records."""

    async def sleep(self, duration_ms: float) -> None: ...

    async def until(self, condition: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        """Return True when the condition holds, immediately if it does already; False if it did not in time.

        When it returns True, the condition holds at that moment: a coroutine that made it untrue again in between
        sends this one back to waiting.
        """

    def state_changed(self) -> None:
        """Have all conditions evaluated soon. For external input; see the rules above."""

    def start(self, steps: Coroutine[Any, Any, None]) -> Background:
        """Run a coroutine in the background. An exception that leaves it is a bug and stops the worker."""

    # -- the topics

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        """Write records to the config topic as one batch. Returns when they are safe."""

    async def claim_config_topic(self) -> None:
        """Fence the transactional producer of every earlier leader (KIP-618). It can't write once this returns."""

    async def write_configs_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        """Write records to the config topic in one transaction. Raise ConnectError if this worker has not claimed the
        topic, or if another worker has claimed it since."""

    async def read_configs_to_end(self, timeout_ms: int) -> None:
        """Return when everything has been replayed that was in the config topic at the time of the call."""

    async def write_status(self, record: StatusRecord) -> None:
        """Write a status, repeatedly until it is safe or a newer one for its key is to be written.

        Statuses for one key are written in the order of the calls.
        """

    # -- the group

    async def rejoin_group(self, reason: str) -> None:
        """Request a rebalance of the group, to distribute work again."""

    async def report_work_stopped(self, stop_id: int) -> None:
        """Report to the membership that all work of this StopWork has stopped."""

    async def report_configs_read(self, *, is_read: bool) -> None:
        """Report to the membership that the config topic was read to its end, or that reading failed."""

    # -- connectors and tasks of this worker

    async def start_connector(self, connector: str, config: ConfigMap, target_state: TargetState) -> None:
        """Return when it has started. Raise StartFailed, after releasing everything."""

    async def stop_connector(self, connector: str) -> None:
        """Return when it has released everything. Never fails."""

    async def set_connector_state(self, connector: str, target_state: TargetState) -> None:
        """Pause, stop (without giving up its place) or start a connector of this worker."""

    async def generate_task_configs(self, connector: str, config: ConfigMap, max_tasks: int) -> list[dict[str, str]]:
        """Request the task configs of a running connector. May read the topics of the cluster."""

    async def start_task(self, start: TaskToStart, listener: TaskListener) -> None:
        """Begin to start a task. The listener receives the result, failures included."""

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Return when each has released everything. Never fails."""

    async def set_task_state(self, task: ConnectorTaskId, target_state: TargetState) -> None:
        """Pause or resume a task. Its listener receives the result."""

    async def set_logger_level(self, namespace: str, level: str) -> None:
        """Change a level on this worker, after a request for all workers (KIP-976)."""

    # -- other workers and the cluster

    async def send_task_configs(self, leader_url: str, connector: str, configs: Sequence[ConfigMap]) -> None:
        """Have the leader publish task configs: a signed internal request (KIP-507)."""

    async def send_fence(self, leader_url: str, connector: str) -> None:
        """Have the leader fence earlier tasks of a connector: a signed internal request (KIP-618)."""

    async def fence_producers(self, connector: str, config: ConfigMap, transactional_ids: Sequence[str]) -> None:
        """Ensure that no earlier producer with one of these transactional ids can write (KIP-618).

        The admin client has the connector's settings.
        """

    async def validate_config(self, config: ConfigMap) -> ConfigInfos:
        """Validate with the plugins that the settings name, which may do I/O."""

    async def read_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets: ...

    async def preview_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> list[OffsetChange]:
        """Return what each row would change. Nothing is changed."""

    async def alter_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        """Change positions of a stopped connector. Return the sentence for the user (KIP-875)."""

    async def reset_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> str:
        """Delete all positions of a stopped connector. Return the sentence for the user (KIP-875)."""
