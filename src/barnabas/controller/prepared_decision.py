"""A decision that needs a long lookup first.

``work`` runs in turns with other work, then the decision is made. The result of the lookup may be outdated by then;
``decide`` must handle that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from barnabas.common.long_response import LongAnswer
from barnabas.controller.decision_steps import Steps
from barnabas.coordinator.deferred import Deferred

__all__ = ["PreparedDecision", "prepared", "within"]

P = TypeVar("P")
T = TypeVar("T")


class PreparedDecision(NamedTuple, Generic[T]):
    work: LongAnswer
    decide: Callable[[], Deferred[T]]


class _Preparation(LongAnswer, Generic[P]):
    __slots__ = ("_steps", "result")

    def __init__(self, steps: Steps[P]) -> None:
        super().__init__()
        self._steps = steps
        self.result: P

    def advance(self) -> bool:
        try:
            next(self._steps)
        except StopIteration as end:
            self.result = end.value
            return False
        return True


def prepared(steps: Steps[P], submit: Callable[[P], Deferred[T]]) -> Deferred[T] | PreparedDecision[T]:
    """Run the lookup ``steps`` and submit the decision with the result: immediately if one step suffices.

    A request may name thousands of topics. Authorizing them takes long and decides nothing, so that other decisions
    need not wait for it.
    """
    work = _Preparation(steps)
    if not work.advance():
        return submit(work.result)
    return PreparedDecision(work, lambda: submit(work.result))


def within(
    context: Callable[[], AbstractContextManager[object]], decision: Deferred[T] | PreparedDecision[T]
) -> Deferred[T] | PreparedDecision[T]:
    """Return the same decision, submitted in that context when it is prepared."""
    if not isinstance(decision, PreparedDecision):
        return decision
    return PreparedDecision(decision.work, partial(_decide_within, context, decision.decide))


def _decide_within(
    context: Callable[[], AbstractContextManager[object]], decide: Callable[[], Deferred[T]]
) -> Deferred[T]:
    with context():
        return decide()
