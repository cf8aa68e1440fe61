"""Our fetch session with a leader (KIP-227), as a follower keeps it: which id and epoch the next request has.

A full request (epoch 0) names every partition and opens a session. The leader gives it an id, or none if it has no
room: the next request is full again then. Epochs count the requests in the session; whatever goes wrong ends it. A
full request of epoch -1 asks for no session.
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
        """A request without an error for all of it came back."""
        if session_id == _NO_SESSION:
            self.id, self.epoch = _NO_SESSION, self._first_epoch
        elif self.is_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def refused(self, error: ErrorCode) -> None:
        """The answer was this error for all of it: begin anew, and have the leader close what there may be."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = _NO_SESSION
        self.epoch = self._first_epoch

    def lost(self) -> None:
        """No answer came, or one that nobody can make sense of: the leader may have counted the request or not."""
        self.epoch = self._first_epoch
