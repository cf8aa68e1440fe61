"""A batch that was appended and is not committed yet, with the answer that waits for its commit."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode, invariant
from barnabas.protocol.record_batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
    from barnabas.coordinator.transaction_marker import TransactionMarker

__all__ = ["PendingWrite", "ignore", "log_failure"]

log = logging.getLogger(__name__)


def ignore() -> None:
    pass


def log_failure(code: ErrorCode) -> None:
    invariant(code != ErrorCode.NONE, "a failure has a code")
    log.warning("A write of the coordinator's own failed with %s; it is retried on the next occasion", code.name)


class PendingWrite:
    """An appended, uncommitted batch and the waiting answer. Without records: an answer that waits for earlier ones."""

    __slots__ = (
        "answer",
        "base_offset",
        "deadline_ms",
        "fail",
        "marker",
        "next_offset",
        "on_commit",
        "on_error",
        "producer_id",
        "records",
    )

    def __init__(
        self,
        base_offset: int,
        next_offset: int,
        records: list[CoordinatorRecord],
        deadline_ms: int,
        *,
        producer_id: int = NO_PRODUCER_ID,
        marker: TransactionMarker | None = None,
    ) -> None:
        """``records``: those of them that were not replayed ahead are replayed at the commit."""
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.records = records
        self.producer_id = producer_id
        """The producer in whose transaction the records are."""
        self.marker = marker
        """The end of a transaction, in place of records."""
        self.deadline_ms: int | None = deadline_ms
        """None after it has passed: the records are still replayed once committed, but no caller waits."""
        self.on_commit: Callable[[int], CoordinatorResult[None] | None] | None = None
        self.on_error: Callable[[ErrorCode, int], CoordinatorResult[None] | None] | None = None
        self.answer: Callable[[], None] = ignore
        self.fail: Callable[[ErrorCode], None] = log_failure

    def then(
        self, result: CoordinatorResult[Any], answer: Callable[[], None], fail: Callable[[ErrorCode], None]
    ) -> None:
        self.on_commit, self.on_error, self.answer, self.fail = result.on_commit, result.on_error, answer, fail

    def give_up(self) -> None:
        self.deadline_ms = self.on_commit = self.on_error = None
        self.answer, self.fail = ignore, log_failure
