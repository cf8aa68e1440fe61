"""The consumer groups of sinks with the partitions of their tasks, from the herder's snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from barnabas.common.config_providers import has_reference
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.lag.consumer_lag import SinkGroup
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, parse_partitions
from barnabas.connect.decide.validation.connector_rules import consumer_group_of
from barnabas.connect.entities import ConnectorInfo, ConnectorStatus
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorType

__all__ = ["SinkGroups", "group_of", "partitions_of"]

_OTHER_CLUSTER = ("consumer.override.bootstrap.servers", "admin.override.bootstrap.servers")


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


def group_of(info: ConnectorInfo, status: ConnectorStatus | None) -> str | None:
    """Return the consumer group of a sink; None if it is on another cluster."""
    type_ = info.type if info.type is not ConnectorType.UNKNOWN or status is None else status.type
    if type_ is not ConnectorType.SINK or any(info.config.get(name) for name in _OTHER_CLUSTER):
        return None
    group = consumer_group_of(info.name, info.config)
    return None if has_reference(group) else group


def partitions_of(task_configs: Iterable[Mapping[str, str | None]]) -> frozenset[TopicPartition]:
    """Return the partitions of a sink's tasks. Tasks of another kind of worker name none."""
    partitions: set[TopicPartition] = set()
    for config in task_configs:
        with suppress(ValueError):
            partitions.update(parse_partitions(config.get(TASK_PARTITIONS) or "{}"))
    return frozenset(partitions)
