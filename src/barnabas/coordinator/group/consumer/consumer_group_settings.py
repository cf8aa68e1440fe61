"""The settings of one consumer group: its own where it has any, else those of the node, within the node's limits."""

from __future__ import annotations

from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig

__all__ = ["ConsumerGroupSettings"]


class ConsumerGroupSettings:
    def __init__(self, config: GroupCoordinatorConfig, view: ClusterView) -> None:
        self._config = config
        self._view = view

    def session_timeout_ms(self, group_id: str) -> int:
        config = self._config
        return self._own(
            group_id,
            "consumer.session.timeout.ms",
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        )

    def heartbeat_interval_ms(self, group_id: str) -> int:
        config = self._config
        return self._own(
            group_id,
            "consumer.heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        config = self._config
        return self._own(
            group_id,
            "consumer.assignment.interval.ms",
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        )

    def _own(self, group_id: str, name: str, default: int, lowest: int, highest: int) -> int:
        text = self._view.settings_of(group_id).get(name)
        return default if text is None else min(max(int(text), lowest), highest)
