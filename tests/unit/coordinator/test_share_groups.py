"""Members of share groups: joining, epochs, assignments, initialization of share-partitions, sessions, loading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.group_state import GroupType
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from barnabas.protocol.records.share_group_state_partition_metadata_value import ShareGroupStatePartitionMetadataValue
from tests.unit.coordinator.share_group_driver import CONFIG, QUEUE, ShareGroupDriver

MEMBER, GROUP_EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATES = 10, 11, 12, 13, 14, 15


@pytest.fixture
def driver() -> ShareGroupDriver:
    driver = ShareGroupDriver()
    driver.load()
    driver.create("orders", 2)
    return driver


def failure(response: ShareGroupHeartbeatResponse) -> tuple[int, str | None]:
    return response.error_code, response.error_message


# -- requests that no group accepts


@pytest.mark.parametrize(
    ("member_id", "epoch", "group_id", "rack", "topics", "message"),
    [
        ("", 0, "g", None, ["a"], "MemberId can't be empty."),
        ("m", 0, " ", None, ["a"], "GroupId can't be empty."),
        ("m", 0, "g", "", ["a"], "RackId can't be empty."),
        ("m", 0, "g", None, None, "SubscribedTopicNames must be set in first request."),
        ("m", 0, "g", None, [], "SubscribedTopicNames must be set in first request."),
        ("m", -2, "g", None, None, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests_are_refused_with_kafkas_words(
    driver: ShareGroupDriver,
    member_id: str,
    epoch: int,
    group_id: str,
    rack: str | None,
    topics: list[str] | None,
    message: str,
) -> None:
    answer = driver.beat(member_id, epoch, *(topics or ()), group=group_id, rack=rack)
    assert failure(answer) == (ErrorCode.INVALID_REQUEST, message)
    assert driver.written() == []


def test_a_stopped_coordinator_does_not_look_at_the_request(driver: ShareGroupDriver) -> None:
    driver.coordinator.stop(driver.now_ms)
    assert driver.beat("", 0).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.described().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_only_a_joining_member_creates_a_group(driver: ShareGroupDriver) -> None:
    assert failure(driver.beat("m", 1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Share group queue not found.")
    assert failure(driver.beat("m", -1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group queue not found.")
    assert driver.beat("m", 0, "orders").error_code == ErrorCode.NONE
    assert failure(driver.beat("other", 1)) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member other is not a member of group queue.",
    )


def test_a_group_of_another_kind_keeps_its_kind(driver: ShareGroupDriver) -> None:
    driver.stable_member(group=QUEUE)
    assert failure(driver.beat("m", 0, "orders")) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group queue is not a share group.",
    )
    assert driver.described().error_message == "Group queue is not a share group."


def test_a_full_group_accepts_only_its_members(driver: ShareGroupDriver) -> None:
    driver = ShareGroupDriver(replace(CONFIG, group_share_max_size=1))
    driver.load()
    assert driver.beat("m", 0, "orders").error_code == ErrorCode.NONE
    assert failure(driver.beat("n", 0, "orders")) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The share group has reached its maximum capacity of 1 members.",
    )
    assert driver.beat("m", 0, "orders").error_code == ErrorCode.NONE


# -- epochs and assignments


def test_the_first_heartbeat_asks_for_states_and_a_later_one_assigns_the_partitions(driver: ShareGroupDriver) -> None:
    answer = driver.beat("m", 0, "orders")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions == []
    assert driver.written_types() == [MEMBER, GROUP_EPOCH, TARGET, TARGET_EPOCH, CURRENT, STATES]
    (wanted,) = driver.asked
    orders = driver.coordinator.view.id_of("orders")
    assert (wanted.group_id, wanted.state_epoch, wanted.start_offsets) == (QUEUE, 2, {orders: {0: -1, 1: -1}})
    driver.initialized()
    assert driver.written_types() == [STATES]
    answer = driver.beat("m", 2)
    assert answer.member_epoch == 3
    assert answer.assignment is not None
    assert [(topic.topic_id, topic.partitions) for topic in answer.assignment.topic_partitions] == [(orders, [0, 1])]
    assert driver.written_types() == [GROUP_EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert driver.asked == []


def test_a_heartbeat_that_changes_nothing_writes_nothing(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    driver.written()
    answer = driver.beat("m", epoch)
    assert (answer.member_epoch, answer.assignment) == (epoch, None)
    assert driver.written() == []


def test_a_full_request_is_answered_with_the_assignment(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    assert driver.beat("m", epoch, "orders").assignment is not None


def test_partitions_are_shared_by_more_members_than_there_are_partitions(driver: ShareGroupDriver) -> None:
    for member in "abc":
        driver.joined(member)
    for member in "abc":
        driver.beat(member, 0, "orders")
    assert all(driver.assigned(member)["orders"] for member in "abc")
    assert {partition for member in "abc" for partition in driver.assigned(member)["orders"]} == {0, 1}


def test_a_member_that_missed_the_answer_may_repeat_its_previous_epoch(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    assert driver.beat("m", 2).member_epoch == 3
    assert driver.beat("m", 2).error_code == ErrorCode.NONE


def test_other_epochs_are_fenced(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.joined("n")
    assert driver.beat("m", 3).member_epoch == 4
    assert failure(driver.beat("m", 5)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a greater member epoch (5) than the one known by the group coordinator (4). The "
        "member must abandon all its partitions and rejoin.",
    )
    assert failure(driver.beat("m", 2)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (2) than the one known by the group coordinator (4), and "
        "it does not match the previous member epoch (3). The member must abandon all its partitions and rejoin.",
    )
    assert driver.beat("m", 0, "orders").error_code == ErrorCode.NONE


def test_a_new_subscription_takes_effect_immediately(driver: ShareGroupDriver) -> None:
    driver.create("audit", 1)
    epoch = driver.joined("m", "orders", "audit")
    assert driver.assigned("m") == {"orders": [0, 1], "audit": [0]}
    assert driver.beat("m", epoch, "audit").member_epoch == epoch + 1
    assert driver.assigned("m") == {"audit": [0]}


def test_only_the_member_record_is_written_for_another_client_id(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    driver.written()
    driver.beat("m", epoch, client="another")
    assert driver.written_types() == [MEMBER]


def test_assignments_are_not_computed_more_often_than_the_interval_allows(driver: ShareGroupDriver) -> None:
    driver.configure(QUEUE, "share.assignment.interval.ms", "2000")
    driver.beat("m", 0, "orders")
    driver.initialized()
    assert driver.beat("m", 2).member_epoch == 2
    driver.advance(1_999)
    assert driver.beat("m", 2).member_epoch == 2
    driver.advance(1)
    assert driver.beat("m", 2).member_epoch == 3


def test_the_interval_between_assignments_may_change_while_the_node_runs(driver: ShareGroupDriver) -> None:
    driver.coordinator.view.assignment_intervals_ms["share"] = 10_000
    driver.beat("m", 0, "orders")
    driver.initialized()
    driver.advance(9_999)
    assert driver.beat("m", 2).member_epoch == 2


def test_partitions_of_an_older_target_are_lost_with_the_subscription() -> None:
    driver = ShareGroupDriver(replace(CONFIG, group_share_assignment_interval_ms=1_000))
    driver.load()
    driver.create("orders", 2)
    driver.beat("m", 0, "orders")
    driver.initialized()
    driver.advance(1_000)
    driver.beat("m", 2)
    assert driver.assigned("m") == {"orders": [0, 1]}
    answer = driver.beat("m", 3, "audit")
    assert answer.member_epoch == 3
    assert driver.assigned("m") == {}


@pytest.mark.parametrize(("own", "effective"), [("6000", 6_000), ("1", 5_000), ("70000", 15_000)])
def test_a_groups_own_interval_of_heartbeats_stays_within_the_nodes_limits(
    driver: ShareGroupDriver, own: str, effective: int
) -> None:
    driver.configure(QUEUE, "share.heartbeat.interval.ms", own)
    assert driver.beat("m", 0, "orders").heartbeat_interval_ms == effective


# -- states of share-partitions


def test_a_state_that_is_being_initialized_is_waited_for_and_then_tried_again(driver: ShareGroupDriver) -> None:
    driver.beat("m", 0, "orders")
    driver.asked = []
    driver.advance(29_999)
    driver.beat("m", 2)
    assert driver.asked == []
    driver.advance(1)
    driver.beat("m", 2)
    assert len(driver.asked) == 1


def test_the_pause_is_never_shorter_than_a_commit_may_take() -> None:
    config = replace(CONFIG, group_share_initialize_retry_interval_ms=1, offsets_commit_timeout_ms=7_000)
    assert config.share_initialize_retry_ms == 7_000


def test_a_failed_initialization_is_tried_again_immediately(driver: ShareGroupDriver) -> None:
    driver.beat("m", 0, "orders")
    (wanted,) = driver.asked
    driver.asked = []
    driver.coordinator.share.initialization_failed(QUEUE, wanted.partitions, driver.now_ms)
    driver.beat("m", 2)
    assert [again.start_offsets for again in driver.asked] == [wanted.start_offsets]


def test_new_partitions_are_initialized_and_assigned(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    driver.grow("orders", 3)
    epoch = driver.beat("m", epoch).member_epoch
    (wanted,) = driver.asked
    assert wanted.start_offsets == {driver.coordinator.view.id_of("orders"): {2: -1}}
    driver.initialized()
    driver.beat("m", epoch)
    assert driver.assigned("m") == {"orders": [0, 1, 2]}


def test_a_topic_that_is_created_later_is_initialized(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m", "orders", "later")
    driver.create("later", 1)
    epoch = driver.beat("m", epoch).member_epoch
    driver.initialized()
    driver.beat("m", epoch)
    assert driver.assigned("m") == {"orders": [0, 1], "later": [0]}


def test_a_deleted_topic_leaves_the_record_of_states(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    driver.written()
    driver.delete("orders")
    assert driver.written() == [(STATES, ShareGroupStatePartitionMetadataValue())]
    driver.beat("m", epoch)
    assert driver.assigned("m") == {}
    driver.create("others")
    driver.written()
    driver.delete("others")
    assert driver.written() == []


def test_results_for_a_group_that_was_deleted_are_passed_over(driver: ShareGroupDriver) -> None:
    driver.beat("m", 0, "orders")
    driver.beat("m", -1)
    driver.delete_groups(QUEUE)
    driver.written()
    driver.initialized()
    assert driver.written() == []


# -- leaving


def test_a_member_that_leaves_gives_its_partitions_to_the_others(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    epoch = driver.joined("n")
    driver.written()
    answer = driver.beat("m", -1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", -1)
    assert driver.written_types() == [CURRENT, TARGET, MEMBER, GROUP_EPOCH]
    driver.beat("n", epoch)
    assert driver.assigned("n") == {"orders": [0, 1]}
    assert driver.beat("m", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_when_its_session_ends(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.advance(44_999)
    assert driver.described().group_state == "Stable"
    driver.advance(1)
    assert driver.described().group_state == "Empty"
    assert driver.group.epoch == 4


@pytest.mark.parametrize("leaves", [False, True])
def test_a_member_whose_removal_cannot_be_written_is_removed_later(driver: ShareGroupDriver, leaves: bool) -> None:
    driver.joined("m")
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    if leaves:
        assert driver.beat("m", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(45_000)
    assert driver.described().group_state == "Stable"
    driver.topic.refuse_with = None
    driver.advance(500)
    assert driver.described().group_state == "Empty"


def test_a_target_is_computed_although_the_last_one_is_of_the_future(driver: ShareGroupDriver) -> None:
    """The coordinator that computed it had a clock that was an hour ahead."""
    driver.configure(QUEUE, "share.assignment.interval.ms", "1000")
    driver.joined("m")
    driver.now_ms -= 3_600_000
    successor = driver.restarted()
    before = successor.group.assignment_epoch
    successor.joined("n")
    assert successor.group.assignment_epoch == successor.group.epoch > before


def test_a_groups_own_session_timeout_applies(driver: ShareGroupDriver) -> None:
    driver.configure(QUEUE, "share.session.timeout.ms", "60000")
    driver.joined("m")
    driver.advance(59_999)
    assert driver.described().group_state == "Stable"
    driver.advance(1)
    assert driver.described().group_state == "Empty"


def test_an_empty_group_stays_and_is_never_removed_by_itself(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.beat("m", -1)
    driver.advance(30 * 24 * 3_600_000)
    assert [(group.group_id, group.group_state) for group in driver.listed()] == [(QUEUE, "Empty")]


# -- what others see


def test_share_groups_are_listed_by_type_and_state(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    (listed,) = driver.listed()
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("share", "share", "Stable")
    assert driver.listed(types=["share"]) != []
    assert driver.listed(types=["consumer"]) == []
    assert driver.listed("empty") == []


def test_a_description_has_epochs_members_and_named_partitions(driver: ShareGroupDriver) -> None:
    driver.beat("m", 0, "orders", "missing", rack="r1")
    driver.initialized()
    driver.beat("m", 2)
    described = driver.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 3, 3)
    assert described.assignor_name == "simple"
    (member,) = described.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m", "r1", 3)
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.subscribed_topic_names == ["missing", "orders"]
    assert [topic.topic_name for topic in member.assignment.topic_partitions] == ["orders"]


def test_a_share_group_has_no_committed_offsets(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    assert driver.commit_code(5, group=QUEUE) == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.committed(group=QUEUE) == -1
    assert driver.join(group=QUEUE).value == JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


# -- loading


def test_another_coordinator_continues_with_the_same_state(driver: ShareGroupDriver) -> None:
    epoch = driver.joined("m")
    driver.joined("n")
    successor = driver.restarted()
    assert successor.described() == driver.described()
    assert successor.group.partitions == driver.group.partitions
    assert successor.group.waits_for_target == driver.group.waits_for_target
    assert successor.beat("m", epoch).error_code == ErrorCode.NONE
    successor.advance(45_000)
    assert successor.described().group_state == "Empty"


def test_a_coordinator_that_lost_its_partition_refers_members_to_the_next_one(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.coordinator.runtime.unload(0, driver.now_ms)
    assert driver.beat("m", 3).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.described().error_code == ErrorCode.NOT_COORDINATOR


def test_tombstones_without_a_group_are_passed_over(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.beat("m", -1)
    driver.delete_groups(QUEUE)
    successor = driver.restarted()
    assert successor.shard.groups.find(QUEUE) is None
    assert successor.delete_groups(QUEUE)[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_answer_waits_until_its_records_are_committed(driver: ShareGroupDriver) -> None:
    driver.topic.auto_commit = False
    request = ShareGroupHeartbeatRequest(
        group_id=QUEUE, member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
    )
    first = driver.coordinator.share.heartbeat(GroupRequestContext(1, "client", "/h"), request, driver.now_ms)
    request = ShareGroupHeartbeatRequest(group_id=QUEUE, member_id="m", member_epoch=2)
    second = driver.coordinator.share.heartbeat(GroupRequestContext(1, "client", "/h"), request, driver.now_ms)
    assert not first.is_complete
    assert not second.is_complete
    driver.topic.commit(0)
    assert first.value.response.member_epoch == second.value.response.member_epoch == 2


def test_a_member_that_joins_while_its_group_is_being_deleted_is_in_a_new_group(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.beat("m", -1)
    driver.topic.auto_commit = False
    deleted = driver.coordinator.delete_groups([QUEUE], driver.now_ms)
    request = ShareGroupHeartbeatRequest(
        group_id=QUEUE, member_id="n", member_epoch=0, subscribed_topic_names=["orders"]
    )
    joined = driver.coordinator.share.heartbeat(GroupRequestContext(1, "client", "/h"), request, driver.now_ms)
    driver.topic.commit(0)
    assert deleted.value[0][0].error_code == ErrorCode.NONE
    assert joined.value.response.member_epoch == 2
    assert driver.restarted().described() == driver.described()
    assert driver.shard.groups.type_of(QUEUE) is GroupType.SHARE
