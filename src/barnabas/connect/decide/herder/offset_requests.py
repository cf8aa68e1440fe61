"""The positions of a connector: shown by any worker, changed by the leader while the connector is stopped (KIP-875).

With exactly-once sources their earlier tasks are fenced first, so that none of them commits a position afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport
from barnabas.connect.decide.herder.leader_requests import InternalRequests
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.entities import ConnectorOffset, ConnectorOffsets, OffsetsPreview
from barnabas.connect.errors import BadRequest
from barnabas.connect.identifiers import ConnectorType, TargetState

__all__ = ["OffsetRequests"]


class OffsetRequests:
    def __init__(self, context: HerderContext, internal: InternalRequests) -> None:
        self._context = context
        self._internal = internal

    async def read(self, name: str) -> ConnectorOffsets:
        config = await self._context.find_connector(name, f"Connector {name} not found")
        type_ = self._context.plugins.connector_type(config)
        return await self._context.outside.read_offsets(name, config, type_)

    async def preview(self, name: str, offsets: Sequence[ConnectorOffset]) -> OffsetsPreview:
        """Return what a change would do. Any worker answers, and the connector may run."""
        context = self._context
        config = await context.find_connector(name, f"Connector {name} not found")
        type_ = context.plugins.connector_type(config)
        changes = await context.outside.preview_offsets(name, config, type_, offsets)
        return OffsetsPreview(changes, self._is_stopped(name), any(change.problem for change in changes))

    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Change offsets, which are not empty; the last of equal partitions counts. Return a sentence for the user."""
        async with self._stopped_connector(name) as config:
            type_ = self._context.plugins.connector_type(config)
            return await self._context.outside.alter_offsets(name, config, type_, offsets)

    async def reset(self, name: str) -> str:
        async with self._stopped_connector(name) as config:
            type_ = self._context.plugins.connector_type(config)
            return await self._context.outside.reset_offsets(name, config, type_)

    def _is_stopped(self, name: str) -> bool:
        config = self._context.config
        return config.target_state(name) is TargetState.STOPPED and not config.task_count(name)

    @asynccontextmanager
    async def _stopped_connector(self, name: str) -> AsyncIterator[ConfigMap]:
        """Return its settings. It stays stopped meanwhile, as far as the leader controls that."""
        context = self._context
        async with context.as_leader("Only the leader can process alter/reset offsets requests."):
            await context.read_configs_to_end()
            config = context.require_connector(name, f"Connector {name} not found")
            if not self._is_stopped(name):
                raise BadRequest(
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                    f"for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
                )
            if context.settings.exactly_once is ExactlyOnceSupport.ENABLED and (
                context.plugins.connector_type(config) is ConnectorType.SOURCE
            ):
                await self._internal.fence_zombies_as_leader(name)
            yield config
