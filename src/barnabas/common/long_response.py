"""A response that takes long and is built in steps; ``network.stepped_responses`` serves other clients in between."""

from __future__ import annotations

from abc import abstractmethod

__all__ = ["LongAnswer"]


class LongAnswer:
    """``busy_s`` is the time that its steps took, as measured by the caller."""

    __slots__ = ("busy_s",)

    def __init__(self) -> None:
        self.busy_s = 0.0

    @abstractmethod
    def advance(self) -> bool:
        """Do a step, of some milliseconds; False when all is done."""
