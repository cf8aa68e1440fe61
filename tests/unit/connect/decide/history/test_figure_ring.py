"""The ring of figures agrees with a dictionary that forgets nothing, within its span."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.history.figure_ring import Figure, FigureRing, Resolution

RESOLUTION = Resolution(interval_ms=10, intervals_max=8)
_NOTES = st.lists(st.tuples(st.sampled_from(Figure), st.integers(0, 2**40), st.integers(0, 60)), max_size=60)


@given(_NOTES, st.integers(0, 5000))
def test_figures_within_the_span_are_those_of_a_plain_dictionary(
    steps: list[tuple[Figure, int, int]], begin_ms: int
) -> None:
    ring, known, at_ms = FigureRing(RESOLUTION), dict[tuple[Figure, int], list[int]](), begin_ms
    for figure, value, passed_ms in steps:
        at_ms += passed_ms
        ring.note(figure, value, at_ms)
        known.setdefault((figure, at_ms // 10), []).append(value)
    first = at_ms // 10 - RESOLUTION.intervals_max + 1
    for figure in Figure:
        expected = [
            figure.combined(values) if (values := known.get((figure, number))) else None
            for number in range(first, first + RESOLUTION.intervals_max)
        ]
        assert ring.values(figure, first * 10, RESOLUTION.intervals_max) == expected


@given(_NOTES, st.integers(-100, 100))
def test_nothing_outside_the_span_is_returned(steps: list[tuple[Figure, int, int]], offset: int) -> None:
    ring, at_ms = FigureRing(RESOLUTION), 1000
    for figure, value, passed_ms in steps:
        at_ms += passed_ms
        ring.note(figure, value, at_ms)
    newest = at_ms // 10
    for number, value in zip(
        range(newest + offset, newest + offset + 30), ring.values(Figure.LAG, (newest + offset) * 10, 30), strict=True
    ):
        assert value is None or newest - RESOLUTION.intervals_max < number <= newest


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_times_in_any_order_never_fail_and_the_last_value_is_known(times: list[int]) -> None:
    ring = FigureRing(RESOLUTION)
    for at_ms in times:
        ring.note(Figure.RECORDS, 1, at_ms)
        assert ring.values(Figure.RECORDS, at_ms // 10 * 10, 1)[0]


def test_a_clock_that_is_set_back_far_begins_anew() -> None:
    ring = FigureRing(RESOLUTION)
    ring.note(Figure.LAG, 7, 1_000_000)
    ring.note(Figure.LAG, 5, 1000)
    assert ring.values(Figure.LAG, 1000, 1) == [5]
    assert ring.values(Figure.LAG, 1_000_000, 1) == [None]


def test_the_lag_of_an_interval_is_its_highest_and_records_are_added() -> None:
    ring = FigureRing(RESOLUTION)
    for value in (3, 9, 4):
        ring.note(Figure.LAG, value, 105)
        ring.note(Figure.RECORDS, value, 105)
    assert (ring.values(Figure.LAG, 100, 1), ring.values(Figure.RECORDS, 100, 1)) == ([9], [16])
