"""Counts of events agree with counting, and every event belongs to one share of one task."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.nexmark.event_numbers import (
    BLOCK,
    SHARES,
    Kind,
    count_events,
    events_of_kind,
    shares_of_tasks,
)

NUMBERS = st.integers(0, 5 * BLOCK * SHARES)


def share_of(number: int) -> int:
    return number // BLOCK % SHARES


def kind_of(number: int) -> Kind:
    return next(kind for kind in Kind if number % BLOCK in kind.value)


def test_a_block_has_a_person_three_auctions_and_46_bids() -> None:
    assert Counter(kind_of(number) for number in range(BLOCK)) == {Kind.PERSON: 1, Kind.AUCTION: 3, Kind.BID: 46}


@given(end=NUMBERS, kind=st.sampled_from(Kind), share=st.integers(0, SHARES - 1))
def test_the_events_of_a_share_before_a_number_are_counted(end: int, kind: Kind, share: int) -> None:
    counted = sum(kind_of(number) is kind and share_of(number) == share for number in range(end))
    assert events_of_kind(kind, share, end) == counted


@given(starts=st.dictionaries(st.integers(0, SHARES - 1), NUMBERS), end=NUMBERS, kind=st.sampled_from(Kind))
def test_the_events_of_several_shares_are_counted_from_where_each_begins(
    starts: dict[int, int], end: int, kind: Kind
) -> None:
    counted = sum(kind_of(number) is kind and number >= starts.get(share_of(number), end) for number in range(end))
    assert count_events(kind, starts, end) == counted


@given(st.integers(1, 3 * SHARES))
def test_every_share_belongs_to_one_task_and_no_task_has_many_more_than_another(tasks: int) -> None:
    dealt = shares_of_tasks(tasks)
    assert sorted(share for shares in dealt for share in shares) == list(range(SHARES))
    assert len(dealt) == min(tasks, SHARES)
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
