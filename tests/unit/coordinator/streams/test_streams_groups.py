"""Streams groups as their members see them: joining, tasks, epochs, topics, timers, offsets."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus
from barnabas.protocol.messages.streams_group_heartbeat import TopicInfo
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.group_driver import GROUP
from tests.unit.coordinator.streams_group_driver import (
    INTERVAL_MS,
    WORDS,
    StreamsGroupDriver,
    StreamsThread,
    streams_config,
    word_count,
)

ALL = {"0": {0, 1, 2}, "1": {0, 1, 2}}


@pytest.fixture
def driver() -> StreamsGroupDriver:
    return loaded()


def loaded(**settings: Any) -> StreamsGroupDriver:
    driver = StreamsGroupDriver(streams_config(**settings))
    driver.load()
    driver.create_topics()
    return driver


def owners(*members: StreamsThread) -> dict[tuple[str, int], str]:
    """Return which member has each active task; two owners of one are an error."""
    found: dict[tuple[str, int], str] = {}
    for member in members:
        for subtopology_id, partitions in member.active.items():
            for partition in partitions:
                assert (subtopology_id, partition) not in found, f"{subtopology_id}_{partition} runs twice"
                found[subtopology_id, partition] = member.member_id
    return found


# -- joining and leaving


def test_the_first_member_receives_every_task(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    assert member.active == ALL
    assert (member.epoch, member.response.heartbeat_interval_ms, member.statuses) == (2, 5_000, {})
    group = driver.group()
    assert (group.state_name, group.epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert driver.record_names() == [
        "MemberMetadata",
        "Topology",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]


def test_members_share_the_tasks_and_none_runs_twice(driver: StreamsGroupDriver) -> None:
    members = driver.threads(3)
    assert len(owners(*members)) == 6
    assert [sum(map(len, member.active.values())) for member in members] == [2, 2, 2]


def test_a_task_is_given_to_another_member_only_after_it_was_given_up(driver: StreamsGroupDriver) -> None:
    (first,) = driver.threads(1)
    second = StreamsThread(driver, "second")
    driver.advance(INTERVAL_MS)
    second.join_group()
    assert second.active == {}
    assert driver.group().state_name == "Reconciling"
    before = owners(first)
    first.beat()
    assert len(owners(first)) == 3
    second.beat()
    assert second.active == {}, "the first has not confirmed yet"
    first.beat()
    second.beat()
    assert owners(first, second).keys() == before.keys()


def test_a_member_that_leaves_frees_its_tasks(driver: StreamsGroupDriver) -> None:
    first, second = driver.threads(2)
    response = second.leave()
    assert (response.error_code, response.member_epoch, response.status) == (ErrorCode.NONE, -1, [])
    driver.settle(first)
    assert first.active == ALL


def test_a_group_without_members_is_empty_and_keeps_its_topology(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    member.leave()
    group = driver.group()
    assert (group.state_name, group.epoch, group.topology is None) == ("Empty", 3, False)


def test_a_member_may_join_again(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    before = member.epoch
    member.join_group()
    assert (member.epoch, member.active) == (before, ALL)


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.FENCED_MEMBER_EPOCH), (1, ErrorCode.FENCED_MEMBER_EPOCH), (2, ErrorCode.NONE)]
)
def test_a_wrong_epoch_is_fenced(driver: StreamsGroupDriver, epoch: int, code: ErrorCode) -> None:
    (member,) = driver.threads(1)
    assert member.epoch == 2
    assert member.send(member.request(epoch)).error_code == code


def test_unknown_members_and_groups_are_named(driver: StreamsGroupDriver) -> None:
    stranger = StreamsThread(driver, "stranger")
    missing = stranger.send(stranger.request(1))
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Streams group {GROUP} not found.",
    )
    driver.threads(1)
    unknown = stranger.send(stranger.request(1))
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member stranger is not a member of group {GROUP}.",
    )


def test_a_group_has_a_largest_size() -> None:
    driver = loaded(group_streams_max_size=1)
    driver.threads(1)
    refused = StreamsThread(driver, "second").join_group()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 1 members.",
    )


def test_a_request_that_no_group_accepts_is_refused(driver: StreamsGroupDriver) -> None:
    member = StreamsThread(driver, "m")
    refused = member.join_group(rebalance_timeout_ms=-1)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    assert driver.shard.groups.find(GROUP) is None


# -- topics and topologies


def test_a_group_waits_for_its_source_topics(driver: StreamsGroupDriver) -> None:
    driver.metadata.delete_topic(WORDS)
    (member,) = driver.threads(1)
    assert member.statuses == {HeartbeatStatus.MISSING_SOURCE_TOPICS: f"Source topics {WORDS} are missing."}
    assert (member.active, driver.group().state_name, member.to_create) == ({}, "NotReady", [])
    driver.metadata.create_topic(WORDS, 3)
    driver.settle(member)
    assert (member.active, member.statuses, driver.group().state_name) == (ALL, {}, "Stable")


def test_missing_internal_topics_are_to_be_created(driver: StreamsGroupDriver) -> None:
    driver.metadata.delete_topic("counts")
    driver.metadata.delete_topic("by-word")
    member = StreamsThread(driver, "m")
    member.join_group()
    assert sorted(member.to_create) == ["by-word", "counts"]
    assert member.statuses == {HeartbeatStatus.MISSING_INTERNAL_TOPICS: "Internal topics are missing: counts, by-word"}
    driver.metadata.create_topic("counts", 3)
    driver.metadata.create_topic("by-word", 3)
    driver.settle(member)
    assert (member.active, member.to_create, member.statuses) == (ALL, [], {})


def test_a_topic_with_more_partitions_changes_the_tasks(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    driver.metadata.add_partitions(WORDS, 4)
    driver.settle(member)
    assert member.statuses == {
        HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS: (
            "Existing topic by-word has different number of partitions: expected 4, found 3"
        )
    }
    assert member.active == {}
    for name in ("by-word", "counts"):
        driver.metadata.add_partitions(name, 4)
    driver.settle(member)
    assert member.active == {"0": {0, 1, 2, 3}, "1": {0, 1, 2, 3}}


def test_another_topology_of_the_same_epoch_is_refused(driver: StreamsGroupDriver) -> None:
    driver.threads(1)
    other = word_count()
    other.subtopologies[1].state_changelog_topics = [TopicInfo(name="other-counts")]
    for topology in (other, word_count(epoch=1)):
        refused = StreamsThread(driver, "second", topology=topology).join_group()
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet.",
        )


def test_a_member_with_an_older_topology_learns_it(driver: StreamsGroupDriver) -> None:
    first = StreamsThread(driver, "first", topology=word_count(epoch=4))
    first.join_group()
    second = StreamsThread(driver, "second", topology=word_count(epoch=3))
    driver.advance(INTERVAL_MS)
    second.join_group()
    assert second.statuses == {
        HeartbeatStatus.STALE_TOPOLOGY: "The member's topology epoch 3 is behind the group's topology epoch 4."
    }
    assert second.epoch > 0


def test_a_topology_that_is_never_valid_is_refused(driver: StreamsGroupDriver) -> None:
    topology = word_count()
    topology.subtopologies[0].repartition_sink_topics = []
    refused = StreamsThread(driver, "m", topology=topology).join_group()
    assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert driver.shard.groups.find(GROUP) is None


def test_a_task_that_the_topology_lacks_is_refused(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    member.active = {"0": {3}}
    refused = member.beat()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Task 3 for subtopology 0 is invalid. Number of tasks for this subtopology: 3",
    )


# -- delays


def test_the_first_assignment_of_a_group_waits_for_more_members() -> None:
    driver = loaded(group_streams_initial_rebalance_delay_ms=3_000)
    members = [StreamsThread(driver, f"m{number}") for number in range(2)]
    for member in members:
        member.join_group()
        assert member.statuses == {
            HeartbeatStatus.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured initial rebalance delay."
        }
    assert driver.group().state_name == "Assigning"
    driver.advance(3_000)
    assert driver.record_names()[-3:] == [
        "TargetAssignmentMember",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
    ]
    for member in members:
        member.beat()
    assert [sum(map(len, member.active.values())) for member in members] == [3, 3]


def test_an_initial_delay_that_all_members_leave_ends_quietly() -> None:
    driver = loaded(group_streams_initial_rebalance_delay_ms=3_000)
    member = StreamsThread(driver, "m")
    member.join_group()
    member.leave()
    written = len(driver.records())
    driver.advance(3_000)
    assert len(driver.records()) == written


def test_targets_are_computed_no_more_often_than_the_interval_allows(driver: StreamsGroupDriver) -> None:
    first = StreamsThread(driver, "first")
    first.join_group()
    second = StreamsThread(driver, "second")
    second.join_group()
    assert second.statuses == {
        HeartbeatStatus.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    driver.advance(INTERVAL_MS)
    second.beat()
    assert second.statuses == {}


def test_a_target_is_computed_although_the_last_one_is_of_the_future(driver: StreamsGroupDriver) -> None:
    """The coordinator that computed it had a clock that was an hour ahead."""
    driver.threads(1)
    driver.now_ms -= 3_600_000
    successor = driver.restarted()
    before = successor.group().assignment_epoch
    StreamsThread(successor, "another").join_group()
    assert successor.group().assignment_epoch == successor.group().epoch > before


def test_standby_tasks_follow_the_setting_of_the_group(driver: StreamsGroupDriver) -> None:
    members = driver.threads(2)
    assert all(not member.standby for member in members)
    driver.metadata.configure_group(GROUP, "streams.num.standby.replicas", "1")
    driver.settle(*members)
    assert [sorted(member.standby) for member in members] == [["1"], ["1"]]
    for member in members:
        assert not member.standby["1"] & member.active.get("1", set())


def test_standby_tasks_keep_the_limit_of_the_node(driver: StreamsGroupDriver) -> None:
    driver.metadata.configure_group(GROUP, "streams.num.standby.replicas", "7")
    driver.threads(1)
    assert driver.group().assignment_configs == {"num.standby.replicas": "2"}


# -- deadlines


def test_a_silent_member_is_removed(driver: StreamsGroupDriver) -> None:
    first, second = driver.threads(2)
    driver.advance(30_000)
    first.beat()
    driver.advance(20_000)
    assert list(driver.group().members) == [first.member_id]
    driver.settle(first)
    assert first.active == ALL
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_keeps_its_tasks_is_removed(driver: StreamsGroupDriver) -> None:
    first = StreamsThread(driver, "first", rebalance_ms=10_000)
    first.join_group()
    second = StreamsThread(driver, "second")
    driver.advance(INTERVAL_MS)
    second.join_group()
    kept = dict(first.active)
    first.beat()
    for _ in range(11):
        driver.advance(1_000)
        first.active = kept
        first.beat()
    assert list(driver.group().members) == ["second"]


def test_sessions_begin_again_when_a_coordinator_has_loaded(driver: StreamsGroupDriver) -> None:
    first, second = driver.threads(2)
    driver.advance(40_000)
    successor = driver.restarted()
    assert {first.member_id, second.member_id} == set(successor.group().members)
    first.driver = successor
    successor.advance(40_000)
    first.beat()
    successor.advance(10_000)
    assert list(successor.group().members) == [first.member_id]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_member_whose_removal_cannot_be_written_is_removed_later(driver: StreamsGroupDriver, leaves: bool) -> None:
    (member,) = driver.threads(1)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    if leaves:
        assert member.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(45_000)
    assert list(driver.group().members) == [member.member_id]
    driver.topic.refuse_with = None
    driver.advance(500)
    assert not driver.group().members


def test_a_member_that_keeps_its_tasks_is_removed_as_soon_as_that_can_be_written(driver: StreamsGroupDriver) -> None:
    first = StreamsThread(driver, "first", rebalance_ms=10_000)
    first.join_group()
    driver.advance(INTERVAL_MS)
    StreamsThread(driver, "second").join_group()
    first.beat()
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(10_000)
    driver.topic.refuse_with = None
    driver.advance(500)
    assert list(driver.group().members) == ["second"]


# -- what members learn


def test_a_member_that_missed_its_tasks_receives_them_again(driver: StreamsGroupDriver) -> None:
    """Kafka 4.3 does not repeat them: the member would never run its tasks."""
    first, second = driver.threads(2)
    first.leave()
    driver.advance(INTERVAL_MS)
    driver.heartbeat_of_streams(second.request(second.epoch))  # Its answer is lost.
    second.beat()
    assert second.active == ALL


def test_a_member_that_missed_what_it_must_give_up_learns_it_again(driver: StreamsGroupDriver) -> None:
    """Kafka 4.3 does not repeat it: the member would be removed when its rebalance timeout ends."""
    (first,) = driver.threads(1)
    driver.advance(INTERVAL_MS)
    StreamsThread(driver, "second").join_group()
    driver.heartbeat_of_streams(first.request(first.epoch))  # Its answer is lost.
    first.beat()
    assert first.active != ALL


def test_a_member_that_has_all_of_its_tasks_does_not_receive_them_again(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    assert member.beat().active_tasks is None


def test_a_shutdown_reaches_every_member_until_the_group_is_empty(driver: StreamsGroupDriver) -> None:
    first, second = driver.threads(2)
    first.leave(shutdown_application=True)
    second.beat()
    assert second.statuses == {
        HeartbeatStatus.SHUTDOWN_APPLICATION: (
            "Streams group member thread-0 encountered a fatal error and requested a shutdown for the entire "
            "application."
        )
    }
    second.leave()
    (third,) = driver.threads(1)
    assert third.statuses == {}


def test_members_learn_the_endpoints_of_tasks(driver: StreamsGroupDriver) -> None:
    first = StreamsThread(driver, "first", endpoint=("one", 1))
    second = StreamsThread(driver, "second", endpoint=("two", 2))
    for member in (first, second):
        member.join_group()
        driver.settle(first)
    driver.settle(first, second)
    first.endpoint_epoch = -1
    known = first.beat().partitions_by_user_endpoint
    assert known is not None
    assert {(entry.user_endpoint.host, entry.user_endpoint.port) for entry in known} == {("one", 1), ("two", 2)}
    assert first.beat().partitions_by_user_endpoint is None


def test_a_member_with_an_endpoint_is_answered_while_topics_are_missing(driver: StreamsGroupDriver) -> None:
    driver.metadata.delete_topic(WORDS)
    member = StreamsThread(driver, "m", endpoint=("one", 1))
    response = member.join_group()
    assert (response.error_code, [entry.active_partitions for entry in response.partitions_by_user_endpoint or ()]) == (
        ErrorCode.NONE,
        [[]],
    )


# -- descriptions and lists


def test_a_description_shows_topology_members_and_tasks(driver: StreamsGroupDriver) -> None:
    member = StreamsThread(driver, "m", endpoint=("one", 1))
    member.join_group()
    driver.settle(member)
    described = driver.describe_streams()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.topology is not None
    assert [
        (topic.name, topic.partitions) for topic in (described.topology.subtopologies or [])[1].state_changelog_topics
    ] == [("counts", 3)]
    (shown,) = described.members
    assert (shown.member_id, shown.process_id, shown.client_host) == ("m", "process of m", "/127.0.0.1")
    assert shown.user_endpoint is not None
    assert shown.user_endpoint.host == "one"
    assert [(ids.subtopology_id, ids.partitions) for ids in shown.assignment.active_tasks] == [
        ("0", [0, 1, 2]),
        ("1", [0, 1, 2]),
    ]
    assert shown.target_assignment.active_tasks == shown.assignment.active_tasks


def test_a_topology_that_is_not_ready_is_described_without_partition_counts(driver: StreamsGroupDriver) -> None:
    driver.metadata.delete_topic("counts")
    driver.threads(1)
    topology = driver.describe_streams().topology
    assert topology is not None
    assert [topic.partitions for topic in (topology.subtopologies or [])[1].state_changelog_topics] == [0]


def test_a_missing_group_is_described_with_an_error(driver: StreamsGroupDriver) -> None:
    described = driver.describe_streams("nothing")
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nothing not found.",
    )


def test_groups_are_listed_with_their_type(driver: StreamsGroupDriver) -> None:
    driver.threads(1)
    (listed,) = driver.shard.list_groups(frozenset(), frozenset({"streams"}))
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "streams",
        "Stable",
        "streams",
    )


# -- other kinds of groups


def test_members_of_the_classic_protocol_are_refused(driver: StreamsGroupDriver) -> None:
    driver.threads(1)
    assert driver.join().value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_streams_group_becomes_a_classic_one(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    member.leave()
    assert driver.join().value.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert isinstance(driver.shard.groups.find(GROUP), ClassicGroup)
    assert driver.record_names()[-3:] == ["-TargetAssignmentMetadata", "-Metadata", "-Topology"]
    assert isinstance(driver.restarted().shard.groups.find(GROUP), ClassicGroup)


def test_an_empty_classic_group_becomes_a_streams_group(driver: StreamsGroupDriver) -> None:
    driver.commit()
    assert isinstance(driver.shard.groups.find(GROUP), ClassicGroup)
    (member,) = driver.threads(1)
    assert member.active == ALL
    assert driver.committed() == 5


def test_a_classic_group_with_members_stays_one(driver: StreamsGroupDriver) -> None:
    driver.join(driver.join().value.member_id)
    refused = StreamsThread(driver, "m").join_group()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a streams group.",
    )


# -- offsets


def commit(driver: StreamsGroupDriver, member: StreamsThread, *, epoch: int, partition: int = 0) -> int:
    return driver.commit_code(member_id=member.member_id, generation=epoch, topic=WORDS, partition=partition)


def test_offsets_are_committed_with_the_epoch_of_a_member(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    assert commit(driver, member, epoch=member.epoch) == ErrorCode.NONE
    assert commit(driver, member, epoch=member.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, StreamsThread(driver, "stranger"), epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_older_epoch_may_commit_what_the_member_has_had_since_then(driver: StreamsGroupDriver) -> None:
    first, second = driver.threads(2)
    kept = min(first.active["0"])
    assert first.epoch > 2
    assert commit(driver, first, epoch=2, partition=kept) == ErrorCode.NONE
    other = min(second.active["0"])
    assert commit(driver, first, epoch=2, partition=other) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, second, epoch=2, partition=other) == ErrorCode.STALE_MEMBER_EPOCH


def transactional_commit(driver: StreamsGroupDriver, member: StreamsThread, epoch: int, topic: str = WORDS) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=7,
        member_id=member.member_id,
        generation_id=epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic, partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
            )
        ],
    )
    answer = driver.coordinator.commit_transactional_offsets(request, driver.now_ms).value
    return answer.topics[0].partitions[0].error_code


def test_transactional_commits_name_a_wrong_epoch_as_their_clients_know_it(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    assert transactional_commit(driver, member, member.epoch) == ErrorCode.NONE
    assert transactional_commit(driver, member, member.epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert transactional_commit(driver, member, 1) == ErrorCode.ILLEGAL_GENERATION
    assert transactional_commit(driver, member, 1, "nothing") == ErrorCode.ILLEGAL_GENERATION


def test_offsets_of_read_topics_cannot_be_deleted(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    commit(driver, member, epoch=member.epoch)

    def delete() -> int:
        return driver.delete_offset(topic=WORDS).topics[0].partitions[0].error_code

    assert delete() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    member.leave()
    assert delete() == ErrorCode.NONE


def test_only_an_empty_group_is_deleted(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    assert [result.error_code for result in driver.delete_groups(GROUP)] == [ErrorCode.NON_EMPTY_GROUP]
    member.leave()
    assert [result.error_code for result in driver.delete_groups(GROUP)] == [ErrorCode.NONE]
    assert driver.shard.groups.find(GROUP) is None
    assert driver.restarted().shard.groups.find(GROUP) is None


def test_an_empty_group_is_removed_with_its_last_offset(driver: StreamsGroupDriver) -> None:
    (member,) = driver.threads(1)
    commit(driver, member, epoch=member.epoch)
    member.leave()
    driver.advance(8 * 24 * 3_600_000)
    assert driver.shard.groups.find(GROUP) is None


# -- failover


def test_a_coordinator_that_has_read_the_log_continues(driver: StreamsGroupDriver) -> None:
    members = driver.threads(3)
    before = driver.group()
    successor = driver.restarted()
    group = successor.group()
    assert group.members == before.members
    assert group.target == before.target
    assert (group.epoch, group.assignment_epoch, group.metadata_hash, group.topology) == (
        before.epoch,
        before.assignment_epoch,
        before.metadata_hash,
        before.topology,
    )
    written = len(successor.records())
    for member in members:
        member.driver = successor
        assert member.beat().error_code == ErrorCode.NONE
    assert len(successor.records()) == written, "nothing has changed"
