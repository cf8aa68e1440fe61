"""The group APIs of a broker: the required rights, the existing topics, and the fields of each version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.coordinator.group_driver import GROUP, TOPIC_ID, GroupDriver

TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
G, T, C, X = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
Right = tuple[ResourceType, AclOperation]
UNKNOWN_ID = Uuid.from_int(4711)


class Rights(Authorizer):
    """An authorizer with rights by type and operation; names in ``hidden`` are always denied."""

    def __init__(self, granted: set[Right] | None, hidden: set[str]) -> None:
        self._granted = granted
        self._hidden = hidden

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        if resource_name in self._hidden:
            return False
        return self._granted is None or (resource_type, operation) in self._granted

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return 3400


class TopicCreation:
    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.created: list[str] = []

    async def create_and_wait(self, names: tuple[str, ...], context: RequestContext | None) -> None:
        self.created += names
        for name in names:
            self._broker.topics[name] = SimpleNamespace(id=Uuid.from_int(1), partitions={0: leader(1)})


def leader(broker_id: int) -> SimpleNamespace:
    return SimpleNamespace(leader=broker_id)


class FakeBroker:
    """Broker 1 with the topics orders (2 partitions) and payments (1), and a coordinator of one partition."""

    def __init__(self) -> None:
        self.driver = GroupDriver().load()
        self.topics: dict[str, Any] = {
            "orders": SimpleNamespace(name="orders", id=TOPIC_ID, partitions={0: leader(1), 1: leader(1)}),
            "payments": SimpleNamespace(name="payments", id=Uuid.from_int(78), partitions={0: leader(1)}),
            "__consumer_offsets": SimpleNamespace(name="", id=Uuid.from_int(1), partitions={0: leader(1)}),
            "__transaction_state": SimpleNamespace(
                name="", id=Uuid.from_int(2), partitions={0: leader(2), 1: leader(3)}
            ),
        }
        self.alive = True
        self.served = SERVED_BY_BROKER
        self.topic_creation = TopicCreation(self)
        self.metadata = SimpleNamespace(
            topic=self.topics.get,
            topic_by_id=lambda topic_id: next((t for t in self.topics.values() if t.id == topic_id), None),
            partition=lambda name, index: self.topics[name].partitions.get(index) if name in self.topics else None,
            endpoint=lambda broker_id, listener: SimpleNamespace(host="h", port=9) if self.alive else None,
        )
        self.groups = SimpleNamespace(
            coordinator=self.driver.coordinator,
            now_ms=lambda: self.driver.now_ms,
            answer=self._answer,
            promise=self._answer,
            confirm=self._confirm,
            serves_consumer_groups=True,
        )
        self.transactions = SimpleNamespace(
            coordinator=SimpleNamespace(partition_for=lambda transactional_id: len(transactional_id) % 2)
        )
        self.unconfirmed: set[str] | None = None
        """None: no request has to wait for confirmations."""

    def _confirm(self, group_ids: Iterable[str]) -> Awaitable[set[str]] | None:
        async def confirmed() -> set[str]:
            assert self.unconfirmed is not None
            return self.unconfirmed.intersection(group_ids)

        return None if self.unconfirmed is None else confirmed()

    def _answer(self, deferred: Deferred[Any]) -> Any:
        return deferred.value

    def call(
        self,
        request: Message,
        version: int | None = None,
        *,
        granted: set[Right] | None = None,
        hidden: set[str] | None = None,
    ) -> Any:
        """Return what a client receives: the handler's response, or its error response."""
        key = ApiKey(request.API_KEY)
        version = API_TABLE[key].highest if version is None else version
        handler = TABLE.handler(key)
        context = RequestContext(api_key=key, api_version=version, client_id="client")
        rights: Any = Rights(granted, hidden or set())
        try:
            answer = handler.function(self, request, Access(rights, context, handler.acl))
        except ApiException as error:
            answer = handler.on_error(request, error)
        if not isinstance(answer, Awaitable):
            answer.encode(version)  # Every response can be written in its version.
        return answer


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


