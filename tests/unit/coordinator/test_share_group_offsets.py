"""Start offsets of share groups: what is decided before and after the persister changes states, and what is stored."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.share.share_group_offsets import DecidedAlteration, DecidedDeletion
from barnabas.coordinator.group.share.state_calls import DeleteStates
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from tests.unit.coordinator.share_group_driver import QUEUE, ShareGroupDriver

STATES = 15


@pytest.fixture
def driver() -> ShareGroupDriver:
    driver = ShareGroupDriver()
    driver.load()
    driver.create("orders", 2)
    driver.now_ms += 1
    driver.create("audit", 1)
    return driver


def topic_id(driver: ShareGroupDriver, name: str) -> Uuid:
    found = driver.coordinator.view.id_of(name)
    assert found is not None
    return found


def alter(driver: ShareGroupDriver, *offsets: tuple[str, int, int], group: str = QUEUE) -> DecidedAlteration:
    request = AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)],
            )
            for topic, partition, offset in offsets
        ],
    )
    return driver.coordinator.share.alter_offsets(request, driver.now_ms).value


def altered(driver: ShareGroupDriver, *offsets: tuple[str, int, int]) -> None:
    initialize = alter(driver, *offsets).initialize
    driver.coordinator.share.states_initialized(QUEUE, initialize.partitions, driver.now_ms)


def delete(driver: ShareGroupDriver, *topics: str, group: str = QUEUE) -> DecidedDeletion:
    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    )
    return driver.coordinator.share.delete_offsets(request, driver.now_ms).value


def states(
    driver: ShareGroupDriver,
    *,
    initializing: dict[str, list[int]] | None = None,
    initialized: dict[str, list[int]] | None = None,
    deleting: tuple[str, ...] = (),
) -> tuple[int, ShareGroupStatePartitionMetadataValue]:
    initializing_topics, initialized_topics = (
        [
            TopicPartitionsInfo(topic_id=topic_id(driver, name), topic_name=name, partitions=partitions)
            for name, partitions in (topics or {}).items()
        ]
        for topics in (initializing, initialized)
    )
    return STATES, ShareGroupStatePartitionMetadataValue(
        initializing_topics=initializing_topics,
        initialized_topics=initialized_topics,
        deleting_topics=[TopicInfo(topic_id=topic_id(driver, name), topic_name=name) for name in deleting],
    )


# -- AlterShareGroupOffsets


def test_offsets_may_be_set_before_the_group_exists(driver: ShareGroupDriver) -> None:
    decided = alter(driver, ("orders", 1, 7))
    (topic,) = decided.response.responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (topic_id(driver, "orders"), ErrorCode.NONE)
    assert decided.initialize.start_offsets == {topic_id(driver, "orders"): {1: 7}}
    assert decided.initialize.state_epoch == 1
    assert driver.written() == [states(driver, initializing={"orders": [1]})]
    driver.coordinator.share.states_initialized(QUEUE, decided.initialize.partitions, driver.now_ms)
    assert driver.written() == [states(driver, initialized={"orders": [1]})]
    assert driver.described().group_state == "Empty"


def test_members_receive_altered_partitions_without_another_initialization(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 1, 7))
    driver.beat("m", 0, "orders")
    (wanted,) = driver.asked
    assert wanted.start_offsets == {topic_id(driver, "orders"): {0: -1}}
    assert driver.assigned("m") == {"orders": [1]}


@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("orders", 2), ("orders", -1)])
def test_unknown_partitions_are_refused_one_by_one(driver: ShareGroupDriver, topic: str, partition: int) -> None:
    decided = alter(driver, (topic, partition, 7), ("audit", 0, 9))
    refused, accepted = decided.response.responses
    assert refused.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused.partitions[0].error_message == "This server does not host this topic-partition."
    assert accepted.partitions[0].error_code == ErrorCode.NONE
    assert decided.initialize.start_offsets == {topic_id(driver, "audit"): {0: 9}}


def test_without_known_topics_nothing_is_written(driver: ShareGroupDriver) -> None:
    assert alter(driver, ("missing", 0, 7)).initialize.start_offsets == {}
    assert driver.written() == []


def test_a_group_with_members_keeps_its_offsets(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.written()
    response = alter(driver, ("orders", 0, 7)).response
    assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    deletion = delete(driver, "orders")
    assert (deletion.error_code, deletion.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert driver.written() == []


def test_a_group_of_another_kind_has_no_start_offsets(driver: ShareGroupDriver) -> None:
    driver.commit(5, group=QUEUE)
    response = alter(driver, ("orders", 0, 7)).response
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message == "Group queue is not a share group."


def test_the_empty_id_is_refused(driver: ShareGroupDriver) -> None:
    assert alter(driver, group="").response.error_code == ErrorCode.INVALID_GROUP_ID
    assert delete(driver, group="").error_code == ErrorCode.INVALID_GROUP_ID


# -- DeleteShareGroupOffsets


def test_offsets_are_deleted_in_two_steps(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7), ("audit", 0, 9))
    driver.written()
    decided = delete(driver, "orders")
    assert decided.delete == DeleteStates(QUEUE, {topic_id(driver, "orders"): frozenset({0})})
    assert driver.written() == [states(driver, initialized={"audit": [0]}, deleting=("orders",))]
    answer = driver.coordinator.share.offsets_deleted(QUEUE, {topic_id(driver, "orders"): "orders"}, driver.now_ms)
    assert not isinstance(answer.value, ErrorCode)
    assert [(topic.topic_name, topic.error_code) for topic in answer.value] == [("orders", ErrorCode.NONE)]
    assert driver.written() == [states(driver, initialized={"audit": [0]})]


def test_a_deletion_that_failed_is_repeated_for_all_partitions(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    delete(driver, "orders")
    assert delete(driver, "orders").delete.partitions == {topic_id(driver, "orders"): frozenset({0, 1})}


def test_topics_without_offsets_are_refused_one_by_one(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    decided = delete(driver, "missing", "audit", "orders")
    assert [(topic.topic_name, topic.error_code, topic.error_message) for topic in decided.failed] == [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("audit", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
    ]
    assert decided.delete.partitions.keys() == {topic_id(driver, "orders")}


def test_only_an_existing_group_can_lose_offsets(driver: ShareGroupDriver) -> None:
    decided = delete(driver, "orders")
    assert (decided.error_code, decided.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group queue not found.")


# -- DeleteGroups


def delete_states(driver: ShareGroupDriver, *group_ids: str) -> dict[str, DeleteStates | ErrorCode]:
    (decided,) = driver.coordinator.share.delete_states(group_ids, driver.now_ms).value
    return decided


def test_the_states_of_a_group_are_deleted_before_the_group(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    alter(driver, ("audit", 0, 9))
    driver.written()
    assert delete_states(driver, QUEUE, "unknown") == {
        QUEUE: DeleteStates(
            QUEUE, {topic_id(driver, "orders"): frozenset({0}), topic_id(driver, "audit"): frozenset({0})}
        )
    }
    assert driver.written() == [states(driver, deleting=("orders", "audit"))]
    driver.delete_groups(QUEUE)
    assert driver.written_types() == [12, 15, 11]
    assert driver.listed() == []


def test_a_deletion_that_failed_leaves_the_group_to_be_deleted_again(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    delete_states(driver, QUEUE)
    successor = driver.restarted()
    assert delete_states(successor, QUEUE) == {
        QUEUE: DeleteStates(QUEUE, {topic_id(driver, "orders"): frozenset({0, 1})})
    }


def test_a_group_with_members_is_not_deleted(driver: ShareGroupDriver) -> None:
    driver.joined("m")
    driver.written()
    assert delete_states(driver, QUEUE) == {QUEUE: ErrorCode.NON_EMPTY_GROUP}
    assert driver.delete_groups(QUEUE)[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert driver.written() == []


def test_a_group_without_states_and_groups_of_other_kinds_need_no_persister(driver: ShareGroupDriver) -> None:
    driver.commit(5, group="classic")
    driver.beat("m", 0, "missing")
    driver.beat("m", -1)
    assert delete_states(driver, QUEUE, "classic") == {}
    assert driver.coordinator.share.has_any(["classic", QUEUE])
    assert not driver.coordinator.share.has_any(["classic", "unknown"])


def test_topics_that_were_deleted_have_no_states_any_more(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    driver.coordinator.runtime.unload(0, driver.now_ms)  # Nobody removes the topic from the group meanwhile.
    driver.delete("orders")
    driver.load(leader_epoch=1)
    driver.written()
    assert delete_states(driver, QUEUE) == {}
    assert len(driver.written()) == 1


# -- DescribeShareGroupOffsets


def test_initialized_partitions_have_offsets(driver: ShareGroupDriver) -> None:
    altered(driver, ("orders", 0, 7))
    alter(driver, ("audit", 0, 9))
    assert driver.coordinator.share.partitions(QUEUE) == {topic_id(driver, "orders"): frozenset({0})}
    assert driver.coordinator.share.partitions("unknown") == {}
