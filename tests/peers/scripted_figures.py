"""The figures of a worker without tasks: a history that tests fill, and a load."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.entities import History, WorkerLoad

__all__ = ["ScriptedFigures"]


class ScriptedFigures:
    """``is_kept`` is whether the worker keeps a history."""

    def __init__(self, url: str, now_ms: Callable[[], int], *, is_leader: bool = False) -> None:
        self.worker_id = urlsplit(url).netloc
        self.url = url
        self.past = WorkerHistory(self.worker_id)
        self.is_kept = True
        self.is_leader = is_leader
        self._now_ms = now_ms
        self._started_ms = now_ms()

    def history(self, connector: str, hours: int) -> History | None:
        return self.past.read(connector, hours, self._now_ms()) if self.is_kept else None

    def load(self) -> WorkerLoad:
        return WorkerLoad(
            worker_id=self.worker_id,
            url=self.url,
            version="0.1",
            is_leader=self.is_leader,
            started=self._started_ms,
            connectors=2,
            tasks=3,
            failed_tasks=1,
            records_per_second=self.past.records_per_second(self._now_ms()) if self.is_kept else None,
        )
