"""The running query of a pipeline. While its task looks whether it still runs, it reports its figures, and lists
the files of its tables."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.sql.pipeline_figures import figures_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from barnabas.connect_spark.sql.table_files import TableFiles

__all__ = ["PipelineQuery"]

log = logging.getLogger(__name__)

_REPORT_EVERY_S = 1.5


class PipelineQuery:
    """A RunningQuery that is one of Spark's."""

    def __init__(
        self,
        query: StreamingQuery,
        sources: Sequence[str],
        files: TableFiles,
        report: Callable[[str, str, float], None],
    ) -> None:
        self._query = query
        self._files = files
        self._sources = sources
        self._report = report
        self._reported_s = 0.0

    @property
    def _jsq(self) -> Any:
        """Spark's object, for the plan."""
        return self._query._jsq

    @property
    def isActive(self) -> bool:
        is_active = self._query.isActive
        if is_active:
            self._files.maybe_list()
            if time.monotonic() - self._reported_s >= _REPORT_EVERY_S:
                self._reported_s = time.monotonic()
                self._report_progress()
        return is_active

    def exception(self) -> BaseException | None:
        return self._query.exception()

    def stop(self) -> None:
        self._query.stop()

    def _report_progress(self) -> None:
        try:
            last = self._jsq.lastProgress()
            progress = None if last is None else json.loads(str(last.json()))
        except Exception as error:  # Its JVM may be ending.
            log.debug("cannot read the progress of a query: %s", error)
            return
        for name, description, value in figures_of(progress, self._sources) if progress is not None else ():
            self._report(name, description, value)
