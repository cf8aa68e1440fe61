"""The lag of consumer groups behind the ends of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas.common.topic_partition import TopicPartition

__all__ = ["GroupLag", "LagSource", "PartitionLag", "SinkGroup"]


@dataclass(frozen=True, slots=True)
class SinkGroup:
    """The consumer group of a sink, and the partitions of its tasks with the place where they begin without a commit:
    ``reset`` is ``auto.offset.reset``."""

    group: str
    partitions: frozenset[TopicPartition] = frozenset()
    reset: str = "earliest"


@dataclass(frozen=True, slots=True, order=True)
class PartitionLag:
    topic: str
    partition: int
    position: int
    end: int
    per_second: float | None = None
    """How fast the position advances; None before the second sample."""
    is_committed: bool = True
    """False where the task has committed nothing: the position is where it begins."""

    @property
    def lag(self) -> int:
        """The lag, not below 0: the position may have passed the end, which was read earlier."""
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """``problem`` says why the lag is missing, if an error occurred."""

    partitions: tuple[PartitionLag, ...] = ()
    problem: str = ""

    @property
    def lag(self) -> int | None:
        return sum(partition.lag for partition in self.partitions) if self.partitions else None

    @property
    def per_second(self) -> float | None:
        rates = [partition.per_second for partition in self.partitions if partition.per_second is not None]
        return sum(rates) if rates else None


class LagSource(Protocol):
    async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
        """Return the lag of connectors by consumer group. Never raises; takes seconds if brokers do not answer."""
