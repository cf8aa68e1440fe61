"""How many requests were answered, by route and status, and how long they took."""

from __future__ import annotations

from collections import Counter

__all__ = ["RequestCounts"]


class RequestCounts:
    """``by_route`` counts by (route, status). An unknown path has the route ``""``."""

    def __init__(self) -> None:
        self.by_route: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, float] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.by_route[route, status] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
