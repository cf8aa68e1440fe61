"""What a decision produces: records to append, the answer to give once they are committed, and what follows.

The caller appends the records in one batch, waits until the high watermark has passed them, replays them and then
gives the answer. Without records the answer is given at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from barnabas.common.errors import ErrorCode

__all__ = ["CoordinatorRecord", "CoordinatorResult", "TimerAction"]

T = TypeVar("T")
U = TypeVar("U")


class CoordinatorRecord(Protocol):
    """One record of a coordinator's log, in the form that ``replay`` takes; it knows its bytes."""

    def encode_key(self) -> bytes: ...

    def encode_value(self) -> bytes | None:
        """None is a tombstone."""
        ...


class CoordinatorResult(Generic[T]):
    """``response`` None means that the answer is parked elsewhere (a join or a sync that waits for others).

    ``on_commit`` runs after the records were replayed, ``on_error`` when they could not be appended; each gets the
    time and may decide again. ``on_error`` has to leave no trace of the decision. Records that need not be appended
    together (``is_atomic`` False) may go into several batches.
    """

    __slots__ = ("is_atomic", "on_commit", "on_error", "records", "response")

    def __init__(
        self,
        records: list[CoordinatorRecord] | None = None,
        response: T | None = None,
        *,
        on_commit: Callable[[int], CoordinatorResult[None] | None] | None = None,
        on_error: Callable[[ErrorCode, int], CoordinatorResult[None] | None] | None = None,
        is_atomic: bool = True,
    ) -> None:
        self.records: list[CoordinatorRecord] = records if records is not None else []
        self.response = response
        self.on_commit = on_commit
        self.on_error = on_error
        self.is_atomic = is_atomic

    def with_response(self, response: U) -> CoordinatorResult[U]:
        """The same records and consequences with another answer."""
        return CoordinatorResult(self.records, response, on_commit=self.on_commit, on_error=self.on_error)


TimerAction = Callable[[int], CoordinatorResult[None]]
"""What a coordinator decides when one of its deadlines has come, given the time."""
