"""Decides when a request goes to the active controller, when it goes again, and what its sender is told (KIP-590).

A queue is a plain state machine: it is told the time and what became of an attempt, and says what is to be done. Who
owns it has the sockets, a future for each call, and these duties:

1. ``add`` a call; then ``next_to_send`` until it gives None: each call that it gives is in flight until ``completed``.
2. ``completed`` tells what became of the attempt. Its verdict is final, but for RETRY: then the call waits in the queue
   again, in front of those that came later.
3. At ``wakeup_ms`` call ``expired``, whose calls ran out of time, and ``next_to_send`` again. The sender of a call that
   expired in flight receives REQUEST_TIMED_OUT at once; the owner ends the attempt, and the call is not sent again.
4. ``withdraw`` a call whose sender has gone: what was not sent is not sent any more.

The rules of KIP-590: a request has a limit from the moment it is added, which is the sender's own if
that is shorter; a connection that ends, or a controller that is not active, sends it back to the queue; credentials
that are not accepted and a controller without Envelope fail it at once. Kafka keeps one request in flight for all; here
each has a connection of its own, so that a slow one delays no other.

A call that expires in flight may have been applied, or may be applied later: REQUEST_TIMED_OUT says that the outcome is
unknown. It was sent, at most, in attempts that the controller recognises as one call, so it is applied once at most.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas.common.errors import ErrorCode, invariant

__all__ = ["Attempt", "Call", "Fate", "ForwardingQueue", "Verdict", "verdict_of"]

LIMIT_MS: Final = 60_000
"""For how long a request is tried at most."""
RETRY_BACKOFF_MS: Final = 50
NO_CONTROLLER_BACKOFF_MS: Final = 100
LANES_MAX: Final = 16


class Attempt(Enum):
    """What became of a request that was sent."""

    ANSWERED = auto()
    """There is an answer; with it comes the error of the envelope, or of a request that needs none."""
    LOST = auto()
    """No connection, or it ended, or no answer came in time."""
    NOT_BELIEVED = auto()
    """The controller does not accept our credentials, or we don't accept its."""
    NOT_OFFERED = auto()
    """The controller has no version of the API that we have."""
    GARBLED = auto()
    """The answer can't be read, or is another request's."""


class Fate(Enum):
    DELIVER = auto()
    """The answer is for the sender, whatever it says."""
    FAIL = auto()
    """The sender gets ``Verdict.error`` in the shape of its API."""
    HANG_UP = auto()
    """The sender's connection is closed, so that it asks for versions anew."""
    RETRY = auto()


class Verdict(NamedTuple):
    fate: Fate
    error: ErrorCode = ErrorCode.NONE
    forgets_controller: bool = False
    """Close the connection: behind it is no controller, or none that we can use."""


_DELIVER: Final = Verdict(Fate.DELIVER)
_UNKNOWN: Final = Verdict(Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR)
_RETRY: Final = Verdict(Fate.RETRY, forgets_controller=True)
_TIMED_OUT: Final = Verdict(Fate.FAIL, ErrorCode.REQUEST_TIMED_OUT, forgets_controller=True)

_VERDICTS: Final = {
    Attempt.LOST: _RETRY,
    Attempt.NOT_BELIEVED: Verdict(Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR, forgets_controller=True),
    Attempt.NOT_OFFERED: _UNKNOWN,
    Attempt.GARBLED: Verdict(Fate.FAIL, ErrorCode.UNKNOWN_SERVER_ERROR, forgets_controller=True),
}


def verdict_of(attempt: Attempt, error: ErrorCode = ErrorCode.NONE) -> Verdict:
    """``error`` is the envelope's. What is wrong between broker and controller is never told as the client's fault."""
    if attempt is not Attempt.ANSWERED:
        return _VERDICTS[attempt]
    if error is ErrorCode.NONE:
        return _DELIVER
    if error is ErrorCode.NOT_CONTROLLER:
        return _RETRY
    if error is ErrorCode.UNSUPPORTED_VERSION:
        return Verdict(Fate.HANG_UP)
    return _UNKNOWN


