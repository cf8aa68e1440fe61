"""A decision that needs something looked up first, which takes long.

``work`` is done in turns with others, then it is decided. What was looked up may be outdated by then; to see to that is
up to ``decide``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from barnabas.common.long_response import LongAnswer
from barnabas.coordinator.deferred import Deferred

__all__ = ["PreparedDecision"]

T = TypeVar("T")


class PreparedDecision(NamedTuple, Generic[T]):
    work: LongAnswer
    decide: Callable[[], Deferred[T]]
