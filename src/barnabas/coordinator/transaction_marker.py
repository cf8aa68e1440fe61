"""The end of a transaction, as its coordinator sends it to the partitions of the transaction."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TransactionMarker"]


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
