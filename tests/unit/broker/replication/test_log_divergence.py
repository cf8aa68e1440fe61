"""Logs written under several leaders: a follower and its leader become equal, and keep the records that both have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.replication.log_divergence import truncation_offset
from tests.unit.broker.replication.follower import MemoryReplica

# Epochs in leader order, each with some records: every replica may have a prefix of this history.
_RUNS = st.lists(st.integers(0, 4), max_size=6).map(
    lambda counts: [epoch for epoch, count in enumerate(counts) for _ in range(count)]
)


def _leader_says(leader: MemoryReplica, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    epoch, end_offset = leader.end_offset_for_epoch(last_fetched_epoch)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


@given(common=_RUNS, leaders=_RUNS, followers=_RUNS)
def test_a_follower_is_truncated_to_the_prefix_that_it_shares_with_its_leader(
    common: list[int], leaders: list[int], followers: list[int]
) -> None:
    # No epoch has two leaders: each wrote its own records in epochs of its own, above the common ones.
    base = max(common, default=-1) + 1
    leader = MemoryReplica(0, [*common, *(base + 2 * epoch for epoch in leaders), base + 100])
    follower = MemoryReplica(0, [*common, *(base + 2 * epoch + 1 for epoch in followers)])
    for _ in range(len(follower.epochs) + 1):
        if not follower.epochs:
            break
        answer = _leader_says(leader, follower.latest_epoch, follower.log_end_offset)
        if answer is None:
            break
        before = follower.log_end_offset
        offset = truncation_offset(follower, *answer)
        assert offset < before, "a diverging follower is truncated, or it would repeat the same fetch forever"
        follower.truncate_to(offset)
    assert follower.epochs == common


def test_a_leader_that_knows_no_epoch_end_truncates_nothing() -> None:
    assert truncation_offset(MemoryReplica(0, [1, 1]), -1, -1) == 2


def test_a_log_without_epochs_is_truncated_at_the_leaders_end() -> None:
    assert truncation_offset(MemoryReplica(0, []), 3, 7) == 0
