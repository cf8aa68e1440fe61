"""A follower's fetch session with a leader (KIP-227): the id and epoch of its next request.

A full request (epoch 0) names every partition and opens a session. The leader assigns an id to it, or none if its cache
is full: then the next request is full again. Epochs count the requests in the session. Every error ends the session. A
full request with epoch -1 does not open a session.
"""

from __future__ import annotations

from barnabas.common.errors import ErrorCode

__all__ = ["FollowerSession"]

_NO_SESSION = 0
_INITIAL_EPOCH = 0
_FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1


class FollowerSession:
    __slots__ = ("_first_epoch", "epoch", "id")

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.id = _NO_SESSION
        self._first_epoch = _INITIAL_EPOCH if is_wanted else _FINAL_EPOCH
        self.epoch = self._first_epoch

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == self._first_epoch

    def answered(self, session_id: int) -> None:
        """Handle an answer without a top-level error."""
        if session_id == _NO_SESSION:
            self.id, self.epoch = _NO_SESSION, self._first_epoch
        elif self.is_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def refused(self, error: ErrorCode) -> None:
        """Handle a top-level error: start a new session, and let the leader close the old one."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = _NO_SESSION
        self.epoch = self._first_epoch

    def lost(self) -> None:
        """Handle a lost or malformed answer: the leader may have counted the request or not."""
        self.epoch = self._first_epoch
