"""What is refused in a StreamsGroupHeartbeat."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from barnabas.coordinator.group.streams.heartbeat_checks import (
    named_topics,
    validate_heartbeat,
    validate_member_epoch,
    validate_owned_tasks,
    validate_topics,
)
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import TasksTupleWithEpochs, owned_tasks
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def join(**changes: Any) -> StreamsGroupHeartbeatRequest:
    fields = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1, "topology": Topology(), **NOTHING}
    return StreamsGroupHeartbeatRequest(**{**fields, **changes})


def heartbeat(**changes: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 5, **changes})


def task(partition: int, subtopology_id: str = "0") -> TaskIds:
    return TaskIds(subtopology_id=subtopology_id, partitions=[partition])


@pytest.mark.parametrize("request_", [join(), heartbeat(), heartbeat(**NOTHING), heartbeat(member_epoch=-1)])
def test_a_right_request_is_accepted(request_: StreamsGroupHeartbeatRequest) -> None:
    validate_heartbeat(request_)


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (heartbeat(instance_id="i"), "Static membership"),
        (heartbeat(task_offsets=[]), "TaskOffsets"),
        (heartbeat(task_end_offsets=[]), "TaskEndOffsets"),
        (join(warmup_tasks=[task(0)]), "WarmupTasks"),
        (join(topology=Topology(subtopologies=[Subtopology(source_topic_regex=["a.*"])])), "Regular expressions"),
        (heartbeat(member_id=""), "MemberId"),
        (heartbeat(group_id=" \t"), "GroupId"),
        (heartbeat(rack_id="\x00"), "RackId"),
        (heartbeat(member_epoch=-2), "InstanceId"),
        (heartbeat(member_epoch=-3), "MemberEpoch"),
        (join(rebalance_timeout_ms=-1), "RebalanceTimeoutMs"),
        (join(active_tasks=[task(0)]), "ActiveTasks"),
        (join(standby_tasks=None), "StandbyTasks"),
        (join(topology=None), "Topology"),
        (heartbeat(active_tasks=[]), "task-type"),
        (heartbeat(topology=Topology()), "Topology"),
    ],
)
def test_a_wrong_request_is_refused_and_the_part_named(request_: StreamsGroupHeartbeatRequest, part: str) -> None:
    with pytest.raises(ApiException) as refused:
        validate_heartbeat(request_)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert part in refused.value.message


def test_a_changelog_has_no_partition_count() -> None:
    changelog = Subtopology(state_changelog_topics=[TopicInfo(name="c", partitions=1)])
    with pytest.raises(ApiException) as refused:
        validate_heartbeat(join(topology=Topology(subtopologies=[changelog])))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_each_topic_of_a_topology_is_named_once() -> None:
    parts = [
        Subtopology(source_topics=["a", "b"], repartition_sink_topics=["r"]),
        Subtopology(repartition_source_topics=[TopicInfo(name="r")], state_changelog_topics=[TopicInfo(name="c")]),
    ]
    assert named_topics(Topology(subtopologies=parts)) == ["a", "b", "r", "c"]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__share_group_state", "a b", ""])
def test_internal_and_impossible_topics_are_refused(name: str) -> None:
    validate_topics(["in", "app-changelog"])
    with pytest.raises(ApiException) as refused:
        validate_topics(["in", name])
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize("ids", [task(0, "1"), task(-1), task(3)])
def test_tasks_that_the_topology_does_not_have_are_refused(ids: TaskIds) -> None:
    subtopologies = {"0": ConfiguredSubtopology(3, frozenset(), {}, frozenset(), {})}
    validate_owned_tasks(subtopologies, None)
    validate_owned_tasks(subtopologies, [task(0), task(2)])
    with pytest.raises(ApiException) as refused:
        validate_owned_tasks(subtopologies, [task(0), ids])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_owned_tasks_are_unknown_unless_all_three_lists_are_sent() -> None:
    assert owned_tasks(heartbeat()) is None
    owned = owned_tasks(heartbeat(**{**NOTHING, "active_tasks": [task(1)]}))
    assert owned == ({"0": {1}}, {}, {})


def test_a_repeated_subtopology_is_refused_as_in_kafka() -> None:
    with pytest.raises(ApiException) as refused:
        owned_tasks(heartbeat(**{**NOTHING, "active_tasks": [task(1), task(2)]}))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


# -- epochs


MEMBER = StreamsGroupMember(
    "m",
    member_epoch=7,
    previous_member_epoch=5,
    assigned_tasks=TasksTupleWithEpochs({"0": {1: 3}}, {"0": {2}}, {}),
)
OWNED: dict[str, Any] = {"active_tasks": [task(1)], "standby_tasks": [task(2)], "warmup_tasks": []}


@pytest.mark.parametrize(
    "request_",
    [heartbeat(member_epoch=0), heartbeat(member_epoch=7), heartbeat(**OWNED), heartbeat(**NOTHING)],
    ids=["rejoin", "current", "lost answer", "lost answer, nothing started"],
)
def test_an_epoch_is_accepted(request_: StreamsGroupHeartbeatRequest) -> None:
    validate_member_epoch(MEMBER, request_)


@pytest.mark.parametrize(
    "request_",
    [
        heartbeat(member_epoch=8),
        heartbeat(member_epoch=6, **OWNED),
        heartbeat(member_epoch=4, **OWNED),
        heartbeat(),
        heartbeat(**{**OWNED, "active_tasks": [task(2)]}),
        heartbeat(**{**OWNED, "standby_tasks": [task(2, "1")]}),
        heartbeat(**{**OWNED, "warmup_tasks": [task(2)]}),
    ],
)
def test_a_member_with_another_epoch_is_fenced(request_: StreamsGroupHeartbeatRequest) -> None:
    with pytest.raises(ApiException) as fenced:
        validate_member_epoch(MEMBER, request_)
    assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
