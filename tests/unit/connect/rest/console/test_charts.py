"""Charts of histories: every value is in its place, gaps stay gaps, and rows hold still while time passes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.rest.console.charts import RANGES, Chart, HistoryView
from barnabas.connect.rest.console.console import _duration

NOW_MS = 1_795_260_000_000
_NOTES = st.lists(st.tuples(st.integers(0, 3_500_000), st.integers(0, 1000)), max_size=40)
_VALUES = st.lists(st.none() | st.floats(0, 1e9), max_size=40)


def _view(history: WorkerHistory, hours: int, now_ms: int = NOW_MS) -> HistoryView:
    return HistoryView(history.read("orders", hours, now_ms), RANGES[hours], is_sink=True)


@given(_NOTES, st.sampled_from(list(RANGES)))
def test_rows_of_every_range_have_all_errors_and_the_highest_lag(notes: list[tuple[int, int]], hours: int) -> None:
    history, later_ms = WorkerHistory("w"), NOW_MS + 400_000 if hours > 1 else NOW_MS + 13_000
    for ago_ms, value in sorted(notes, reverse=True):
        history.note("orders", Figure.LAG, value, NOW_MS - ago_ms)
        history.note("orders", Figure.FAILURES, value, NOW_MS - ago_ms)
    rows = _view(history, hours, later_ms).rows
    assert sum(row.failures for row in rows) == sum(value for _, value in notes)
    assert max((row.lag for row in rows if row.lag is not None), default=None) == max(
        (value for _, value in notes), default=None
    )


@given(st.sampled_from(list(RANGES)), st.integers(0, 10**6))
def test_a_row_that_is_complete_does_not_change_while_time_passes(hours: int, passed_ms: int) -> None:
    history = WorkerHistory("w")
    for ago in range(360):
        history.note("orders", Figure.RECORDS, ago, NOW_MS - (360 - ago) * 10_000)
    begins = [{row.begin for row in _view(history, hours, now_ms)._rows(12)} for now_ms in (NOW_MS, NOW_MS + passed_ms)]
    step = 12 * (10 if hours <= 6 else 300)
    assert all(begin % step == 0 for found in begins for begin in sorted(found)[1:])


@pytest.mark.parametrize(("hours", "columns", "rows"), [(1, 181, 31), (6, 181, 25), (24, 145, 25), (168, 169, 29)])
def test_a_range_has_a_bounded_number_of_columns_and_rows(hours: int, columns: int, rows: int) -> None:
    view = _view(WorkerHistory("w"), hours)
    assert len(view.charts[0].values) in (columns - 1, columns)
    assert len(view._rows(view.range.row_intervals)) in (rows - 1, rows)
    assert view.rows == []
    assert all(chart.is_empty or chart.has_bars for chart in view.charts)


def test_records_per_second_are_those_of_the_known_time() -> None:
    history = WorkerHistory("w")
    history.note("orders", Figure.RECORDS, 500, NOW_MS - 600_000)
    assert [row.per_second for row in _view(history, 1).rows] == [50]


@given(_VALUES, st.booleans())
def test_every_point_of_a_chart_is_inside_of_it(values: list[float | None], has_bars: bool) -> None:
    chart = Chart("c", "C", tuple(values), has_bars)
    for x, y in re.findall(
        r"[ML](-?[\d.e+-]+) (-?[\d.e+-]+)", f"{chart.line} {'' if has_bars else chart.area}".replace(" L", "L")
    ):
        assert -0.01 <= float(x) <= 100.01
        assert 0 <= float(y) <= 100


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    chart = Chart("c", "C", (5, 10, None, 0))
    assert chart.line == "M0 52 L12.5 52 L37.5 4 L50 4 M75 100 L87.5 100 L100 100"
    assert chart.area.count("Z") == 2
    assert (chart.highest, chart.latest) == (10, 0)


def test_bars_stand_where_something_was_counted() -> None:
    chart = Chart("c", "C", (0, 2, None, 1), has_bars=True)
    assert chart.area == "M27.5 100 V4 h20 V100 Z M77.5 100 V52 h20 V100 Z"
    assert chart.total == 3


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 min"), (59, "0 min"), (3599, "59 min"), (7260, "2 h 1 min"), (200_000, "2 d 7 h")]
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
