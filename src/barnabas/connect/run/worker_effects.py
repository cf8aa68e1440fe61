"""What the herder wants done, and who does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from barnabas.clients.admin.client import AdminClient
from barnabas.connect.decide.herder import effects
from barnabas.connect.decide.herder.effects import Effect
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskRuntime, TaskStart
from barnabas.connect.decide.tasks.task_work import TaskWork, declared_work, default_work
from barnabas.connect.entities import ConfigInfos
from barnabas.connect.errors import NotFound
from barnabas.connect.identifiers import ConnectorType, TargetState
from barnabas.connect.plugins.api import SourceConnector
from barnabas.connect.rest.internal_client import InternalClient
from barnabas.connect.rest.logger_levels import LoggerLevels
from barnabas.connect.run.connector_offsets import ConnectorPositions
from barnabas.connect.run.group_client import GroupClient
from barnabas.connect.run.internal_topics.worker_topics import WorkerTopics
from barnabas.connect.run.known_secrets import KnownSecrets, hide_secrets
from barnabas.connect.run.running_connectors import RunningConnectors

__all__ = ["WorkerEffects"]

E = TypeVar("E", bound=Effect[Any])


class _UnusableWork(Exception):
    """A connector does not say clearly what its tasks read."""


class WorkerEffects:
    """``make`` is given to the herder's loop. ``on_task_event`` hears what becomes of tasks."""

    def __init__(
        self,
        *,
        topics: WorkerTopics,
        group: GroupClient,
        connectors: RunningConnectors,
        tasks: TaskRuntime,
        positions: ConnectorPositions,
        client: InternalClient,
        loggers: LoggerLevels,
        admin: AdminClient,
        secrets: KnownSecrets,
        validate: Callable[[effects.ConfigMap], Awaitable[ConfigInfos]],
        on_task_event: Callable[[TaskEvent], None],
        registry: PluginRegistry,
    ) -> None:
        self._topics = topics
        self._group = group
        self._connectors = connectors
        self._tasks = tasks
        self._positions = positions
        self._client = client
        self._loggers = loggers
        self._admin = admin
        self._secrets = secrets
        self._validate = validate
        self._on_task_event = on_task_event
        self._registry = registry
        self._makers: dict[type[Effect[Any]], Callable[[Any], Awaitable[object]]] = {
            effects.WriteConfigs: self._write_configs,
            effects.ReadConfigsToEnd: self._read_configs,
            effects.WriteStatus: self._write_status,
            effects.RejoinGroup: self._rejoin,
            effects.ReportWorkStopped: self._work_stopped,
            effects.ReportConfigsRead: self._configs_read,
            effects.StartConnector: self._start_connector,
            effects.StopConnector: self._stop_connector,
            effects.SetConnectorState: self._set_connector_state,
            effects.GenerateTaskConfigs: self._generate_task_configs,
            effects.StartTask: self._start_task,
            effects.StopTasks: self._stop_tasks,
            effects.SetTaskState: self._set_task_state,
            effects.SetLoggerLevel: self._set_logger_level,
            effects.SendTaskConfigs: self._send_task_configs,
            effects.FenceProducers: self._fence_producers,
            effects.ValidateConfig: self._validate_config,
            effects.ReadOffsets: self._read_offsets,
            effects.AlterOffsets: self._alter_offsets,
            effects.ResetOffsets: self._reset_offsets,
        }

    async def make(self, effect: Effect[Any]) -> object:
        return await self._makers[type(effect)](effect)

    # -- topics

    async def _write_configs(self, effect: effects.WriteConfigs) -> None:
        await self._topics.write_configs(effect.records)

    async def _read_configs(self, effect: effects.ReadConfigsToEnd) -> None:
        await self._topics.configs.read_to_end(timeout_s=effect.timeout_ms / 1000)

    async def _write_status(self, effect: effects.WriteStatus) -> None:
        await self._topics.status_writer.write(effect.record)

    # -- group

    async def _rejoin(self, effect: effects.RejoinGroup) -> None:
        self._group.request_rejoin(effect.reason)

    async def _work_stopped(self, effect: effects.ReportWorkStopped) -> None:
        self._group.work_stopped(effect.stop_id)

    async def _configs_read(self, effect: effects.ReportConfigsRead) -> None:
        if effect.is_read:
            self._group.configs_read()
        else:
            self._group.configs_unreadable()

    # -- connectors and tasks

    async def _start_connector(self, effect: effects.StartConnector) -> None:
        await self._connectors.start(effect.connector, effect.config, effect.target_state)

    async def _stop_connector(self, effect: effects.StopConnector) -> None:
        await self._connectors.stop(effect.connector)

    async def _set_connector_state(self, effect: effects.SetConnectorState) -> None:
        await self._connectors.set_state(effect.connector, effect.target_state)

    async def _generate_task_configs(self, effect: effects.GenerateTaskConfigs) -> list[dict[str, str]]:
        return await self._connectors.task_configs(effect.connector, effect.max_tasks)

    async def _start_task(self, effect: effects.StartTask) -> None:
        """Everything that goes wrong becomes a TaskFailed."""
        try:
            type_ = self._registry.connector_type(effect.connector_config)
            if type_ is ConnectorType.UNKNOWN:
                name = effect.connector_config.get("connector.class")
                text = f"This worker does not have the connector class {name}, so it can't run the task."
                self._on_task_event(TaskFailed(effect.task, text, retriable=False))
                return
            start = TaskStart(
                effect.task,
                await asyncio.to_thread(self._resolved, effect.connector_config),
                await asyncio.to_thread(self._resolved, effect.task_config),
                effect.target_state,
                effect.generation,
            )
            if type_ is ConnectorType.SINK and TASK_PARTITIONS not in start.task_config and _has_one_task(start):
                config = await self._connectors.with_all_partitions(start.connector_config, start.task_config)
                start = replace(start, task_config=config)
            if type_ is ConnectorType.SOURCE:
                start = replace(start, work=await asyncio.to_thread(self._work_of, effect))
                await self._topics.offsets.prepare(effect.task.connector, effect.connector_config)
                await self._topics.offsets.read_to_end(effect.task.connector)
        except _UnusableWork as error:
            self._on_task_event(TaskFailed(effect.task, self._secrets.hide(str(error)), retriable=False))
        except Exception as error:  # As long as its positions can't be read it must not begin somewhere else.
            self._on_task_event(TaskFailed(effect.task, self._secrets.hide(f"{type(error).__name__}: {error}")))
        else:
            await self._tasks.start_task(start, lambda event: self._on_task_event(self._told(event, effect, start)))

    def _work_of(self, effect: effects.StartTask) -> TaskWork:
        """What a source's task reads. Raises _UnusableWork if its connector's ``source_partition`` can't be used."""
        connector = self._registry.connector_class(effect.connector_config)
        task = effect.task.task
        task_configs = [_without_nulls(config) for config in effect.task_configs]
        if task >= len(task_configs) or not issubclass(connector, SourceConnector):
            return TaskWork()
        try:
            declared = declared_work([connector.source_partition(config) for config in task_configs], task)
        except Exception as error:  # The connector is a plugin, and may raise anything.
            raise _UnusableWork(f"{type(error).__name__}: {error}") from error
        return declared or default_work(effect.applied_config or effect.connector_config, task_configs, task)

    def _told(self, event: TaskEvent, effect: effects.StartTask, start: TaskStart) -> TaskEvent:
        if not isinstance(event, TaskFailed):
            return event
        trace = hide_secrets(event.trace, effect.connector_config, start.connector_config)
        return replace(event, trace=self._secrets.hide(trace))

    def _resolved(self, config: effects.ConfigMap) -> dict[str, str]:
        return self._registry.with_full_names(self._secrets.resolve(config))

    async def _stop_tasks(self, effect: effects.StopTasks) -> None:
        await self._tasks.stop_tasks(effect.tasks)

    async def _set_task_state(self, effect: effects.SetTaskState) -> None:
        if effect.target_state is TargetState.STARTED:
            await self._tasks.resume_task(effect.task)
        else:
            await self._tasks.pause_task(effect.task)

    async def _set_logger_level(self, effect: effects.SetLoggerLevel) -> None:
        try:
            self._loggers.set_level(effect.namespace, effect.level)
        except NotFound:
            pass  # Another kind of worker knows a level of this name.

    # -- others

    async def _send_task_configs(self, effect: effects.SendTaskConfigs) -> None:
        await self._client.post_task_configs(effect.leader_url, effect.connector, effect.configs)

    async def _fence_producers(self, effect: effects.FenceProducers) -> None:
        (await self._admin.fence_producers(effect.transactional_ids)).raise_for_errors()

    async def _validate_config(self, effect: effects.ValidateConfig) -> ConfigInfos:
        return await self._validate(effect.config)

    async def _read_offsets(self, effect: effects.ReadOffsets) -> object:
        return await self._positions.read(effect.connector, effect.config, effect.type)

    async def _alter_offsets(self, effect: effects.AlterOffsets) -> str:
        return await self._positions.alter(effect.connector, effect.config, effect.type, effect.offsets)

    async def _reset_offsets(self, effect: effects.ResetOffsets) -> str:
        return await self._positions.reset(effect.connector, effect.config, effect.type)


def _without_nulls(config: effects.ConfigMap) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}


def _has_one_task(start: TaskStart) -> bool:
    """Several tasks that Kafka's worker has made share their topics in the consumer group, where ours is no member."""
    return start.connector_config.get("tasks.max", "1").strip() == "1"
