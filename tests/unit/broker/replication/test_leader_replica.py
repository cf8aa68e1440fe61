"""How a leader handles its followers' fetches, its own appends and the controller's responses."""

from __future__ import annotations

import pytest

from barnabas.broker.replication.partition_leadership import ProposalKind
from barnabas.broker.replication.replica_state import FollowerContact
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from tests.unit.broker.replication.leader import EPOCHS, LAG_MS, Leader, NumberLog, broker, cluster, registration

AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


# The high watermark


def test_records_on_all_in_sync_replicas_are_committed() -> None:
    leader = Leader()
    leader.append(10)
    assert leader.high_watermark == 0
    leader.fetch(2, 10)
    assert leader.high_watermark == 0
    leader.fetch(3, 7)
    assert leader.high_watermark == 7
    leader.fetch(3, 10)
    assert leader.high_watermark == 10


def test_a_leader_without_followers_commits_immediately() -> None:
    leader = Leader(state=registration(1))
    leader.now_ms += LAG_MS + 1
    leader.append(3)
    assert leader.high_watermark == 3


def test_a_leader_in_metadata_from_before_its_registration_commits_nothing() -> None:
    """A starting broker reads there that it led, and can't know what others have committed since. Seed 701."""
    leader = Leader(NumberLog(end=5), state=registration(1))
    leader.context.cluster = cluster(broker(1, epoch=EPOCHS[1] - 1))
    leader.replica.maybe_advance(leader.now_ms)
    assert leader.log.high_watermark == 0
    leader.context.cluster = cluster()
    leader.replica.maybe_advance(leader.now_ms)
    assert leader.log.high_watermark == 5


def test_a_leader_alone_in_sync_waits_for_a_replica_about_to_join() -> None:
    leader = Leader(state=registration(1))
    leader.fetch(2, 0)
    leader.append(3)
    assert leader.high_watermark == 0
    leader.fetch(2, 3)
    assert leader.high_watermark == 3


def test_a_replica_about_to_join_is_not_waited_for_after_it_was_removed() -> None:
    leader = Leader(state=registration(1))
    leader.fetch(2, 0)
    leader.refuse(ErrorCode.INELIGIBLE_REPLICA)
    leader.append()
    assert leader.high_watermark == 0
    leader.context.cluster = cluster(broker(2, fenced=True))
    leader.replica.recheck(leader.now_ms)
    assert leader.high_watermark == 1


def test_nothing_is_committed_below_min_insync_replicas() -> None:
    leader = Leader(NumberLog(min_insync_replicas=2), state=registration(1))
    leader.append()
    leader.fetch(2, 1)
    assert leader.high_watermark == 0
    leader.accept()
    assert leader.high_watermark == 1


def test_min_insync_replicas_is_limited_by_the_number_of_replicas() -> None:
    leader = Leader(NumberLog(min_insync_replicas=3), state=registration(1, 2, replicas=(1, 2)))
    leader.append()
    leader.fetch(2, 1)
    assert leader.high_watermark == 1


def test_a_replica_proposed_for_the_isr_counts_before_the_controller_answers() -> None:
    leader = Leader(state=registration(1, 2))
    leader.append(5)
    leader.fetch(2, 5)
    assert leader.high_watermark == 5
    leader.fetch(3, 5)
    assert leader.proposals[-1].members == (1, 2, 3)
    leader.append(5)
    leader.fetch(2, 10)
    leader.now_ms += 2 * LAG_MS  # However late it is by then: it may be in the ISR already.
    leader.append()
    leader.fetch(2, 11)
    assert leader.high_watermark == 5


def test_a_replica_proposed_for_removal_counts_until_the_controller_answers() -> None:
    leader = Leader()
    leader.append()
    leader.fetch(2, 1)
    leader.now_ms += LAG_MS + 1
    leader.fetch(2, 1)
    leader.check()
    assert leader.proposals[-1].members == (1, 2)
    assert leader.high_watermark == 0
    leader.accept()
    assert leader.high_watermark == 1


def test_consumers_are_notified_of_as_many_bytes_as_were_committed() -> None:
    leader = Leader(state=registration(1, 2, replicas=(1, 2)))
    for size in (100, 30, 7):
        leader.append(size=size)
    leader.fetch(2, 2)
    leader.fetch(2, 3)
    assert leader.partition.committed_bytes == [130, 7]


# Waiting requests


