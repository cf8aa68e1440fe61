"""The shared state of the herder's parts: settings, replayed topics and the current group."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.config_state import ClusterConfig, ConfigState
from barnabas.connect.decide.backing_stores.status_state import StatusState
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.herder.config_writes import ConfigWrites
from barnabas.connect.decide.herder.herder_settings import HerderSettings
from barnabas.connect.decide.herder.herder_stages import Stages
from barnabas.connect.decide.herder.outside import ConfigMap, Outside
from barnabas.connect.decide.herder.turn import Turn
from barnabas.connect.errors import ConnectError, NotFound, NotLeader, RebalanceNeeded
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType

__all__ = ["GroupView", "HerderContext", "PluginCatalog"]

log = logging.getLogger(__name__)


class PluginCatalog(Protocol):
    """Information about a connector from its settings, without running it."""

    def connector_type(self, config: ConfigMap) -> ConnectorType:
        """Return the type; UNKNOWN for a class that this worker does not have."""

    def connector_version(self, config: ConfigMap) -> str | None: ...


@dataclass(slots=True)
class GroupView:
    """The group as of the last assignment."""

    member_id: str = ""
    leader_id: str | None = None
    leader_url: str | None = None
    generation: int = -1
    protocol_version: ProtocolVersion = ProtocolVersion.SESSIONED
    config_offset: int = -1
    is_settled: bool = False
    """Whether this worker is a member and has started its assignment, so that the leader is known."""
    is_up_to_date: bool = False
    """Whether, in addition, all configured work is assigned, so that the owners are known."""
    owners: dict[str | ConnectorTaskId, str] = field(default_factory=dict)
    """The URLs of the workers by work. Only the leader knows them."""
    member_worker_ids: frozenset[str] = frozenset()
    """All members, by their ``host:port``. Only the leader knows."""
    member_urls: frozenset[str] = frozenset()
    """The advertised URLs of all members. Only the leader knows."""
    are_all_members_ours: bool = False
    """Whether no member is a worker of Kafka's. Only the leader knows."""

    @property
    def is_leader(self) -> bool:
        return bool(self.member_id) and self.member_id == self.leader_id


class HerderContext:
    def __init__(self, settings: HerderSettings, outside: Outside, plugins: PluginCatalog) -> None:
        self.settings = settings
        self.outside = outside
        self.plugins = plugins
        self.configs = ConfigState()
        self.statuses = StatusState()
        self.group = GroupView(protocol_version=settings.protocol)
        self.stages = Stages(outside.now_ms)
        self.config_writes = ConfigWrites(outside, lambda: self.group.is_leader, settings)
        self.leader_turn = Turn(outside)
        """The leader holds it for each change of configurations, from the check until its write is read back."""

    @property
    def config(self) -> ClusterConfig:
        return self.configs.snapshot()

    def connector_type(self, connector: str) -> ConnectorType:
        properties = self.config.connector_config(connector)
        return ConnectorType.UNKNOWN if properties is None else self.plugins.connector_type(properties)

    def require_connector(self, connector: str, text: str) -> ConfigMap:
        """Return its settings. Raise NotFound with the text if it does not exist."""
        properties = self.config.connector_config(connector)
        if properties is None:
            raise NotFound(text)
        return properties

    async def find_connector(self, connector: str, text: str) -> ConfigMap:
        """Return its settings, but raise NotFound only after the whole topic was read: another worker may have
        created the connector a moment ago."""
        if not self.config.contains(connector):
            try:
                await self.read_configs_to_end()
            except (ConnectError, OSError) as error:
                log.warning("the config topic could not be read to its end: %s", error)
        return self.require_connector(connector, text)

    def require_leader(self, text: str) -> None:
        if not self.group.is_leader:
            raise NotLeader(text, self.group.leader_url)

    async def settled(self, *, is_up_to_date: bool = False) -> None:
        """Wait for a limited time until the leader of the group (and the owners of work) are known."""
        group = self.group
        with self.stages.during("ensuring membership in the cluster"):
            is_settled = await self.outside.until(
                lambda: group.is_up_to_date if is_up_to_date else group.is_settled, self.settings.rebalance_wait_ms
            )
        if not is_settled:
            raise RebalanceNeeded("Request cannot be completed because a rebalance is expected")

    @asynccontextmanager
    async def as_leader(self, text: str) -> AsyncIterator[None]:
        """A context in which this worker is the leader and the only one that decides."""
        async with self.leader_turn:
            await self.settled()
            self.require_leader(text)
            await self.config_writes.ensure_claimed()
            yield

    async def write_configs(self, *records: ConfigRecord) -> None:
        """Write them as one batch, as the leader, and wait until they were read back."""
        with self.stages.during("writing to the config topic"):
            await self.config_writes.write(records)
            await self.outside.read_configs_to_end(self.settings.write_timeout_ms)

    async def write_configs_of_any_worker(self, *records: ConfigRecord) -> None:
        """Write records that followers write too, and wait until they were read back."""
        with self.stages.during("writing to the config topic"):
            await self.outside.write_configs(records)
            await self.outside.read_configs_to_end(self.settings.write_timeout_ms)

    async def read_configs_to_end(self, timeout_ms: int | None = None) -> None:
        with self.stages.during("reading to the end of the config topic"):
            timeout_ms = self.settings.sync_timeout_ms if timeout_ms is None else timeout_ms
            await self.outside.read_configs_to_end(timeout_ms)
