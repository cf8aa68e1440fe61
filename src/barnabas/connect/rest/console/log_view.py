"""The last lines of a worker's log as a page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.connect.entities import LogLine

__all__ = ["LEVELS", "LogLineView", "log_lines"]

LEVELS = (("all", ""), ("INFO and above", "INFO"), ("WARN and above", "WARN"), ("ERROR and above", "ERROR"))
"""The choices of a level: text and value."""


@dataclass(frozen=True, slots=True)
class LogLineView:
    """``rest`` is what follows the first line, such as a trace. ``key`` stays the same while the line is shown."""

    key: str
    time: int
    level: str
    logger: str
    first: str
    rest: str

    @property
    def rest_lines(self) -> int:
        return self.rest.count("\n") + 1


def log_lines(lines: Iterable[LogLine]) -> list[LogLineView]:
    """Return the lines, the last first."""
    seen: Counter[int] = Counter()
    views = []
    for line in lines:
        seen[line.time] += 1
        first, _, rest = line.message.strip().partition("\n")
        key = f"{line.time}-{seen[line.time]}"
        views.append(LogLineView(key, line.time, line.level, line.logger, first, rest))
    return views[::-1]
