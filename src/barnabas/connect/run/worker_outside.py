"""``Outside`` for a real worker: it maps each method of the port to a part of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.clock import Clock
from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.decide.herder.outside import ConfigMap, TaskToStart
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskListener, TaskRuntime, TaskStart
from barnabas.connect.decide.tasks.task_work import TaskWork, declared_work, default_work
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation
from barnabas.connect.entities import ConfigInfos
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from barnabas.connect.plugins.api import SourceConnector
from barnabas.connect.rest.internal_client import InternalClient
from barnabas.connect.rest.logger_levels import LoggerLevels
from barnabas.connect.run.connector_offsets import ConnectorOffsetCalls
from barnabas.connect.run.group_client import GroupClient
from barnabas.connect.run.internal_topics.worker_topics import WorkerTopics
from barnabas.connect.run.known_secrets import KnownSecrets, hide_secrets
from barnabas.connect.run.running_connectors import RunningConnectors

__all__ = ["WorkerOutside"]

_ADMIN = "admin.override."


class _UnusableWork(Exception):
    """A connector's definition of its tasks' work is invalid."""


class WorkerOutside(ConnectorOffsetCalls):
    def __init__(
        self,
        clock: Clock,
        fail: Callable[[Exception], None],
        *,
        topics: WorkerTopics,
        group: GroupClient,
        connectors: RunningConnectors,
        tasks: TaskRuntime,
        client: InternalClient,
        loggers: LoggerLevels,
        admin: AdminClient,
        secrets: KnownSecrets,
        registry: PluginRegistry,
        validation: ConnectorValidation,
        admin_properties: Mapping[str, str],
        offset_reset: str,
    ) -> None:
        super().__init__(
            clock,
            fail,
            admin=admin,
            sources=topics.offsets,
            registry=registry,
            secrets=secrets,
            offset_reset=offset_reset,
        )
        self._topics = topics
        self._group = group
        self._connectors = connectors
        self._running_tasks = tasks
        self._client = client
        self._loggers = loggers
        self._validation = validation
        self._admin_properties = admin_properties

    # -- topics

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        await self.call(self._topics.write_configs(records))

    async def claim_config_topic(self) -> None:
        await self.call(self._topics.claim_configs())

    async def write_configs_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        await self.call(self._topics.write_configs_as_leader(records))

    async def read_configs_to_end(self, timeout_ms: int) -> None:
        await self.call(self._topics.configs.read_to_end(timeout_s=timeout_ms / 1000))

    async def write_status(self, record: StatusRecord) -> None:
        await self.call(self._topics.status_writer.write(record))

    # -- group

    async def rejoin_group(self, reason: str) -> None:
        self._group.request_rejoin(reason)
        self.state_changed()

    async def report_work_stopped(self, stop_id: int) -> None:
        self._group.work_stopped(stop_id)
        self.state_changed()

    async def report_configs_read(self, *, is_read: bool) -> None:
        if is_read:
            self._group.configs_read()
        else:
            self._group.configs_unreadable()
        self.state_changed()

    # -- connectors

    async def start_connector(self, connector: str, config: ConfigMap, target_state: TargetState) -> None:
        await self.call(self._connectors.start(connector, config, target_state))

    async def stop_connector(self, connector: str) -> None:
        await self.call(self._connectors.stop(connector))

    async def set_connector_state(self, connector: str, target_state: TargetState) -> None:
        await self.call(self._connectors.set_state(connector, target_state))

    async def generate_task_configs(self, connector: str, config: ConfigMap, max_tasks: int) -> list[dict[str, str]]:
        return await self.call(self._connectors.task_configs(connector, max_tasks))

    # -- tasks

    async def start_task(self, start: TaskToStart, listener: TaskListener) -> None:
        await self.call(self._start_task(start, listener))

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        await self.call(self._running_tasks.stop_tasks(tasks))

    async def set_task_state(self, task: ConnectorTaskId, target_state: TargetState) -> None:
        if target_state is TargetState.STARTED:
            await self.call(self._running_tasks.resume_task(task))
        else:
            await self.call(self._running_tasks.pause_task(task))

    async def _start_task(self, described: TaskToStart, listener: TaskListener) -> None:
        """Start a task. Every failure becomes a TaskFailed."""
        task = described.task
        try:
            type_ = self._registry.connector_type(described.connector_config)
            if type_ is ConnectorType.UNKNOWN:
                name = described.connector_config.get("connector.class")
                text = f"This worker does not have the connector class {name}, so it can't run the task."
                listener(TaskFailed(task, text, retriable=False))
                return
            start = TaskStart(
                task,
                await asyncio.to_thread(self._resolved, described.connector_config),
                await asyncio.to_thread(self._resolved, described.task_config),
                described.target_state,
                described.generation,
                transactional_id=described.transactional_id,
                confirm=described.confirm,
            )
            if type_ is ConnectorType.SINK and TASK_PARTITIONS not in start.task_config and _has_one_task(start):
                config = await self._connectors.with_all_partitions(start.connector_config, start.task_config)
                start = replace(start, task_config=config)
            if type_ is ConnectorType.SOURCE:
                start = replace(start, work=await asyncio.to_thread(self._work_of, described))
                await self._topics.offsets.prepare(task.connector, described.connector_config)
                await self._topics.offsets.read_to_end(task.connector)
        except _UnusableWork as error:
            listener(TaskFailed(task, self._secrets.hide(str(error)), retriable=False))
        except Exception as error:  # While its positions can't be read it must not start elsewhere.
            listener(TaskFailed(task, self._secrets.hide(f"{type(error).__name__}: {error}")))
        else:
            await self._running_tasks.start_task(
                start, lambda event: listener(self._without_secrets(event, described, start))
            )

    def _work_of(self, described: TaskToStart) -> TaskWork:
        """Return the work of a source's task. Raise _UnusableWork if the connector's definition is invalid."""
        connector = self._registry.connector_class(described.connector_config)
        number = described.task.task
        task_configs = [_without_nulls(config) for config in described.task_configs]
        if number >= len(task_configs) or not issubclass(connector, SourceConnector):
            return TaskWork()
        try:
            declared = declared_work([connector.source_partition(config) for config in task_configs], number)
        except Exception as error:  # The connector is a plugin, and may raise anything.
            raise _UnusableWork(f"{type(error).__name__}: {error}") from error
        return declared or default_work(described.applied_config or described.connector_config, task_configs, number)

    def _without_secrets(self, event: TaskEvent, described: TaskToStart, start: TaskStart) -> TaskEvent:
        if not isinstance(event, TaskFailed):
            return event
        trace = hide_secrets(event.trace, described.connector_config, start.connector_config)
        return replace(event, trace=self._secrets.hide(trace))

    def _resolved(self, config: ConfigMap) -> dict[str, str]:
        return self._registry.with_full_names(self._secrets.resolve(config))

    # -- this worker's loggers, other workers, the cluster

    async def set_logger_level(self, namespace: str, level: str) -> None:
        try:
            self._loggers.set_level(namespace, level)
        except NotFound:
            pass  # Another kind of worker knows a level of this name.
        self.state_changed()

    async def send_task_configs(self, leader_url: str, connector: str, configs: Sequence[ConfigMap]) -> None:
        await self.call(self._client.post_task_configs(leader_url, connector, configs))

    async def send_fence(self, leader_url: str, connector: str) -> None:
        await self.call(self._client.put_fence(leader_url, connector))

    async def fence_producers(self, connector: str, config: ConfigMap, transactional_ids: Sequence[str]) -> None:
        await self.call(self._fence(connector, config, transactional_ids))

    async def _fence(self, connector: str, config: ConfigMap, transactional_ids: Sequence[str]) -> None:
        """Fence with the rights of the connector's admin client, as Kafka does."""
        resolved = await asyncio.to_thread(self._secrets.resolve, config)
        own = {name.removeprefix(_ADMIN): text for name, text in resolved.items() if name.startswith(_ADMIN)}
        properties = {**self._admin_properties, "client.id": f"connector-worker-adminclient-{connector}", **own}
        try:
            admin = AdminClient(config=client_config(properties, source=f"the settings of connector {connector}"))
        except InvalidClientConfig as error:
            raise ConnectError(str(error)) from error
        async with admin:
            (await admin.fence_producers(transactional_ids)).raise_for_errors()

    async def validate_config(self, config: ConfigMap) -> ConfigInfos:
        """Validate on a thread, because plugins may be slow."""
        found = await asyncio.to_thread(self._validation.validate, config)
        self.state_changed()
        return found


def _without_nulls(config: ConfigMap) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}


def _has_one_task(start: TaskStart) -> bool:
    """Return whether it has one task. Tasks of a Kafka worker share topics through the group, which ours don't join."""
    return start.connector_config.get("tasks.max", "1").strip() == "1"