def test_waiting_producers_are_answered_in_order_once_their_offsets_are_committed() -> None:
    leader = Leader(state=registration(1, 2, replicas=(1, 2)))
    leader.append(5)
    first, second = leader.wait(2), leader.wait(5)
    leader.fetch(2, 3)
    assert (first, second) == ([ErrorCode.NONE], [])
    leader.fetch(2, 5)
    assert second == [ErrorCode.NONE]
    assert leader.wait(5) == [ErrorCode.NONE]


def test_a_cancelled_wait_is_not_answered() -> None:
    leader = Leader(state=registration(1, 2, replicas=(1, 2)))
    leader.append()
    outcomes: list[ErrorCode] = []
    leader.replica.wait_for(1, outcomes.append).cancel()
    leader.fetch(2, 1)
    assert outcomes == []


def test_records_that_too_few_replicas_may_have_are_answered_with_an_error() -> None:
    leader = Leader(NumberLog(min_insync_replicas=2))
    leader.append()
    leader.fetch(2, 1)
    leader.fetch(3, 1)
    leader.context.cluster = cluster(broker(3, fenced=True))
    leader.log.config = leader.log.config._replace(min_insync_replicas=3)
    leader.replica.update(registration(1, 2, partition_epoch=11), leader.now_ms)
    assert leader.wait(1) == [AFTER_APPEND]


def test_all_waiting_requests_are_answered_when_leadership_ends() -> None:
    leader = Leader()
    leader.append()
    outcomes = leader.wait(1)
    leader.replica.end()
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert leader.wait(1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    leader.proposals.clear()
    leader.replica.retry_expansion()
    assert leader.proposals == []


def test_the_low_watermark_is_that_of_the_live_replicas() -> None:
    leader = Leader()
    leader.append(9)
    for follower in (2, 3):
        leader.fetch(follower, 9)
    leader.log.log_start_offset = 4
    outcomes: list[ErrorCode] = []
    leader.replica.wait_for_low_watermark(4, outcomes.append)
    leader.context.cluster = cluster(broker(3, fenced=True))
    assert outcomes == []
    leader.replica.follower_fetched(
        leader.replica.follower(2, 5), log_end_offset=9, log_start_offset=4, broker_epoch=102, now_ms=leader.now_ms
    )
    assert outcomes == [ErrorCode.NONE]


# Replicas that join the ISR


def test_a_follower_joins_at_the_high_watermark_and_the_leaders_start_of_epoch() -> None:
    leader = Leader(NumberLog(end=10, high_watermark=4), state=registration(1, 2))
    leader.fetch(3, 4)
    assert leader.proposals == []
    leader.fetch(3, 10)
    (proposal,) = leader.proposals
    assert proposal == (ProposalKind.EXPAND, ((1, 101), (2, -1), (3, 103)), 5, 10, 0)


def test_an_ineligible_replica_is_not_proposed_until_it_is_eligible() -> None:
    leader = Leader(state=registration(1, 2))
    contact = FollowerContact(leader.now_ms)
    for state in (broker(3, fenced=True), broker(3, leaving=True), broker(3, epoch=99)):
        leader.context.cluster = cluster(state)
        leader.fetch(3, 0, contact=contact)
        assert leader.proposals == []
    leader.context.cluster = cluster()
    contact.last_fetch_ms += 1
    leader.replica.retry_expansion()
    assert leader.proposals[-1].members == (1, 2, 3)


def test_fetches_from_before_the_current_isr_do_not_count() -> None:
    leader = Leader()
    contact = FollowerContact(leader.now_ms)
    leader.fetch(3, 0, contact=contact)
    leader.now_ms += 100
    leader.replica.update(
        registration(1, 2, partition_epoch=11), leader.now_ms
    )  # The disk of broker 3 may have failed.
    leader.replica.recheck(leader.now_ms)
    assert leader.proposals == []
    contact.last_fetch_ms = leader.now_ms + 1
    leader.replica.recheck(leader.now_ms)
    assert leader.proposals[-1].members == (1, 2, 3)


def test_a_replica_that_stopped_fetching_is_not_taken_back() -> None:
    leader = Leader()
    leader.append()
    leader.now_ms += LAG_MS + 1
    leader.fetch(2, 0)
    leader.check()
    leader.accept(1, 2)
    leader.replica.retry_expansion()
    assert len(leader.proposals) == 1


def test_a_replica_with_a_failed_disk_is_not_taken_back_for_earlier_fetches() -> None:
    """Its broker lives and fetches other partitions; the controller removed it from the ISR of this one."""
    lives, lost = Uuid.from_int(201), Uuid.from_int(202)
    state = registration(1, 2)
    state.directories = (lives, lives, lost)
    leader = Leader(state=state)
    reduced = broker(3)
    reduced.directories = (lives,)
    leader.context.cluster = cluster(reduced)
    leader.fetch(3, 0)
    leader.check()
    assert leader.proposals == []
    reduced.directories = (lives, lost)
    leader.fetch(3, 0)
    assert [proposal.members for proposal in leader.proposals] == [(1, 2, 3)]


def test_an_old_fetch_has_no_epoch_to_compare() -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0, epoch=-1)
    assert leader.proposals[-1].isr[-1] == (3, -1)


