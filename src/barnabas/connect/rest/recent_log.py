"""The last lines of a worker's log, kept in memory for REST clients that can't read the file."""

from __future__ import annotations

import logging
import re
from collections import deque

from barnabas.connect.entities import LogLine
from barnabas.connect.errors import BadRequest, NotFound
from barnabas.connect.rest.logger_levels import level_number

__all__ = ["LINES_MAX", "RecentLog"]

LINES_MAX = 1000
_LENGTH_MAX = 8000
"""The maximum characters of a line, trace included: a thousand lines stay below 8 MB."""
_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class RecentLog(logging.Handler):
    """``setFormatter`` sets the form of a line; by default it is its message, and the trace if any."""

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._lines: deque[tuple[int, LogLine]] = deque(maxlen=lines_max)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)[:_LENGTH_MAX]
        except Exception:
            self.handleError(record)
            return
        level = _NAMES.get(record.levelno, record.levelname)
        self._lines.append((record.levelno, LogLine(int(record.created * 1000), level, record.name, text)))

    def lines(self, count: int, *, level: str | None = None, connector: str | None = None) -> list[LogLine]:
        """Return the last lines, the oldest first: at least of this level, and about this connector or its tasks.

        Raise BadRequest for an unknown level.
        """
        try:
            least = 0 if level is None else level_number(level)
        except NotFound as error:
            raise BadRequest(str(error)) from error
        name = "" if connector is None else rf"(?<![\w.-]){re.escape(connector)}(-\d+)?(?![\w-])"
        wanted = re.compile(name)
        found = [line for number, line in [*self._lines] if number >= least and wanted.search(line.message)]
        return found[-count:]
