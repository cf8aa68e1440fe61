"""The settings of one streams group: its own where it has any, else those of the node, within the node's limits."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.heartbeat_settings import HeartbeatSettings

__all__ = ["NUM_STANDBY_REPLICAS", "StreamsGroupSettings"]

NUM_STANDBY_REPLICAS = "num.standby.replicas"
"""The name in the records of a group."""


class StreamsGroupSettings(HeartbeatSettings):
    def __init__(self, config: GroupCoordinatorConfig, view: ClusterView) -> None:
        super().__init__("streams", config.streams_limits, view)
        self._config = config
        self._view = view

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        text = self._view.settings_of(group_id).get("streams.initial.rebalance.delay.ms")
        return self._config.group_streams_initial_rebalance_delay_ms if text is None else int(text)

    def assignment_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the settings that the assignment of tasks depends on, by their names in records."""
        text = self._view.settings_of(group_id).get("streams.num.standby.replicas")
        if text is None:
            count = self._config.group_streams_num_standby_replicas
        else:
            count = min(int(text), self._config.group_streams_max_standby_replicas)
        return {NUM_STANDBY_REPLICAS: str(count)}
