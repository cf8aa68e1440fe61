"""A write of delivery states that the persister must confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.coordinator.share.persister import StateBatch
    from barnabas.coordinator.share_partition.in_flight_batch import InFlightRange

__all__ = ["StateWrite"]


class StateWrite:
    """``batches`` are for the persister; ``ranges`` are in transition until the owner has passed its answer to
    ``SharePartition.complete``. The end of a lock has no transition: it holds whatever the persister answers."""

    __slots__ = ("batches", "delivery_count_limit", "ranges")

    def __init__(self, delivery_count_limit: int) -> None:
        self.delivery_count_limit = delivery_count_limit
        self.batches: list[StateBatch] = []
        self.ranges: list[InFlightRange] = []
