"""How fast counters grow, from occasional samples."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable

__all__ = ["Rates"]

_WINDOW_S = 30.0
_SHORTEST_S = 0.5
_COUNTERS_MAX = 10_000


class Rates:
    """A rate covers at most the last half minute. It needs two samples."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, deque[tuple[float, int]]] = OrderedDict()

    def observe(self, counter: Hashable, total: int, now_s: float) -> float | None:
        """Note the value of a counter. Return its growth per second. A counter that went back starts again."""
        seen = self._seen.setdefault(counter, deque())
        self._seen.move_to_end(counter)
        if seen and seen[-1][1] > total:
            seen.clear()
        while seen and seen[0][0] < now_s - _WINDOW_S:
            seen.popleft()
        if not seen or now_s - seen[-1][0] >= _SHORTEST_S:
            seen.append((now_s, total))
        if len(self._seen) > _COUNTERS_MAX:
            self._seen.popitem(last=False)
        begun_s, first = seen[0]
        return (total - first) / (now_s - begun_s) if now_s - begun_s >= _SHORTEST_S else None
