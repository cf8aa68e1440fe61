"""A query that a thread of this process drives: its start, and its error."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self

from barnabas.connect_spark.queries.batch_gate import QueryEnds

__all__ = ["DrivenQuery"]


class DrivenQuery(ABC):
    """A RunningQuery without ``stop``: how to interrupt the thread depends on its work."""

    def __init__(self, thread_name: str) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    def begin(self) -> Self:
        self._thread.start()
        return self

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def exception(self) -> BaseException | None:
        return self._error

    @abstractmethod
    def stop(self) -> None:
        """Stop as a RunningQuery does."""

    @abstractmethod
    def _drive(self) -> None:
        """Do all of the thread's work. QueryEnds ends it without a reason; any other error is the reason."""

    def _run(self) -> None:
        try:
            self._drive()
        except QueryEnds:
            pass
        except BaseException as error:
            self._error = error
