"""ShareFetch: what a member receives, when, and how the partitions and members share it."""

from __future__ import annotations

from itertools import count

import pytest

from barnabas.broker.client_quotas import ClientQuotas
from barnabas.common.errors import ErrorCode
from barnabas.network.loop_scheduler import TURN_S
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.share_fetch import ShareFetchResponse
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.security.request_context import RequestContext
from tests.unit.broker.share.share_broker import (
    ELSEWHERE,
    LOCK_MS,
    OTHER,
    OTHER_ID,
    TOPIC,
    Member,
    ShareBroker,
    acquired,
    partitions_of,
)

ACCEPT, RELEASE = 1, 2


def batches_of(response: ShareFetchResponse, partition: int = 0) -> list[tuple[int, int]]:
    records = partitions_of(response)[partition].records or b""
    return [(batch.base_offset, batch.last_offset) for batch in iter_batches(records)]


# --- records


def test_members_receive_different_records(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    broker.produce(10)
    response = alice.fetch([0], max_records=5)
    assert acquired(response) == [(0, 9, 1)]
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    assert batches_of(response) == [(0, 9)]
    assert acquired(bob.fetch([0])) == [(10, 19, 1)]
    assert acquired(alice.fetch()) == []


def test_a_strict_limit_divides_a_batch(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    assert acquired(alice.fetch([0], max_records=4, share_acquire_mode=1)) == [(0, 3, 1)]
    response = bob.fetch([0], max_records=4, share_acquire_mode=1)
    assert acquired(response) == [(4, 7, 1)]
    assert batches_of(response) == [(0, 9)], "batches are never rewritten"


def test_version_1_has_no_acquire_mode(broker: ShareBroker, alice: Member) -> None:
    broker.produce(10)
    assert acquired(alice.fetch([0], max_records=4, version=1)) == [(0, 9, 1)]


def test_only_the_batches_of_acquired_records_are_sent(broker: ShareBroker, alice: Member, bob: Member) -> None:
    for _ in range(5):
        broker.produce(2)
    alice.fetch([0])
    alice.acknowledge({0: [(2, 3, [RELEASE]), (6, 7, [RELEASE])]})
    response = bob.fetch([0])
    assert acquired(response) == [(2, 3, 2), (6, 7, 2)]
    assert batches_of(response) == [(2, 3), (4, 5), (6, 7)]


def test_large_acquisitions_are_divided_where_batches_begin(broker: ShareBroker, alice: Member) -> None:
    for _ in range(4):
        broker.produce(3)
    assert acquired(alice.fetch([0], batch_size=5)) == [(0, 5, 1), (6, 11, 1)]


def test_bytes_are_distributed_over_the_partitions(broker: ShareBroker, alice: Member) -> None:
    for partition in (0, 1):
        for _ in range(5):
            broker.produce(1, partition)
    response = alice.fetch([0, 1], max_bytes=2 * 450)
    assert acquired(response, 0) == acquired(response, 1) == [(0, 1, 1)]


def test_a_fetch_reads_no_more_than_the_event_loop_may_take(
    broker: ShareBroker, alice: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.apis.share_fetch._READ_BYTES_MAX", 450)
    for _ in range(5):
        broker.produce(1)
    assert acquired(alice.fetch([0], min_bytes=100_000)) == [(0, 1, 1)]


def test_the_first_batch_may_be_larger_than_all_limits(broker: ShareBroker, alice: Member) -> None:
    broker.produce(50)
    assert acquired(alice.fetch([0], max_bytes=1)) == [(0, 49, 1)]


def test_a_fetch_is_limited_by_the_quota_of_its_client(broker: ShareBroker, alice: Member) -> None:
    quotas = broker.broker.quotas = ClientQuotas(clock=broker, window_count=2, window_s=1)
    broker.follow(quotas)
    entity = [EntityData(entity_type="client-id", entity_name=None)]
    broker.publish(ClientQuotaRecord(entity=entity, key="consumer_byte_rate", value=1_000.0, remove=False))
    for _ in range(10):
        broker.produce(1)
    response = alice.fetch([0])
    assert acquired(response) == [(0, 4, 1)], "1,000 bytes"
    context = RequestContext(api_key=ApiKey.SHARE_FETCH, api_version=2, listener_name="PLAINTEXT", connection_id="1")
    assert quotas.throttle_ms(context, response, 100, 0.0) == 0
    assert quotas.throttle_ms(context, response, 100, 0.0) > 0


def test_records_are_limited_over_all_partitions(broker: ShareBroker, alice: Member) -> None:
    for partition in (0, 1):
        broker.produce(5, partition)
    response = alice.fetch([0, 1], max_records=5)
    assert (acquired(response, 0), acquired(response, 1)) == ([(0, 4, 1)], [])


def test_the_order_of_the_partitions_rotates(broker: ShareBroker, alice: Member) -> None:
    alice.fetch([0, 1])
    for _ in range(3):
        for partition in (0, 1):
            broker.produce(1, partition)
    first, second = (
        {partition for partition in (0, 1) if acquired(response, partition)}
        for response in (alice.fetch(max_records=1), alice.fetch(max_records=1))
    )
    assert first != second


def test_nothing_is_fetched_without_room(broker: ShareBroker, alice: Member) -> None:
    broker.produce(1)
    assert acquired(alice.fetch([0], max_records=0)) == []
    assert acquired(alice.fetch(max_bytes=0)) == []
    assert acquired(alice.fetch()) == [(0, 0, 1)]


# --- where a group starts


@pytest.mark.parametrize(
    ("reset", "expected"),
    [("earliest", 0), ("latest", 3), ("by_duration:PT1M", 1), ("by_duration:P1D", 0), ("by_duration:PT0.5S", 3)],
)
def test_a_new_group_starts_where_its_config_says(
    broker: ShareBroker, alice: Member, reset: str, expected: int
) -> None:
    broker.set_config("share.auto.offset.reset", reset)
    for wait_ms in (40_000, 40_000, 1_000):
        broker.produce(1)
        broker.run(wait_ms)
    alice.fetch([0])
    broker.produce(1)
    offsets = [first for first, _, _ in [*acquired(alice.fetch()), *acquired(alice.fetch())]]
    starts = [led.state.start_offset for led in broker.shares.share_partitions() if led.state is not None]
    assert starts == [expected], offsets


def test_the_group_of_another_broker_continues_from_its_state(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    alice.fetch(acks={0: [(0, 3, [ACCEPT])]})
    broker.lead_by(2)
    broker.lead_by(1)
    assert acquired(bob.fetch([0])) == [(4, 9, 1)]
    assert broker.persister.leader_epochs == [3]


def test_released_records_keep_their_delivery_count_over_leaders(
    broker: ShareBroker, alice: Member, bob: Member
) -> None:
    broker.produce(10)
    alice.fetch([0])
    alice.fetch(acks={0: [(0, 9, [RELEASE])]})
    broker.lead_by(1)
    assert acquired(bob.fetch([0])) == [(0, 9, 2)]


# --- waiting


def test_a_fetch_waits_for_records(broker: ShareBroker, alice: Member) -> None:
    task = alice.begin([0], max_wait_ms=500)
    broker.run(499)
    assert not task.done()
    broker.produce(3)
    assert acquired(task.result()) == [(0, 2, 1)]


def test_a_fetch_waits_for_its_bytes_but_not_longer_than_it_says(broker: ShareBroker, alice: Member) -> None:
    broker.produce(1)
    task = alice.begin([0], max_wait_ms=500, min_bytes=400)
    broker.produce(1)
    assert not task.done()
    broker.run(500)
    assert acquired(task.result()) == [(0, 1, 1)]
    assert broker.shares.stats.expired_fetches == 1
    task = alice.begin(max_wait_ms=500, min_bytes=400)
    for _ in range(3):
        broker.produce(1)
    assert acquired(task.result()) == [(2, 4, 1)]


def test_a_fetch_without_records_is_answered_in_time(broker: ShareBroker, alice: Member) -> None:
    assert acquired(alice.fetch([0], max_wait_ms=500)) == []


def test_released_records_wake_a_member_that_waits(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    task = bob.begin([0], max_wait_ms=500)
    broker.persister.block()
    acknowledging = alice.begin_acknowledge({0: [(0, 4, [RELEASE])]})
    assert not task.done(), "not before it is stored"
    broker.call(broker.persister.answer)
    assert acknowledging.done()
    assert acquired(task.result()) == [(0, 4, 2)]


def test_ended_locks_wake_a_member_that_waits(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    broker.run(LOCK_MS - 100)
    task = bob.begin([0], max_wait_ms=500)
    broker.run(99)
    assert not task.done()
    broker.run(2)
    assert acquired(task.result()) == [(0, 9, 2)]


def test_a_lower_lock_duration_applies_to_the_next_records(broker: ShareBroker, alice: Member) -> None:
    broker.set_config("share.record.lock.duration.ms", "15000")
    broker.produce(10)
    assert alice.fetch([0]).acquisition_lock_timeout_ms == 15_000
    broker.run(15_001)
    assert acquired(alice.fetch()) == [(0, 9, 2)]


def test_room_for_more_records_wakes_a_member_that_waits(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.set_config("share.partition.max.record.locks", "100")
    for _ in range(11):
        broker.produce(10)
    assert acquired(alice.fetch([0])) == [(0, 99, 1)]
    task = bob.begin([0], max_wait_ms=500)
    alice.acknowledge({0: [(0, 9, [ACCEPT])]})
    assert acquired(task.result()) == [(100, 109, 1)]


def test_members_are_served_in_the_order_in_which_they_wait(broker: ShareBroker) -> None:
    members = [Member(broker, f"member-{number}") for number in range(5)]
    tasks = [member.begin([0], max_wait_ms=500, max_records=1) for member in members]
    for _ in range(3):
        broker.produce(1)
    assert [acquired(task.result()) for task in tasks[:3]] == [[(0, 0, 1)], [(1, 1, 1)], [(2, 2, 1)]]
    assert not any(task.done() for task in tasks[3:])


def test_those_that_are_served_in_later_turns_keep_their_order(
    broker: ShareBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [Member(broker, f"member-{number}") for number in range(5)]
    tasks = [member.begin([0], max_wait_ms=500, max_records=1, share_acquire_mode=1) for member in members]
    looks_at_clock = count()
    monkeypatch.setattr(broker.loop, "time", lambda: broker.loop.now_s + next(looks_at_clock) * TURN_S)
    broker.produce(4)
    assert [acquired(task.result()) for task in tasks[:4]] == [[(at, at, 1)] for at in range(4)]
    assert not tasks[4].done()


def test_a_member_that_needs_more_bytes_does_not_block_others(broker: ShareBroker, alice: Member, bob: Member) -> None:
    greedy = alice.begin([0], max_wait_ms=500, min_bytes=100_000)
    modest = bob.begin([0], max_wait_ms=500)
    broker.produce(1)
    assert not greedy.done()
    assert acquired(modest.result()) == [(0, 0, 1)]


def test_a_thousand_members_of_one_partition_each_receive_a_record(broker: ShareBroker) -> None:
    members = [Member(broker, f"member-{number}") for number in range(1000)]
    tasks = [member.begin([0], max_wait_ms=500, max_records=1) for member in members]
    for _ in range(1000):
        broker.produce(1)
    offsets = [acquired(task.result())[0][0] for task in tasks]
    assert offsets == list(range(1000))


def test_a_member_that_disconnects_while_it_waits_receives_nothing(
    broker: ShareBroker, alice: Member, bob: Member
) -> None:
    task = alice.begin([0], max_wait_ms=500)
    broker.call(task.cancel)
    broker.call(alice.peer.close)
    broker.produce(5)
    assert acquired(bob.fetch([0])) == [(0, 4, 1)]


def test_a_share_partition_that_is_loading_makes_its_members_wait(broker: ShareBroker, alice: Member) -> None:
    broker.produce(1)
    broker.persister.block()
    task = alice.begin([0], max_wait_ms=500)
    assert not task.done()
    broker.call(broker.persister.answer)
    assert acquired(task.result()) == [(0, 0, 1)]
    assert broker.persister.reads == 1


# --- transactions


def test_committed_readers_receive_no_aborted_records(broker: ShareBroker, alice: Member) -> None:
    broker.set_config("share.isolation.level", "read_committed")
    broker.produce(2, producer_id=5)
    broker.end_transaction(5, is_commit=False)
    broker.produce(2, producer_id=6)
    assert acquired(alice.fetch([0])) == [(2, 2, 1)], "the marker, which the member reports as a gap"
    broker.end_transaction(6, is_commit=True)
    assert acquired(alice.fetch()) == [(3, 5, 1)]


def test_an_open_transaction_hides_its_records_from_committed_readers_only(broker: ShareBroker, alice: Member) -> None:
    broker.set_config("share.isolation.level", "read_committed")
    broker.produce(2, producer_id=5)
    assert acquired(alice.fetch([0])) == []
    eve = Member(broker, "eve", group="others")
    broker.set_config("share.auto.offset.reset", "earliest", "others")
    assert acquired(eve.fetch([0])) == [(0, 1, 1)]


# --- the log's start


def test_deleted_records_are_skipped(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(5)
    broker.produce(5)
    alice.fetch([0], max_records=5)
    broker.delete_records(7)
    assert acquired(bob.fetch([0])) == [(7, 9, 1)]
    alice.acknowledge({0: [(0, 4, [ACCEPT])]})
    assert [led.state.start_offset for led in broker.shares.share_partitions() if led.state is not None] == [7]


# --- errors of partitions


def test_a_partition_of_another_broker_names_its_leader(broker: ShareBroker, alice: Member) -> None:
    response = alice.fetch([ELSEWHERE])
    partition = partitions_of(response)[ELSEWHERE]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)
    assert [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints] == [
        (2, "host2", 9092, "rack2")
    ]


def test_topics_and_partitions_that_do_not_exist_have_their_errors(broker: ShareBroker, alice: Member) -> None:
    unknown = partitions_of(alice.fetch([0], topic_id=OTHER_ID.__class__.from_int(99)))[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert partitions_of(alice.fetch([77]))[77].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_may_not_be_read_is_refused(broker: ShareBroker, alice: Member) -> None:
    broker.produce(1)
    broker.rights.denied.add(TOPIC)
    assert partitions_of(alice.fetch([0]))[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.rights.denied.clear()
    assert acquired(alice.fetch()) == [(0, 0, 1)]


def test_an_error_of_one_partition_does_not_hide_the_records_of_others(broker: ShareBroker, alice: Member) -> None:
    broker.produce(1)
    response = alice.fetch([0, ELSEWHERE])
    assert acquired(response) == [(0, 0, 1)]
    assert partitions_of(response)[ELSEWHERE].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_with_an_error_waits_for_the_other_partitions(broker: ShareBroker, alice: Member) -> None:
    task = alice.begin([0, ELSEWHERE], max_wait_ms=500)
    assert not task.done()
    broker.produce(1)
    assert acquired(task.result()) == [(0, 0, 1)]


def test_a_group_that_cannot_be_loaded_has_the_persisters_error(broker: ShareBroker, alice: Member) -> None:
    for error, expected in (
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        broker.persister.error = error
        response = Member(broker).fetch([0], max_wait_ms=500)
        assert partitions_of(response)[0].error_code == expected
    broker.persister.error = ErrorCode.NONE
    broker.produce(1)
    assert acquired(Member(broker).fetch([0], max_wait_ms=500)) == [(0, 0, 1)]


# --- leaders and groups that change


def test_the_members_that_wait_learn_the_new_leader_immediately(broker: ShareBroker, alice: Member) -> None:
    task = alice.begin([0], max_wait_ms=500)
    broker.lead_by(2)
    response = task.result()
    assert partitions_of(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions_of(response)[0].current_leader.leader_id == 2


def test_a_deleted_topic_ends_its_share_partitions(broker: ShareBroker, alice: Member) -> None:
    task = alice.begin([0], max_wait_ms=500)
    broker.delete_topic()
    assert partitions_of(task.result())[0].error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    assert not list(broker.shares.share_partitions())
    assert partitions_of(alice.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_newer_leader_that_the_persister_knows_ends_the_share_partition(
    broker: ShareBroker, alice: Member, bob: Member
) -> None:
    broker.produce(1)
    alice.fetch([0])
    waiting = bob.begin([0], max_wait_ms=500)
    broker.persister.error = ErrorCode.FENCED_LEADER_EPOCH
    response = alice.acknowledge({0: [(0, 0, [ACCEPT])]})
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions_of(waiting.result())[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not list(broker.shares.share_partitions())


def test_share_partitions_end_with_the_last_connection_of_their_group(
    broker: ShareBroker, alice: Member, bob: Member
) -> None:
    broker.produce(10)
    alice.fetch([0])
    bob.fetch([0])
    broker.call(alice.peer.close)
    assert len(list(broker.shares.share_partitions())) == 1
    broker.call(bob.peer.close)
    assert not list(broker.shares.share_partitions())
    assert acquired(Member(broker, "carol").fetch([0])) == [(0, 9, 2)]


def test_a_share_partition_is_loaded_again_only_after_its_last_writes(broker: ShareBroker, alice: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    broker.persister.block()
    alice.begin_acknowledge({0: [(0, 4, [ACCEPT])]})
    broker.call(alice.peer.close)
    carol = Member(broker, "carol").begin([0], max_wait_ms=500)
    broker.call(broker.persister.answer)
    assert acquired(carol.result()) == [(5, 9, 2)]


def test_groups_do_not_see_each_other(broker: ShareBroker, alice: Member) -> None:
    broker.set_config("share.auto.offset.reset", "earliest", "others")
    broker.produce(3)
    assert acquired(alice.fetch([0])) == acquired(Member(broker, "alice", group="others").fetch([0])) == [(0, 2, 1)]


def test_two_topics_may_be_fetched_together(broker: ShareBroker, alice: Member) -> None:
    alice.fetch([0])
    alice.fetch([0], topic_id=OTHER_ID)
    broker.produce(1)
    broker.produce(2, topic=OTHER)
    response = alice.fetch()
    found = {
        topic.topic_id: [(each.first_offset, each.last_offset) for each in topic.partitions[0].acquired_records]
        for topic in response.responses
    }
    assert sorted(found.values()) == [[(0, 0)], [(0, 1)]]
