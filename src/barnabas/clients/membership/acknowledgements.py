"""What a member of a share group says about records that it has acquired (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.common.uuid import Uuid

__all__ = ["AcknowledgeType", "Acknowledgements", "TopicIdPartition", "acknowledged_ranges"]


class AcknowledgeType(IntEnum):
    GAP = 0
    """No record has this offset, for example after compaction."""
    ACCEPT = 1
    RELEASE = 2
    """Deliver the record again, unless it was delivered too often."""
    REJECT = 3
    """Never deliver the record again, although it was not processed."""
    RENEW = 4
    """Keep the record for longer. The first version of the requests has no renewals."""


class TopicIdPartition(NamedTuple):
    topic_id: Uuid
    partition: int


Acknowledgements = Mapping[TopicIdPartition, Mapping[int, AcknowledgeType]]
"""The offsets of each partition, with what is said about them."""


def acknowledged_ranges(types: Mapping[int, AcknowledgeType]) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """Yield the first and last offset of each run with the same type, in the order of the offsets."""
    offsets = sorted(types)
    first = 0
    for index, offset in enumerate(offsets):
        is_last = index + 1 == len(offsets)
        if is_last or offsets[index + 1] != offset + 1 or types[offsets[index + 1]] is not types[offset]:
            yield offsets[first], offset, types[offset]
            first = index + 1
