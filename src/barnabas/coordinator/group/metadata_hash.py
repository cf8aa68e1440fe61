"""The hash of the topics that a group depends on (KIP-1101): if it differs, the group needs a new assignment.

It equals Kafka's, so that a group which moves between brokers of both kinds is not assigned again. Numbers are little
endian; a string is its UTF-16 code units and their count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from xxhash import xxh3_64_intdigest

from barnabas.common.uuid import Uuid

__all__ = ["group_hash", "topic_hash"]

_INT32 = Struct("<i")
_INT64 = Struct("<Q")
_VERSION = b"\x00"
_SIGN = 1 << 63


def topic_hash(topic_id: Uuid, name: str, racks: Sequence[Sequence[str]]) -> int:
    """Return the hash of a topic. ``racks`` has the sorted racks of the replicas of each partition."""
    # The id's halves are numbers of eight bytes, big endian in the id.
    chunks = [_VERSION, topic_id[7::-1], topic_id[:7:-1], _string(name), _INT32.pack(len(racks))]
    for partition, of_partition in enumerate(racks):
        chunks.append(_INT32.pack(partition))
        for rack in of_partition:
            text = _string(rack)
            chunks += (text[-_INT32.size :], text)
    return _signed(xxh3_64_intdigest(b"".join(chunks)))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Return the hash of a group from those of its topics by name; 0 without topics."""
    if not topic_hashes:
        return 0
    names = sorted(topic_hashes, key=_java_order)
    return _signed(xxh3_64_intdigest(b"".join(_INT64.pack(topic_hashes[name] & 0xFFFFFFFFFFFFFFFF) for name in names)))


def _string(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + _INT32.pack(len(encoded) // 2)


def _java_order(name: str) -> bytes:
    """Java compares strings by UTF-16 code units."""
    return name.encode("utf-16-be", "surrogatepass")


def _signed(value: int) -> int:
    return value - (1 << 64) if value & _SIGN else value
