"""Answers to parked requests that become ready together: thousands are sent in steps, between other requests."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.stepped_work import SteppedWork

__all__ = ["ParkedAnswers"]

_ANSWERS_A_STEP = 100
"""Each is encoded and written to a socket of its own: some milliseconds for all."""


class ParkedAnswers:
    """The member has given up its parked requests: nothing else answers them."""

    def __init__(self, work: SteppedWork) -> None:
        self._work = work
        self._waiting: deque[tuple[Deferred[Any], object]] = deque()
        self._numbers = count()

    def add(self, parked: Deferred[Any] | None, response: object) -> None:
        """Answer a request with the next ``send``, unless a failed write has answered it."""
        if parked is not None and not parked.is_complete:
            self._waiting.append((parked, response))

    def send(self, now_ms: int) -> None:
        """Send the first answers now, and the others between requests."""
        self._work.run(("answers", next(self._numbers)), self._sent_in_steps(), now_ms)

    def send_all(self) -> None:
        for _ in self._sent_in_steps():
            pass

    def _sent_in_steps(self) -> Steps[None]:
        while self._waiting:
            for _ in range(min(_ANSWERS_A_STEP, len(self._waiting))):
                parked, response = self._waiting.popleft()
                if not parked.is_complete:
                    parked.complete(response)
            if self._waiting:
                yield
