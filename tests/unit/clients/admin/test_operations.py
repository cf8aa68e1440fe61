"""Which node an operation contacts, when it retries, and what the caller receives in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.clients.admin import (
    AdminError,
    NewTopic,
    NotVisible,
    OperationTimedOut,
    TopicAlreadyExists,
    UnsupportedVersion,
)
from barnabas.clients.errors import AuthenticationFailed, Disconnected, LoginRequired
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.clients.admin.scripted import ScriptedCluster, admin_of


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def created(**errors: ErrorCode) -> Callable[[Any], CreateTopicsResponse]:
    return lambda request: CreateTopicsResponse(
        throttle_time_ms=1,
        topics=[
            CreatableTopicResult(name=topic.name, error_code=errors.get(topic.name, 0), num_partitions=1)
            for topic in request.topics
        ],
    )


def test_each_item_has_its_own_outcome() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = created(old=ErrorCode.TOPIC_ALREADY_EXISTS)
        results = await admin_of(cluster).create_topics([NewTopic("new"), NewTopic("old")])
        assert results["new"].partitions == 1
        assert list(results.errors) == ["old"]
        with pytest.raises(TopicAlreadyExists, match="old: TOPIC_ALREADY_EXISTS") as raised:
            results["old"]
        assert (raised.value.code, raised.value.item, raised.value.retriable) == (
            ErrorCode.TOPIC_ALREADY_EXISTS, "old", False,
        )  # fmt: skip
        with pytest.raises(TopicAlreadyExists):
            results.raise_for_errors()
        assert len(results) == 2
        assert set(results) == {"new", "old"}

    run(test)


def test_many_errors_are_raised_together() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = created(a=ErrorCode.INVALID_CONFIG, b=ErrorCode.POLICY_VIOLATION)
        results = await admin_of(cluster).create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
        with pytest.raises(ExceptionGroup, match="2 of 3 items failed"):
            results.raise_for_errors()

    run(test)


def test_only_items_with_a_retriable_error_are_requested_again() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = [created(b=ErrorCode.THROTTLING_QUOTA_EXCEEDED), created()]
        results = await admin_of(cluster).create_topics([NewTopic("a"), NewTopic("b")])
        assert results.ok
        assert [[topic.name for topic in request.topics] for request in cluster[1].requests(ApiKey.CREATE_TOPICS)] == [
            ["a", "b"],
            ["b"],
        ]

    run(test)


def test_an_item_that_stays_throttled_fails_alone_at_the_deadline() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = created(b=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        admin = admin_of(cluster, {"retry.backoff.ms": "10000", "retry.backoff.max.ms": "10000"})
        results = await admin.create_topics([NewTopic("a"), NewTopic("b")], timeout_s=1)
        assert list(results.values) == ["a"]
        assert results.errors["b"].code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    run(test)


def test_an_item_that_the_response_omits_is_an_error() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = CreateTopicsResponse()
        results = await admin_of(cluster).create_topics([NewTopic("a")])
        assert results.errors["a"].code == ErrorCode.UNKNOWN_SERVER_ERROR

    run(test)


def test_a_node_that_is_not_the_controller_redirects_to_it() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(3)
        cluster.controller_id = 3
        cluster[1].script[ApiKey.CREATE_TOPICS] = created(a=ErrorCode.NOT_CONTROLLER)
        cluster[3].script[ApiKey.CREATE_TOPICS] = created()
        assert (await admin_of(cluster).create_topics([NewTopic("a")])).ok
        assert len(cluster[3].requests(ApiKey.CREATE_TOPICS)) == 1

    run(test)


def test_a_standby_controller_redirects_to_the_leader_of_the_quorum() -> None:
    def described(**fields: Any) -> DescribeQuorumResponse:
        partition = DescribeQuorumResponsePartitionData(**fields)
        topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
        return DescribeQuorumResponse(topics=[topic])

    async def test() -> None:
        cluster = ScriptedCluster(3)
        cluster.controller_id = 3
        cluster[1].script[ApiKey.DESCRIBE_QUORUM] = described(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        cluster[3].script[ApiKey.DESCRIBE_QUORUM] = described(leader_id=3)
        admin = admin_of(cluster, {"bootstrap.servers": "", "bootstrap.controllers": "bootstrap:9093"})
        assert (await admin.describe_quorum(timeout_s=5)).leader_id == 3

    run(test)


def test_another_node_is_contacted_when_one_closes_the_connection() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        cluster[1].script[ApiKey.CREATE_TOPICS] = Disconnected("gone")
        cluster[2].script[ApiKey.CREATE_TOPICS] = created()

        def fall(request: Any) -> Exception:
            cluster[1].is_up = False
            return Disconnected("gone")

        cluster[1].script[ApiKey.CREATE_TOPICS] = fall
        assert (await admin_of(cluster).create_topics([NewTopic("a")])).ok
        assert cluster[2].connections == 1

    run(test)


def test_bootstrap_servers_are_contacted_again_when_all_known_nodes_are_unreachable() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(1)
        admin = admin_of(cluster)
        assert [node.id for node in (await admin.describe_cluster()).nodes] == [1]
        old = cluster.nodes.pop(1)
        moved = ScriptedCluster(4)[4]
        moved.cluster = cluster
        old.is_up = False
        # The old node's address is still known, but unreachable.
        cluster.nodes = {1: old, 4: moved}
        assert [node.id for node in (await admin.describe_cluster()).nodes] == [4]

    run(test)


def test_a_request_that_must_not_be_repeated_is_sent_once() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_DELEGATION_TOKEN] = [Disconnected("gone"), CreateDelegationTokenResponse()]
        with pytest.raises(Disconnected):
            await admin_of(cluster).create_delegation_token()
        assert len(cluster[1].requests(ApiKey.CREATE_DELEGATION_TOKEN)) == 1

    run(test)


@pytest.mark.parametrize(("closed", "attempts"), [(3, 3), (2, 3)])
def test_a_listener_that_requires_a_login_is_reported_soon(closed: int, attempts: int) -> None:
    """One connection may end because the node stops, but not three in succession."""

    async def test() -> None:
        cluster = ScriptedCluster()
        script = [LoginRequired("closed -> set security.protocol=SASL_SSL")] * closed
        cluster[1].script[ApiKey.CREATE_TOPICS] = [*script, created()]
        request = admin_of(cluster, {"retry.backoff.ms": "1"}).create_topics([NewTopic("a")])
        if closed == 3:
            with pytest.raises(LoginRequired, match="set security.protocol"):
                await request
        else:
            assert (await request).ok
        assert len(cluster[1].requests(ApiKey.CREATE_TOPICS)) == attempts

    run(test)


def test_a_refused_login_ends_the_operation() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = AuthenticationFailed("wrong password")
        with pytest.raises(AuthenticationFailed, match="wrong password"):
            await admin_of(cluster).create_topics([NewTopic("a")])

    run(test)


def test_an_unreachable_cluster_is_reported_with_the_reason_at_the_deadline() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].is_up = False
        admin = admin_of(cluster, {"retry.backoff.ms": "10000", "retry.backoff.max.ms": "10000"})
        with pytest.raises(OperationTimedOut, match=r"CreateTopics was not done in 2 s: no bootstrap server"):
            await admin.create_topics([NewTopic("a")], timeout_s=2)

    run(test)


def test_an_api_that_the_node_does_not_support_is_named() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        del cluster[1].versions[ApiKey.CREATE_TOPICS]
        with pytest.raises(UnsupportedVersion, match="does not offer CreateTopics"):
            await admin_of(cluster).create_topics([NewTopic("a")])

    run(test)


def test_a_version_that_cannot_express_the_request_is_named_with_the_range() -> None:
    async def test() -> None:
        from barnabas.clients.node_connection import SupportedVersions

        cluster = ScriptedCluster()
        cluster[1].versions[ApiKey.LIST_GROUPS] = SupportedVersions(0, 3)
        with pytest.raises(
            UnsupportedVersion, match=r"ListGroups in versions 0 to 3, which can't express this: .*states_filter"
        ):
            await admin_of(cluster).list_groups(states=["Empty"])

    run(test)


def test_group_requests_follow_their_coordinator_when_it_moves() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(3)
        answers = iter([2, 3])

        def find(request: Any) -> FindCoordinatorResponse:
            node = next(answers)
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, node_id=node, host=f"node-{node}", port=9092)
                    for key in request.coordinator_keys
                ]
            )

        def deleted(code: int) -> Callable[[Any], DeleteGroupsResponse]:
            return lambda request: DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names]
            )

        cluster.everywhere(ApiKey.FIND_COORDINATOR, find)
        cluster[2].script[ApiKey.DELETE_GROUPS] = deleted(ErrorCode.NOT_COORDINATOR)
        cluster[3].script[ApiKey.DELETE_GROUPS] = deleted(0)
        admin = admin_of(cluster)
        assert (await admin.delete_groups(["g", "h"])).ok
        assert (await admin.delete_groups(["g"])).ok  # The look-up is cached: a third answer to it does not exist.

    run(test)


def test_partition_requests_are_sent_to_leaders_and_a_dead_leader_fails_only_its_own() -> None:
    async def test() -> None:
        from barnabas.clients.admin import OffsetSpec, TopicPartition

        cluster = ScriptedCluster(2)

        def metadata(request: Any) -> MetadataResponse:
            made = cluster.default(cluster[1], request)
            if request.topics:
                partitions = [MetadataResponsePartition(partition_index=n, leader_id=n + 1) for n in (0, 1)]
                made.topics = [MetadataResponseTopic(name="t", partitions=partitions)]
            return made

        def offsets(request: Any) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            ListOffsetsPartitionResponse(partition_index=partition.partition_index, offset=7)
                            for partition in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )

        cluster.everywhere(ApiKey.METADATA, metadata)
        cluster.everywhere(ApiKey.LIST_OFFSETS, offsets)
        admin = admin_of(cluster, {"retry.backoff.ms": "10000", "retry.backoff.max.ms": "10000"})
        wanted = {TopicPartition("t", n): OffsetSpec.latest() for n in (0, 1)}
        both = await admin.list_offsets(wanted)
        assert [found.offset for found in both.values.values()] == [7, 7]
        cluster[2].script[ApiKey.LIST_OFFSETS] = Disconnected("gone")
        partial = await admin.list_offsets(wanted, timeout_s=1)
        assert list(partial.values) == [TopicPartition("t", 0)]
        assert partial.errors[TopicPartition("t", 1)].code == ErrorCode.REQUEST_TIMED_OUT

    run(test)


def test_waiting_names_the_brokers_that_lag() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(3)
        cluster.everywhere(ApiKey.CREATE_TOPICS, created())

        def knows(request: Any) -> MetadataResponse:
            made = cluster.default(cluster[1], request)
            partitions = [MetadataResponsePartition(partition_index=0, leader_id=1)]
            made.topics = [
                MetadataResponseTopic(name=topic.name, partitions=partitions) for topic in request.topics or ()
            ]
            return made

        def lags(request: Any) -> MetadataResponse:
            made = knows(request)
            for topic in made.topics:
                topic.partitions[0].leader_id = -1
            return made

        cluster.everywhere(ApiKey.METADATA, knows)
        admin = admin_of(cluster)
        assert (await admin.create_topics([NewTopic("a")], wait=True)).ok
        cluster[3].script[ApiKey.METADATA] = lags
        with pytest.raises(NotVisible, match="brokers 3 did not show it") as raised:
            await admin.create_topics([NewTopic("a")], wait=True, timeout_s=0.05)
        assert raised.value.brokers == (3,)
        cluster[3].script[ApiKey.METADATA] = [lags, lags, knows]
        assert (await admin.create_topics([NewTopic("a")], wait=True)).ok

    run(test)


def test_an_unknown_error_code_keeps_its_number() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = CreateTopicsResponse(
            topics=[CreatableTopicResult(name="a", error_code=999, error_message="from the future")]
        )
        error = (await admin_of(cluster).create_topics([NewTopic("a")])).errors["a"]
        assert isinstance(error, AdminError)
        assert str(error) == "a: UNKNOWN_SERVER_ERROR: error code 999: from the future"

    run(test)


def test_large_requests_are_split() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        cluster[1].script[ApiKey.CREATE_TOPICS] = created()
        results = await admin_of(cluster).create_topics([NewTopic(f"t{n}") for n in range(1200)])
        assert len(results.values) == 1200
        assert [len(request.topics) for request in cluster[1].requests(ApiKey.CREATE_TOPICS)] == [500, 500, 200]

    run(test)


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        (NewTopic(""), "empty string"),
        (NewTopic("bad name"), "bad name"),
        (NewTopic("a", 0), "partitions must be 1 or more"),
        (NewTopic("a", 1, 0), "replication_factor must be 1 or more"),
        (NewTopic("a", 1, assignments=[[1]]), "numbers of partitions and replicas are not allowed"),
        (NewTopic("a", assignments=[[]]), "each partition needs a broker"),
    ],
)
def test_invalid_topics_are_refused_before_anything_is_sent(topic: NewTopic, problem: str) -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        with pytest.raises(ValueError, match=problem):
            await admin_of(cluster).create_topics([topic])
        assert not cluster[1].received

    run(test)


def test_a_controller_among_the_bootstrap_servers_is_recognized() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        del cluster[1].versions[ApiKey.METADATA]
        with pytest.raises(UnsupportedVersion, match=r"is a controller, not a broker: set bootstrap\.controllers"):
            await admin_of(cluster).describe_cluster()

    run(test)


def test_bootstrap_controllers_lead_to_all_controllers_and_the_active_one() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        cluster.controller_id = 2
        for node in cluster.nodes.values():
            del node.versions[ApiKey.METADATA]
        cluster[1].script[ApiKey.CREATE_TOPICS] = created(a=ErrorCode.NOT_CONTROLLER)
        cluster[2].script[ApiKey.CREATE_TOPICS] = created()
        admin = admin_of(cluster, {"bootstrap.servers": "", "bootstrap.controllers": "bootstrap:9093"})
        assert (await admin.create_topics([NewTopic("a")])).ok
        assert cluster[1].requests(ApiKey.DESCRIBE_CLUSTER)[0].endpoint_type == 2

    run(test)