def join() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def commit(*topics: tuple[str, Uuid, tuple[int, ...]]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
                    for index in partitions
                ],
            )
            for name, topic_id, partitions in topics
        ],
    )


def fetch(*topics: tuple[str, Uuid, list[int]]) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[
                    OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
                    for name, topic_id, indexes in topics
                ]
                or None,
            )
        ]
    )


def delete(*topics: tuple[str, tuple[int, ...]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )


def codes(topics: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in topics
        for partition in topic.partitions
    }


# -- rights


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (join(), READ),
        (SyncGroupRequest(group_id=GROUP, protocol_type="consumer", protocol_name="range"), READ),
        (HeartbeatRequest(group_id=GROUP), READ),
        (LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]), READ),
        (delete(("orders", (0,))), DELETE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else value.name,
)
def test_without_the_right_on_the_group_the_whole_request_is_refused(
    broker: FakeBroker, request_: Message, right: AclOperation
) -> None:
    version = API_TABLE[ApiKey(request_.API_KEY)].highest
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert broker.call(request_, version, granted=set()).error_code == refused
    assert broker.call(request_, version, granted={(G, right)}).error_code != refused


def test_committing_needs_read_on_the_group_and_on_each_topic(broker: FakeBroker) -> None:
    request = (("orders", TOPIC_ID, (0,)), ("payments", Uuid.ZERO, (0,)))
    denied = broker.call(commit(*request), 9, granted={(T, READ)})
    assert set(codes(denied.topics).values()) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    denied = broker.call(commit(*request), 9, granted={(G, READ)})
    assert set(codes(denied.topics).values()) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    partly = broker.call(commit(*request), 9, granted={(G, READ), (T, READ)}, hidden={"payments"})
    assert codes(partly.topics) == {
        ("orders", 0): ErrorCode.NONE,
        ("payments", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert broker.driver.fetch_all() == {("orders", 0): 7}


def test_fetching_needs_describe_on_the_group_and_on_each_topic(broker: FakeBroker) -> None:
    broker.call(commit(("orders", TOPIC_ID, (0,)), ("payments", Uuid.ZERO, (0,))), 9)
    denied = broker.call(fetch(("orders", TOPIC_ID, [0])), 9, granted={(T, DESCRIBE)})
    assert denied.groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    both = {(G, DESCRIBE), (T, DESCRIBE)}
    named = broker.call(
        fetch(("orders", TOPIC_ID, [0]), ("payments", Uuid.ZERO, [0])), 9, granted=both, hidden={"payments"}
    )
    assert codes(named.groups[0].topics)["payments", 0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    everything = broker.call(fetch(), 9, granted=both, hidden={"payments"})
    assert [topic.name for topic in everything.groups[0].topics] == ["orders"]


@pytest.mark.parametrize("version", range(1, 8))
def test_a_refused_fetch_before_version_8_reports_it_where_the_version_can(broker: FakeBroker, version: int) -> None:
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
    denied = broker.call(OffsetFetchRequest(group_id=GROUP, topics=topics), version, granted=set())
    if version >= 2:
        assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert denied.topics == []
    else:
        assert codes(denied.topics) == {("orders", 0): ErrorCode.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", range(1, 11))
def test_a_coordinator_that_may_have_been_replaced_returns_no_offsets(broker: FakeBroker, version: int) -> None:
    broker.call(commit(("orders", TOPIC_ID, (0,))), 9)
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
    request = fetch(("orders", TOPIC_ID, [0])) if version >= 8 else OffsetFetchRequest(group_id=GROUP, topics=topics)
    broker.unconfirmed = {GROUP, "another"}
    refused = asyncio.run(broker.call(request, version))
    refused.encode(version)
    if version >= 2:
        group_answer = refused.groups[0] if version >= 8 else refused
        assert (group_answer.error_code, group_answer.topics) == (ErrorCode.NOT_COORDINATOR, [])
    else:
        assert codes(refused.topics) == {("orders", 0): ErrorCode.NOT_COORDINATOR}
    broker.unconfirmed = {"another"}
    answer = asyncio.run(broker.call(request, version))
    assert codes((answer.groups[0] if version >= 8 else answer).topics).popitem()[1] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("unconfirmed", "code"), [(GROUP, ErrorCode.NOT_COORDINATOR), ("another", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_coordinator_that_may_have_been_replaced_describes_no_group(
    broker: FakeBroker, unconfirmed: str, code: ErrorCode
) -> None:
    broker.unconfirmed = {unconfirmed}
    (described,) = asyncio.run(broker.call(ConsumerGroupDescribeRequest(group_ids=[GROUP]))).groups
    assert (described.group_id, described.error_code) == (GROUP, code)
    (described,) = asyncio.run(broker.call(DescribeGroupsRequest(groups=[GROUP]))).groups
    assert (described.group_id, described.error_code) == (GROUP, code)


def test_deleting_offsets_needs_read_on_each_topic(broker: FakeBroker) -> None:
    broker.call(commit(("orders", TOPIC_ID, (0,))), 9)
    denied = broker.call(delete(("orders", (0,))), granted={(G, DELETE)})
    assert codes(denied.topics) == {("orders", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    allowed = broker.call(delete(("orders", (0,))), granted={(G, DELETE), (T, READ)})
    assert codes(allowed.topics) == {("orders", 0): ErrorCode.NONE}


def test_groups_are_described_with_the_right_on_each(broker: FakeBroker) -> None:
    broker.driver.commit(group="one")
    broker.driver.commit(group="two")
    request = DescribeGroupsRequest(groups=["one", "two", "none"], include_authorized_operations=True)
    described = broker.call(request, 6, granted={(G, DESCRIBE)}, hidden={"two"}).groups
    assert [group.error_code for group in described] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    marker = -2147483648
    assert [group.authorized_operations for group in described] == [3400, marker, marker]
    older = broker.call(DescribeGroupsRequest(groups=["none"], include_authorized_operations=True), 5).groups[0]
    assert (older.error_code, older.group_state, older.authorized_operations) == (ErrorCode.NONE, "Dead", 3400)
    assert broker.call(DescribeGroupsRequest(groups=["one"]), 6).groups[0].authorized_operations == marker


def test_groups_are_listed_with_describe_on_the_cluster_or_on_the_group(broker: FakeBroker) -> None:
    broker.driver.commit(group="one")
    broker.driver.commit(group="two")

    def listed(granted: set[Right], hidden: set[str]) -> set[str]:
        answer = broker.call(ListGroupsRequest(), granted=granted, hidden=hidden)
        return {group.group_id for group in answer.groups}

    assert listed({(C, DESCRIBE)}, {"one"}) == {"one", "two"}
    assert listed({(G, DESCRIBE)}, {"one"}) == {"two"}
    assert listed(set(), set()) == set()


def test_groups_are_deleted_with_the_right_on_each(broker: FakeBroker) -> None:
    broker.driver.commit(group="one")
    broker.driver.commit(group="two")
    request = DeleteGroupsRequest(groups_names=["one", "two", "none", "one"])
    results = broker.call(request, granted={(G, DELETE)}, hidden={"two"}).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("one", ErrorCode.NONE),
        ("two", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


# -- topics


def test_partitions_that_do_not_exist_are_refused_and_the_others_are_committed(broker: FakeBroker) -> None:
    answer = broker.call(commit(("orders", TOPIC_ID, (0, 9)), ("nothing", UNKNOWN_ID, (0,))), 9)
    assert codes(answer.topics) == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(answer.topics) == 2


def test_topics_are_named_by_id_from_version_10(broker: FakeBroker) -> None:
    answer = broker.call(commit(("", TOPIC_ID, (0,)), ("", UNKNOWN_ID, (0,))), 10)
    assert {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics} == {
        TOPIC_ID: ErrorCode.NONE,
        UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    fetched = broker.call(fetch(("", TOPIC_ID, [0]), ("", UNKNOWN_ID, [0])), 10).groups[0]
    assert {topic.topic_id: topic.partitions[0].error_code for topic in fetched.topics} == {
        TOPIC_ID: ErrorCode.NONE,
        UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert fetched.topics[0].partitions[0].committed_offset == 7
    del broker.topics["orders"]
    assert broker.call(fetch(), 10).groups[0].topics == []
    assert [topic.name for topic in broker.call(fetch(), 9).groups[0].topics] == ["orders"]


def test_a_commit_by_name_stores_the_topic_id(broker: FakeBroker) -> None:
    broker.call(commit(("orders", Uuid.ZERO, (0,))), 2)
    value = broker.driver.shard.offsets.offsets.get(GROUP, "orders", 0)
    assert value is not None
    assert value.topic_id == TOPIC_ID


def test_an_error_of_the_group_hides_those_of_the_topics(broker: FakeBroker) -> None:
    answer = broker.call(delete(("orders", (0,)), ("nothing", (0,))))
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


# -- versions


@pytest.mark.parametrize("version", range(10))
def test_a_missing_protocol_is_empty_before_version_7_and_null_since_then(broker: FakeBroker, version: int) -> None:
    request = join()
    request.session_timeout_ms = 1
    answer = broker.call(request, version)
    assert (answer.error_code, answer.protocol_name) == (
        ErrorCode.INVALID_SESSION_TIMEOUT,
        None if version >= 7 else "",
    )
    denied = broker.call(join(), version, granted=set())
    assert (denied.error_code, denied.protocol_name) == (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        None if version >= 7 else "",
    )


def test_a_sync_must_name_its_protocol_from_version_5(broker: FakeBroker) -> None:
    request = SyncGroupRequest(group_id=GROUP, member_id="m", generation_id=1)
    assert broker.call(request, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.call(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_the_groups_partition_coordinates_it(broker: FakeBroker, version: int) -> None:
    request = FindCoordinatorRequest(key=GROUP) if version < 4 else FindCoordinatorRequest(coordinator_keys=[GROUP])
    answer = broker.call(request, version)
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "h", 9)


@pytest.mark.parametrize("version", range(1, 7))
def test_the_leader_of_a_transactional_ids_partition_coordinates_it(broker: FakeBroker, version: int) -> None:
    for name, node_id in (("copy", 2), ("copier", 2), ("mover", 3)):
        request = FindCoordinatorRequest(key_type=1)
        if version < 4:
            request.key = name
        else:
            request.coordinator_keys = [name]
        answer = broker.call(request, version, granted={(X, DESCRIBE)})
        found = answer if version < 4 else answer.coordinators[0]
        assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, node_id, "h", 9)


def test_without_a_live_leader_the_coordinator_is_not_available(broker: FakeBroker) -> None:
    broker.alive = False
    found = broker.call(FindCoordinatorRequest(coordinator_keys=[GROUP])).coordinators[0]
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("key_type", "version", "granted", "code"),
    [
        (0, 6, set(), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (0, 3, set(), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, 6, set(), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (1, 1, {(G, DESCRIBE)}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (1, 3, {(G, DESCRIBE)}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, 6, set(), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (2, 6, {(C, AclOperation.CLUSTER_ACTION)}, ErrorCode.INVALID_REQUEST),
        (2, 5, None, ErrorCode.INVALID_REQUEST),
        (9, 6, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_search_for_a_coordinator_has_a_reason(
    broker: FakeBroker, key_type: int, version: int, granted: set[Right] | None, code: ErrorCode
) -> None:
    request = FindCoordinatorRequest(key_type=key_type)
    if version < 4:
        request.key = "k"
    else:
        request.coordinator_keys = ["k"]
    answer = broker.call(request, version, granted=granted)
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code, found.node_id) == (code, -1)
    assert found.error_message


@pytest.mark.parametrize(("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_the_first_request_for_a_coordinator_creates_its_topic(broker: FakeBroker, key_type: int, topic: str) -> None:
    del broker.topics[topic]
    waiting = broker.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["even"]))
    with pytest.raises(StopIteration) as finished:
        waiting.send(None)
    assert broker.topic_creation.created == [topic]
    assert finished.value.value.coordinators[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_a_denied_request_for_a_coordinator_creates_nothing(broker: FakeBroker, key_type: int, topic: str) -> None:
    del broker.topics[topic]
    broker.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[GROUP]), granted=set())
    assert broker.topic_creation.created == []
