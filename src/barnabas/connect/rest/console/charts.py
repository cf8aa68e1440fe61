"""Histories as small charts: shapes in a grid of 100 by 100 that the browser stretches, with texts beside them.

A line has a gap where nothing is known. The same figures are rows of a table, for those who can't see a chart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise

from barnabas.connect.entities import History

__all__ = ["RANGES", "Chart", "HistoryRange", "HistoryView", "Row"]

_TOP = 4
"""The room above the highest value, so that its line is visible."""


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """A choice of hours. A column of a chart, and a row of the table, cover so many intervals of the history."""

    hours: int
    text: str
    column_intervals: int
    row_intervals: int


RANGES = {
    choice.hours: choice
    for choice in (
        HistoryRange(1, "1 hour", 2, 12),
        HistoryRange(6, "6 hours", 12, 90),
        HistoryRange(24, "1 day", 2, 12),
        HistoryRange(168, "7 days", 12, 72),
    )
}


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of some intervals together; ``begin`` in seconds since 1970, None where nothing is known."""

    begin: float
    per_second: float | None
    lag: int | None
    failures: int
    skipped_records: int
    dead_letters: int

    @property
    def is_known(self) -> bool:
        has_errors = self.failures or self.skipped_records or self.dead_letters
        return self.per_second is not None or self.lag is not None or bool(has_errors)


@dataclass(frozen=True, slots=True)
class Chart:
    """``line`` and ``area`` are SVG paths; bars have only an area. ``highest`` is the value at the top."""

    id: str
    title: str
    values: tuple[float | None, ...]
    has_bars: bool = False
    begin_ms: int = 0
    """When the first column begins, and how long each lasts: the browser shows the value under the pointer."""
    column_ms: int = 0

    @property
    def highest(self) -> float:
        return max((value for value in self.values if value is not None), default=0)

    @property
    def latest(self) -> float | None:
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def total(self) -> float:
        return sum(value for value in self.values if value is not None)

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)

    @property
    def data(self) -> str:
        """The values as JSON."""
        return json.dumps([None if value is None else round(value, 1) for value in self.values], separators=(",", ":"))

    @property
    def line(self) -> str:
        return " ".join("M" + " L".join(f"{x:g} {y:g}" for x, y in points) for points in self._runs())

    @property
    def area(self) -> str:
        if self.has_bars:
            return " ".join(self._bars())
        return " ".join(
            f"M{points[0][0]:g} 100 L" + " L".join(f"{x:g} {y:g}" for x, y in points) + f" L{points[-1][0]:g} 100 Z"
            for points in self._runs()
        )

    def _runs(self) -> Iterator[list[tuple[float, float]]]:
        """Yield the points of each part without a gap. A value is drawn over the whole width of its column."""
        width = 100 / max(1, len(self.values))
        for is_known, run in groupby(enumerate(self.values), lambda numbered: numbered[1] is not None):
            if is_known:
                points = [((index + 0.5) * width, self._height(value or 0)) for index, value in run]
                first, last = points[0], points[-1]
                edges = [(first[0] - width / 2, first[1]), *points, (last[0] + width / 2, last[1])]
                yield [(round(x, 2), y) for x, y in edges]

    def _bars(self) -> Iterator[str]:
        width = 100 / max(1, len(self.values))
        for index, value in enumerate(self.values):
            if value:
                left = round((index + 0.1) * width, 2)
                yield f"M{left:g} 100 V{self._height(value):g} h{round(width * 0.8, 2):g} V100 Z"

    def _height(self, value: float) -> float:
        return round(100 - (100 - _TOP) * value / self.highest, 1) if self.highest else 100


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A history as a page shows it. ``is_sink``: only a sink has a lag."""

    history: History
    range: HistoryRange
    is_sink: bool

    @property
    def charts(self) -> list[Chart]:
        """Return the charts; one of skipped records only if there were any."""
        charts = [self._chart("rate", "Records/s", lambda row: row.per_second)]
        if self.is_sink:
            charts.append(self._chart("lag", "Lag", lambda row: row.lag))
        charts.append(self._chart("failures", "Failures", lambda row: row.failures, has_bars=True))
        if any(self.history.skipped_records):
            charts.append(self._chart("skipped", "Skipped records", lambda row: row.skipped_records, has_bars=True))
        return charts

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the table in which something is known, the last first."""
        return [row for row in reversed(self._rows(self.range.row_intervals)) if row.is_known]

    @property
    def row_text(self) -> str:
        """Return how long a row covers, in words."""
        minutes = self.range.row_intervals * self.history.interval_ms // 60_000
        return f"{minutes} minutes" if minutes < 60 else "1 hour" if minutes == 60 else f"{minutes // 60} hours"

    @property
    def begin_text(self) -> str:
        return self._time(self.history.begin)

    @property
    def end_text(self) -> str:
        return self._time(self.history.begin + len(self.history.records) * self.history.interval_ms)

    def _chart(self, id: str, title: str, value: Callable[[Row], float | None], *, has_bars: bool = False) -> Chart:
        rows = self._rows(self.range.column_intervals)
        column_ms = self.range.column_intervals * self.history.interval_ms
        begin_ms = self.history.begin // column_ms * column_ms
        return Chart(id, title, tuple(value(row) for row in rows), has_bars, begin_ms, column_ms)

    def _time(self, at_ms: int) -> str:
        form = "%H:%M" if self.range.hours <= 24 else "%Y-%m-%d %H:%M"
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)

    def _rows(self, intervals: int) -> list[Row]:
        """Return so many intervals as one row each. Rows begin at the same moments whenever a page is shown, so that
        their values do not change while time passes."""
        history = self.history
        first, count = history.begin // history.interval_ms, len(history.records)
        bounds = [0, *range(-first % intervals or intervals, count, intervals), count]
        return [_row(history, start, end) for start, end in pairwise(bounds)]


def _row(history: History, start: int, end: int) -> Row:
    records = [value for value in history.records[start:end] if value is not None]
    seconds = len(records) * history.interval_ms / 1000
    return Row(
        begin=(history.begin + start * history.interval_ms) / 1000,
        per_second=sum(records) / seconds if records else None,
        lag=max((value for value in history.lag[start:end] if value is not None), default=None),
        failures=sum(history.failures[start:end]),
        skipped_records=sum(history.skipped_records[start:end]),
        dead_letters=sum(history.dead_letters[start:end]),
    )
