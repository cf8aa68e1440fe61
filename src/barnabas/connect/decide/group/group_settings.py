"""The worker's configuration for its membership, with the settings' names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion

__all__ = ["GroupSettings"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """``url`` is the advertised one, with a slash at its end. ``task_shutdown_graceful_timeout_ms`` limits how long
    stopping all work may take."""

    group_id: str
    url: str
    protocol: ProtocolVersion = ProtocolVersion.SESSIONED
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 3_000
    worker_sync_timeout_ms: int = 3_000
    worker_unsync_backoff_ms: int = 300_000
    scheduled_rebalance_max_delay_ms: int = 300_000
    task_shutdown_graceful_timeout_ms: int = 5_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reassign_immediately: bool = True
    """Ours: ``barnabas.connect.reassign.immediately``; false waits as Kafka does (see ``cooperative_assignor``)."""
