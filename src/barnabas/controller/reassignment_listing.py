"""Lists the partitions that are being reassigned, from the image of one moment, a step at a time.

During a move of a cluster these may be all its partitions, and describing one takes some microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from barnabas.common.long_response import LongAnswer
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.topics import TopicsImage
from barnabas.metadata.persistent_map import PersistentMap, in_order
from barnabas.protocol.messages.list_partition_reassignments import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

__all__ = ["LOOKS_A_STEP", "ReassignmentListing", "is_being_reassigned"]

LOOKS_A_STEP: Final = 1_000
"""Some 3 ms."""


class ReassignmentListing(LongAnswer):
    """``topics`` is the answer when ``advance`` has returned False; it omits topics without reassignments."""

    __slots__ = ("_image", "_steps", "topics")

    def __init__(self, image: TopicsImage, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> None:
        """``wanted`` are topics and their partitions; None selects all."""
        super().__init__()
        self.topics: list[OngoingTopicReassignment] = []
        self._image = image
        self._steps = self._list_all() if wanted is None else self._list(wanted)

    def advance(self) -> bool:
        return next(self._steps, None) is not None

    def _list_all(self) -> Iterator[bool]:
        by_topic: dict[str, list[int]] = {}
        keys = iter(self._image.index.reassigning)
        while piece := list(islice(keys, LOOKS_A_STEP)):
            for topic_id, index in piece:
                by_topic.setdefault(self._image.by_id[topic_id].name, []).append(index)
            yield True
        names: PersistentMap[str, None] = PersistentMap(dict.fromkeys(by_topic))
        yield from self._list((name, sorted(by_topic[name])) for name in in_order(names))

    def _list(self, wanted: Iterable[tuple[str, Sequence[int]]]) -> Iterator[bool]:
        looks = 0
        for name, indexes in wanted:
            topic = self._image.get(name)
            if topic is None:
                continue
            found: list[OngoingPartitionReassignment] = []
            for index in indexes:
                looks += 1
                if looks % LOOKS_A_STEP == 0:
                    yield True
                partition = topic.partitions.get(index)
                if partition is not None and is_being_reassigned(partition):
                    found.append(_described(index, partition))
            if found:
                self.topics.append(OngoingTopicReassignment(name=name, partitions=found))


def is_being_reassigned(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _described(index: int, partition: PartitionRegistration) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
