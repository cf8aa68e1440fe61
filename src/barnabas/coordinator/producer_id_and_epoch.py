"""The identity of a producer: the pair that its batches and requests carry."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ProducerIdAndEpoch"]


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int
