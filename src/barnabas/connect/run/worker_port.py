"""The herder as the REST API sees it (``rest.herder_port``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.connector_config import key_info
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation
from barnabas.connect.entities import (
    ActiveTopics,
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorStatus,
    PluginInfo,
    TaskInfo,
    TaskStatus,
)
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.rest.herder_port import SessionView
from barnabas.connect.run.herder_loop import HerderLoop

__all__ = ["WorkerPort"]

Config = Mapping[str, str | None]


class WorkerPort:
    def __init__(
        self, herder: Herder, registry: PluginRegistry, validation: ConnectorValidation, *, kafka_cluster_id: str
    ) -> None:
        self.loop: HerderLoop | None = None
        """Set when the worker runs, before anybody can ask."""
        self._herder = herder
        self._registry = registry
        self._validation = validation
        self._kafka_cluster_id = kafka_cluster_id

    @property
    def _asking(self) -> HerderLoop:
        assert self.loop is not None
        return self.loop

    # -- the worker itself

    @property
    def kafka_cluster_id(self) -> str:
        return self._kafka_cluster_id

    def session(self) -> SessionView:
        key = self._herder.keys.key
        in_force = self._herder.context.group.protocol_version >= ProtocolVersion.SESSIONED
        is_fresh = self._herder.context.group.are_all_members_ours
        return SessionView(in_force, None if key is None else key.key, do_all_members_send_freshness=is_fresh)

    def stage(self) -> str | None:
        return self._herder.context.stages.current()

    def is_ready(self) -> bool:
        return self._herder.is_ready

    async def health(self) -> None:
        await self._asking.ask(self._herder.health())

    async def rebalance_over(self) -> None:
        await self._asking.ask(self._herder.rebalance_over())

    # -- connectors

    def connectors(self) -> Sequence[str]:
        return self._herder.connectors.names()

    async def connector_info(self, name: str) -> ConnectorInfo:
        return await self._asking.ask(self._herder.connectors.info(name))

    async def connector_config(self, name: str) -> Config:
        return await self._asking.ask(self._herder.connectors.config(name))

    def connector_info_in_snapshot(self, name: str) -> ConnectorInfo:
        return self._herder.connectors.info_in_snapshot(name)

    async def create_connector(self, name: str, config: Config, initial_state: TargetState | None) -> ConnectorInfo:
        return await self._asking.ask(self._herder.connectors.create(name, config, initial_state))

    async def put_connector_config(self, name: str, config: Config) -> tuple[ConnectorInfo, bool]:
        return await self._asking.ask(self._herder.connectors.put(name, config))

    async def patch_connector_config(self, name: str, patch: Config) -> ConnectorInfo:
        return await self._asking.ask(self._herder.connectors.patch(name, patch))

    async def delete_connector(self, name: str) -> None:
        await self._asking.ask(self._herder.connectors.delete(name))

    async def tasks(self, name: str) -> Sequence[TaskInfo]:
        return await self._asking.ask(self._herder.connectors.tasks(name))

    # -- states

    def connector_status(self, name: str) -> ConnectorStatus:
        return self._herder.statuses.connector_status(name)

    def task_status(self, task: ConnectorTaskId) -> TaskStatus:
        return self._herder.statuses.task_status(task)

    async def restart_connector(self, name: str) -> None:
        await self._asking.ask(self._herder.restarts.restart_connector(name))

    async def restart_connector_and_tasks(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStatus:
        steps = self._herder.restarts.restart(name, include_tasks=include_tasks, only_failed=only_failed)
        return await self._asking.ask(steps)

    async def restart_task(self, task: ConnectorTaskId) -> None:
        await self._asking.ask(self._herder.restarts.restart_task(task))

    async def pause_connector(self, name: str) -> None:
        await self._asking.ask(self._herder.states.pause(name))

    async def resume_connector(self, name: str) -> None:
        await self._asking.ask(self._herder.states.resume(name))

    async def stop_connector(self, name: str) -> None:
        await self._asking.ask(self._herder.states.stop(name))

    def active_topics(self, name: str) -> ActiveTopics:
        return self._herder.statuses.active_topics(name)

    async def reset_active_topics(self, name: str) -> None:
        await self._asking.ask(self._herder.statuses.reset_active_topics(name))

    # -- offsets

    async def connector_offsets(self, name: str) -> ConnectorOffsets:
        return await self._asking.ask(self._herder.offsets.read(name))

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        return await self._asking.ask(self._herder.offsets.alter(name, offsets))

    async def reset_connector_offsets(self, name: str) -> str:
        return await self._asking.ask(self._herder.offsets.reset(name))

    # -- internal requests

    async def put_task_configs(self, name: str, configs: Sequence[Config]) -> None:
        await self._asking.ask(self._herder.internal.put_task_configs(name, configs))

    async def fence_zombies(self, name: str) -> None:
        await self._asking.ask(self._herder.internal.fence_zombies(name))

    # -- plugins

    def plugins(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        return self._registry.listing(connectors_only=connectors_only)

    async def plugin_config(self, name: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        plugin = await asyncio.to_thread(self._registry.for_listing, name, version)
        return [key_info(key) for key in plugin.config_def]

    async def validate_config(self, config: Config) -> ConfigInfos:
        """On a thread, because plugins take their time."""
        return await asyncio.to_thread(self._validation.validate, config)

    # -- loggers

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        await self._asking.ask(self._herder.states.set_cluster_logger_level(namespace, level))
