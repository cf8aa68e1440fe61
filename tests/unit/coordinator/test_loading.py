"""A coordinator that takes over reads the log and continues from the state of its predecessor."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.group.consumer.consumer_group_records import group_tombstones
from barnabas.coordinator.group.group_records import OffsetCommitRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.control_record import ControlRecordType, encode_control_record
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.protocol.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.protocol.records.end_txn_marker import EndTxnMarker
from barnabas.protocol.records.group_metadata_key import GroupMetadataKey
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from barnabas.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from tests.unit.coordinator.group_driver import GROUP, SESSION_MS, GroupDriver, subscription
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.record_bytes import encode_coordinator_record

PRODUCER, OTHER_PRODUCER = 7, 8


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver().load()


def put(log: MemoryLog, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, is_transactional=producer_id >= 0
    )
    builder.append(0, 5, key, value)
    log.append(builder.build())


def put_offset(log: MemoryLog, offset: int, *, partition: int = 0, producer_id: int = -1) -> None:
    record = OffsetCommitRecord(GROUP, "orders", partition, OffsetAndMetadata(offset, 3, "note", 1_000_000))
    put(log, record.encode_key(), record.encode_value(), producer_id)


def put_marker(log: MemoryLog, producer_id: int, kind: ControlRecordType) -> None:
    builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(0, 5, *encode_control_record(kind, EndTxnMarker(coordinator_epoch=0)))
    log.append(builder.build())


def loaded(log: MemoryLog) -> GroupDriver:
    group = GroupDriver()
    group.topic.logs[0] = log
    return group.load()


def test_a_stable_group_continues_in_its_generation(group: GroupDriver) -> None:
    leader, follower, generation = group.two_members()
    group.commit(42, member_id=leader, generation=generation)
    successor = group.restarted()
    assert successor.heartbeat(leader, generation) == ErrorCode.NONE
    assert successor.sync(follower, generation).value.assignment == b"for the follower"
    assert successor.committed() == 42
    assert successor.describe() == group.describe()
    assert successor.delete_offset().topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_loaded_members_have_a_whole_session_to_return(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    successor = group.restarted()
    successor.advance(SESSION_MS - 1)
    assert successor.heartbeat(member, generation) == ErrorCode.NONE
    successor.advance(SESSION_MS)
    assert successor.state() == "Empty"


def test_a_pending_rebalance_is_lost_and_the_last_committed_generation_remains(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    group.join_known()
    successor = group.restarted()
    assert successor.heartbeat(member, generation) == ErrorCode.NONE
    assert successor.state() == "Stable"


def test_loading_twice_results_in_the_same_groups(group: GroupDriver) -> None:
    group.two_members()
    group.commit(1, group="simple")
    first, second = group.restarted(), group.restarted()
    request = ListGroupsRequest()
    assert first.coordinator.list_groups(request) == second.coordinator.list_groups(request)
    assert first.describe() == second.describe()


def test_the_log_is_read_in_steps_of_the_buffers_size() -> None:
    group = GroupDriver().load()
    for partition in range(50):
        group.commit(partition, partition=partition)
    successor = GroupDriver(topic=group.topic)
    runtime = successor.coordinator.runtime
    shard = runtime.start_loading(0, 1, successor.now_ms)
    assert shard is not None
    loader = CoordinatorLoader(runtime, 0, shard, group.topic.log(0), buffer_size=1_000)
    steps = 0
    while not loader.step(successor.now_ms):
        steps += 1
        assert successor.commit_code() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert steps > 3
    assert len(successor.fetch_all()) == 50


def test_uncommitted_state_is_not_returned() -> None:
    group = GroupDriver().load()
    group.commit(7)
    log = group.topic.log(0)
    successor = GroupDriver(topic=group.topic)
    shard = successor.coordinator.runtime.start_loading(0, 1, successor.now_ms)
    assert shard is not None
    log.high_watermark = log.log_end_offset - 1  # Only the old leader and this one may have its last batch.
    loader = CoordinatorLoader(successor.coordinator.runtime, 0, shard, log)
    loader.run(successor.now_ms)
    assert loader.awaited_offset == log.log_end_offset
    assert successor.fetch(0).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    log.high_watermark = log.log_end_offset
    assert loader.step(successor.now_ms)
    assert successor.fetch(0).error_code == ErrorCode.NONE


def test_a_wait_for_a_commit_ends_when_the_partition_is_led_elsewhere() -> None:
    """Its high watermark may never be reached: the broker would request it again and again, forever."""
    group = GroupDriver().load()
    group.commit(7)
    log = group.topic.log(0)
    successor = GroupDriver(topic=group.topic)
    runtime = successor.coordinator.runtime
    shard = runtime.start_loading(0, 1, successor.now_ms)
    assert shard is not None
    log.high_watermark = 0
    loader = CoordinatorLoader(runtime, 0, shard, log)
    loader.run(successor.now_ms)
    runtime.unload(0, successor.now_ms)
    assert loader.step(successor.now_ms)
    assert loader.awaited_offset is None


def test_a_leader_with_uncommitted_assignments_receives_one_not_coordinator_error() -> None:
    """Its SyncGroup waits both for the write and in the group."""
    group = GroupDriver().load()
    leader, joined = group.join_known()
    runtime = group.coordinator.runtime
    group.topic.runtime = _NothingCommitted()
    answer = group.sync(leader, joined.value.generation_id, {leader: b"all of it"})
    assert not answer.is_complete
    runtime.unload(0, group.now_ms)
    assert answer.value.error_code == ErrorCode.NOT_COORDINATOR


class _NothingCommitted:
    def on_high_watermark(self, *arguments: object) -> None:
        """Ignore the listener: the replicas don't have the offset yet."""


