"""Groups are found whatever their kind is, and the offsets of share groups are read, altered and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.clients.admin import GroupIdNotFound, ShareGroupOffset, TaskId, TopicPartition
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import consumer_group_describe as consumer
from barnabas.protocol.messages import describe_share_group_offsets as share_offsets
from barnabas.protocol.messages import share_group_describe as share
from barnabas.protocol.messages import streams_group_describe as streams
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tests.unit.clients.admin.scripted import ScriptedCluster, admin_of

NO_SUCH = ErrorCode.GROUP_ID_NOT_FOUND


def partitions(module: Any, *numbers: int) -> Any:
    topic = module.TopicPartitions(topic_id=Uuid.from_int(9), topic_name="t", partitions=list(numbers))
    return module.Assignment(topic_partitions=[topic] if numbers else [])


def with_a_group_of_each_kind() -> ScriptedCluster:
    """Each API knows the groups of its kind only."""
    cluster = ScriptedCluster()
    found = FindCoordinatorResponse(coordinators=[])

    def coordinators(request: Any) -> FindCoordinatorResponse:
        found.coordinators = [
            Coordinator(key=key, node_id=1, host="node-1", port=9092) for key in request.coordinator_keys
        ]
        return found

    cluster.everywhere(ApiKey.FIND_COORDINATOR, coordinators)
    of_consumer = consumer.Member(
        member_id="m", member_epoch=3, subscribed_topic_names=["t"], subscribed_topic_regex="t.*", member_type=0,
        assignment=partitions(consumer, 0, 1), target_assignment=partitions(consumer, 0),
    )  # fmt: skip
    of_share = share.Member(
        member_id="m", member_epoch=4, subscribed_topic_names=["t"], assignment=partitions(share, 2)
    )
    of_streams = streams.Member(
        member_id="m", member_epoch=5, process_id="p", topology_epoch=1, is_classic=False,
        assignment=streams.Assignment(active_tasks=[streams.TaskIds(subtopology_id="0", partitions=[1, 0])]),
        target_assignment=streams.Assignment(standby_tasks=[streams.TaskIds(subtopology_id="0", partitions=[1])]),
    )  # fmt: skip
    part = streams.Subtopology(
        subtopology_id="0", source_topics=["t"], state_changelog_topics=[streams.TopicInfo(name="c")]
    )
    topology = streams.Topology(epoch=1, subtopologies=[part])
    node = cluster[1]
    node.script[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda request: consumer.ConsumerGroupDescribeResponse(
        groups=[
            consumer.DescribedGroup(
                group_id=name, error_code=0 if name == "consumer" else NO_SUCH, members=[of_consumer],
                group_state="Stable", group_epoch=3, assignment_epoch=3, assignor_name="uniform",
            )
            for name in request.group_ids
        ]
    )  # fmt: skip
    node.script[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(
        groups=[
            DescribedGroup(group_id=name, error_code=0 if name == "classic" else NO_SUCH, group_state="Empty")
            for name in request.groups
        ]
    )
    node.script[ApiKey.SHARE_GROUP_DESCRIBE] = lambda request: share.ShareGroupDescribeResponse(
        groups=[
            share.DescribedGroup(
                group_id=name, error_code=0 if name == "share" else NO_SUCH, members=[of_share],
                group_state="Stable", group_epoch=4, assignment_epoch=4, assignor_name="simple",
            )
            for name in request.group_ids
        ]
    )  # fmt: skip
    node.script[ApiKey.STREAMS_GROUP_DESCRIBE] = lambda request: streams.StreamsGroupDescribeResponse(
        groups=[
            streams.DescribedGroup(
                group_id=name, error_code=0 if name == "streams" else NO_SUCH, members=[of_streams],
                group_state="Stable", group_epoch=5, assignment_epoch=5, topology=topology,
            )
            for name in request.group_ids
        ]
    )  # fmt: skip
    return cluster


def test_groups_of_all_kinds_are_described_together() -> None:
    async def test() -> None:
        cluster = with_a_group_of_each_kind()
        found = await admin_of(cluster).describe_groups(["streams", "share", "classic", "consumer", "none"])
        assert {name: group.type for name, group in found.values.items()} == {
            kind: kind for kind in ("consumer", "classic", "share", "streams")
        }
        assert list(found.errors) == ["none"]
        assert isinstance(found.errors["none"], GroupIdNotFound)
        (member,) = found["consumer"].members
        assert (member.protocol, member.subscribed_topics, member.subscribed_pattern) == ("classic", ("t",), "t.*")
        assert member.assignment == (TopicPartition("t", 0), TopicPartition("t", 1))
        assert not member.is_reconciled(found["consumer"].assignment_epoch)
        (member,) = found["share"].members
        assert member.assignment == (TopicPartition("t", 2),)
        assert member.is_reconciled(found["share"].assignment_epoch)
        (member,) = found["streams"].members
        assert member.tasks is not None
        assert member.tasks.active == (TaskId("0", 0), TaskId("0", 1))
        assert not member.is_reconciled(found["streams"].assignment_epoch)
        topology = found["streams"].topology
        assert topology is not None
        assert topology.subtopologies[0].changelog_topics == ("c",)

    asyncio.run(test())


@pytest.mark.parametrize("missing", [ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.CONSUMER_GROUP_DESCRIBE])
def test_a_kind_that_the_cluster_does_not_have_is_passed_over(missing: ApiKey) -> None:
    async def test() -> None:
        cluster = with_a_group_of_each_kind()
        del cluster[1].versions[missing]
        found = await admin_of(cluster).describe_groups(["streams", "classic"])
        assert found.ok

    asyncio.run(test())


def test_an_error_of_one_kind_ends_the_search() -> None:
    async def test() -> None:
        cluster = with_a_group_of_each_kind()
        refused = consumer.DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        cluster[1].script[ApiKey.CONSUMER_GROUP_DESCRIBE] = consumer.ConsumerGroupDescribeResponse(groups=[refused])
        found = await admin_of(cluster).describe_groups(["g"])
        assert found.errors["g"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert cluster[1].requests(ApiKey.DESCRIBE_GROUPS) == []

    asyncio.run(test())


def test_the_offsets_of_share_groups_are_listed() -> None:
    async def test() -> None:
        cluster = with_a_group_of_each_kind()
        answered = share_offsets.DescribeShareGroupOffsetsResponseTopic(
            topic_name="t",
            partitions=[
                share_offsets.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=0, start_offset=5, leader_epoch=2, lag=7
                ),
                share_offsets.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=1, start_offset=-1, leader_epoch=0, lag=-1
                ),
                share_offsets.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=2, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="no"
                ),
            ],
        )
        group = share_offsets.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[answered])
        cluster[1].script[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS] = share_offsets.DescribeShareGroupOffsetsResponse(
            groups=[group]
        )
        found = (await admin_of(cluster).list_share_group_offsets(["g"]))["g"]
        assert found.values == {
            TopicPartition("t", 0): ShareGroupOffset(5, 2, 7),
            TopicPartition("t", 1): ShareGroupOffset(None, 0, None),
        }
        assert found.errors[TopicPartition("t", 2)].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await admin_of(cluster).list_share_group_offsets({"g": [TopicPartition("t", 1)]})
        everything, some = cluster[1].requests(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
        assert everything.groups[0].topics is None
        assert some.groups[0].topics[0].partitions == [1]

    asyncio.run(test())


def test_the_offsets_of_share_groups_are_altered_and_deleted() -> None:
    async def test() -> None:
        cluster = with_a_group_of_each_kind()
        altered = [
            AlterShareGroupOffsetsResponsePartition(partition_index=0),
            AlterShareGroupOffsetsResponsePartition(partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        cluster[1].script[ApiKey.ALTER_SHARE_GROUP_OFFSETS] = AlterShareGroupOffsetsResponse(
            responses=[AlterShareGroupOffsetsResponseTopic(topic_name="t", partitions=altered)]
        )
        admin = admin_of(cluster)
        results = await admin.alter_share_group_offsets("g", {TopicPartition("t", 0): 3, TopicPartition("t", 1): 4})
        assert list(results.values) == [TopicPartition("t", 0)]
        assert list(results.errors) == [TopicPartition("t", 1)]
        (request,) = cluster[1].requests(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
        assert [part.start_offset for part in request.topics[0].partitions] == [3, 4]
        cluster[1].script[ApiKey.ALTER_SHARE_GROUP_OFFSETS] = AlterShareGroupOffsetsResponse(
            error_code=ErrorCode.NON_EMPTY_GROUP
        )
        refused = await admin.alter_share_group_offsets("g", {TopicPartition("t", 0): 3})
        assert refused.errors[TopicPartition("t", 0)].code is ErrorCode.NON_EMPTY_GROUP
        deleted = [
            DeleteShareGroupOffsetsResponseTopic(topic_name="t"),
            DeleteShareGroupOffsetsResponseTopic(topic_name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        cluster[1].script[ApiKey.DELETE_SHARE_GROUP_OFFSETS] = DeleteShareGroupOffsetsResponse(responses=deleted)
        forgotten = await admin.delete_share_group_offsets("g", ["t", "u"])
        assert (list(forgotten.values), list(forgotten.errors)) == (["t"], ["u"])
        with pytest.raises(ValueError, match="-1 is not an offset"):
            await admin.alter_share_group_offsets("g", {TopicPartition("t", 0): -1})

    asyncio.run(test())
