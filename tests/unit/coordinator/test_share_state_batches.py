"""State batches of a share-partition: overlaps, neighbors, the start offset."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.share.persister import UNINITIALIZED_OFFSET, StateBatch
from barnabas.coordinator.share.state_batches import NO_BATCHES, CombinedBatches, combine
from tests.peers.share_state_batches import read_batches

RECORDED = Path(__file__).parents[2] / "vectors/share/state-batches-4.3.1.txt.gz"
AVAILABLE, ACKNOWLEDGED = 0, 2


def stored(*batches: StateBatch) -> CombinedBatches:
    """Return batches of which it is unknown whether they are joined, as a log has them."""
    return CombinedBatches(batches, is_joined=False)


def test_results_equal_those_of_kafka() -> None:
    with gzip.open(RECORDED, "rt") as lines:
        for line in lines:
            start_offset, before, written, expected = line.rstrip("\n").split("|")
            seen = combine(stored(*read_batches(before)), read_batches(written), int(start_offset))
            assert seen.batches == read_batches(expected), line


def test_the_higher_delivery_count_wins_and_then_the_higher_state() -> None:
    known = stored(StateBatch(0, 9, ACKNOWLEDGED, 2))
    assert combine(known, [StateBatch(3, 4, AVAILABLE, 3)], -1).batches == (
        StateBatch(0, 2, ACKNOWLEDGED, 2),
        StateBatch(3, 4, AVAILABLE, 3),
        StateBatch(5, 9, ACKNOWLEDGED, 2),
    )
    assert combine(known, [StateBatch(3, 4, AVAILABLE, 2)], -1).batches == known.batches


def test_batches_before_the_start_offset_are_dropped_or_cut() -> None:
    known = stored(StateBatch(0, 3, ACKNOWLEDGED, 1), StateBatch(5, 9, AVAILABLE, 1))
    assert combine(known, (), 7).batches == (StateBatch(7, 9, AVAILABLE, 1),)
    assert combine(known, (), 10) == NO_BATCHES


def test_a_batch_that_ends_before_it_begins_is_ignored() -> None:
    """Kafka would search for its place forever."""
    known = stored(StateBatch(2, 9, AVAILABLE, 1))
    assert combine(known, [StateBatch(5, 3, ACKNOWLEDGED, 2)], -1).batches == known.batches


def test_neighbors_that_a_pass_left_behind_are_joined_by_the_next_one() -> None:
    known = stored(StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(5, 7, AVAILABLE, 1))
    left = combine(known, [StateBatch(5, 10, ACKNOWLEDGED, 1)], -1)
    assert left.batches == (StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(5, 10, ACKNOWLEDGED, 1))
    assert not left.is_joined
    assert combine(left, (), -1) == CombinedBatches((StateBatch(0, 10, ACKNOWLEDGED, 1),), is_joined=True)


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 40))
    return StateBatch(first, first + draw(st.integers(0, 6)), draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 3)))


writes = st.lists(st.tuples(st.lists(batches(), max_size=4), st.integers(-1, 20)), max_size=8)


@given(writes)
def test_visiting_only_the_touched_batches_gives_the_result_of_a_whole_pass(
    history: list[tuple[list[StateBatch], int]],
) -> None:
    known = NO_BATCHES
    for written, start_offset in history:
        whole = combine(stored(*known.batches), written, start_offset)
        known = combine(known, written, start_offset)
        assert known == whole


@given(writes)
def test_each_offset_has_the_highest_delivery_that_was_written(history: list[tuple[list[StateBatch], int]]) -> None:
    known, start = NO_BATCHES, UNINITIALIZED_OFFSET
    highest: dict[int, tuple[int, int]] = {}
    for written, start_offset in history:
        known = combine(known, written, start_offset)
        start = max(start, start_offset)
        for batch in written:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if offset >= start_offset:
                    delivery = (batch.delivery_count, batch.delivery_state)
                    highest[offset] = max(highest.get(offset, delivery), delivery)
        highest = {offset: delivery for offset, delivery in highest.items() if offset >= start_offset}
    found = [
        (offset, (batch.delivery_count, batch.delivery_state))
        for batch in known.batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    ]
    assert found == sorted(highest.items())


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_write_in_the_middle_leaves_the_others_as_they_are(is_joined: bool) -> None:
    known = CombinedBatches(
        tuple(StateBatch(2 * number, 2 * number, AVAILABLE, 1) for number in range(1_000)), is_joined=is_joined
    )
    seen = combine(known, [StateBatch(1_000, 1_000, ACKNOWLEDGED, 1)], -1)
    assert len(seen.batches) == 1_000
    assert [batch for batch in seen.batches if batch.delivery_state] == [StateBatch(1_000, 1_000, ACKNOWLEDGED, 1)]
