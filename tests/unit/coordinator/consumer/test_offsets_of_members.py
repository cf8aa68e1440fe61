"""Members commit and read offsets with their epoch; an older one counts for partitions that they kept (KIP-1251)."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.consumer_group_driver import ClassicConsumer, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP

PRODUCER = 7


def commit(
    driver: ConsumerGroupDriver,
    member_id: str,
    epoch: int,
    *,
    partition: int = 0,
    topic: str = "orders",
    version: int = 10,
    instance: str | None = None,
    offset: int = 5,
) -> int:
    committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=driver.metadata.id_of(topic), partitions=[committed])],
    )
    response = driver.coordinator.commit_offsets(GroupRequestContext(version), request, driver.now_ms).value
    return response.topics[0].partitions[0].error_code


def fetch(driver: ConsumerGroupDriver, member_id: str | None, epoch: int) -> int:
    topics = [OffsetFetchRequestTopics(name="orders", topic_id=Uuid.ZERO, partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=topics)
    return driver.coordinator.fetch_offsets(request, require_stable=False).error_code


def commit_in_transaction(driver: ConsumerGroupDriver, member_id: str, epoch: int, partition: int = 0) -> int:
    committed = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=9)
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=PRODUCER,
        producer_epoch=0,
        generation_id=epoch,
        member_id=member_id,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[committed])],
    )
    answer = driver.coordinator.commit_transactional_offsets(request, driver.now_ms).value
    return answer.topics[0].partitions[0].error_code


def test_a_member_commits_with_its_epoch(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert commit(driver, member.member_id, member.epoch) == ErrorCode.NONE
    assert driver.committed() == 5


@pytest.mark.parametrize(
    ("member_id", "change", "version", "code"),
    [
        ("member-0", 1, 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("member-0", 0, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("stranger", 0, 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 0, 10, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_other_commits_are_refused(
    driver: ConsumerGroupDriver, member_id: str, change: int, version: int, code: ErrorCode
) -> None:
    (member,) = driver.consumers(1)
    assert commit(driver, member_id, member.epoch + change, version=version) == code
    assert driver.committed() == -1


def test_an_admin_cannot_commit_while_the_group_has_members(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert commit(driver, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    assert commit(driver, "", -1) == ErrorCode.NONE


def test_an_older_epoch_counts_for_partitions_that_the_member_had_in_it(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    old, kept = first.epoch, set(first.owned["orders"])
    second.leave()
    driver.settle(first)
    received = set(first.owned["orders"]) - kept
    assert first.epoch > old
    for partition in kept:
        assert commit(driver, first.member_id, old, partition=partition) == ErrorCode.NONE
    for partition in received:
        assert commit(driver, first.member_id, old, partition=partition) == ErrorCode.STALE_MEMBER_EPOCH
        assert commit(driver, first.member_id, first.epoch, partition=partition) == ErrorCode.NONE


def test_a_partition_that_must_be_given_up_can_still_be_committed(driver: ConsumerGroupDriver) -> None:
    (first,) = driver.consumers(1)
    old = first.epoch
    second = Consumer(driver, "second")
    driver.advance(1_000)
    second.join()
    first.received(first.send(first.request(epoch=old, owned=first.owned)).value)
    given_up = (set(range(6)) - first.owned["orders"]).pop()
    assert commit(driver, first.member_id, old, partition=given_up) == ErrorCode.NONE
    first.beat()  # It has given it up.
    assert first.epoch > old
    assert commit(driver, first.member_id, old, partition=given_up) == ErrorCode.STALE_MEMBER_EPOCH


def test_one_refused_partition_refuses_the_commit(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    old, kept = first.epoch, set(first.owned["orders"])
    second.leave()
    driver.settle(first)
    received = set(first.owned["orders"]) - kept
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=old,
        member_id=first.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name="orders",
                topic_id=driver.metadata.id_of("orders"),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                    for index in (kept.pop(), received.pop())
                ],
            )
        ],
    )
    answer = driver.coordinator.commit_offsets(GroupRequestContext(10), request, driver.now_ms).value
    codes = [partition.error_code for partition in answer.topics[0].partitions]
    assert codes == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert driver.fetch_all() == {}


def test_a_classic_member_is_told_with_its_own_error(driver: ConsumerGroupDriver) -> None:
    driver.consumers(1)
    classic = ClassicConsumer(driver)
    classic.join_and_sync()
    assert commit(driver, classic.member_id, classic.epoch, version=7) == ErrorCode.NONE
    assert commit(driver, classic.member_id, classic.epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert fetch(driver, classic.member_id, classic.epoch + 1) == ErrorCode.ILLEGAL_GENERATION


def test_offsets_are_read_with_the_present_epoch_or_without_a_member(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert fetch(driver, None, -1) == ErrorCode.NONE
    assert fetch(driver, member.member_id, member.epoch) == ErrorCode.NONE
    assert fetch(driver, member.member_id, member.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(driver, member.member_id, member.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(driver, "stranger", member.epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_producer_commits_for_a_member(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    assert commit_in_transaction(driver, member.member_id, member.epoch) == ErrorCode.NONE
    assert commit_in_transaction(driver, "", -1, partition=1) == ErrorCode.NONE  # A producer before KIP-447.
    assert commit_in_transaction(driver, member.member_id, member.epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(driver, "stranger", member.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.fetch_all() == {}
    marker = TransactionMarker(PRODUCER, 0, is_commit=True, coordinator_epoch=0)
    driver.coordinator.end_transaction(0, marker, driver.now_ms)
    assert driver.fetch_all() == {("orders", 0): 9, ("orders", 1): 9}


def test_offsets_of_topics_without_subscribers_can_be_deleted(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    commit(driver, member.member_id, member.epoch)
    commit(driver, member.member_id, member.epoch, topic="prices")
    refused = driver.delete_offset(topic="orders").topics[0].partitions[0].error_code
    assert refused == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert driver.delete_offset(topic="prices").topics[0].partitions[0].error_code == ErrorCode.NONE
    assert driver.fetch_all() == {("orders", 0): 5}


def test_offsets_of_subscribed_topics_do_not_expire(driver: ConsumerGroupDriver) -> None:
    config = GroupCoordinatorConfig(
        offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000, offsets_topic_num_partitions=1
    )
    short = driver.restarted(config)
    (member,) = short.consumers(1)
    commit(short, member.member_id, member.epoch)
    commit(short, member.member_id, member.epoch, topic="prices")
    for _ in range(7):
        short.advance(10_000)
        member.beat()
    assert short.fetch_all() == {("orders", 0): 5}
    member.leave()
    short.advance(2_000)
    assert short.fetch_all() == {}
    assert short.shard.groups.find(GROUP) is None
    assert short.restarted().shard.groups.find(GROUP) is None


def test_deleting_a_group_removes_its_offsets(driver: ConsumerGroupDriver) -> None:
    (member,) = driver.consumers(1)
    commit(driver, member.member_id, member.epoch)
    member.leave()
    assert [result.error_code for result in driver.delete_groups(GROUP)] == [ErrorCode.NONE]
    assert driver.fetch_all() == {}
    assert driver.restarted().fetch_all() == {}
