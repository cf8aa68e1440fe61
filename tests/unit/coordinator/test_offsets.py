"""Committed offsets: committing, fetching, deleting, expiring."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from tests.unit.coordinator.group_driver import GROUP, SESSION_MS, TOPIC_ID, GroupDriver

RETENTION_MS = 10_080 * 60_000
CHECK_MS = 600_000


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver().load()


def test_committed_offsets_can_be_fetched(group: GroupDriver) -> None:
    assert group.commit_code(42, metadata="a note") == ErrorCode.NONE
    partition = group.fetch(0).topics[0].partitions[0]
    assert (partition.committed_offset, partition.metadata, partition.committed_leader_epoch) == (42, "a note", -1)


def test_an_uncommitted_partition_has_offset_minus_one_without_an_error(group: GroupDriver) -> None:
    partition = group.fetch(3).topics[0].partitions[0]
    assert (partition.committed_offset, partition.metadata, partition.error_code) == (-1, "", ErrorCode.NONE)


def test_all_offsets_of_a_group_are_fetched_together(group: GroupDriver) -> None:
    group.commit(1, partition=0)
    group.commit(2, partition=1)
    group.commit(3, topic="payments")
    group.commit(9, group="another")
    assert group.fetch_all() == {("orders", 0): 1, ("orders", 1): 2, ("payments", 0): 3}


def test_a_commit_without_members_creates_a_simple_group(group: GroupDriver) -> None:
    group.commit()
    described = group.describe()
    assert (described.error_code, described.group_state, described.protocol_type) == (ErrorCode.NONE, "Empty", "")


def test_an_offset_is_not_visible_before_its_record_is_committed(group: GroupDriver) -> None:
    group.topic.auto_commit = False
    answer = group.commit(42)
    assert not answer.is_complete
    assert group.committed() == -1
    group.topic.commit(0)
    assert answer.value.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.committed() == 42


def test_a_commit_that_can_not_be_appended_is_an_error_of_every_partition(group: GroupDriver) -> None:
    for refused, seen in (
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        group.topic.refuse_with = refused
        assert group.commit_code() == seen
    assert group.committed() == -1


def test_metadata_over_the_limit_is_refused_for_its_partition(group: GroupDriver) -> None:
    assert group.commit_code(metadata="x" * 4096) == ErrorCode.NONE
    assert group.commit_code(metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert group.commit_code(metadata="é" * 4096) == ErrorCode.NONE
    assert group.commit_code(metadata="😀" * 2049) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_the_last_offset_of_a_partition_named_twice_counts(group: GroupDriver) -> None:
    request = group.commit_request(1)
    request.topics[0].partitions += group.commit_request(2).topics[0].partitions
    answer = group.coordinator.commit_offsets(GroupRequestContext(9), request, group.now_ms).value
    assert [partition.error_code for partition in answer.topics[0].partitions] == [ErrorCode.NONE, ErrorCode.NONE]
    assert group.committed() == 2
    assert group.restarted().committed() == 2


def test_null_metadata_is_stored_as_empty(group: GroupDriver) -> None:
    assert group.commit_code(metadata=None) == ErrorCode.NONE
    assert group.fetch(0).topics[0].partitions[0].metadata == ""


def test_a_commit_with_a_generation_of_an_unknown_group_fails(group: GroupDriver) -> None:
    assert group.commit_code(generation=3, member_id="m", version=8) == ErrorCode.ILLEGAL_GENERATION
    assert group.commit_code(generation=3, member_id="m", version=9) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_members_commit_keeps_its_session_open(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    for _ in range(3):
        group.advance(SESSION_MS - 1)
        assert group.commit_code(member_id=member, generation=generation) == ErrorCode.NONE
    assert group.heartbeat(member, generation) == ErrorCode.NONE


def test_an_offset_of_a_recreated_topic_is_not_returned(group: GroupDriver) -> None:
    group.commit(42)
    assert group.fetch(0, topic_id=TOPIC_ID).topics[0].partitions[0].committed_offset == 42
    assert group.fetch(0, topic_id=Uuid.from_int(78)).topics[0].partitions[0].committed_offset == -1


def test_the_offsets_of_a_deleted_topic_are_removed(group: GroupDriver) -> None:
    group.commit(1, partition=0)
    group.commit(2, topic="payments")
    group.coordinator.on_partitions_deleted({("orders", 0), ("orders", 1)}, group.now_ms)
    assert group.fetch_all() == {("payments", 0): 2}
    assert group.restarted().fetch_all() == {("payments", 0): 2}


# -- OffsetDelete


def test_an_offset_can_be_deleted(group: GroupDriver) -> None:
    group.commit(42)
    assert group.delete_offset().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.committed() == -1
    assert group.restarted().committed() == -1


def test_an_offset_of_a_subscribed_topic_can_not_be_deleted(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    group.commit(42, member_id=member, generation=generation)
    group.commit(43, member_id=member, generation=generation, topic="payments")
    assert group.delete_offset().topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert group.delete_offset(topic="payments").topics[0].partitions[0].error_code == ErrorCode.NONE
    assert group.fetch_all() == {("orders", 0): 42}


def test_an_unreadable_subscription_counts_as_one_to_everything(group: GroupDriver) -> None:
    member, generation = group.stable_member(protocols={"range": b"\x00"})
    group.commit(42, member_id=member, generation=generation)
    assert group.delete_offset().topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_group_of_another_protocol_type_must_be_empty(group: GroupDriver) -> None:
    member, joined = group.join_known(protocol_type="connect")
    assert group.delete_offset().error_code == ErrorCode.NON_EMPTY_GROUP
    assert joined.value.protocol_type == "connect"
    group.leave((member, None))
    assert group.delete_offset().error_code == ErrorCode.NONE


def test_deleting_an_offset_of_an_unknown_group_fails(group: GroupDriver) -> None:
    assert group.delete_offset().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.delete_offset(group="").error_code == ErrorCode.INVALID_GROUP_ID


def test_deleting_a_group_removes_its_offsets(group: GroupDriver) -> None:
    group.commit(42)
    assert [result.error_code for result in group.delete_groups(GROUP, "unknown")] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert group.fetch_all() == {}
    assert group.restarted().describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# -- expiry


def after_retention(group: GroupDriver, since_ms: int) -> None:
    """Run the first check that finds the retention time over."""
    group.advance(since_ms + RETENTION_MS + CHECK_MS - group.now_ms)


def test_offsets_of_a_simple_group_expire_after_their_commit_with_the_group(group: GroupDriver) -> None:
    group.commit(1)
    start_ms = group.now_ms
    group.advance(RETENTION_MS // 2)
    group.commit(2, partition=1)
    after_retention(group, start_ms)
    assert group.fetch_all() == {("orders", 1): 2}
    after_retention(group, start_ms + RETENTION_MS // 2)
    assert group.fetch_all() == {}
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.restarted().describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_an_emptied_group_expire_after_it_became_empty(group: GroupDriver) -> None:
    member, generation = group.stable_member(session_ms=1_800_000)
    group.commit(1, member_id=member, generation=generation)
    for _ in range(400):  # The member stays for longer than the retention.
        group.advance(1_700_000)
        group.heartbeat(member, generation)
    assert group.committed() == 1
    group.leave((member, None))
    empty_since_ms = group.now_ms
    group.advance(RETENTION_MS - CHECK_MS)
    successor = group.restarted()  # The group's record contains the time when it became empty.
    assert successor.committed() == 1
    after_retention(successor, empty_since_ms)
    assert successor.committed() == -1


def test_offsets_of_topics_that_a_stable_group_no_longer_reads_expire(group: GroupDriver) -> None:
    member, generation = group.stable_member(session_ms=1_800_000)
    group.commit(1, member_id=member, generation=generation)
    group.commit(2, member_id=member, generation=generation, topic="payments")
    for _ in range(400):
        group.advance(1_700_000)
        group.heartbeat(member, generation)
    assert group.fetch_all() == {("orders", 0): 1}


def test_a_commit_may_set_its_own_retention(group: GroupDriver) -> None:
    group.commit(1, retention_ms=1_000, version=4)
    group.commit(2, partition=1, version=4)
    group.advance(CHECK_MS)
    assert group.fetch_all() == {("orders", 1): 2}
    assert group.restarted().fetch_all() == {("orders", 1): 2}


def test_an_empty_group_that_never_committed_is_removed(group: GroupDriver) -> None:
    member, _ = group.stable_member()
    group.leave((member, None))
    group.advance(CHECK_MS)
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_retention_follows_the_setting() -> None:
    group = GroupDriver(
        GroupCoordinatorConfig(
            offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000, offsets_topic_num_partitions=1
        )
    ).load()
    group.commit(1)
    group.advance(59_000)
    assert group.committed() == 1
    group.advance(1_000)
    assert group.committed() == -1


def test_operations_are_counted(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    group.commit(1, member_id=member, generation=generation)
    group.commit(2, member_id=member, generation=generation, partition=1)
    group.commit(3, group="simple", retention_ms=1, version=4)
    group.leave((member, None))
    group.delete_offset()
    group.advance(CHECK_MS)
    stats = group.coordinator.stats()
    assert {state: count for (kind, state), count in stats.groups.items() if kind == "classic"} == {
        "Empty": 1,
        "PreparingRebalance": 0,
        "CompletingRebalance": 0,
        "Stable": 0,
        "Dead": 0,
    }
    assert (stats.offset_count, stats.offset_commit_count, stats.completed_rebalance_count) == (1, 3, 2)
    assert (stats.offset_expiration_count, stats.offset_deletion_count) == (1, 2)
    restarted = group.restarted().coordinator.stats()
    assert (restarted.offset_count, restarted.offset_commit_count, restarted.offset_deletion_count) == (1, 0, 0)
