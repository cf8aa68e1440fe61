"""What the REST API asks of the herder. The herder's side implements it; tests have a scripted one.

Every method may raise a ConnectError, whose ``http_status`` and text become the answer:

- ``NotLeader`` and ``NotAssigned`` carry the URL of the worker that can answer; REST forwards there (or answers 409).
- ``RebalanceNeeded``: nothing was done; REST waits for ``rebalance_over`` for a while and asks once more, then 409.
- ``NotFound`` 404, ``AlreadyExists`` 409, ``BadRequest`` 400, anything else 500. Texts are Kafka's where it has one.

REST does before it asks: parsing, coercion of values to strings, authentication and roles, names that don't match
their URL, and all of KIP-507: ``put_task_configs`` and ``fence_zombies`` are called only for requests that ``session``
lets in. REST bounds each call (90 s, ``health`` 10 s) by cancelling it; ``stage`` then says what the worker was doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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

__all__ = ["HerderPort", "SessionView"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """What it takes to sign and to judge an internal request right now (KIP-507)."""

    is_verification_in_force: bool
    """Whether the group has agreed on ``sessioned``."""
    key: bytes | None
    """The current session key, None until one was read from the config topic."""
    do_all_members_send_freshness: bool = False
    """Whether every member of the group is known to be a worker of ours; False as long as this worker can't tell."""

    def __repr__(self) -> str:
        key = "none" if self.key is None else "[hidden]"
        return f"SessionView(is_verification_in_force={self.is_verification_in_force}, key={key})"


class HerderPort(Protocol):
    # --- the worker itself ---

    @property
    def kafka_cluster_id(self) -> str:
        """Of the backing cluster, read before the API opens."""

    def session(self) -> SessionView:
        """Never blocks, whatever the herder is doing."""

    def stage(self) -> str | None:
        """What the worker is doing right now, None if nothing that takes time. A sentence as Kafka's:
        ``The worker is currently reading to the end of the config topic, which began at 2026-11-21T11:47:11.125Z.``"""

    def is_ready(self) -> bool:
        """Whether the start-up is complete: the worker is a member of its group and has read its topics."""

    async def health(self) -> None:
        """Goes through the queue of requests and does nothing (KIP-1017)."""

    async def rebalance_over(self) -> None:
        """Return when the group is stable and this worker has caught up, at once if it is so already."""

    # --- connectors ---

    def connectors(self) -> Sequence[str]:
        """Names in this worker's snapshot. Never blocks."""

    async def connector_info(self, name: str) -> ConnectorInfo:
        """404 ``Connector none not found``."""

    async def connector_config(self, name: str) -> Mapping[str, str | None]: ...

    def connector_info_in_snapshot(self, name: str) -> ConnectorInfo:
        """For lists with ``expand=info``. Never blocks; may be behind."""

    async def create_connector(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo:
        """409 ``Connector src1 already exists``, 400 for a configuration that isn't valid. ``tasks`` of the answer are
        those before the change, so none."""

    async def put_connector_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """Second: whether the connector is new. ``tasks`` are those before the change."""

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """None removes a setting (KIP-477)."""

    async def delete_connector(self, name: str) -> None: ...

    async def tasks(self, name: str) -> Sequence[TaskInfo]: ...

    # --- states ---

    def connector_status(self, name: str) -> ConnectorStatus:
        """From the status topic, never blocks. 404 ``No status found for connector none``."""

    def task_status(self, task: ConnectorTaskId) -> TaskStatus:
        """404 ``No status found for task none-0``."""

    async def restart_connector(self, name: str) -> None:
        """The connector alone, without its tasks. NotAssigned if another worker runs it."""

    async def restart_connector_and_tasks(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStatus: ...

    async def restart_task(self, task: ConnectorTaskId) -> None:
        """404 ``Unknown task: src1-9`` or ``Unknown connector: none``."""

    async def pause_connector(self, name: str) -> None:
        """404 ``Unknown connector none``. Any worker can; answered when written."""

    async def resume_connector(self, name: str) -> None: ...

    async def stop_connector(self, name: str) -> None: ...

    def active_topics(self, name: str) -> ActiveTopics:
        """An empty list for a connector nobody knows. REST answers 403 itself where tracking is switched off."""

    async def reset_active_topics(self, name: str) -> None: ...

    # --- offsets (KIP-875) ---

    async def connector_offsets(self, name: str) -> ConnectorOffsets: ...

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """The sentence for the user. ``offsets`` is not empty; the last of equal partitions counts."""

    async def reset_connector_offsets(self, name: str) -> str: ...

    # --- internal requests, let in already ---

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str | None]]) -> None: ...

    async def fence_zombies(self, name: str) -> None: ...

    # --- plugins ---

    def plugins(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        """Sinks, sources, transformations, predicates, converters, header converters."""

    async def plugin_config(self, name: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        """404 ``Unknown plugin NoSuch.``, 400 for a version that is none or that nobody has (KIP-891)."""

    async def validate_config(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """``connector.class`` is present. Takes its time (plugins may do I/O); not through the queue."""

    # --- loggers of all workers (KIP-976) ---

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Write the level to the config topic; every worker, this one too, follows when it reads it back."""
