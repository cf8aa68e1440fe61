"""The order in which Java's hash maps give their keys, where a result of Kafka depends on it."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordinator.partitioner import java_string_hash

__all__ = ["hash_map_order"]

_BUCKETS_MIN = 16


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return the distinct keys as a HashMap or HashSet iterates them after they were put into it in this order.

    Maps in which Java replaces a list of eight or more collisions by a tree may differ.
    """
    distinct = list(dict.fromkeys(keys))
    last_bucket = _bucket_count(len(distinct)) - 1

    def bucket(key: str) -> int:
        value = java_string_hash(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & last_bucket

    return sorted(distinct, key=bucket)


def _bucket_count(size: int) -> int:
    """Return how many buckets a map has after it grew to a size: it doubles when more than three quarters are used."""
    count = _BUCKETS_MIN
    while size > count * 3 // 4:
        count *= 2
    return count
