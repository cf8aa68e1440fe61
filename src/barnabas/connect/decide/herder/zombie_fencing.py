"""Exactly-once sources: no task starts while a task of an earlier set of configs may still write (KIP-618).

Each task has a transactional id, ``<group>-<connector>-<task>``, as in Kafka's workers. A producer fences the earlier
one of its id. That does not suffice when the number of tasks or their work changes, so three steps precede the first
record of a task:

1. Its worker has the leader fence all producers of earlier sets (``internal.fence_zombies``). The leader does so once
   for each set, and records that in the config topic.
2. The task's own producer is initialised.
3. The worker reads the config topic to its end (``confirm``). If newer configs exist by then, the producer may have
   fenced one of a newer task, which fails and is restarted. This task must not run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport
from barnabas.connect.decide.herder.leader_requests import InternalRequests
from barnabas.connect.decide.herder.outside import TaskToStart
from barnabas.connect.errors import ConnectError, NotLeader
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType

__all__ = ["ZombieFencing"]

_PAUSE_MS = 250
_TIMES_MAX = 40
"""How often fencing is tried while the group rebalances; later the task fails, and is restarted automatically."""
_CONFLICT = 409


class ZombieFencing:
    """``is_assigned`` says whether this worker owns a task."""

    def __init__(
        self, context: HerderContext, internal: InternalRequests, is_assigned: Callable[[ConnectorTaskId], bool]
    ) -> None:
        self._context = context
        self._internal = internal
        self._is_assigned = is_assigned

    async def admit(self, start: TaskToStart, *, task_generation: int, is_wanted: Callable[[], bool]) -> TaskToStart:
        """Return the task as it must start; wait for the fencing, until the task must stop at the latest.

        ``task_generation`` is that of its configs. Raise ConnectError or OSError if earlier tasks could not be fenced.
        """
        settings = self._context.settings
        type_ = self._context.plugins.connector_type(start.connector_config)
        if settings.exactly_once is not ExactlyOnceSupport.ENABLED or type_ is not ConnectorType.SOURCE:
            return start
        await _Attempt(self._context, lambda: self._fence(start.task.connector), is_wanted).complete()
        return replace(
            start,
            transactional_id=start.task.transactional_id(settings.group_id),
            confirm=lambda: self._confirm(start.task, task_generation),
        )

    async def _fence(self, connector: str) -> None:
        group = self._context.group
        if group.is_leader:
            await self._internal.fence_zombies(connector)
        elif group.leader_url:
            await self._context.outside.send_fence(group.leader_url, connector)
        else:
            raise NotLeader(
                "This worker is not able to communicate with the leader of the cluster, which is required for "
                "exactly-once source tasks.",
                None,
            )

    async def _confirm(self, task: ConnectorTaskId, task_generation: int) -> None:
        context = self._context
        await context.read_configs_to_end(context.settings.write_timeout_ms)
        if context.config.task_config_generation(task.connector) != task_generation:
            raise ConnectError(
                f"Cannot start source task {task} with exactly-once support as the connector has already generated a "
                "new set of task configs"
            )
        if not self._is_assigned(task):
            raise ConnectError(f"Cannot start source task {task} as it has already been revoked from this worker")


class _Attempt:
    """Fencing in the background: the leader may wait for a rebalance, which waits until this worker gives up the task.
    So the wait ends when the task must stop."""

    def __init__(
        self, context: HerderContext, fence: Callable[[], Awaitable[None]], is_wanted: Callable[[], bool]
    ) -> None:
        self._context = context
        self._fence = fence
        self._is_wanted = is_wanted
        self._is_done = False
        self._error: Exception | None = None

    async def complete(self) -> None:
        outside = self._context.outside
        running = outside.start(self._run())
        try:
            await outside.until(lambda: self._is_done or not self._is_wanted())
        finally:
            running.cancel()
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        try:
            await self._run_until_done()
        except (ConnectError, OSError) as error:
            self._error = error
        self._is_done = True
        self._context.outside.state_changed()

    async def _run_until_done(self) -> None:
        for attempt in range(1, _TIMES_MAX + 1):
            try:
                await self._fence()
                return
            except ConnectError as error:
                if error.http_status != _CONFLICT or attempt == _TIMES_MAX:
                    raise
            await self._context.outside.sleep(_PAUSE_MS)
