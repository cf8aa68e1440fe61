"""What a broker counts about share groups, under Kafka's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding_stats import LATENCY_BUCKETS_MS, Histogram, Latencies
from barnabas.coordinator.share_partition.record_state import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch

__all__ = ["BATCH_BOUNDS", "ShareStats"]

_RATIO_BOUNDS = (0, 10, 25, 50, 75, 90, 99)
BATCH_BOUNDS = (1, 5, 10, 50, 100, 500, 1_000, 5_000)
"""Bounds for the number of records in a batch."""


class ShareStats:
    __slots__ = (
        "acknowledge_requests",
        "acknowledgements",
        "acquire_times",
        "expired_fetches",
        "failed_acknowledge_requests",
        "failed_fetch_requests",
        "fetch_ratios",
        "fetch_requests",
        "load_times",
        "records_acquired",
        "waiting_fetches",
    )

    def __init__(self) -> None:
        self.fetch_requests = 0
        """By topic of a request, as the others of this kind."""
        self.failed_fetch_requests = 0
        self.acknowledge_requests = 0
        self.failed_acknowledge_requests = 0
        self.waiting_fetches = 0
        """Fetches that wait now."""
        self.acquire_times: dict[str, Histogram] = {}
        """Milliseconds from a fetch to its first records, by group."""
        self.fetch_ratios: dict[str, Histogram] = {}
        """Of 100 partitions of a fetch, those in which records could be acquired, by group."""
        self.expired_fetches = 0
        """Fetches that waited for their maximal time."""
        self.records_acquired = 0
        self.acknowledgements: dict[AcknowledgeType, int] = dict.fromkeys(AcknowledgeType, 0)
        """Records by the type of their acknowledgement. Kafka does not count gaps."""
        self.load_times = Latencies()
        """Times in which share-partitions were read from the persister."""

    def acquired(self, group_id: str, *, elapsed_ms: int, acquirable: int, requested: int) -> None:
        """Count a fetch whose records could be acquired in some of the requested partitions."""
        self._of_group(self.acquire_times, group_id, LATENCY_BUCKETS_MS).record(elapsed_ms)
        self._of_group(self.fetch_ratios, group_id, _RATIO_BOUNDS).record(100 * acquirable // requested)

    def _of_group(self, histograms: dict[str, Histogram], group_id: str, bounds: Sequence[int]) -> Histogram:
        found = histograms.get(group_id)
        if found is None:
            found = histograms[group_id] = Histogram(bounds)
        return found

    def forget_group(self, group_id: str) -> None:
        """Drop what is counted by group: it has no more share-partitions here."""
        self.acquire_times.pop(group_id, None)
        self.fetch_ratios.pop(group_id, None)

    def acknowledged(self, batches: Iterable[AcknowledgementBatch]) -> None:
        for first_offset, last_offset, types in batches:
            if len(types) == 1:
                self._add(types[0], last_offset - first_offset + 1)
                continue
            for type_ in set(types):
                self._add(type_, types.count(type_))

    def _add(self, type_: int, count: int) -> None:
        self.acknowledgements[AcknowledgeType(type_)] += count
