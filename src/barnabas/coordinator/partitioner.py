"""Finds the partition of a coordinator's topic for a group or a transactional id, by Java's String hash as in Kafka."""

from __future__ import annotations

__all__ = ["java_string_hash", "coordinator_partition"]


def java_string_hash(text: str) -> int:
    """Return ``String.hashCode``: a signed 32-bit polynomial over UTF-16 code units."""
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = (value * 31 + byte) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for index in range(0, len(units), 2):
            value = (value * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def coordinator_partition(key: str, partition_count: int) -> int:
    hashed = java_string_hash(key)
    # Kafka's Utils.abs: the one integer without a positive counterpart counts as zero.
    return 0 if hashed == -0x8000_0000 else abs(hashed) % partition_count
