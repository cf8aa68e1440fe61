"""The result of a decision: the records to write, and the answer to send once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from barnabas.metadata.image.record_writer import ApiMessageAndVersion

__all__ = ["ControllerResult"]

T = TypeVar("T")
U = TypeVar("U")


class ControllerResult(Generic[T]):
    """Atomic records take effect together or not at all; others may be cut into several batches."""

    __slots__ = ("is_atomic", "records", "response")

    def __init__(self, records: Sequence[ApiMessageAndVersion], response: T, *, is_atomic: bool = True) -> None:
        self.records = records
        self.response = response
        self.is_atomic = is_atomic

    def with_response(self, response: U) -> ControllerResult[U]:
        """The same records, written the same way, with another answer."""
        return ControllerResult(self.records, response, is_atomic=self.is_atomic)

    def without_records(self) -> ControllerResult[T]:
        """Return the same answer without records, for validate-only requests."""
        return ControllerResult((), self.response, is_atomic=self.is_atomic)
