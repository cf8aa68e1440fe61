"""The hash that Kafka's clients spread keyed records with: 32-bit murmur2 with Kafka's seed."""

from __future__ import annotations

from struct import Struct

__all__ = ["murmur2", "partition_for_key"]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORD = Struct("<I")


def murmur2(data: bytes) -> int:
    """Return the hash as the signed 32-bit number that Java has."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size & ~3
    for (word,) in _WORD.iter_unpack(data[:whole]):
        word = word * _M & _MASK
        word ^= word >> 24
        hashed = hashed * _M & _MASK ^ word * _M & _MASK
    if whole < size:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - 0x100000000 if hashed > 0x7FFFFFFF else hashed


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that Kafka's clients choose for a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
