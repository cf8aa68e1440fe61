"""Histories of connectors: what is noted is read within hours, merged over workers without loss, and bounded."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.history import connector_history
from barnabas.connect.decide.history.connector_history import COARSE, FINE, HOURS_MAX, WorkerHistory
from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.decide.history.merged_history import merged_history
from barnabas.connect.entities import History, MissingWorker
from barnabas.connect.identifiers import ConnectorTaskId

NOW_MS = 1_795_260_000_000
TASK = ConnectorTaskId("orders", 3)


@pytest.mark.parametrize(("hours", "interval_ms", "count"), [(1, 10_000, 360), (6, 10_000, 2160), (7, 300_000, 84)])
def test_up_to_six_hours_are_shown_in_tens_of_seconds(hours: int, interval_ms: int, count: int) -> None:
    found = WorkerHistory("w").read("orders", hours, NOW_MS)
    assert (found.interval_ms, len(found.records)) == (interval_ms, count)
    assert set(found.records + found.lag) == {None}
    assert set(found.failures) == {0}
    assert found.begin % interval_ms == 0
    assert 3000 <= NOW_MS - (found.begin + count * interval_ms) < interval_ms + 3000


def test_the_longest_history_is_a_week() -> None:
    assert HOURS_MAX == 7 * 24
    assert len(WorkerHistory("w").read("orders", HOURS_MAX, NOW_MS).lag) == COARSE.intervals_max


@given(st.lists(st.tuples(st.integers(0, 3_500_000), st.integers(0, 1000)), max_size=40))
def test_no_record_is_lost_or_counted_twice_in_either_resolution(notes: list[tuple[int, int]]) -> None:
    history = WorkerHistory("w")
    for ago_ms, records in sorted(notes, reverse=True):
        history.note("orders", Figure.RECORDS, records, NOW_MS - ago_ms)
    later_ms = NOW_MS + COARSE.interval_ms + 3000
    for hours in (2, 7):
        found = history.read("orders", hours, later_ms)
        assert sum(value or 0 for value in found.records) == sum(records for _, records in notes)


def test_failures_are_counted_and_the_last_twenty_have_their_reasons() -> None:
    history = WorkerHistory("w")
    for number in range(30):
        history.failed(TASK, f"reason {number}", NOW_MS + number)
    history.failed("orders", "x" * 1000, NOW_MS + 30)
    found = history.read("orders", 1, NOW_MS + 60_000)
    assert sum(found.failures) == 31
    assert len(found.last_failures) == 20
    own, task = found.last_failures[:2]
    assert (own.task, own.worker_id, len(own.reason)) == (None, "w", 501)
    assert (task.task, task.reason, task.time) == (3, "reason 29", NOW_MS + 29)


def test_skipped_records_and_dead_letters_are_counted() -> None:
    history = WorkerHistory("w")
    history.skipped(TASK, 5, 0, NOW_MS)
    history.skipped(TASK, 5, 5, NOW_MS)
    found = history.read("orders", 1, NOW_MS + 60_000)
    assert (sum(found.skipped_records), sum(found.dead_letters)) == (10, 5)


def test_deleted_connectors_are_forgotten() -> None:
    history = WorkerHistory("w")
    for name in ("a", "b"):
        history.note(name, Figure.LAG, 1, NOW_MS)
    history.keep_only({"b"})
    assert set(history.read("a", 1, NOW_MS + 60_000).lag) == {None}
    assert 1 in history.read("b", 1, NOW_MS + 60_000).lag


def test_the_connector_without_news_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_history, "_CONNECTORS_MAX", 2)
    history = WorkerHistory("w")
    for name in ("a", "b", "a", "c"):
        history.note(name, Figure.LAG, 1, NOW_MS)
    assert [1 in history.read(name, 1, NOW_MS + 60_000).lag for name in "abc"] == [True, False, True]


def _history(worker: str, begin: int, records: list[int | None]) -> History:
    none, zeros = [None] * len(records), [0] * len(records)
    return History(
        connector="orders",
        begin=begin,
        interval_ms=FINE.interval_ms,
        records=records,
        lag=list(none),
        failures=zeros,
        skipped_records=zeros,
        dead_letters=zeros,
        last_failures=[],
        workers=[worker],
    )


_COLUMN = st.lists(st.none() | st.integers(0, 100), min_size=1, max_size=6)


@given(_COLUMN, st.lists(_COLUMN, max_size=3))
def test_merged_records_are_the_sum_of_the_known_ones(own: list[int | None], others: list[list[int | None]]) -> None:
    parts = [_history(str(number), NOW_MS, records) for number, records in enumerate([own, *others])]
    merged = merged_history(parts[0], parts[1:])
    assert len(merged.records) == len(own)
    for index, values in enumerate(list(zip_longest(own, *others))[: len(own)]):
        known = [value for value in values if value is not None]
        assert merged.records[index] == (sum(known) if known else None)
    assert merged.workers == sorted({str(number) for number in range(len(parts))})


@pytest.mark.parametrize(
    ("ahead", "expected"), [(0, [11, 22, 33]), (1, [1, 12, 23]), (-1, [21, 32, 3]), (9, [1, 2, 3])]
)
def test_a_worker_that_answers_in_another_interval_is_aligned(ahead: int, expected: list[int]) -> None:
    own = _history("a", NOW_MS, [1, 2, 3])
    other = _history("b", NOW_MS + ahead * FINE.interval_ms, [10, 20, 30])
    assert merged_history(own, [other]).records == expected


def test_workers_that_did_not_answer_are_named() -> None:
    gone = MissingWorker("b", "no answer")
    assert merged_history(_history("a", NOW_MS, [1]), [], [gone]).missing == [gone]


def test_the_last_failures_of_all_workers_are_in_the_order_of_time() -> None:
    first, second = WorkerHistory("a"), WorkerHistory("b")
    for number in range(15):
        (first if number % 2 else second).failed(TASK, str(number), NOW_MS + number)
    merged = merged_history(first.read("orders", 1, NOW_MS + 60_000), [second.read("orders", 1, NOW_MS + 60_000)])
    assert [past.reason for past in merged.last_failures] == [str(number) for number in range(14, -1, -1)]
    assert {past.worker_id for past in merged.last_failures} == {"a", "b"}
