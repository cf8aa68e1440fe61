"""The hash of the topics that a group depends on (KIP-1101): if it differs, the group needs a new assignment.

It equals Kafka's, so that a group which moves between brokers of both kinds is not assigned again. Numbers are little
endian; a string is its UTF-16 code units and their count.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from struct import Struct

from xxhash import xxh3_64, xxh3_64_intdigest

from barnabas.common.uuid import Uuid

__all__ = ["group_hash", "rack_bytes", "topic_hash_in_steps"]

_INT32 = Struct("<i")
_INT64 = Struct("<Q")
_VERSION = b"\x00"
_SIGN = 1 << 63
_PARTITIONS_A_STEP = 5_000


def rack_bytes(racks: Iterable[str]) -> bytes:
    """Return what the racks of a partition's replicas add to the hash of its topic."""
    texts = [_string(rack) for rack in sorted(racks, key=_java_order)]
    return b"".join(text[-_INT32.size :] + text for text in texts)


def topic_hash_in_steps(topic_id: Uuid, name: str, racks: Sequence[bytes]) -> Generator[None, None, int]:
    """Return the hash of a topic. ``racks`` has the ``rack_bytes`` of each partition."""
    # The id's halves are numbers of eight bytes, big endian in the id.
    head = [_VERSION, topic_id[7::-1], topic_id[:7:-1], _string(name), _INT32.pack(len(racks))]
    hashed = xxh3_64(b"".join(head))
    pack = _INT32.pack
    for first in range(0, len(racks), _PARTITIONS_A_STEP):
        part = racks[first : first + _PARTITIONS_A_STEP]
        hashed.update(b"".join([pack(number) + of_partition for number, of_partition in enumerate(part, first)]))
        if len(part) == _PARTITIONS_A_STEP:
            yield
    return _signed(hashed.intdigest())


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
