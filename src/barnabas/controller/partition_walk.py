"""A walk over many partitions, one piece in each turn.

The walk visits the partitions of the image in which it begins, and returns their state at the time of the visit:
decisions in between are visible. A piece ends after a number of partitions that need a decision, or after a larger
number that were only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.image.partition_index import PartitionKey
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.topics import TopicImage

__all__ = ["LOOKS_A_TURN", "PARTITIONS_A_TURN", "PartitionOf", "PartitionWalk"]

PARTITIONS_A_TURN: Final = 100
"""Some 10 ms with 200,000 partitions: deciding and replaying a change of one then takes up to 100 microseconds."""
LOOKS_A_TURN: Final = 3_000
"""Some 5 ms of reading partitions and skipping those that need no decision."""

PartitionOf = tuple[TopicImage, int, PartitionRegistration]


class PartitionWalk:
    """``is_done`` after the last piece."""

    def __init__(self, state: ControllerState, keys: Iterable[PartitionKey]) -> None:
        self.is_done = False
        self._state = state
        self._keys = iter(keys)

    def piece(self, count: int, is_wanted: Callable[[PartitionRegistration], bool]) -> list[PartitionOf]:
        """Return the next wanted partitions, up to ``count``."""
        found: list[PartitionOf] = []
        topics = self._state.image.topics
        for looks, candidate in enumerate(topics.partitions_of(self._counted()), start=1):
            if is_wanted(candidate[2]):
                found.append(candidate)
            if len(found) == count or looks == LOOKS_A_TURN:
                return found
        self.is_done = True
        return found

    def _counted(self) -> Iterator[PartitionKey]:
        """Never close the keys themselves: the next piece continues where this one ends."""
        keys = self._keys
        while (key := next(keys, None)) is not None:
            yield key