def test_fetches_of_an_earlier_process_are_refused() -> None:
    leader = Leader()
    leader.append()
    leader.context.cluster = cluster(broker(2, epoch=500))
    with pytest.raises(ApiException) as refused:
        leader.fetch(2, 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.fetch(3, 1)
    assert leader.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_broker_that_is_not_a_replica_is_refused(epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiException) as refused:
        Leader().replica.follower(9, epoch)
    assert refused.value.code is code


def test_proposals_are_sent_one_at_a_time() -> None:
    leader = Leader(state=registration(1))
    contact = FollowerContact(leader.now_ms)
    leader.fetch(2, 0)
    leader.fetch(3, 0, contact=contact)
    assert [proposal.members for proposal in leader.proposals] == [(1, 2)]
    leader.accept()
    contact.last_fetch_ms += 1
    leader.replica.recheck(leader.now_ms)
    assert [proposal.members for proposal in leader.proposals] == [(1, 2), (1, 2, 3)]
    assert leader.proposals[-1].partition_epoch == 11
    assert leader.stats.expands == 1


# Replicas that leave the ISR


def test_a_replica_that_has_not_caught_up_for_too_long_leaves_the_isr() -> None:
    leader = Leader()
    leader.append(10)
    leader.fetch(3, 10)
    leader.now_ms += LAG_MS
    leader.check()
    assert leader.proposals == []
    leader.now_ms += 1
    leader.check()
    assert (leader.proposals[-1].kind, leader.proposals[-1].members) == (ProposalKind.SHRINK, (1, 3))
    leader.accept()
    assert (leader.stats.shrinks, leader.partition.isr_count) == (1, 2)


def test_a_follower_that_fetches_from_the_previous_log_end_keeps_up() -> None:
    leader = Leader()
    for _ in range(10):
        end = leader.log.log_end_offset
        leader.append(5)
        leader.now_ms += LAG_MS // 2
        leader.fetch(2, end)
        leader.fetch(3, end)
        leader.check()
    assert leader.proposals == []


def test_a_follower_that_never_reaches_the_earlier_log_end_leaves_the_isr() -> None:
    leader = Leader()
    for offset in range(10):
        leader.append(5)
        leader.now_ms += LAG_MS // 4
        leader.fetch(2, offset)
        leader.fetch(3, leader.log.log_end_offset)
        leader.check()
    assert leader.proposals[0].members == (1, 3)


def test_a_replica_at_the_log_end_stays_in_the_isr_without_new_records() -> None:
    leader = Leader()
    leader.append()
    for follower in (2, 3):
        leader.fetch(follower, 1)
    leader.now_ms += 100 * LAG_MS
    leader.check()
    assert leader.proposals == []


def test_after_silence_a_session_counts_for_partitions_that_its_requests_omit() -> None:
    leader = Leader()
    contacts = {follower: FollowerContact(leader.now_ms) for follower in (2, 3)}
    for follower, contact in contacts.items():
        leader.fetch(follower, 0, contact=contact)
    leader.now_ms += 100 * LAG_MS
    contacts[2].last_fetch_ms = leader.now_ms
    leader.append()
    leader.check()
    assert leader.proposals[-1].members == (1, 2)


def test_a_new_leader_epoch_restarts_the_lag_time_of_in_sync_replicas() -> None:
    leader = Leader()
    leader.append()
    leader.now_ms += 2 * LAG_MS
    leader.replica.update(registration(leader_epoch=6, partition_epoch=11), leader.now_ms)
    leader.check()
    assert leader.proposals == []
    assert leader.log.epoch_starts == [(5, 0), (6, 1)]


def test_a_leadership_of_an_earlier_process_begins_no_epoch_here() -> None:
    """Its log may have lost records that existed when the epoch began, and that the followers have."""
    leader = Leader(NumberLog(end=15), process_epoch=200)
    assert leader.log.epoch_starts == []
    leader.replica.assign_epoch_start()
    leader.replica.update(registration(leader_epoch=6, partition_epoch=11), leader.now_ms)
    assert leader.log.epoch_starts == []


def test_a_leadership_that_the_registration_did_not_end_begins_its_epoch_late() -> None:
    leader = Leader(NumberLog(end=15), process_epoch=200)
    leader.context.cluster = cluster(broker(1, epoch=200))
    leader.replica.process_is_known(leader.now_ms)
    assert leader.log.epoch_starts == [(5, 15)]


def test_a_new_leader_epoch_forgets_the_followers_log_ends() -> None:
    leader = Leader()
    leader.append(5)
    for follower in (2, 3):
        leader.fetch(follower, 3)
    leader.fetch(2, 5)
    leader.replica.update(registration(leader_epoch=7, partition_epoch=12), leader.now_ms)
    leader.fetch(2, 5, epoch_of_leader=7)
    assert leader.high_watermark == 3  # Broker 3 may have followed another leader in epoch 6, and have cut its log.
    leader.fetch(3, 2, epoch_of_leader=7)
    assert leader.high_watermark == 3
    leader.fetch(3, 5, epoch_of_leader=7)
    assert leader.high_watermark == 5


# Responses of the controller


def test_a_response_older_than_the_metadata_log_changes_nothing() -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    (proposal,) = leader.proposals
    leader.replica.update(registration(1, partition_epoch=12), leader.now_ms)
    leader.accept(proposal=proposal)
    assert leader.partition.isr_count == 1
    assert leader.stats.expands == 0


def test_a_metadata_state_older_than_the_response_changes_nothing() -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    leader.accept()
    leader.partition.isr_count = 2
    leader.replica.update(registration(1, 2, partition_epoch=10), leader.now_ms)
    assert leader.partition.isr_count == 3


def test_a_metadata_state_equal_to_the_response_keeps_the_next_proposal() -> None:
    leader = Leader(state=registration(1))
    leader.fetch(2, 0)
    leader.accept()
    leader.fetch(3, 0)
    leader.replica.update(registration(1, 2, partition_epoch=11), leader.now_ms)
    leader.append()
    leader.fetch(2, 1)
    assert leader.high_watermark == 0
    assert leader.replica.is_waiting_for(leader.proposals[-1])


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_change_is_taken_back(error: ErrorCode) -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    leader.refuse(error)
    leader.now_ms += LAG_MS + 1
    leader.append()
    leader.fetch(2, 1)
    assert leader.high_watermark == 1
    leader.fetch(3, 1)
    assert len(leader.proposals) == 2


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_the_metadata_log_decides_where_the_controller_is_ahead(error: ErrorCode) -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    leader.refuse(error)
    leader.fetch(3, 0)
    leader.append()
    leader.fetch(2, 1)
    assert (len(leader.proposals), leader.high_watermark) == (1, 0)
    leader.replica.update(registration(1, 2, 3, partition_epoch=11), leader.now_ms)
    leader.fetch(3, 1)
    assert leader.high_watermark == 1


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER])
def test_other_errors_are_retried(error: ErrorCode) -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    leader.refuse(error)
    assert leader.proposals == [leader.proposals[0]] * 2
    assert leader.stats.failed_updates == 1


def test_an_added_replica_counts_as_soon_as_it_is_in_sync() -> None:
    leader = Leader(state=registration(1, 2, replicas=(1, 2)))
    leader.replica.update(registration(1, 2, partition_epoch=11), leader.now_ms)
    leader.append()
    leader.fetch(2, 1)
    assert leader.high_watermark == 1
    leader.fetch(3, 1)
    assert leader.proposals[-1].members == (1, 2, 3)


def test_a_leader_is_catching_up_until_its_initial_records_are_committed() -> None:
    leader = Leader(NumberLog(end=10, high_watermark=4))
    assert leader.replica.is_catching_up
    for follower in (2, 3):
        leader.fetch(follower, 10)
    assert not leader.replica.is_catching_up
