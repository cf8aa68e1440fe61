"""Epochs and offsets: which logs are prefixes of each other, and where two logs diverge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState, OffsetVerdict
from barnabas.raft.replica_key import OffsetAndEpoch

Log = list[int]
"""The epoch of each record, by offset."""


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Generate logs; epochs only grow along a log."""
    return sorted(draw(st.lists(st.integers(1, 6), max_size=12)))


def state_of(log: Log) -> LogState:
    epochs = LeaderEpochs()
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset)
    return LogState(end_offset=len(log), epochs=epochs)


@given(logs(), st.integers(0, 7))
def test_the_end_of_an_epoch_equals_that_of_a_linear_search(log: Log, epoch: int) -> None:
    found = state_of(log).epochs.end_offset_for_epoch(epoch, len(log))
    if not log or epoch > log[-1]:
        assert found is None
    else:
        smaller = [known for known in log if known <= epoch]
        assert found == OffsetAndEpoch(len(smaller), smaller[-1] if smaller else epoch)


@given(logs(), st.integers(0, 12))
def test_truncating_forgets_the_epochs_of_removed_records(log: Log, end_offset: int) -> None:
    state = state_of(log)
    state.epochs.truncate_from_end(end_offset)
    assert state.epochs.entries == state_of(log[:end_offset]).epochs.entries


@given(logs(), st.integers(0, 12))
def test_removing_the_beginning_keeps_the_epoch_of_every_remaining_record(log: Log, start_offset: int) -> None:
    state = state_of(log)
    state.epochs.truncate_from_start(start_offset)
    for offset in range(start_offset, len(log)):
        assert max(epoch for epoch, start in state.epochs.entries if start <= offset) == log[offset]


def test_a_log_restarted_after_a_snapshot_forgets_older_snapshots() -> None:
    """As a leader it would compare followers with their epochs, and send them to snapshots that they already have."""
    state = LogState(end_offset=8, epochs=LeaderEpochs(), snapshots={OffsetAndEpoch(4, 1): 100})
    fetched = OffsetAndEpoch(30, 3)
    state.add_snapshot(fetched, 100)
    state.restart_at(fetched)
    assert list(state.snapshots) == [fetched]
    assert state.check(30, 3).verdict is OffsetVerdict.VALID
    assert state.check(8, 1).where == fetched


@st.composite
def two_logs_of_one_history(draw: st.DrawFn) -> tuple[Log, Log]:
    """Two logs as Raft creates them: if both have a record of one epoch at one offset, they also agree before it."""
    common = draw(logs())
    last = common[-1] if common else 0
    mine = sorted(draw(st.lists(st.integers(last + 1, 9).filter(lambda epoch: epoch % 2 == 0), max_size=5)))
    theirs = sorted(draw(st.lists(st.integers(last + 1, 9).filter(lambda epoch: epoch % 2 == 1), max_size=5)))
    return common + mine, common + theirs


@given(two_logs_of_one_history())
def test_a_log_found_valid_is_a_prefix(both: tuple[Log, Log]) -> None:
    leader, follower = both
    check = state_of(leader).check(len(follower), follower[-1] if follower else 0)
    if check.verdict is OffsetVerdict.VALID:
        assert leader[: len(follower)] == follower
    else:
        assert leader[: len(follower)] != follower


@given(two_logs_of_one_history())
def test_truncating_a_diverging_log_leads_to_a_prefix_and_keeps_common_records(both: tuple[Log, Log]) -> None:
    leader, follower = both
    common = next((i for i, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), None)
    common = min(len(leader), len(follower)) if common is None else common
    for _ in range(20):
        check = state_of(leader).check(len(follower), follower[-1] if follower else 0)
        if check.verdict is OffsetVerdict.VALID:
            break
        mine = state_of(follower).end_offset_for_epoch(check.where.epoch)
        end = min(mine.offset, check.where.offset) if mine.epoch == check.where.epoch else mine.offset
        assert end >= common
        assert end < len(follower)
        follower = follower[:end]
    assert leader[: len(follower)] == follower


def test_an_empty_log_is_sent_to_the_newest_snapshot() -> None:
    state = state_of([1, 1, 2, 2])
    state.add_snapshot(OffsetAndEpoch(2, 1), 100)
    assert state.check(0, 0).where == OffsetAndEpoch(2, 1)


def test_an_empty_log_is_not_sent_to_the_checkpoint_of_formatting() -> None:
    state = state_of([1, 1])
    state.add_snapshot(OffsetAndEpoch(0, 0), 100)
    assert state.check(0, 0).verdict is OffsetVerdict.VALID


def test_a_log_that_ends_before_ours_starts_needs_a_snapshot() -> None:
    state = state_of([1, 1, 2, 2, 3])
    state.add_snapshot(OffsetAndEpoch(4, 2), 100)
    state.truncate_start(4, OffsetAndEpoch(4, 2))
    assert state.check(2, 1) == (OffsetVerdict.SNAPSHOT, OffsetAndEpoch(4, 2))
    assert state.check(4, 1) == (OffsetVerdict.SNAPSHOT, OffsetAndEpoch(4, 2))
    assert state.check(4, 2).verdict is OffsetVerdict.VALID
    assert state.check(5, 3).verdict is OffsetVerdict.VALID
