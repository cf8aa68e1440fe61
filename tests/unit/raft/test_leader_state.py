from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.vote_tally import VoteTally
from barnabas.raft.voter_set import VoterNode, VoterSet
from tests.unit.raft.single_voter import TextSerde


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid.from_int(1000 + node_id))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(VoterNode(key(node_id), {}) for node_id in node_ids)


def leader(*node_ids: int, epoch_start: int = 0, now_ms: int = 0) -> LeaderState:
    accumulator = BatchAccumulator(
        epoch=1, base_offset=0, serde=TextSerde(), batch_max_bytes=1000, batch_max_records=100
    )
    return LeaderState(
        1,
        key=key(1),
        voters=voters(*node_ids),
        granting=[key(1)],
        epoch_start_offset=epoch_start,
        accumulator=accumulator,
        check_quorum_timeout_ms=3000,
        begin_quorum_epoch_timeout_ms=1000,
        now_ms=now_ms,
    )


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(1, 7), st.integers(0, 50)), max_size=40), st.integers(0, 10))
def test_the_high_watermark_is_the_offset_of_a_majority_and_never_decreases(
    count: int, fetches: list[tuple[int, int]], epoch_start: int
) -> None:
    state = leader(*range(1, count + 1), epoch_start=epoch_start)
    ends = dict.fromkeys(range(1, count + 1), -1)
    highest = None
    for node_id, offset in fetches:
        if node_id > count:
            continue
        ends[node_id] = offset
        if node_id == 1:
            state.update_local(offset, 0)
        else:
            state.update_replica(key(node_id), offset, 50, 0)
        held = max(point for point in range(-1, 51) if sum(end >= point for end in ends.values()) > count / 2)
        if held > epoch_start:
            highest = max(held, highest or 0)
        assert state.high_watermark == highest


def test_records_of_earlier_epochs_alone_are_not_committed() -> None:
    state = leader(1, 2, 3, epoch_start=10)
    state.update_local(11, 0)
    assert not state.update_replica(key(2), 10, 11, 0)
    assert state.high_watermark is None
    assert state.update_replica(key(2), 11, 11, 0)
    assert state.high_watermark == 11


def test_an_observer_is_not_counted() -> None:
    state = leader(1, 2, 3)
    state.update_local(5, 0)
    assert not state.update_replica(key(4), 5, 5, 0)
    assert state.high_watermark is None
    assert list(state.observers) == [key(4)]


def test_a_voter_with_another_directory_is_an_observer() -> None:
    state = leader(1, 2, 3)
    state.update_local(5, 0)
    assert not state.update_replica(ReplicaKey(2, Uuid.from_int(77)), 5, 5, 0)
    assert state.high_watermark is None


def test_a_lagging_new_voter_stops_the_high_watermark_but_does_not_decrease_it() -> None:
    state = leader(1)
    state.update_local(20, 0)
    state.update_voters(voters(1, 2))
    assert not state.update_local(30, 0)
    assert state.high_watermark == 20
    assert state.update_replica(key(2), 30, 30, 0)
    assert state.high_watermark == 30


def test_a_leader_that_was_removed_does_not_count_itself() -> None:
    state = leader(1, 2, 3)
    state.update_voters(voters(2, 3))
    state.update_local(9, 0)
    state.update_replica(key(2), 5, 9, 0)
    assert state.high_watermark is None
    state.update_replica(key(3), 4, 9, 0)
    assert state.high_watermark == 4


def test_the_only_voter_never_loses_its_majority() -> None:
    assert leader(1).check_quorum_deadline_ms > 1 << 60


def test_the_majority_must_have_fetched_within_the_timeout() -> None:
    state = leader(1, 2, 3, now_ms=0)
    assert state.check_quorum_deadline_ms == 3000
    state.update_replica(key(4), 0, 0, 100)
    assert state.check_quorum_deadline_ms == 3000
    state.update_replica(key(2), 0, 0, 200)
    assert state.check_quorum_deadline_ms == 3200


def test_five_voters_need_two_others_to_fetch() -> None:
    state = leader(1, 2, 3, 4, 5)
    state.update_replica(key(2), 0, 0, 100)
    state.update_replica(key(2), 0, 0, 200)
    assert state.check_quorum_deadline_ms == 3000
    state.update_replica(key(3), 0, 0, 300)
    assert state.check_quorum_deadline_ms == 3300


def test_the_preferred_successor_has_the_longest_log() -> None:
    state = leader(1, 2, 3, 4)
    state.update_replica(key(2), 3, 9, 0)
    state.update_replica(key(3), 7, 9, 0)
    assert state.preferred_successors() == [key(3), key(2), key(4)]


def test_only_silent_voters_receive_begin_quorum_epoch() -> None:
    state = leader(1, 2, 3)
    state.update_replica(key(2), 0, 0, 5000)
    assert state.voters_to_begin(5500) == [3]
    assert state.voters_to_begin(6000) == [2, 3]


def test_observers_that_stopped_fetching_are_forgotten() -> None:
    state = leader(1)
    state.update_replica(key(100), 0, 0, 1000)
    state.forget_old_observers(301_000)
    assert list(state.observers) == [key(100)]
    state.forget_old_observers(301_001)
    assert not state.observers


def test_a_replica_is_caught_up_at_the_leaders_log_end_of_its_last_fetch() -> None:
    state = leader(1, 2)
    state.update_replica(key(2), 5, 10, 100)
    assert state.progress[2].last_caught_up_ms == -1
    state.update_replica(key(2), 10, 20, 200)
    assert state.progress[2].last_caught_up_ms == 100
    state.update_replica(key(2), 20, 20, 300)
    assert state.progress[2].last_caught_up_ms == 300


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=20))
def test_votes_are_counted_once_and_a_majority_is_more_than_half(count: int, answers: list[tuple[int, bool]]) -> None:
    tally = VoteTally(voters(*range(1, count + 1)), granted_by=[1])
    first: dict[int, bool] = {1: True}
    for node_id, granted in answers:
        accepted = tally.record(node_id, granted=granted)
        assert accepted == (node_id <= count and first.get(node_id, granted) == granted)
        if accepted:
            first[node_id] = granted
    yes, no = list(first.values()).count(True), list(first.values()).count(False)
    assert tally.is_granted == (yes > count / 2)
    assert tally.is_rejected == (count - no <= count / 2)
    assert len(tally.unanswered) == count - len(first)


def test_a_fetch_from_before_a_pause_does_not_prove_that_a_voter_follows() -> None:
    state = leader(1, 2, 3)
    state.update_replica(key(2), 0, 10, 100)
    assert state.check_quorum_deadline_ms == 3100
    state.distrust_next_fetches()
    state.update_replica(key(2), 0, 10, 2900)
    state.update_replica(key(3), 0, 10, 2900)
    assert state.check_quorum_deadline_ms == 3100, "both lay in sockets"
    state.update_replica(key(3), 0, 10, 2950)
    assert state.check_quorum_deadline_ms == 5950, "this fetch follows a later response"
