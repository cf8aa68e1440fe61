"""The worker's settings for the herder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion

__all__ = ["ExactlyOnceSupport", "HerderSettings", "RestartBudget"]


class ExactlyOnceSupport(Enum):
    """``exactly.once.source.support`` (KIP-618). The leader's writes are transactional before the tasks' are."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """The limits of automatic restarts: ``barnabas.connect.task.restart.*``.

    The n-th restart follows ``backoff_ms`` x 2^(n-1) after the failure, at most ``backoff_max_ms``. A run of
    ``reset_ms`` restores the whole budget. With ``max_attempts`` 0 nothing is restarted, as in Kafka.
    """

    max_attempts: int = 10
    backoff_ms: int = 1_000
    backoff_max_ms: int = 60_000
    reset_ms: int = 600_000

    def delay_ms(self, attempt: int) -> int:
        """Return the pause before the attempt of this number, from 1."""
        return min(self.backoff_ms << min(attempt - 1, 32), self.backoff_max_ms)


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """``worker_id`` is the advertised ``host:port``, as in statuses; ``url`` is the advertised URL with a slash at
    its end, as in the group."""

    worker_id: str
    url: str
    group_id: str
    protocol: ProtocolVersion = ProtocolVersion.SESSIONED
    """The highest protocol that this worker offers: it applies until the group has agreed on one."""
    sync_timeout_ms: int = 3_000
    write_timeout_ms: int = 30_000
    """The limit for a write to the config topic and reading it back, together."""
    rebalance_wait_ms: int = 30_000
    """How long a request waits for the end of a rebalance, before the caller receives an error to retry."""
    is_topic_tracking_enabled: bool = True
    restart_budget: RestartBudget = RestartBudget()
    exactly_once: ExactlyOnceSupport = ExactlyOnceSupport.DISABLED
