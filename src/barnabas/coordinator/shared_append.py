"""Writes of one partition that are decided in the same turn of the event loop, and appended as one batch.

An append costs more than the decision to commit an offset. Each of the writes is answered on its own: all are replayed
and answered with the commit of the batch, and a failed append fails each of them. Only a batch that is too large is not
the fault of its parts: they are appended one by one then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
    from barnabas.coordinator.deferred import Deferred

__all__ = ["SharedAppend", "SharedWrite", "Sharing"]

_RECORDS_MAX: Final = 500
"""Encoding, replaying and answering so many takes some milliseconds."""
_ALONE_MIN: Final = 4
_TRIED_EVERY: Final = 8
"""After some writes that were alone, one of so many waits to see whether it still is."""
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class SharedWrite:
    """A decision, and the answer that waits for its commit."""

    __slots__ = ("_answer", "_on_failure", "result")

    def __init__(
        self, result: CoordinatorResult[Any], answer: Deferred[Any], on_failure: Callable[[ErrorCode], Any]
    ) -> None:
        """The result has records and a response, and nothing else."""
        self.result = result
        self._answer = answer
        self._on_failure = on_failure

    def give_answer(self) -> None:
        self._answer.complete(self.result.response)

    def fail(self, code: ErrorCode) -> None:
        self._answer.complete(self._on_failure(code))


class SharedAppend:
    """The writes that are appended together. ``now_ms`` is the time of the first: all of their records have it."""

    __slots__ = ("_record_count", "now_ms", "records", "writes")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.writes: list[SharedWrite] = []
        self._record_count = 0

    @property
    def is_full(self) -> bool:
        return self._record_count >= _RECORDS_MAX

    def add(self, write: SharedWrite) -> None:
        for record in write.result.records:
            self.records.append(record)
            self._record_count += record.count
        self.writes.append(write)

    def may_fit_alone(self, code: ErrorCode) -> bool:
        """Return whether the error is that of a batch which is only too large because several writes share it."""
        return code in _TOO_LARGE and len(self.writes) > 1

    def give_answers(self) -> None:
        for write in self.writes:
            write.give_answer()

    def fail(self, code: ErrorCode) -> None:
        for write in self.writes:
            write.fail(code)


class Sharing:
    """Whether writes to a partition share their appends at present. One that is alone should not wait for others."""

    __slots__ = ("_alone_count",)

    def __init__(self) -> None:
        self._alone_count = 0
        """The writes since the last append that several shared."""

    def is_alone(self) -> bool:
        """Return whether the next write should be appended at once."""
        if self._alone_count < _ALONE_MIN or self._alone_count % _TRIED_EVERY == 0:
            return False
        self._alone_count += 1
        return True

    def appended(self, write_count: int) -> None:
        self._alone_count = self._alone_count + 1 if write_count == 1 else 0
