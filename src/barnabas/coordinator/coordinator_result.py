"""The result of a decision: records to append, the answer after their commit, and follow-up actions.

The caller appends the records in one batch, waits until the high watermark has passed them, replays them and then
sends the answer. Without records the answer is sent immediately, unless it waits for earlier writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.protocol.record_batch_builder import encode_record

__all__ = ["CoordinatorRecord", "CoordinatorResult", "SingleRecord", "TimerAction"]

T = TypeVar("T")
U = TypeVar("U")


class CoordinatorRecord(Protocol):
    """A record of a coordinator's log, in the form for ``replay``; it encodes itself.

    It may represent several consecutive records of the log, where that saves work.
    """

    @property
    def count(self) -> int:
        """The number of log records that it represents."""
        ...

    @property
    def is_ahead(self) -> bool:
        """Whether it is always replayed when it is appended, whatever the decision that it is part of."""
        ...

    def write(self, chunks: list[bytes], offset_delta: int) -> None:
        """Add the bytes of its records in the form of a batch, the first of them at ``offset_delta``."""
        ...


class SingleRecord(ABC):
    """A CoordinatorRecord that is one record of the log, with a key and a value."""

    __slots__ = ()

    count = 1
    is_ahead = False

    @abstractmethod
    def encode_key(self) -> bytes: ...

    @abstractmethod
    def encode_value(self) -> bytes | None:
        """None for a tombstone."""

    def write(self, chunks: list[bytes], offset_delta: int) -> None:
        chunks.append(encode_record(offset_delta, 0, self.encode_key(), self.encode_value()))


class CoordinatorResult(Generic[T]):
    """``response`` None means that the answer is parked elsewhere (a join or a sync that waits for other members).

    ``on_commit`` runs after the records were replayed, ``on_error`` if they could not be appended; each receives the
    time and may decide again. ``on_error`` must undo the decision completely. Records that need not be appended
    together (``is_atomic`` False) may be split into several batches. With ``waits_for_writes`` a result without records
    is based on records that are not committed yet: its answer is sent after their commit.

    ``on_append`` runs immediately after the append, before any other decision, and may decide again.

    With ``is_ahead`` the records are replayed as soon as they are appended, so that the next decision builds on them.
    The answer still waits for their commit, also the answer of a decision without records: what it builds on must be
    committed. A record that never commits is lost with the leadership, and its shard with it.
    """

    __slots__ = (
        "is_ahead",
        "is_atomic",
        "on_append",
        "on_commit",
        "on_error",
        "records",
        "response",
        "waits_for_writes",
    )

    def __init__(
        self,
        records: list[CoordinatorRecord] | None = None,
        response: T | None = None,
        *,
        on_append: Callable[[int], CoordinatorResult[None] | None] | None = None,
        on_commit: Callable[[int], CoordinatorResult[None] | None] | None = None,
        on_error: Callable[[ErrorCode, int], CoordinatorResult[None] | None] | None = None,
        is_atomic: bool = True,
        is_ahead: bool = False,
        waits_for_writes: bool = False,
    ) -> None:
        self.records: list[CoordinatorRecord] = records if records is not None else []
        self.response = response
        self.on_append = on_append
        self.on_commit = on_commit
        self.on_error = on_error
        self.is_atomic = is_atomic
        self.is_ahead = is_ahead
        self.waits_for_writes = waits_for_writes

    def with_response(self, response: U) -> CoordinatorResult[U]:
        """Return the same records and actions with another answer."""
        return CoordinatorResult(
            self.records,
            response,
            on_append=self.on_append,
            on_commit=self.on_commit,
            on_error=self.on_error,
            is_atomic=self.is_atomic,
            is_ahead=self.is_ahead,
            waits_for_writes=self.waits_for_writes,
        )


TimerAction = Callable[[int], CoordinatorResult[None]]
"""Decides at a deadline; receives the time."""
