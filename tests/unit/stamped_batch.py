"""A batch at its place in a log, as in a broker's log."""

from __future__ import annotations

from struct import Struct

_OFFSET, _LEADER_EPOCH = Struct(">q"), Struct(">i")
_LEADER_EPOCH_OFFSET = 12


def stamped_batch(batch: bytes, base_offset: int) -> bytes:
    """Return the batch with its base offset and leader epoch 0. Its checksum covers neither."""
    stamped = bytearray(batch)
    _OFFSET.pack_into(stamped, 0, base_offset)
    _LEADER_EPOCH.pack_into(stamped, _LEADER_EPOCH_OFFSET, 0)
    return bytes(stamped)
