"""The running query of a task: one of Spark's streaming queries, or a loop of ours where a query can't call back into
this process (``batch_loop``). Both pass the same gate and keep the same checkpoints."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["BatchEnds", "RunningQuery"]


class RunningQuery(Protocol):
    """The names are those of Spark's StreamingQuery."""

    @property
    def isActive(self) -> bool: ...

    def exception(self) -> BaseException | None:
        """Return the error that ended the query; None if it runs or was stopped."""

    def stop(self) -> None:
        """Return when no part of the query runs. Raise if it can't be stopped."""


class BatchEnds(Protocol):
    def ends(self, batch_number: int) -> list[Any] | None:
        """Return the end offset of each source in a batch; None for a batch that the checkpoint does not have."""
