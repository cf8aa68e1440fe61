"""One batch of a pipeline: what it read, and the positions after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.positions.group_positions import from_kafka_json
from barnabas.connect_spark.sql.pipeline_positions import InputOffsets, Pair, RunPosition, changed, input_pairs

__all__ = ["PipelineBatch", "offsets_of"]


@dataclass(frozen=True, slots=True)
class PipelineBatch:
    id: int
    """A number that no other batch of the pipeline has, later ones have greater ones."""
    starts: InputOffsets
    ends: InputOffsets
    run: RunPosition | None = None
    """The position of a query with state after this batch."""
    is_first: bool = False
    """The first one after a start has positions of all partitions, also of those without new records."""

    @property
    def pairs(self) -> list[Pair]:
        """The positions to write with the batch, or after it."""
        pairs = input_pairs(self.ends if self.is_first else changed(self.starts, self.ends))
        return pairs if self.run is None else [*pairs, self.run.pair]

    @property
    def records(self) -> int:
        """The number of records that were read, by their offsets."""
        return sum(
            end - self.starts.get(name, {}).get(partition, end)
            for name, of_input in self.ends.items()
            for partition, end in of_input.items()
        )


def offsets_of(sources: Sequence[str], ends: Sequence[Any]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets by input. ``ends`` are Spark's offsets of the sources, of which an input may be several: then
    the one that has read less counts."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for name, end in zip(sources, ends, strict=True):
        _merge(found.setdefault(name, {}), from_kafka_json(end or {}))
    return found


def _merge(into: dict[TopicPartition, int], offsets: Mapping[TopicPartition, int]) -> None:
    for partition, offset in offsets.items():
        into[partition] = min(offset, into.get(partition, offset))
