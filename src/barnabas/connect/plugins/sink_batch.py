"""A batch as a sink's task sees it: its records, how the worker interrupts it, and what the target refused."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.common.topic_partition import TopicPartition

__all__ = ["BatchControl", "OffsetRange", "RefusedRecord", "SinkBatch"]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from ``start`` to before ``end``. Some may be missing: compacted, or transaction markers."""

    start: int
    end: int


class BatchControl(Protocol):
    """How the worker interrupts a batch. Both methods may be called from any thread, and raise an exception that ends
    the batch: don't catch it."""

    def wait(self, seconds: float) -> None:
        """Wait before another attempt. Raise as soon as the task is to stop or to pause."""

    def ensure_unfenced(self) -> None:
        """Call this before each visible step of a long batch. Raise if the worker waits no longer for its end."""


class _Uninterrupted:
    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def ensure_unfenced(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """The records of a DataFrame. The same ``id`` is repeated only with the same ranges, after a failure."""

    id: int
    ranges: Mapping[TopicPartition, OffsetRange]
    control: BatchControl = field(default_factory=_Uninterrupted, compare=False, repr=False)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The positions where the next batch begins."""
        return {partition: offsets.end for partition, offsets in self.ranges.items()}


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that the target refused, by its place in Kafka, with the reason for its dead letter."""

    partition: TopicPartition
    offset: int
    message: str
