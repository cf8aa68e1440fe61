"""The current data of the pages, from the herder's snapshot, consumer groups and queries.

The snapshot is always available, also during a rebalance. Slow answers are cached: see ``answer_cache``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.lag.consumer_lag import GroupLag, LagSource
from barnabas.connect.decide.lag.sink_groups import SinkGroups
from barnabas.connect.decide.lag.throughput import Rates
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskInsight
from barnabas.connect.entities import (
    ConnectorDetails,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    DeadLetters,
    History,
    OffsetChange,
    PluginInfo,
    WorkerLoads,
)
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TaskState
from barnabas.connect.rest.api_request import DeadLetterSource
from barnabas.connect.rest.console.answer_cache import AnswerCache
from barnabas.connect.rest.console.views import ConnectorView, TaskView, task_view
from barnabas.connect.rest.group_reads import GroupReads, Sender

__all__ = ["PageData"]

T = TypeVar("T")

_LETTERS = 50
_GROUP_S = 10.0
"""How long a page waits for all workers: the leader waits 5 s for each of the others, and may hang itself."""
_UNASSIGNED = TaskState.UNASSIGNED.value


class PageData:
    """``now_s`` is a monotonic clock. Without ``lags`` or ``insight`` pages show less."""

    def __init__(
        self,
        herder: Herder,
        plugins: PluginRegistry,
        *,
        worker_id: str,
        now_s: Callable[[], float],
        lags: LagSource | None = None,
        insight: TaskInsight | None = None,
        offset_reset: str = "earliest",
        dead_letters: DeadLetterSource | None = None,
        group_reads: GroupReads | None = None,
    ) -> None:
        """``offset_reset`` is the worker's ``consumer.auto.offset.reset``."""
        self._herder = herder
        self._plugins = plugins
        self._worker_id = worker_id
        self._now_s = now_s
        self._lags = lags
        self._insight = insight
        self._groups = SinkGroups(herder, offset_reset)
        self._dead_letters = dead_letters
        self._group_reads = group_reads
        self._rates = Rates()
        self._known_lags: AnswerCache[Mapping[str, GroupLag]] = AnswerCache(now_s)
        self._known_offsets: AnswerCache[tuple[list[ConnectorOffset], str]] = AnswerCache(now_s)
        self._known_letters: AnswerCache[tuple[DeadLetters | None, str]] = AnswerCache(now_s, wait_s=10.0)
        self._known_histories: AnswerCache[tuple[History | None, str]] = AnswerCache(now_s, age_s=5.0, entries_max=32)
        self._known_loads: AnswerCache[tuple[WorkerLoads | None, str]] = AnswerCache(now_s)
        self._known_plans: AnswerCache[QueryPlan | None] = AnswerCache(now_s, wait_s=10.0)

    async def connectors(self) -> list[ConnectorView]:
        """Return all connectors, by name."""
        found = []
        for name in self.names():
            try:
                found.append(self._herder.connectors.info_in_snapshot(name))
            except ConnectError:
                continue  # It is being deleted.
        statuses = {info.name: self._status(info.name) for info in found}
        lags = await self._lags_of(found, statuses)
        return [self._view(info, statuses[info.name], lags.get(info.name)) for info in found]

    async def connector(self, name: str) -> tuple[ConnectorView, ConnectorInfo]:
        """Return a connector. Raise NotFound."""
        info = self.info(name)
        status = self._status(name)
        lags = await self._lags_of([info], {name: status})
        return self._view(info, status, lags.get(name)), info

    def info(self, name: str) -> ConnectorInfo:
        """Return its configuration. Raise NotFound."""
        if name not in self._herder.connectors.names():
            raise NotFound(f"Connector {name} not found")
        return self._herder.connectors.info_in_snapshot(name)

    async def offsets(self, name: str) -> tuple[list[ConnectorOffset], str]:
        """Return the offsets of the connector, and why they are unknown."""

        async def ask() -> tuple[list[ConnectorOffset], str]:
            try:
                return (await self._herder.offsets.read(name)).offsets, ""
            except ConnectError as error:
                return [], str(error)

        found = await self._known_offsets.get(name, ask)
        return found or ([], "The offsets are being read.")

    async def offset_rows(self, name: str) -> tuple[list[OffsetChange], str]:
        """Return the present offsets with the ends of their partitions, and why they are unknown."""
        offsets = self._herder.offsets
        try:
            found = (await offsets.read(name)).offsets
            return (await offsets.preview(name, found)).changes if found else [], ""
        except ConnectError as error:
            return [], str(error)

    async def dead_letters(self, info: ConnectorInfo) -> tuple[DeadLetters | None, str]:
        """Return the latest dead letters of a connector, or why they can't be shown."""
        source = self._dead_letters

        async def ask() -> tuple[DeadLetters | None, str]:
            if source is None:
                return None, "This worker reads no dead letters."
            try:
                return await source.read(info.name, info.config, _LETTERS), ""
            except ConnectError as error:
                return None, str(error)

        return await self._known_letters.get(info.name, ask) or (None, "The dead letters are being read.")

    async def history(self, name: str, hours: int, sender: Sender) -> tuple[History | None, str]:
        """Return the history of a connector, or only the part of this worker with the reason.

        Every user who sees pages may see it, so the answer to one serves all.
        """
        reads = self._group_reads
        if reads is None:
            return None, "This worker keeps no history."
        ask = _own_part_otherwise(lambda: reads.history(sender, name, hours), lambda: reads.own_history(name, hours))
        return await self._known_histories.get((name, hours), ask) or (None, "The history is being read.")

    async def workers(self, sender: Sender) -> tuple[WorkerLoads | None, str]:
        """Return the workers of the group, or only this one with the reason."""
        reads = self._group_reads
        if reads is None:
            return None, "This worker has no figures of its work."
        ask = _own_part_otherwise(lambda: reads.loads(sender), lambda: WorkerLoads([reads.own_load()]))
        return await self._known_loads.get("", ask) or (None, "The workers are being asked.")

    def names(self) -> list[str]:
        return sorted(self._herder.connectors.names())

    def topics(self, name: str) -> list[str]:
        return sorted(self._herder.statuses.active_topics(name).topics)

    def connector_plugins(self) -> list[PluginInfo]:
        return self._plugins.listing(connectors_only=True)

    async def plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        insight = self._insight
        if insight is None:
            return None
        return await self._known_plans.get(task, lambda: insight.query_plan(task))

    def task(self, view: ConnectorView, number: int) -> TaskView:
        """Return a task. Raise NotFound."""
        found = next((task for task in view.tasks if task.number == number), None)
        if found is None:
            raise NotFound(f"Connector {view.name} has no task {number}")
        return found

    def _status(self, name: str) -> ConnectorStatus | None:
        try:
            return self._herder.statuses.connector_details(name)
        except ConnectError:
            return None

    async def _lags_of(
        self, infos: list[ConnectorInfo], statuses: Mapping[str, ConnectorStatus | None]
    ) -> Mapping[str, GroupLag]:
        lags = self._lags
        groups = {
            info.name: group for info in infos if (group := self._groups.of(info, statuses[info.name])) is not None
        }
        if lags is None or not groups:
            return {}
        return await self._known_lags.get(tuple(groups.items()), lambda: lags.lags(groups)) or {}

    def _view(self, info: ConnectorInfo, status: ConnectorStatus | None, lag: GroupLag | None) -> ConnectorView:
        by_number = {task.id: task for task in status.tasks} if status is not None else {}
        numbers = sorted(by_number.keys() | {task.task for task in info.tasks})
        tasks = []
        for number in numbers:
            known = by_number.get(number)
            task = ConnectorTaskId(info.name, number)
            if known is None:
                tasks.append(TaskView(task, _UNASSIGNED, "", is_here=False))
            else:
                is_here = known.worker_id == self._worker_id
                view = task_view(task, known, is_here=is_here)
                tasks.append(self._with_progress(view) if is_here else view)
        return ConnectorView(
            name=info.name,
            type=(info.type if info.type is not ConnectorType.UNKNOWN or status is None else status.type).value,
            class_name=info.config.get("connector.class") or "",
            version=(status.connector.version if status is not None else None) or "",
            state=status.connector.state if status is not None else _UNASSIGNED,
            worker_id=status.connector.worker_id if status is not None else "",
            trace=status.connector.trace if status is not None else "",
            tasks=tuple(tasks),
            lag=lag,
            details=status.connector if status is not None and isinstance(status.connector, ConnectorDetails) else None,
        )

    def _with_progress(self, view: TaskView) -> TaskView:
        progress = self._insight.task_progress(view.id) if self._insight is not None else None
        if progress is None:
            return view
        return replace(view, progress=progress, per_second=self._rates.observe(view.id, progress.rows, self._now_s()))


def _own_part_otherwise(
    ask_all: Callable[[], Awaitable[T]], own_part: Callable[[], T]
) -> Callable[[], Awaitable[tuple[T | None, str]]]:
    """Return a request to all workers that falls back to the part of this one."""

    async def ask() -> tuple[T | None, str]:
        try:
            async with asyncio.timeout(_GROUP_S):
                return await ask_all(), ""
        except TimeoutError:
            problem = f"The leader did not answer within {_GROUP_S:g} s."
        except ConnectError as error:
            problem = str(error)
        try:
            return own_part(), f"Only the part of this worker is known: {problem}"
        except ConnectError as error:
            return None, str(error)

    return ask
