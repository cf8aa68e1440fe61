"""The consumer groups of sinks with the partitions of their tasks, from the herder's snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.entities import ConnectorInfo, ConnectorStatus
from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.console.consumer_lag import SinkGroup
from barnabas.connect.rest.console.views import group_of, partitions_of

__all__ = ["SinkGroups"]


class SinkGroups:
    """``offset_reset`` is the worker's ``consumer.auto.offset.reset``."""

    def __init__(self, herder: Herder, offset_reset: str = "earliest") -> None:
        self._herder = herder
        self._offset_reset = offset_reset

    def of_all(self, connectors: Iterable[str]) -> dict[str, SinkGroup]:
        """Return the groups of those connectors that have one."""
        found = {}
        for name in connectors:
            try:
                group = self.of(self._herder.connectors.info_in_snapshot(name))
            except ConnectError:
                continue  # It is being deleted.
            if group is not None:
                found[name] = group
        return found

    def of(self, info: ConnectorInfo, status: ConnectorStatus | None = None) -> SinkGroup | None:
        """Return the group; None for a source, and for a sink on another cluster. ``status`` may know a type that this
        worker does not."""
        group = group_of(info, status)
        if group is None:
            return None
        configs = self._herder.connectors.task_configs_in_snapshot(info.name)
        reset = info.config.get("consumer.override.auto.offset.reset") or self._offset_reset
        return SinkGroup(group, partitions_of(configs), reset)
