"""Follow a source's streaming query on a Spark Connect server, which writes to its topics there.

The query can't call this process, so this process polls its progress: a batch's position is noted when the batch is
seen to be finished. After a crash between the two the batch is written again, as everywhere.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import SourceTask, TerminalError
from barnabas.connect_spark.queries.batch_gate import QueryEnds
from barnabas.connect_spark.queries.connector_topics import TopicRules
from barnabas.connect_spark.queries.driven_query import DrivenQuery
from barnabas.connect_spark.queries.error_policy import ErrorPolicy

if TYPE_CHECKING:
    from barnabas.connect_spark.queries.batch_gate import BatchGate

__all__ = ["FollowedQuery", "refuse_unfollowable", "unfollowable"]

_LOOK_S = 0.5
_IDLE_WAIT_S = 5.0


def refuse_unfollowable(task: SourceTask, topic_rules: TopicRules | None, policy: ErrorPolicy) -> None:
    """Refuse features that need each batch in this process. Raise TerminalError."""
    reason = unfollowable(type(task), topic_rules, policy)
    if reason is not None:
        raise TerminalError(reason)


def unfollowable(task: type[SourceTask], topic_rules: TopicRules | None, policy: ErrorPolicy) -> str | None:
    """Return why the query of such a task can't be followed; None if it can."""
    name = f"{task.__module__}.{task.__qualname__}"
    reads = f"{name} reads a streaming DataFrame, whose batches are not visible outside a Spark Connect server (sc://)"
    elsewhere = "or run the worker with barnabas.connect.spark.master=local[*] or spark://host:port"
    if task.offsets_of is SourceTask.offsets_of:
        return (
            f"{reads}: Spark's own positions, from which it continues, can't be stored. Let the task "
            f"override offsets_of, {elsewhere}"
        )
    if topic_rules is not None:
        return (
            f"{reads}: the worker can't know which topics are missing. Create its topics first, and remove "
            f"topic.creation.*, {elsewhere}"
        )
    if policy.tolerates and policy.is_logged:
        return f"{reads}: bad records can't be logged. Set errors.log.enable=false, {elsewhere}"
    return None


class FollowedQuery(DrivenQuery):
    """A RunningQuery for a query on the server. ``query`` is the client's StreamingQuery."""

    def __init__(
        self,
        query: Any,
        gate: BatchGate,
        write_offsets: Callable[[Sequence[Any]], None],
        note: Callable[[int, int], None],
    ) -> None:
        """``write_offsets`` receives the end offset of each source of the query."""
        super().__init__(f"connect-follow-{query.name}")
        self._query = query
        self._gate = gate
        self._write_offsets = write_offsets
        self._note = note
        self._noted = -1
        self._seen: str | None = None
        self._last: dict[str, Any] | None = None
        self._is_stopping = threading.Event()

    def exception(self) -> BaseException | None:
        """Return the error of following the query, otherwise that of the query itself."""
        if self._error is not None:
            return self._error
        found: BaseException | None = self._query.exception()
        return found

    def stop(self) -> None:
        """Stop between two batches if that is possible in time: the gate is not where they run."""
        self._is_stopping.set()
        self._thread.join()
        deadline = time.monotonic() + _IDLE_WAIT_S
        while self._query.status.get("isTriggerActive") and time.monotonic() < deadline:
            time.sleep(0.05)
        self._query.stop()
        try:
            self._look()
        except QueryEnds:
            pass

    def explained(self) -> tuple[str, str]:
        return "", "" if self._last is None else json.dumps(self._last, indent=2)

    def _drive(self) -> None:
        while not self._is_stopping.wait(_LOOK_S):
            self._look()
            if not self._query.isActive:
                return

    def _look(self) -> None:
        last = self._query.lastProgress
        if last is None or last.json == self._seen:
            return  # The server keeps only some 100 of them.
        for progress in self._query.recentProgress:
            batch = json.loads(progress.json)
            rows = sum(int(source.get("numInputRows") or 0) for source in batch["sources"])
            if batch["batchId"] <= self._noted or not rows:
                continue  # An empty batch has the same number as the next one with rows.
            self._gate.ensure_unfenced()
            self._write_offsets([_parsed(source["endOffset"]) for source in batch["sources"]])
            self._noted, self._last = batch["batchId"], batch
            self._note(rows, int(batch.get("batchDuration") or 0))
        self._seen = last.json


def _parsed(offset: Any) -> Any:
    """Decode an offset, which the server returns as JSON text."""
    return json.loads(offset) if isinstance(offset, str) else offset
