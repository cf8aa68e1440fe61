"""The ports between a worker and the runtime of its tasks.

TaskRuntime runs tasks: the herder's effects become calls of it, and it reports results as events.
Starting Spark, a query or a plugin's code happens on threads of the runtime: no call here blocks the loop.

OffsetStore is the runtime's access to the worker's offset topic, for sources. A sink's positions are those of the
consumer group ``connect-<name>``, which the runtime reads and commits with a client of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from barnabas.connect.decide.tasks.task_work import TaskWork
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

__all__ = [
    "BatchSucceeded",
    "OffsetStore",
    "RecordsSkipped",
    "StartChecks",
    "TaskEvent",
    "TaskFailed",
    "TaskListener",
    "TaskPaused",
    "TaskRunning",
    "TaskRuntime",
    "TaskStart",
    "TaskStopped",
    "TopicRecord",
    "TopicsUsed",
]


@dataclass(frozen=True, slots=True)
class TaskRunning:
    """The query has started, or continues after a pause."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class TaskPaused:
    """The query is not running and its last batch is finished; the task keeps its place."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The task has ended on its own and has released everything. ``trace`` is for the status, without secrets.

    ``retriable`` is False when another start of the task can't succeed.
    """

    task: ConnectorTaskId
    trace: str
    retriable: bool = True


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """The task has released everything, so the next owner runs alone."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class TopicsUsed:
    """A source has written to these topics, maybe not for the first time (KIP-558)."""

    task: ConnectorTaskId
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class BatchSucceeded:
    """The first batch since the task has started is written, and its positions are safe."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class RecordsSkipped:
    """Tolerated bad records were left out; ``dead_letters`` of them are in the dead-letter topic."""

    task: ConnectorTaskId
    records: int
    dead_letters: int


TaskEvent = TaskRunning | TaskPaused | TaskFailed | TaskStopped | TopicsUsed | BatchSucceeded | RecordsSkipped

TaskListener = Callable[[TaskEvent], None]
"""Called on the loop, in the order of a task's events. The last event is Failed or Stopped."""


class TopicRecord(NamedTuple):
    """A record for an internal topic; without a value it deletes the key."""

    topic: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The task to start. Both maps have their references to secrets resolved: they must not be shown or written.

    ``connector_config`` has the common settings (converters, transforms, errors.*). ``task_config`` is the config that
    the connector created for this task, with ``barnabas.task.partitions`` for a sink.
    """

    task: ConnectorTaskId
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    target_state: TargetState
    generation: int
    """The group's generation; a later start has a greater or equal one."""
    work: TaskWork = field(default_factory=TaskWork)
    """For a source: the work whose Spark positions the task continues from."""
    transactional_id: str | None = None
    """For a source with exactly-once delivery (KIP-618): each batch is one transaction of this id, with its offsets."""
    confirm: Callable[[], Awaitable[None]] | None = None
    """With ``transactional_id``: await it on the loop when the producer has fenced earlier ones, before the positions
    are read. It raises a ConnectError if this task must not run."""


class TaskRuntime(Protocol):
    """Runs the tasks that are assigned to this worker."""

    async def start_task(self, start: TaskStart, listener: TaskListener) -> None:
        """Begin to start; return immediately. Every failure is reported as a TaskFailed.

        A task whose target state is PAUSED is prepared and answers TaskPaused. Starting a task that has not ended is
        a mistake of the caller's: InvariantViolated.
        """

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Stop the tasks. Return when each has released everything and its TaskStopped (or TaskFailed) was reported.

        All tasks together have ``task.shutdown.graceful.timeout.ms`` to finish their batches before they are
        interrupted. Tasks that do not run here are skipped.
        """

    async def pause_task(self, task: ConnectorTaskId) -> None:
        """Return immediately; TaskPaused follows when the running batch is finished."""

    async def resume_task(self, task: ConnectorTaskId) -> None:
        """Return immediately; TaskRunning follows."""

    async def close(self) -> None:
        """Stop everything, and Spark if this runtime started it."""


@runtime_checkable
class StartChecks(Protocol):
    """A TaskRuntime that knows which settings would fail when a task starts."""

    def setting_problems(self, connector_config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Return errors by setting, for settings with references resolved and full names of classes. May read files,
        and may be called on any thread."""


class OffsetStore(Protocol):
    """The positions of source connectors, in the offset topic of the worker or of the connector."""

    def source_offset(self, connector: str, partition: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the offset read from the topic so far; callable from any thread. The worker has read to the topic's
        end before it starts a task."""

    async def write_source_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> None:
        """Write the offsets. Return when they are safe; otherwise raise ConnectError."""

    async def offset_records(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> list[TopicRecord]:
        """Return the records that write the offsets, for a caller that writes them in a transaction.

        Raise ConnectError.
        """

    async def read_offsets_to_end(self, connector: str) -> None:
        """Read the connector's offsets to the end of their topics; of a group with exactly-once sources, up to the end
        of the last transaction. Raise ConnectError."""
