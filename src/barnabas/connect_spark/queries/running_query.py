"""The running query of a task: a streaming query of Spark's, or a loop of ours where no callback of a query could
come back to this process (``batch_loop``). Both are driven through the same gate and keep the same checkpoints."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["BatchEnds", "RunningQuery"]


class RunningQuery(Protocol):
    """The names are those of Spark's StreamingQuery."""

    @property
    def isActive(self) -> bool: ...

    def exception(self) -> BaseException | None:
        """The error that ended it, None if it runs or was stopped."""

    def stop(self) -> None:
        """Returns when nothing of it runs any more. Raises if that can't be had."""


class BatchEnds(Protocol):
    def ends(self, batch_number: int) -> list[Any] | None:
        """The end offset of each source in a batch, None for one that the checkpoint does not know."""