class Call:
    """A request on its way; its owner extends it. ``queued_ms`` is how long it has waited, all times together."""

    __slots__ = (
        "added_ms",
        "deadline_ms",
        "has_expired",
        "is_in_flight",
        "number",
        "queued_ms",
        "sent_ms",
        "since_ms",
    )

    def __init__(self) -> None:
        self.number = -1
        self.added_ms = self.deadline_ms = self.since_ms = self.sent_ms = self.queued_ms = 0
        self.is_in_flight = False
        self.has_expired = False


C = TypeVar("C", bound=Call)


class ForwardingQueue(Generic[C]):
    def __init__(self, *, lanes_max: int = LANES_MAX, limit_ms: int = LIMIT_MS) -> None:
        self._lanes_max = lanes_max
        self._limit_ms = limit_ms
        self._waiting: deque[C] = deque()
        self._in_flight: dict[int, C] = {}
        self._count = 0
        self._not_before_ms = 0

    @property
    def length(self) -> int:
        """Calls that wait to be sent."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def add(self, call: C, now_ms: int, timeout_ms: int | None = None) -> None:
        """``timeout_ms`` is the sender's own, if it has one; the limit holds all the same."""
        limit = self._limit_ms
        if timeout_ms is not None and timeout_ms > 0:
            limit = min(limit, timeout_ms)
        call.number = self._count
        call.added_ms = call.since_ms = now_ms
        call.deadline_ms = now_ms + limit
        self._count += 1
        self._waiting.append(call)

    def next_to_send(self, now_ms: int) -> C | None:
        """For a controller that is known; None while there is nothing to send, or no lane for it."""
        if now_ms < self._not_before_ms or len(self._in_flight) >= self._lanes_max:
            return None
        for call in self._waiting:
            if now_ms < call.deadline_ms:
                self._waiting.remove(call)
                call.is_in_flight = True
                call.sent_ms = now_ms
                call.queued_ms += now_ms - call.since_ms
                self._in_flight[call.number] = call
                return call
        return None

    def completed(
        self,
        call: C,
        now_ms: int,
        attempt: Attempt,
        error: ErrorCode = ErrorCode.NONE,
        *,
        is_wanted: bool = True,
        is_repeatable: bool = True,
    ) -> Verdict:
        """``is_wanted``: whether a sender still waits for it; else it is not sent again.

        ``is_repeatable``: whether a call whose answer was lost does no harm when it is sent again.
        """
        invariant(call.is_in_flight, "only what was sent is completed")
        call.is_in_flight = False
        del self._in_flight[call.number]
        verdict = verdict_of(attempt, error)
        if verdict.forgets_controller:
            self._not_before_ms = now_ms + RETRY_BACKOFF_MS
        if verdict.fate is not Fate.RETRY:
            return verdict
        is_lost = attempt is Attempt.LOST and not is_repeatable
        if now_ms >= call.deadline_ms or call.has_expired or not is_wanted or is_lost:
            return _TIMED_OUT
        call.since_ms = now_ms
        place = 0
        while place < len(self._waiting) and self._waiting[place].number < call.number:
            place += 1
        self._waiting.insert(place, call)
        return verdict

    def expired(self, now_ms: int) -> list[C]:
        """Calls whose limit has passed, waiting or in flight, each once: REQUEST_TIMED_OUT."""
        late = [call for call in self._waiting if now_ms >= call.deadline_ms]
        for call in late:
            self._waiting.remove(call)
            call.queued_ms += now_ms - call.since_ms
        late += [call for call in self._in_flight.values() if now_ms >= call.deadline_ms and not call.has_expired]
        for call in late:
            call.has_expired = True
        return late

    def withdraw(self, call: C) -> None:
        """Nobody waits for it any more. What is in flight comes to its end."""
        if not call.is_in_flight and call in self._waiting:
            self._waiting.remove(call)

    def wakeup_ms(self, now_ms: int, *, is_controller_known: bool) -> int | None:
        """When to look again if nothing happens before; None while no call waits or can expire."""
        deadlines = [call.deadline_ms for call in self._waiting]
        deadlines += [call.deadline_ms for call in self._in_flight.values() if not call.has_expired]
        if not deadlines:
            return None
        due = min(deadlines)
        if self._waiting and len(self._in_flight) < self._lanes_max:
            due = min(due, max(self._not_before_ms, now_ms + (0 if is_controller_known else NO_CONTROLLER_BACKOFF_MS)))
        return max(due, now_ms)
