"""Decisions that are too long for one step are made in turns.

A decision in turns is a generator. Each result that it yields is a separate decision, and any of them may be the last
that is ever committed: the state after it must be valid. The generator returns the last result, with the
answer. The next turn sees decisions made between two turns.

The decisions under way take turns alternately, until a tick of the controller has done enough.
This state is not replicated: a deposed controller drops it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from barnabas.controller.controller_result import ControllerResult

__all__ = ["DecisionTurns", "Turns"]

T = TypeVar("T")

Turns: TypeAlias = Generator[ControllerResult[None], None, ControllerResult[T]]


class _UnderWay(NamedTuple):
    key: Hashable
    turns: Turns[Any]


class DecisionTurns:
    def __init__(self) -> None:
        self._queue: deque[_UnderWay] = deque()
        self._keys: set[Hashable] = set()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def is_under_way(self, key: Hashable) -> bool:
        return key in self._keys

    def begin(self, key: Hashable, turns: Turns[None]) -> ControllerResult[None]:
        """Take the first turn. Another decision under the same key is abandoned."""
        self.give_up(key)
        return self._take(_UnderWay(key, turns))

    def begin_later(self, key: Hashable, turns: Turns[None]) -> None:
        """Queue the first turn after those of the waiting decisions."""
        self.give_up(key)
        self._keys.add(key)
        self._queue.append(_UnderWay(key, turns))

    def give_up(self, key: Hashable) -> None:
        if key in self._keys:
            self._keys.discard(key)
            self._queue = deque(under_way for under_way in self._queue if under_way.key != key)

    def clear(self) -> None:
        self._queue.clear()
        self._keys.clear()

    def due(self) -> Iterator[Callable[[], ControllerResult[None]]]:
        """Yield a turn of each decision under way; the caller stops when it has done enough."""
        for _ in range(len(self._queue)):
            if not self._queue:
                return
            under_way = self._queue.popleft()
            self._keys.discard(under_way.key)
            yield lambda under_way=under_way: self._take(under_way)  # type: ignore[misc]

    def _take(self, under_way: _UnderWay) -> ControllerResult[None]:
        try:
            result = next(under_way.turns)
        except StopIteration as end:
            last: ControllerResult[None] = end.value
            return last
        self._keys.add(under_way.key)
        self._queue.append(under_way)
        return result