def test_while_loading_requests_fail_and_heartbeats_are_accepted() -> None:
    group = GroupDriver()
    group.coordinator.runtime.start_loading(0, 0, group.now_ms)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.join().value.error_code == loading
    assert group.sync("m", 1).value.error_code == loading
    assert group.leave(("m", None)).value.error_code == loading
    assert group.commit_code() == loading
    assert group.fetch(0).error_code == loading
    assert group.describe().error_code == loading
    assert group.delete_groups(GROUP)[0].error_code == loading
    assert group.coordinator.list_groups(ListGroupsRequest()).error_code == loading
    assert group.heartbeat("m", 1) == ErrorCode.NONE


def test_a_partition_that_is_not_led_here_has_another_coordinator() -> None:
    group = GroupDriver()
    assert group.join().value.error_code == ErrorCode.NOT_COORDINATOR
    assert group.heartbeat("m", 1) == ErrorCode.NOT_COORDINATOR
    assert group.commit_code() == ErrorCode.NOT_COORDINATOR
    assert group.fetch(0).error_code == ErrorCode.NOT_COORDINATOR
    assert group.coordinator.list_groups(ListGroupsRequest()).groups == []


def test_a_coordinator_that_has_stopped_is_not_available(group: GroupDriver) -> None:
    group.coordinator.stop(group.now_ms)
    assert group.join().value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.heartbeat("m", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.commit_code() == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_waiting_requests_are_redirected_to_the_new_coordinator(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    _, joining = group.join_known()
    group.coordinator.runtime.unload(0, group.now_ms)
    assert joining.value.error_code == ErrorCode.NOT_COORDINATOR
    assert group.heartbeat(leader, 1) == ErrorCode.NOT_COORDINATOR
    group.advance(1_000_000)


def test_a_commit_that_waits_when_the_partition_moves_is_not_acknowledged(group: GroupDriver) -> None:
    group.topic.auto_commit = False
    answer = group.commit(42)
    group.coordinator.runtime.unload(0, group.now_ms)
    assert answer.value.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_an_older_epoch_neither_loads_nor_unloads(group: GroupDriver) -> None:
    runtime = group.coordinator.runtime
    assert runtime.start_loading(0, 0, group.now_ms) is None
    group.restarted()
    assert runtime.start_loading(0, 5, group.now_ms) is not None
    runtime.unload(0, group.now_ms, leader_epoch=4)
    assert group.commit_code() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -- logs written by Kafka


def test_committed_transactional_offsets_count() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    put_marker(log, PRODUCER, ControlRecordType.COMMIT)
    assert loaded(log).committed() == 10


def test_aborted_transactional_offsets_do_not_count() -> None:
    log = MemoryLog()
    put_offset(log, 10)
    put_offset(log, 20, producer_id=PRODUCER)
    put_marker(log, PRODUCER, ControlRecordType.ABORT)
    assert loaded(log).committed() == 10


def test_an_open_transaction_keeps_its_offsets_pending() -> None:
    log = MemoryLog()
    put_offset(log, 10)
    put_offset(log, 20, producer_id=PRODUCER)
    group = loaded(log)
    assert group.committed() == 10
    partition = group.fetch(0, require_stable=True).topics[0].partitions[0]
    assert (partition.committed_offset, partition.error_code) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert group.fetch(1, require_stable=True).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.shard.offsets.offsets.has_open_transaction(GROUP)
    group.shard.replay_end_transaction_marker(PRODUCER, committed=True, now_ms=0)
    assert group.committed() == 20
    assert not group.shard.offsets.offsets.has_open_transaction(GROUP)


def test_the_later_record_wins_whichever_transaction_ends_first() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    put_offset(log, 20, producer_id=OTHER_PRODUCER)
    put_marker(log, OTHER_PRODUCER, ControlRecordType.COMMIT)
    put_marker(log, PRODUCER, ControlRecordType.COMMIT)
    assert loaded(log).committed() == 20


def test_a_plain_commit_after_a_transactional_one_wins_over_its_marker() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    put_offset(log, 5)
    put_marker(log, PRODUCER, ControlRecordType.COMMIT)
    put_offset(log, 30, producer_id=PRODUCER)
    put_marker(log, PRODUCER, ControlRecordType.COMMIT)
    assert loaded(log).committed() == 30


def test_a_plain_commit_is_not_undone_by_the_marker_of_an_older_transactional_one() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    put_offset(log, 5)
    put_marker(log, PRODUCER, ControlRecordType.COMMIT)
    assert loaded(log).committed() == 5


def test_a_group_with_an_open_transaction_is_not_expired() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    group = loaded(log)
    group.shard.classic.ensure_group(GROUP, 0)
    group.advance(10_080 * 60_000 + 600_000)
    assert group.state() == "Empty"


def test_deleting_a_group_also_removes_its_pending_offsets() -> None:
    log = MemoryLog()
    put_offset(log, 10, producer_id=PRODUCER)
    group = loaded(log)
    group.delete_groups(GROUP)
    group.shard.replay_end_transaction_marker(PRODUCER, committed=True, now_ms=0)
    assert group.fetch_all() == {}


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_group_metadata_is_read(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m-1",
        current_state_timestamp=-1 if version < 2 else 999,
        members=[
            MemberMetadata(
                member_id="m-1",
                client_id="c",
                client_host="/10.0.0.1",
                session_timeout=10_000,
                rebalance_timeout=-1 if version < 1 else 30_000,
                subscription=subscription("orders"),
                assignment=b"mine",
            )
        ],
    )
    log = MemoryLog()
    key, encoded = encode_coordinator_record(GroupMetadataKey(group=GROUP), value, version)
    put(log, key, encoded)
    group = loaded(log)
    described = group.describe()
    assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"mine")
    assert group.heartbeat("m-1", 4) == ErrorCode.NONE
    loaded_group = group.shard.classic.find(GROUP)
    assert loaded_group is not None
    member = loaded_group.members["m-1"]
    assert member.rebalance_timeout_ms == (10_000 if version < 1 else 30_000)


def test_offsets_of_the_oldest_format_are_read() -> None:
    log = MemoryLog()
    key, value = encode_coordinator_record(
        LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=0),
        LegacyOffsetCommitValue(offset=6, metadata="old", commit_timestamp=1),
        0,
    )
    put(log, key, value)
    assert loaded(log).committed() == 6


