"""Runs decisions one after another: while one with many steps is under way, later ones wait in their order.

Each step runs with the context of its caller when the decision was submitted: the numbered call, and the answers of
policies. A tick runs a step of the decision under way, or begins waiting decisions until it has decided enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from barnabas.controller.decision_steps import Steps

__all__ = ["Decision", "DecisionQueue"]

DECISIONS_A_TICK: Final = 8
"""How many waiting decisions run per turn. Small decisions take up to a millisecond."""

_DONE: Final = object()


class Decision:
    """``refuse`` answers the caller if the decision is never made."""

    __slots__ = ("_context", "_steps", "refuse")

    def __init__(
        self,
        steps: Steps[None],
        context: Callable[[], AbstractContextManager[object]],
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        self._steps = steps
        self._context = context
        self.refuse = refuse

    def step(self) -> bool:
        """Run a step; return whether the decision continues after it."""
        with self._context():
            return next(self._steps, _DONE) is not _DONE

    def give_up(self) -> None:
        self._steps.close()
        self.refuse()


class DecisionQueue:
    """``is_busy`` while a decision is under way or others wait."""

    def __init__(self) -> None:
        self._under_way: Decision | None = None
        self._waiting: deque[Decision] = deque()
        self._is_beginning = False

    @property
    def is_busy(self) -> bool:
        return self._under_way is not None or bool(self._waiting)

    @property
    def is_under_way(self) -> bool:
        """Whether a decision is between two of its steps: the state must not change."""
        return self._under_way is not None

    def submit(self, decision: Decision) -> None:
        """Run its first step now, unless it must wait for earlier decisions."""
        if self._under_way is not None or (self._waiting and not self._is_beginning):
            self._waiting.append(decision)
        else:
            self._begin(decision)

    def advance(self, is_enough: Callable[[], bool]) -> None:
        """Run a step of the decision under way, or the first steps of some waiting ones."""
        if self._under_way is not None:
            if not self._under_way.step():
                self._under_way = None
            return
        for _ in range(DECISIONS_A_TICK):
            if self._under_way is not None or not self._waiting or is_enough():
                return
            self._is_beginning = True
            try:
                self._begin(self._waiting.popleft())
            finally:
                self._is_beginning = False

    def clear(self) -> None:
        """Refuse all unfinished decisions."""
        unfinished = [*([] if self._under_way is None else [self._under_way]), *self._waiting]
        self._under_way = None
        self._waiting.clear()
        for decision in unfinished:
            decision.give_up()

    def _begin(self, decision: Decision) -> None:
        if decision.step():
            self._under_way = decision
