"""Requests that create, change, delete and show connectors.

The leader decides changes: it checks, writes and reads back one change before the next. A follower returns the leader's
URL, and REST forwards. Reads use this worker's snapshot. The worker that received the request and the leader both
validate configurations, before the leader takes its lock, because plugins may be slow. A response has the tasks from
before the change.
"""

from __future__ import annotations

from barnabas.connect.decide.backing_stores.config_records import (
    connector_record,
    connector_removal,
    target_state_record,
)
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.entities import ConfigInfos, ConnectorInfo, TaskInfo
from barnabas.connect.errors import AlreadyExists, BadRequest
from barnabas.connect.identifiers import TargetState

__all__ = ["ConnectorRequests"]

_ONLY_THE_LEADER = "Only the leader can set connector configs."


class ConnectorRequests:
    def __init__(self, context: HerderContext) -> None:
        self._context = context

    # -- queries

    def names(self) -> list[str]:
        """Return the connectors in this worker's snapshot. Never blocks."""
        return self._context.config.connectors()

    def info_in_snapshot(self, name: str) -> ConnectorInfo:
        """Return a connector in the snapshot. Never blocks; may be outdated."""
        return self._info(name, self._context.require_connector(name, _not_found(name)))

    def task_configs_in_snapshot(self, name: str) -> list[ConfigMap]:
        """Return the settings of its tasks in the snapshot. Never blocks; may be outdated."""
        config = self._context.config
        return [config.task_config(task) or {} for task in config.tasks(name)]

    async def info(self, name: str) -> ConnectorInfo:
        return self._info(name, await self._context.find_connector(name, _not_found(name)))

    async def config(self, name: str) -> ConfigMap:
        return await self._context.find_connector(name, _not_found(name))

    async def tasks(self, name: str) -> list[TaskInfo]:
        await self._context.find_connector(name, _not_found(name))
        config = self._context.config
        return [TaskInfo(task, dict(config.task_config(task) or {})) for task in config.tasks(name)]

    async def validate(self, config: ConfigMap) -> ConfigInfos:
        """Validate; ``connector.class`` is present. May be slow, because plugins may do I/O; needs no lock."""
        return await self._context.outside.validate_config(config)

    # -- changes

    async def create(self, name: str, config: ConfigMap, initial_state: TargetState | None) -> ConnectorInfo:
        await self._require_valid(config)
        async with self._context.as_leader(_ONLY_THE_LEADER):
            if self._context.config.contains(name):
                raise AlreadyExists(f"Connector {name} already exists")
            records = [connector_record(name, config)]
            if initial_state is not None:
                records.insert(0, target_state_record(name, initial_state))  # So that it never starts in another state.
            await self._context.write_configs(*records)
            return ConnectorInfo(name, dict(config), [], self._context.plugins.connector_type(config))

    async def put(self, name: str, config: ConfigMap) -> tuple[ConnectorInfo, bool]:
        """Create or change a connector. The boolean says whether it is new."""
        await self._require_valid(config)
        async with self._context.as_leader(_ONLY_THE_LEADER):
            is_new = not self._context.config.contains(name)
            info = self._info(name, config)
            await self._context.write_configs(connector_record(name, config))
            return info, is_new

    async def patch(self, name: str, patch: ConfigMap) -> ConnectorInfo:
        """Apply a patch; None removes a setting (KIP-477). It applies to the leader's configuration, so followers don't
        check their own."""
        context = self._context
        await context.settled()
        context.require_leader(_ONLY_THE_LEADER)
        while True:
            before = await context.find_connector(name, _not_found(name))
            config = _patched(before, patch)
            await self._require_valid(config)
            async with context.as_leader(_ONLY_THE_LEADER):
                if context.config.connector_config(name) != before:
                    continue  # Another request was faster.
                info = self._info(name, config)
                await context.write_configs(connector_record(name, config))
                return info

    async def delete(self, name: str) -> None:
        async with self._context.as_leader("Only the leader can delete connector configs."):
            await self._context.find_connector(name, _not_found(name))
            await self._context.write_configs(*connector_removal(name))

    def _info(self, name: str, config: ConfigMap) -> ConnectorInfo:
        tasks = list(self._context.config.tasks(name))
        return ConnectorInfo(name, dict(config), tasks, self._context.plugins.connector_type(config))

    async def _require_valid(self, config: ConfigMap) -> None:
        infos = await self.validate(config)
        errors = [error for info in infos.configs for error in info.value.errors]
        if infos.error_count:
            raise BadRequest(
                f"Connector configuration is invalid and contains the following {infos.error_count} error(s):\n"
                + "".join(f"{error}\n" for error in errors)
                + "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`"
            )


def _patched(config: ConfigMap, patch: ConfigMap) -> dict[str, str | None]:
    """Return the settings with the patch applied."""
    merged = {**config, **patch}
    return {name: value for name, value in merged.items() if name not in patch or value is not None}


def _not_found(name: str) -> str:
    return f"Connector {name} not found"
