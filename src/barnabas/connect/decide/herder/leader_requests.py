"""Requests of workers to their leader: publish task configs, and fence earlier tasks (KIP-507, KIP-618).

REST has already verified the signature of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.connect.decide.backing_stores.config_records import task_count_record
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.herder.task_reconfiguration import TaskReconfiguration
from barnabas.connect.errors import BadRequest, RebalanceNeeded
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState

__all__ = ["InternalRequests"]


class InternalRequests:
    def __init__(self, context: HerderContext, reconfiguration: TaskReconfiguration) -> None:
        self._context = context
        self._reconfiguration = reconfiguration

    async def put_task_configs(self, name: str, configs: Sequence[ConfigMap]) -> None:
        async with self._context.as_leader("Only the leader may write task configurations."):
            await self._context.find_connector(name, f"Connector {name} not found")
            if configs and self._context.config.target_state(name) is TargetState.STOPPED:
                raise BadRequest(f"Connector {name} is stopped, so it can't have tasks: resume it first")
            await self._reconfiguration.write(name, configs)

    async def fence_zombies(self, name: str) -> None:
        """Fence producers of earlier task sets. They can't write once this returns."""
        async with self._context.as_leader("Only the leader may perform zombie fencing."):
            await self.fence_zombies_as_leader(name)

    async def fence_zombies_as_leader(self, name: str) -> None:
        """Do the same for a caller that has the leader's turn."""
        context = self._context
        await context.read_configs_to_end()
        properties = context.require_connector(name, f"Connector {name} not found")
        if context.plugins.connector_type(properties) is not ConnectorType.SOURCE:
            raise BadRequest(f"Connector {name} is not a source connector")
        config = context.config
        if name not in config.pending_fencing:
            return
        if config.needs_fencing_round(name):
            await self._fence(name, properties, config.task_count_records[name])
            if context.config.task_config_generation(name) != config.task_config_generation(name):
                raise RebalanceNeeded(
                    f"Tasks of connector {name} were reconfigured while earlier ones were fenced off; try again"
                )
        await context.write_configs(task_count_record(name, config.task_count(name)))

    async def _fence(self, name: str, properties: ConfigMap, task_count: int) -> None:
        context = self._context
        group_id = context.settings.group_id
        transactional_ids = [ConnectorTaskId(name, task).transactional_id(group_id) for task in range(task_count)]
        with context.stages.during(f"fencing {task_count} earlier tasks of connector {name}"):
            await context.outside.fence_producers(name, properties, transactional_ids)
        await context.read_configs_to_end()
