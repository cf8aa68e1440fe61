"""What a broker counts about share groups, under Kafka's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding_stats import Latencies
from barnabas.coordinator.share_partition.record_state import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch

__all__ = ["ShareStats"]


class ShareStats:
    __slots__ = (
        "acknowledge_requests",
        "acknowledgements",
        "expired_fetches",
        "failed_acknowledge_requests",
        "failed_fetch_requests",
        "fetch_requests",
        "load_times",
        "records_acquired",
    )

    def __init__(self) -> None:
        self.fetch_requests = 0
        """By topic of a request, as the others of this kind."""
        self.failed_fetch_requests = 0
        self.acknowledge_requests = 0
        self.failed_acknowledge_requests = 0
        self.expired_fetches = 0
        """Fetches that waited for their maximal time."""
        self.records_acquired = 0
        self.acknowledgements: dict[AcknowledgeType, int] = dict.fromkeys(AcknowledgeType, 0)
        """Records by the type of their acknowledgement. Kafka does not count gaps."""
        self.load_times = Latencies()
        """Times in which share-partitions were read from the persister."""

    def acknowledged(self, batches: Iterable[AcknowledgementBatch]) -> None:
        for first_offset, last_offset, types in batches:
            if len(types) == 1:
                self._add(types[0], last_offset - first_offset + 1)
                continue
            for type_ in set(types):
                self._add(type_, types.count(type_))

    def _add(self, type_: int, count: int) -> None:
        self.acknowledgements[AcknowledgeType(type_)] += count
