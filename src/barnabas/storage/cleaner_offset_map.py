"""Maps keys to their last offsets for compaction, in memory of a fixed size.

An open-addressing table of three 64-bit columns: 24 bytes a slot, keys being represented by a 128-bit hash of theirs as
in Kafka. A dict would need six times as much. 128 MiB, the default of ``log.cleaner.dedupe.buffer.size``, hold five
million keys; when the table is full the cleaner cleans up to there and continues with the rest later.
"""

from __future__ import annotations

from array import array
from hashlib import md5
from struct import Struct

__all__ = ["BYTES_PER_SLOT", "CleanerOffsetMap"]

BYTES_PER_SLOT = 24

_HALVES = Struct("<QQ")


class CleanerOffsetMap:
    __slots__ = ("_high", "_low", "_offsets", "_slots", "keys_max", "latest_offset", "size")

    def __init__(self, memory_bytes: int, *, load_factor: float = 0.9, keys_expected: int | None = None) -> None:
        """Uses at most ``memory_bytes``, and less if no more than ``keys_expected`` keys can occur."""
        slots = max(memory_bytes // BYTES_PER_SLOT, 2)
        if keys_expected is not None:
            slots = min(slots, max(int(keys_expected / load_factor) + 2, 2))
        self._low = array("Q", [0]) * slots
        self._high = array("Q", [0]) * slots
        self._offsets = array("Q", [0]) * slots  # One more than the offset, so that 0 is an empty slot.
        self._slots = slots
        self.keys_max = max(int(slots * load_factor), 1)
        self.size = 0
        self.latest_offset = -1
        """The last offset that was read into the map: the map does not decide about later offsets."""

    @property
    def is_full(self) -> bool:
        return self.size >= self.keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Set the key's last offset. Check ``is_full`` first."""
        low, high = _HALVES.unpack(md5(key, usedforsecurity=False).digest())
        lows, highs, offsets, slots = self._low, self._high, self._offsets, self._slots
        slot = low % slots
        while offsets[slot]:
            if lows[slot] == low and highs[slot] == high:
                offsets[slot] = offset + 1
                return
            slot += 1
            if slot == slots:
                slot = 0
        lows[slot] = low
        highs[slot] = high
        offsets[slot] = offset + 1
        self.size += 1

    def get(self, key: bytes) -> int:
        """Return the key's last offset, -1 if the key did not occur."""
        low, high = _HALVES.unpack(md5(key, usedforsecurity=False).digest())
        lows, highs, offsets, slots = self._low, self._high, self._offsets, self._slots
        slot = low % slots
        while offset := offsets[slot]:
            if lows[slot] == low and highs[slot] == high:
                return int(offset) - 1
            slot += 1
            if slot == slots:
                slot = 0
        return -1
