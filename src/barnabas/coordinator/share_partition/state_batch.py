"""What a share-partition exchanges with the log and with its members."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AcknowledgementBatch", "AcquiredRecords", "FetchedBatch"]


class FetchedBatch(NamedTuple):
    """The offsets of a record batch that was read from the log."""

    base_offset: int
    last_offset: int


class AcquiredRecords(NamedTuple):
    """Records that a member receives, both offsets inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """One acknowledge type for all offsets, or one for each of them."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]
