"""Spark's own offsets of a source's query, stored unchanged as Connect positions, by source of the query and work.

The key is ``{"spark.source": n}`` and what the task reads (``TaskWork``); the value is ``{"offset": "<JSON text>"}``.

In earlier releases all tasks of a connector shared ``{"spark.source": n}``, so a slow task continued where a fast one
had stopped. Only the single task of a connector uses such a position, because no other task can have written it. It is
deleted as soon as a task that reads a part has a position of its own: a later task that reads everything must not skip
records that the slowest task had not read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.connect.decide.tasks.task_work import SPARK_SOURCE, TaskWork
from barnabas.connect.plugins.api import TerminalError

if TYPE_CHECKING:
    from barnabas.connect.identifiers import ConnectorTaskId
    from barnabas.connect_spark.queries.task_spec import SourceOffsetReader

__all__ = ["SparkPositions"]

log = logging.getLogger(__name__)

_OFFSET = "offset"

Pairs = list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


class SparkPositions:
    def __init__(self, task: ConnectorTaskId, work: TaskWork, read: SourceOffsetReader) -> None:
        self._task = task
        self._work = work
        self._read = read
        self._may_have_shared = bool(work.partition)
        """Whether positions of earlier releases, which don't name the work, may exist."""

    def stored(self) -> list[object] | None:
        """Return Spark's end offset of each source; None to start over. Raise TerminalError for unusable offsets."""
        ends = self._ends(self._work.partition)
        if ends is not None or not self._work.partition:
            return ends
        shared = self._ends({})
        if shared is None or self._work.is_all:
            return shared
        log.warning(
            "task %s starts at the beginning of its source: the position %s was written by all tasks of the connector, "
            "and it is unknown which of them had read up to it. Records may be repeated; none is skipped. To start "
            "elsewhere, stop the connector and set the offset of %s.",
            self._task,
            json.dumps({SPARK_SOURCE: 0}),
            json.dumps(self._key(0, self._work.partition)),
        )
        return None

    def pairs(self, ends: Sequence[object]) -> Pairs:
        """Return the offsets to write when a batch has ended there."""
        pairs: Pairs = [
            (self._key(index, self._work.partition), {_OFFSET: json.dumps(end, separators=(",", ":"))})
            for index, end in enumerate(ends)
            if end is not None
        ]
        if pairs and self._may_have_shared:
            self._may_have_shared = False
            pairs += [(self._key(index, {}), None) for index in range(self._count({}))]
        return pairs

    def _ends(self, partition: Mapping[str, object]) -> list[object] | None:
        ends: list[object] = []
        while (found := self._read(self._key(len(ends), partition))) is not None:
            text = found.get(_OFFSET)
            try:
                ends.append(json.loads(str(text)))
            except ValueError:
                raise TerminalError(
                    f"the offset of {json.dumps(self._key(len(ends), partition))} must have {_OFFSET!r} with Spark's "
                    f"offset as JSON text, not {text!r}. Set it right, or reset the offsets of the connector."
                ) from None
        return ends or None

    def _count(self, partition: Mapping[str, object]) -> int:
        count = 0
        while self._read(self._key(count, partition)) is not None:
            count += 1
        return count

    @staticmethod
    def _key(index: int, partition: Mapping[str, object]) -> dict[str, object]:
        return {SPARK_SOURCE: index, **partition}
