"""A walk over many partitions, of which a piece is taken in each turn.

The walk goes over the partitions of the image in which it begins, and gives them as they are when their turn comes:
what others decided in between is seen. A piece ends after so many partitions that something is to be decided for, or
after so many that were only looked at.
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
"""Some 10 ms with 200,000 partitions: deciding and replaying a change of one takes up to 100 microseconds then."""
LOOKS_A_TURN: Final = 3_000
"""Some 5 ms of looking at partitions, and of passing over those for which nothing is to be decided."""

PartitionOf = tuple[TopicImage, int, PartitionRegistration]


class PartitionWalk:
    """``is_done`` after the piece that was the last."""

    def __init__(self, state: ControllerState, keys: Iterable[PartitionKey]) -> None:
        self.is_done = False
        self._state = state
        self._keys = iter(keys)

    def piece(self, count: int, is_wanted: Callable[[PartitionRegistration], bool]) -> list[PartitionOf]:
        """The next ones that are wanted, up to ``count``."""
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
        """Never closes the keys themselves: the next piece goes on where this one ends."""
        keys = self._keys
        while (key := next(keys, None)) is not None:
            yield key
