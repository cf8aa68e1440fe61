"""Decides when a request is sent to the active controller, when it is retried, and what its sender receives (KIP-590).

A queue is a plain state machine: its owner passes in the time and the outcome of each attempt, and it returns the next
action. The owner has the sockets, a future for each call, and these duties:

1. Call ``add``, then ``next_to_send`` until it returns None. Each returned call is in flight until ``completed``.
2. Pass the outcome of the attempt to ``completed``. Its verdict is final, except RETRY: then the call waits in the
   queue again, before later ones.
3. At ``wakeup_ms`` call ``expired``, which returns the calls that ran out of time, and ``next_to_send`` again. The
   sender of a call that expired in flight receives REQUEST_TIMED_OUT immediately. The owner ends the attempt, and the
   call is not sent again.
4. Call ``withdraw`` if a call's sender has disconnected: the call is not sent if it still waits.

The rules of KIP-590: the limit of a request starts when it is added, and is the sender's own limit if that is shorter.
If the connection ends or the controller is not active, the request returns to the queue. It fails immediately if the
credentials are rejected or the controller does not support Envelope. Kafka keeps one request in flight for all. Here
each request has a connection of its own, so that a slow one does not delay the others.

A call that expires in flight may have been applied, or may be applied later: REQUEST_TIMED_OUT means that the outcome
is unknown. All attempts were ones that the controller recognises as one call, so it is applied at most once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas.common.errors import ErrorCode, invariant

__all__ = ["Attempt", "Call", "Fate", "ForwardingQueue", "Verdict", "verdict_of"]

LIMIT_MS: Final = 60_000
"""The longest time for which a request is retried."""
RETRY_BACKOFF_MS: Final = 50
NO_CONTROLLER_BACKOFF_MS: Final = 100
CONNECTIONS_MAX: Final = 16


class Attempt(Enum):
    """The outcome of a request that was sent."""

    ANSWERED = auto()
    """An answer arrived, with the error of the envelope or, without an envelope, of the request."""
    LOST = auto()
    """The connection could not be opened, or it ended, or the answer did not arrive in time."""
    NOT_BELIEVED = auto()
    """Authentication failed, on either side."""
    NOT_OFFERED = auto()
    """The controller and this broker have no common version of the API."""
    GARBLED = auto()
    """The answer cannot be decoded, or belongs to another request."""


class Fate(Enum):
    DELIVER = auto()
    """The sender receives the answer, whatever it contains."""
    FAIL = auto()
    """The sender receives ``Verdict.error`` in the form of its API."""
    HANG_UP = auto()
    """The sender's connection is closed, so that it requests the versions again."""
    RETRY = auto()


class Verdict(NamedTuple):
    fate: Fate
    error: ErrorCode = ErrorCode.NONE
    forgets_controller: bool = False
    """Close the connection: it does not lead to a usable controller."""


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
    """Return the verdict. ``error`` is the envelope's: clients never receive errors between broker and controller."""
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
    """A request in progress; its owner extends it. ``queued_ms`` is the total time that it has waited."""

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
    def __init__(self, *, connections_max: int = CONNECTIONS_MAX, limit_ms: int = LIMIT_MS) -> None:
        self._connections_max = connections_max
        self._limit_ms = limit_ms
        self._waiting: deque[C] = deque()
        self._in_flight: dict[int, C] = {}
        self._count = 0
        self._not_before_ms = 0

    @property
    def length(self) -> int:
        """The number of calls that wait to be sent."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def add(self, call: C, now_ms: int, timeout_ms: int | None = None) -> None:
        """Add a call. ``timeout_ms`` is the sender's own limit, if it has one. The queue's limit applies as well."""
        limit = self._limit_ms
        if timeout_ms is not None and timeout_ms > 0:
            limit = min(limit, timeout_ms)
        call.number = self._count
        call.added_ms = call.since_ms = now_ms
        call.deadline_ms = now_ms + limit
        self._count += 1
        self._waiting.append(call)

    def next_to_send(self, now_ms: int) -> C | None:
        """Take the next call for a known controller. Return None if no call waits or no connection is free."""
        if now_ms < self._not_before_ms or len(self._in_flight) >= self._connections_max:
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
        """Handle the outcome of an attempt. ``is_wanted``: a sender still waits; otherwise the call is not retried.

        ``is_repeatable``: a call whose answer was lost may safely be sent again.
        """
        invariant(call.is_in_flight, "only a call in flight can be completed")
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
        """Return each call whose limit has passed, waiting or in flight, once. It fails with REQUEST_TIMED_OUT."""
        late = [call for call in self._waiting if now_ms >= call.deadline_ms]
        for call in late:
            self._waiting.remove(call)
            call.queued_ms += now_ms - call.since_ms
        late += [call for call in self._in_flight.values() if now_ms >= call.deadline_ms and not call.has_expired]
        for call in late:
            call.has_expired = True
        return late

    def withdraw(self, call: C) -> None:
        """Remove a waiting call whose sender has disconnected. A call in flight continues until ``completed``."""
        if not call.is_in_flight and call in self._waiting:
            self._waiting.remove(call)

    def wakeup_ms(self, now_ms: int, *, is_controller_known: bool) -> int | None:
        """Return the time of the next check if nothing happens before; None while no call waits or can expire."""
        deadlines = [call.deadline_ms for call in self._waiting]
        deadlines += [call.deadline_ms for call in self._in_flight.values() if not call.has_expired]
        if not deadlines:
            return None
        due = min(deadlines)
        if self._waiting and len(self._in_flight) < self._connections_max:
            due = min(due, max(self._not_before_ms, now_ms + (0 if is_controller_known else NO_CONTROLLER_BACKOFF_MS)))
        return max(due, now_ms)
