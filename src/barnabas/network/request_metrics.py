"""Counts and latencies by API, kept as plain numbers; the metrics endpoint reads them on request."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["LATENCY_BUCKETS_S", "ApiStats"]

LATENCY_BUCKETS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
_BUCKETS = len(LATENCY_BUCKETS_S) + 1


class ApiStats:
    """One API on one listener."""

    __slots__ = ("buckets", "errors", "request_bytes", "requests", "response_bytes", "time_s", "versions")

    def __init__(self) -> None:
        self.requests = 0
        self.versions: dict[int, int] = {}
        self.errors: dict[int, int] = {}
        self.request_bytes = 0
        self.response_bytes = 0
        self.time_s = 0.0
        self.buckets = [0] * _BUCKETS

    def answered(self, version: int, elapsed_s: float, request_bytes: int, response_bytes: int) -> None:
        self.requests += 1
        self.versions[version] = self.versions.get(version, 0) + 1
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self.time_s += elapsed_s
        self.buckets[bisect_left(LATENCY_BUCKETS_S, elapsed_s)] += 1

    def failed(self, error_code: int) -> None:
        self.errors[error_code] = self.errors.get(error_code, 0) + 1
