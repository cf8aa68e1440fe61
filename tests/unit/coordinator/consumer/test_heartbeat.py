"""Members of the consumer protocol join, follow their target, and leave (KIP-848)."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.unit.coordinator.consumer_group_driver import CONSUMER_SESSION_MS, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP


def code_of(driver: ConsumerGroupDriver, **fields: object) -> tuple[int, str | None]:
    version = fields.pop("version", 1)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="stranger",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    response = driver.consumer_heartbeat(request, version=version).value  # type: ignore[arg-type]
    return response.error_code, response.error_message


# -- joining


def test_the_first_member_receives_all_partitions(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a")
    response = member.join()
    assert (response.error_code, response.member_id, response.heartbeat_interval_ms) == (0, "a", 5_000)
    assert (member.epoch, member.owned) == (2, {"orders": set(range(6))})
    assert driver.group().state_name == "Stable"


def test_members_divide_the_partitions_and_no_partition_is_owned_twice(driver: ConsumerGroupDriver) -> None:
    members = driver.consumers(4)
    assert len(driver.owners(*members)) == 6
    assert {member.epoch for member in members} == {driver.group().epoch}


def test_a_member_of_version_0_receives_an_id(driver: ConsumerGroupDriver) -> None:
    request = Consumer(driver, "").request(epoch=0, is_full=True, owned={})
    response = driver.consumer_heartbeat(request, version=0).value
    assert response.error_code == ErrorCode.NONE
    assert response.member_id
    assert list(driver.group().members) == [response.member_id]


def test_a_member_that_joins_again_keeps_its_partitions(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    before = first.owned
    first.join()
    assert first.owned == before
    assert first.epoch == second.epoch


def test_a_member_without_topics_is_a_member_without_partitions(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a", topics=())
    member.join()
    assert (member.epoch, member.owned) == (1, {})  # Nothing has changed for the group.
    assert driver.group().state_name == "Stable"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": 1, "member_id": "", "version": 0}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        (
            {"server_assignor": "sticky"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
        ({"member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {GROUP} not found."),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found."),
    ],
)
def test_a_bad_request_is_refused_by_name(
    driver: ConsumerGroupDriver, fields: dict[str, object], code: ErrorCode, message: str
) -> None:
    assert code_of(driver, **fields) == (code, message)
    assert driver.shard.groups.find(GROUP) is None


def test_a_full_group_refuses_new_members_and_keeps_its_own(driver: ConsumerGroupDriver) -> None:
    config = driver.config.__class__(group_consumer_max_size=2, offsets_topic_num_partitions=1)
    small = driver.restarted(config)
    first, _ = small.consumers(2)
    refused = Consumer(small, "c").join()
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The consumer group has reached its maximum capacity of 2 members."
    assert first.join().error_code == ErrorCode.NONE


# -- epochs


def test_a_heartbeat_without_news_has_no_assignment_and_writes_nothing(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    written = len(driver.records())
    assert member.beat().assignment is None
    assert len(driver.records()) == written


def test_a_full_request_is_answered_with_the_assignment(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert member.change().assignment is not None


@pytest.mark.parametrize(("change", "relation"), [(1, "greater"), (-1, "smaller")])
def test_a_member_with_another_epoch_is_fenced(driver: ConsumerGroupDriver, change: int, relation: str) -> None:
    (member,) = driver.consumers(1)
    response = member.send(member.request(epoch=member.epoch + change)).value
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert response.error_message == (
        f"The consumer group member has a {relation} member epoch ({member.epoch + change}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def test_a_member_that_missed_the_answer_which_advanced_its_epoch_receives_it_again(
    driver: ConsumerGroupDriver,
) -> None:
    first, second = driver.consumers(2)
    second.leave()
    driver.advance(1_000)
    old_epoch, old_owned = first.epoch, dict(first.owned)
    lost = first.send(first.request(epoch=old_epoch, owned=old_owned)).value
    assert lost.member_epoch > old_epoch
    again = first.send(first.request(epoch=old_epoch, owned=old_owned)).value
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, lost.member_epoch)


def test_a_late_member_that_owns_other_partitions_is_fenced(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    second.leave()
    driver.advance(1_000)
    old_epoch = first.epoch
    first.beat()
    late = first.request(epoch=old_epoch)
    assert first.send(late).value.error_code == ErrorCode.FENCED_MEMBER_EPOCH  # It does not say what it owns.
    late.topic_partitions = [TopicPartitions(topic_id=driver.metadata.id_of("prices"), partitions=[0])]
    assert first.send(late).value.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_an_unknown_member_must_join_first(driver: ConsumerGroupDriver) -> None:
    driver.consumers(1)
    assert code_of(driver, member_epoch=1) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member stranger is not a member of group {GROUP}.",
    )


# -- giving up and receiving partitions


def test_a_partition_moves_only_after_its_owner_has_given_it_up(driver: ConsumerGroupDriver) -> None:
    (first,) = driver.consumers(1)
    second = Consumer(driver, "second")
    driver.advance(1_000)
    second.join()
    assert second.owned == {}
    told = first.send(first.request(epoch=first.epoch, owned=first.owned)).value
    assert told.assignment is not None
    kept = {partition for topic in told.assignment.topic_partitions for partition in topic.partitions}
    assert len(kept) == 3
    second.beat()
    assert second.owned == {}, "the first has not confirmed yet"
    first.received(told)
    first.beat()
    second.beat()
    assert second.owned == {"orders": set(range(6)) - kept}


def test_a_member_that_reports_nothing_is_believed_to_own_its_partitions(driver: ConsumerGroupDriver) -> None:
    (first,) = driver.consumers(1)
    second = Consumer(driver, "second")
    driver.advance(1_000)
    second.join()
    first.received(first.send(first.request(epoch=first.epoch)).value)
    first.send(first.request(epoch=first.epoch))
    second.beat()
    assert second.owned == {}


def test_a_member_that_does_not_give_up_in_time_is_removed(driver: ConsumerGroupDriver) -> None:
    first = Consumer(driver, "first", rebalance_ms=10_000)
    first.join()
    driver.advance(1_000)
    second = Consumer(driver, "second")
    second.join()
    told = first.request(epoch=first.epoch, owned=first.owned)
    first.send(told)
    for _ in range(9):
        driver.advance(1_000)
        first.send(told)
        second.beat()
    assert "first" in driver.group().members
    driver.advance(1_000)
    assert list(driver.group().members) == ["second"]
    driver.settle(second)
    assert second.owned == {"orders": set(range(6))}
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_topic_that_a_member_no_longer_names_is_given_up_at_once(driver: ConsumerGroupDriver) -> None:
    """Also if the target is computed only later."""
    driver.metadata.configure_group(GROUP, "consumer.assignment.interval.ms", "15000")
    member = Consumer(driver, "a", topics=["orders", "prices"])
    member.join()
    driver.advance(15_000)
    member.change()
    epoch = member.epoch
    response = member.change(topics=["prices"])
    assert response.assignment is not None
    assert member.owned == {"prices": {0, 1, 2}}
    assert member.epoch == epoch
    driver.advance(15_000)
    member.beat()
    assert member.owned == {"prices": {0, 1, 2}}
    assert member.epoch == epoch + 1


# -- changes of topics and subscriptions


def test_new_partitions_are_assigned(driver: ConsumerGroupDriver) -> None:
    members = driver.consumers(2)
    driver.metadata.add_partitions("orders", 8)
    driver.settle(*members)
    assert len(driver.owners(*members)) == 8


def test_a_topic_that_did_not_exist_is_assigned_when_it_is_created(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a", topics=["later"])
    member.join()
    assert member.owned == {}
    driver.metadata.create_topic("later", 2)
    driver.settle(member)
    assert member.owned == {"later": {0, 1}}


def test_the_partitions_of_a_deleted_topic_are_taken_away(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a", topics=["orders", "prices"])
    member.join()
    driver.metadata.delete_topic("orders")
    member.owned.pop("orders")
    driver.settle(member)
    assert member.owned == {"prices": {0, 1, 2}}


def test_a_topic_of_no_group_changes_no_epoch(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    driver.metadata.add_partitions("prices", 5)
    member.beat()
    assert driver.group().epoch == member.epoch


def test_a_change_of_the_assignor_alone_moves_nothing(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    epoch = driver.group().epoch
    member.change(assignor="range")
    assert driver.group().epoch == epoch
    assert driver.describe_consumers().assignor_name == "range"


def test_the_assignor_that_most_members_ask_for_decides(driver: ConsumerGroupDriver) -> None:
    members = [Consumer(driver, f"m{index}", assignor=name) for index, name in enumerate(("range", "range", "uniform"))]
    for member in members:
        member.join()
    assert driver.describe_consumers().assignor_name == "range"
    for member in members[:2]:
        member.leave()
    assert driver.describe_consumers().assignor_name == "uniform"


def test_targets_are_computed_only_once_in_an_interval(driver: ConsumerGroupDriver) -> None:
    Consumer(driver, "a").join()
    second = Consumer(driver, "b")
    second.join()
    group = driver.group()
    assert (group.epoch, group.assignment_epoch) == (3, 2)
    assert group.state_name == "Assigning"
    driver.advance(1_000)
    second.beat()
    assert group.assignment_epoch == 3


# -- leaving and sessions


def test_a_member_that_leaves_frees_its_partitions(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    response = first.leave()
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -1)
    driver.settle(second)
    assert second.owned == {"orders": set(range(6))}
    assert first.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_when_its_session_ends(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    for _ in range(4):
        driver.advance(CONSUMER_SESSION_MS // 4)
        second.beat()
    assert list(driver.group().members) == [second.member_id]
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_removal_that_cannot_be_written_is_tried_again(driver: ConsumerGroupDriver) -> None:
    driver.consumers(1)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(CONSUMER_SESSION_MS + 5_000)
    assert len(driver.group().members) == 1
    driver.topic.refuse_with = None
    driver.advance(500)
    assert not driver.group().members


def test_a_leave_that_cannot_be_written_leaves_the_session_as_it_was(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.topic.refuse_with = None
    driver.advance(CONSUMER_SESSION_MS)
    assert not driver.group().members


def test_an_empty_group_stays_until_it_is_deleted(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert [result.error_code for result in driver.delete_groups(GROUP)] == [ErrorCode.NON_EMPTY_GROUP]
    member.leave()
    assert driver.describe_consumers().group_state == "Empty"
    assert [result.error_code for result in driver.delete_groups(GROUP)] == [ErrorCode.NONE]
    assert driver.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.restarted().describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
