"""Metrics of forwarding, as plain numbers: KIP-590's count of requests by client, KIP-938's times and queue length."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

__all__ = ["LATENCY_BUCKETS_MS", "OTHER_CLIENTS", "ForwardingStats", "Histogram", "Latencies"]

LATENCY_BUCKETS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
CLIENTS_MAX: Final = 100
OTHER_CLIENTS: Final = "(other)"
"""Clients choose their ids. Ids beyond this number are counted together."""


class Histogram:
    """Counts whole numbers up to each of some bounds, and those above."""

    __slots__ = ("bounds", "buckets", "count", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0

    def record(self, number: int) -> None:
        self.count += 1
        self.total += number
        self.buckets[bisect_left(self.bounds, number)] += 1


class Latencies(Histogram):
    """Counts times in milliseconds."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(LATENCY_BUCKETS_MS)


class ForwardingStats:
    """``queue_times``: a request's total wait for a controller and a connection.

    ``remote_times``: the time from sending to the answer.
    """

    __slots__ = ("queue_times", "remote_times", "requests_by_client", "timed_out")

    def __init__(self) -> None:
        self.requests_by_client: dict[str, int] = {}
        self.queue_times = Latencies()
        self.remote_times = Latencies()
        self.timed_out = 0

    def forwarded(self, client_id: str | None) -> None:
        name = client_id or ""
        counts = self.requests_by_client
        if name not in counts and len(counts) >= CLIENTS_MAX:
            name = OTHER_CLIENTS
        counts[name] = counts.get(name, 0) + 1