def test_unknown_record_types_are_skipped_and_counted() -> None:
    log = MemoryLog()
    put(log, b"\x7f\xff\x00\x00", b"\x00\x00")
    put_offset(log, 10)
    group = loaded(log)
    assert group.committed() == 10
    assert group.shard.unknown_record_types == {0x7FFF: 1}


def test_an_unreadable_log_leaves_the_partition_without_a_coordinator() -> None:
    log = MemoryLog()
    put(log, b"\x00\x01", b"\x00\x00")
    group = loaded(log)
    assert group.commit_code() == ErrorCode.NOT_COORDINATOR


def next_gen(group_id: str, epoch: int | None) -> tuple[bytes, bytes | None]:
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch)
    return encode_coordinator_record(ConsumerGroupMetadataKey(group_id=group_id), value, 0)


def test_a_next_generation_group_is_listed_and_its_offsets_are_served() -> None:
    log = MemoryLog()
    put(log, *next_gen("new-app", 3))
    put_offset(log, 10)
    group = loaded(log)
    listed = {item.group_id: item for item in group.coordinator.list_groups(ListGroupsRequest()).groups}
    assert (listed["new-app"].group_type, listed["new-app"].group_state) == ("consumer", "Empty")
    described = group.describe("new-app")
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group new-app is not a classic group."


@pytest.mark.parametrize("offsets_first", [False, True])
def test_a_next_generation_group_keeps_its_type_beside_its_offsets(offsets_first: bool) -> None:
    log = MemoryLog()
    for step in ("offset", "group") if offsets_first else ("group", "offset"):
        if step == "group":
            put(log, *next_gen(GROUP, 3))
        else:
            put_offset(log, 10)
    group = loaded(log)
    (listed,) = group.coordinator.list_groups(ListGroupsRequest()).groups
    assert (listed.group_id, listed.group_type) == (GROUP, "consumer")
    assert group.committed() == 10
    assert group.commit_code(11) == ErrorCode.NONE
    assert group.delete_offset().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.committed() == -1


def test_a_classic_member_turns_a_next_generation_group_into_a_classic_one() -> None:
    log = MemoryLog()
    put(log, *next_gen("new-app", 3))
    group = loaded(log)
    group.stable_member(group="new-app")
    assert group.state("new-app") == "Stable"
    assert (next_gen("new-app", None)[0], None) in log.records()
    assert group.restarted().shard.groups.type_of("new-app") is GroupType.CLASSIC


def test_a_next_generation_group_can_be_deleted() -> None:
    log = MemoryLog()
    put(log, *next_gen("new-app", 3))
    group = loaded(log)
    assert group.delete_groups("new-app")[0].error_code == ErrorCode.NONE
    assert group.coordinator.list_groups(ListGroupsRequest()).groups == []


def test_the_records_of_a_removed_group_have_an_order_that_kafka_can_replay() -> None:
    records = group_tombstones("new-app", ["a", "b"], ["x.*"])
    assert [record.key.API_KEY for record in records] == [8, 8, 7, 7, 6, 5, 5, 16, 4, 3]
    assert all(record.value is None and record.group_id == "new-app" for record in records)
