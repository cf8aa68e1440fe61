"""The part of a config topic state that the group assigns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["Configs"]


@dataclass
class Configs:
    """``task_counts`` by connector."""

    offset: int = -1
    task_counts: Mapping[str, int] = field(default_factory=dict)

    def connectors(self) -> list[str]:
        return sorted(self.task_counts)

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        return [ConnectorTaskId(connector, number) for number in range(self.task_counts[connector])]
