"""Where interactive queries find partitions."""

from __future__ import annotations

from collections.abc import Set

from barnabas.coordinator.group.streams.endpoint_to_partitions import EndpointInformation
from barnabas.coordinator.group.streams.streams_group_member import Endpoint, StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import TasksTupleWithEpochs
from barnabas.protocol.messages.streams_group_heartbeat import EndpointToPartitions, TopicPartition
from tests.unit.coordinator.streams.topologies import configured, internal, subtopology

COUNTS = {"small": 2, "large": 6, "r": 6, "store": 6}
SUBTOPOLOGIES = (
    configured(
        COUNTS,
        subtopology("0", "small", "large", changelogs=(internal("store"),), writes=("r",)),
        subtopology("1", reads=(internal("r"),)),
    ).subtopologies
    or {}
)


def member(
    name: str, active: Set[int], standby: Set[int] = frozenset(), *, has_endpoint: bool = True
) -> StreamsGroupMember:
    tasks = TasksTupleWithEpochs({"0": dict.fromkeys(active, 4)}, {"1": standby} if standby else {}, {})
    return StreamsGroupMember(name, user_endpoint=Endpoint(name, 80) if has_endpoint else None, assigned_tasks=tasks)


def answers(information: EndpointInformation, *members: StreamsGroupMember) -> list[EndpointToPartitions]:
    return information.of_members(members, SUBTOPOLOGIES, COUNTS.get)


def partitions(topics: list[TopicPartition]) -> dict[str, list[int]]:
    return {topic.topic: topic.partitions for topic in topics}


def test_an_endpoint_has_the_partitions_that_its_tasks_read() -> None:
    (answer,) = answers(EndpointInformation(), member("a", {0}, {3, 1}))
    assert (answer.user_endpoint.host, answer.user_endpoint.port) == ("a", 80)
    assert partitions(answer.active_partitions) == {"large": [0], "small": [0]}
    assert partitions(answer.standby_partitions) == {"r": [1, 3]}


def test_a_topic_with_fewer_partitions_than_tasks_has_the_first() -> None:
    (answer,) = answers(EndpointInformation(), member("a", {5, 0, 1}))
    assert partitions(answer.active_partitions) == {"large": [0, 1, 5], "small": [0, 1]}


def test_members_without_endpoint_are_omitted() -> None:
    assert not answers(EndpointInformation(), member("a", {0}, has_endpoint=False))


def test_what_was_deleted_is_omitted() -> None:
    information = EndpointInformation()
    (without_topic,) = information.of_members([member("a", {0})], SUBTOPOLOGIES, {"large": 6}.get)
    assert partitions(without_topic.active_partitions) == {"large": [0]}
    (without_topology,) = EndpointInformation().of_members([member("a", {0})], {}, COUNTS.get)
    assert not without_topology.active_partitions


def test_partitions_are_computed_again_only_after_a_change() -> None:
    information = EndpointInformation()
    (first,) = answers(information, member("a", {0}))
    assert answers(information, member("a", {0})) == [first]
    assert answers(information, member("a", {0}))[0] is first
    information.forget("a")
    (second,) = answers(information, member("a", {1}))
    assert partitions(second.active_partitions) == {"large": [1], "small": [1]}
    information.forget_all()
    assert answers(information, member("a", {1}))[0] is not second


def test_the_epoch_grows_with_the_tasks_of_members_that_have_an_endpoint() -> None:
    information = EndpointInformation()
    information.tasks_changed(member("a", {0}, has_endpoint=False))
    assert information.epoch == 0
    answers(information, member("a", {0}))
    information.tasks_changed(member("a", {1}))
    assert information.epoch == 1
    assert partitions(answers(information, member("a", {1}))[0].active_partitions)["large"] == [1]
