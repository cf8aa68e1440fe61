"""The hash of the topics of a group (KIP-1101): it changes when an id, a partition count or a rack changes.

It is a part of the records of groups, so it must be equal to Kafka's: a coordinator that computes another one
rebalances every group that it takes over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from barnabas.common.uuid import Uuid
from barnabas.common.xxh3 import xxh3_64

__all__ = ["group_hash", "topic_hash"]

_FORMAT_VERSION = b"\x00"
_INT32 = Struct("<i")
_INT64 = Struct("<q")


def topic_hash(topic_id: Uuid, name: str, racks_of_partitions: Sequence[Sequence[str]]) -> int:
    """Return the hash of one topic, a signed number. ``racks_of_partitions`` has for each partition the racks of its
    replicas, without those that have none, in any order."""
    partition_count = len(racks_of_partitions)
    chunks = [_FORMAT_VERSION, topic_id[7::-1], topic_id[:7:-1], _text(name), _INT32.pack(partition_count)]
    distinct_racks = sorted({rack for racks in racks_of_partitions for rack in racks}, key=_utf16)
    rank_by_rack = {rack: rank for rank, rack in enumerate(distinct_racks)}
    encoded_racks = [_rack(rack) for rack in distinct_racks]
    for partition, racks in enumerate(racks_of_partitions):
        chunks.append(_INT32.pack(partition))
        chunks += [encoded_racks[rank] for rank in sorted([rank_by_rack[rack] for rack in racks])]
    return _signed(xxh3_64(b"".join(chunks)))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Return the hash of a group from the hashes of its existing topics by name."""
    if not topic_hashes:
        return 0
    return _signed(xxh3_64(b"".join(_INT64.pack(topic_hashes[name]) for name in sorted(topic_hashes))))


def _text(text: str) -> bytes:
    """Return the characters, and their number after them."""
    return text.encode("utf-16-le", "surrogatepass") + _INT32.pack(len(_utf16(text)) // 2)


def _rack(rack: str) -> bytes:
    """Return a rack with its length in front, too."""
    return _INT32.pack(len(_utf16(rack)) // 2) + _text(rack)


def _utf16(text: str) -> bytes:
    """Return the units by which Java compares and counts."""
    return text.encode("utf-16-be", "surrogatepass")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
