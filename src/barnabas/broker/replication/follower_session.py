"""Our fetch session with a leader (KIP-227), as a follower keeps it: which id and epoch the next request has.

A full request (epoch 0) names every partition and opens a session. The leader gives it an id, or none if it has no
room: the next request is full again then. Epochs count the requests in the session; whatever goes wrong ends it.
"""

from __future__ import annotations

from barnabas.common.errors import ErrorCode

__all__ = ["FollowerSession"]

_NO_SESSION = 0
_INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1


class FollowerSession:
    __slots__ = ("epoch", "id")

    def __init__(self) -> None:
        self.id = _NO_SESSION
        self.epoch = _INITIAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == _INITIAL_EPOCH

    def answered(self, session_id: int) -> None:
        """A request without an error for all of it came back."""
        if session_id == _NO_SESSION:
            self.id, self.epoch = _NO_SESSION, _INITIAL_EPOCH
        elif self.is_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def refused(self, error: ErrorCode) -> None:
        """The answer was this error for all of it: begin anew, and have the leader close what there may be."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = _NO_SESSION
        self.epoch = _INITIAL_EPOCH

    def lost(self) -> None:
        """No answer came, or one that nobody can make sense of: the leader may have counted the request or not."""
        self.epoch = _INITIAL_EPOCH
