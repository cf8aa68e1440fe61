"""Decisions that take effect as a whole and take long are made in steps, between which the node serves other requests.

A decision in steps is a generator. It yields None, to let other work run, and returns its result. The state does not
change between its steps, because decisions that may change it wait meanwhile (``decision_queue``). So the result equals
that of a decision in one step. A decision that need not take effect as a whole takes turns instead
(``decision_turns``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeAlias, TypeVar

__all__ = ["RESOURCES_A_STEP", "UNITS_A_STEP", "VALUES_A_STEP", "Pace", "Steps", "at_once"]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

UNITS_A_STEP: Final = 200
"""A unit is a topic, a partition, a rule or a record: some 10 to 40 microseconds each."""
RESOURCES_A_STEP: Final = 100
"""Some 5 ms: all settings of each are validated."""
VALUES_A_STEP: Final = 500
"""Some 5 ms of encoding."""


class Pace:
    """Counts the units of work since the last step ended."""

    __slots__ = ("_done", "_units_a_step")

    def __init__(self, units_a_step: int | None = None) -> None:
        self._done = 0
        self._units_a_step = UNITS_A_STEP if units_a_step is None else units_a_step

    def is_reached(self, units: int = 1) -> bool:
        """Add units; return whether the step ends with them. Then the count restarts for the next step."""
        self._done += units
        if self._done < self._units_a_step:
            return False
        self._done = 0
        return True


def at_once(decide: Callable[[], T]) -> Steps[T]:
    """A decision of a single step."""
    return decide()
    yield
