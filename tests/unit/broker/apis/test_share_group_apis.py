"""The APIs of share groups: the feature, rights, and what a caller without rights learns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER, SHARE_GROUP_APIS
from barnabas.broker.latest_offsets import LatestOffset
from barnabas.broker.share_group_service import ShareGroupService
from barnabas.broker.unsupported_requests import MissingFeatures
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import SharePartitionSummary
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
)
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.coordinator.share_group_driver import QUEUE, ShareGroupDriver

SERVED = {**SERVED_BY_BROKER, **{key: (API_TABLE[key].lowest, API_TABLE[key].highest) for key in SHARE_GROUP_APIS}}
TABLE = HandlerTable("barnabas.broker.apis", SERVED)
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
Right = tuple[ResourceType, AclOperation, str]


class Rights(Authorizer):
    """``denied``: what the caller may not do; anything else is allowed."""

    def __init__(self, denied: Iterable[Right]) -> None:
        self._denied = set(denied)

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *_: Any,
        **__: Any,
    ) -> bool:
        return (resource_type, operation, resource_name) not in self._denied

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return 1 << DESCRIBE


class Persister:
    async def initialize_state(self, *_: Any) -> tuple[int, str | None]:
        return 0, None

    async def delete_state(self, *_: Any) -> tuple[int, str | None]:
        return 0, None

    async def read_summary(self, group_id: str, topic_id: Uuid, partition: int, epoch: int) -> SharePartitionSummary:
        return SharePartitionSummary(0, None, 1, 2, 40, 10)


class Ends:
    async def of(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LatestOffset]:
        return {partition: LatestOffset(100) for partition in partitions}


class FakeBroker:
    """A broker that coordinates all groups; it is its own ``GroupService``."""

    def __init__(self) -> None:
        self.driver = ShareGroupDriver()
        self.driver.load()
        for name in ("orders", "secret"):
            self.driver.now_ms += 1
            self.driver.create(name)
        self.served: Mapping[ApiKey, tuple[int, int]] = SERVED
        self.groups = self
        self.serves_share_groups = True
        self.unconfirmed: set[str] | None = None
        """None: no request has to wait for confirmations."""
        self.missing_features = MissingFeatures()
        self.share_groups = ShareGroupService(self, Persister(), Ends())  # type: ignore[arg-type]

    @property
    def coordinator(self) -> Any:
        return self.driver.coordinator

    def now_ms(self) -> int:
        return self.driver.now_ms

    def answer(self, deferred: Deferred[Any]) -> Any:
        return deferred.value

    def confirm(self, group_ids: Iterable[str]) -> Awaitable[set[str]] | None:
        async def confirmed() -> set[str]:
            assert self.unconfirmed is not None
            return self.unconfirmed.intersection(group_ids)

        return None if self.unconfirmed is None else confirmed()

    def start_task(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run(work)

    def call(self, request: Message, *denied: Right, version: int | None = None) -> Any:
        """Return what the caller receives: the handler's response, or its error response."""
        key = ApiKey(request.API_KEY)
        version = API_TABLE[key].highest if version is None else version
        handler = TABLE.handler(key)
        context = RequestContext(api_key=key, api_version=version, client_id="client")
        try:
            answer = handler.function(self, request, Access(Rights(denied), context, handler.acl))
            if isinstance(answer, Awaitable):

                async def awaited() -> Any:
                    return await answer

                answer = asyncio.run(awaited())
        except ApiException as error:
            answer = handler.on_error(request, error)
        answer.encode(version)  # Every response can be written in its version.
        return answer


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


def heartbeat(member_id: str = "m", *topics: str, epoch: int = 0) -> Message:
    names = list(topics or ("orders",)) if epoch == 0 else None
    return ShareGroupHeartbeatRequest(
        group_id=QUEUE, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
    )


def describe(*group_ids: str, operations: bool = False) -> Message:
    return share_group_describe.ShareGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=operations
    )


def describe_offsets(*topics: tuple[str, list[int]], is_all: bool = False) -> Message:
    message = describe_share_group_offsets
    wanted = [
        message.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
        for name, partitions in topics
    ]
    group = message.DescribeShareGroupOffsetsRequestGroup(group_id=QUEUE, topics=None if is_all else wanted)
    return message.DescribeShareGroupOffsetsRequest(groups=[group])


def alter(*topics: str) -> Message:
    message = alter_share_group_offsets
    return message.AlterShareGroupOffsetsRequest(
        group_id=QUEUE,
        topics=[
            message.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[message.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=40)],
            )
            for topic in topics
        ],
    )


def delete(*topics: str) -> Message:
    message = delete_share_group_offsets
    return message.DeleteShareGroupOffsetsRequest(
        group_id=QUEUE,
        topics=[message.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics],
    )


# -- the feature


@pytest.mark.parametrize("request_", [heartbeat(), alter("orders"), delete("orders")])
def test_without_the_feature_a_request_is_refused(broker: FakeBroker, request_: Message) -> None:
    broker.serves_share_groups = False
    assert broker.call(request_).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.driver.written() == []


@pytest.mark.parametrize("request_", [describe(QUEUE), describe_offsets(is_all=True)])
def test_without_the_feature_each_described_group_has_the_error(broker: FakeBroker, request_: Message) -> None:
    broker.serves_share_groups = False
    (group,) = broker.call(request_).groups
    assert (group.group_id, group.error_code) == (QUEUE, ErrorCode.UNSUPPORTED_VERSION)


def test_a_coordinator_that_may_have_been_replaced_describes_no_group(broker: FakeBroker) -> None:
    broker.call(heartbeat())
    broker.unconfirmed = {QUEUE, "another"}
    (refused,) = broker.call(describe(QUEUE)).groups
    assert (refused.group_id, refused.error_code, refused.members) == (QUEUE, ErrorCode.NOT_COORDINATOR, [])
    (denied,) = broker.call(describe(QUEUE), (GROUP, DESCRIBE, QUEUE)).groups
    assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    broker.unconfirmed = {"another"}
    (group,) = broker.call(describe(QUEUE)).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)


# -- ShareGroupHeartbeat


def test_a_member_needs_to_read_the_group_and_to_describe_all_of_its_topics(broker: FakeBroker) -> None:
    assert broker.call(heartbeat(), (GROUP, READ, QUEUE)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    denied = broker.call(heartbeat("m", "orders", "secret"), (TOPIC, DESCRIBE, "secret"))
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert denied.error_message == "User:ANONYMOUS lacks DESCRIBE on Topic:secret"
    assert broker.driver.written() == []
    assert broker.call(heartbeat("m", "orders", "secret")).member_epoch == 2


@pytest.mark.parametrize("member_id", ["", "m" * 37])
def test_member_ids_are_not_empty_and_not_longer_than_a_uuid(broker: FakeBroker, member_id: str) -> None:
    assert broker.call(heartbeat(member_id)).error_code == ErrorCode.INVALID_REQUEST


# -- ShareGroupDescribe


def test_authorized_operations_are_described_on_request(broker: FakeBroker) -> None:
    broker.call(heartbeat())
    known, unknown = broker.call(describe(QUEUE, "unknown", operations=True)).groups
    assert known.authorized_operations == 1 << DESCRIBE
    assert (unknown.error_code, unknown.authorized_operations) == (ErrorCode.GROUP_ID_NOT_FOUND, -(2**31))
    (group,) = broker.call(describe(QUEUE)).groups
    assert group.authorized_operations == -(2**31)


def test_a_group_that_the_caller_may_not_describe_is_named_only(broker: FakeBroker) -> None:
    broker.call(heartbeat())
    (group,) = broker.call(describe(QUEUE), (GROUP, DESCRIBE, QUEUE)).groups
    assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert group.error_message == "User:ANONYMOUS lacks DESCRIBE on Group:queue"
    assert group.members == []


def test_a_group_with_a_hidden_topic_has_no_members_for_the_caller(broker: FakeBroker) -> None:
    broker.call(heartbeat("m", "orders", "secret"))
    broker.call(heartbeat("m", epoch=2))
    (group,) = broker.call(describe(QUEUE), (TOPIC, DESCRIBE, "secret")).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    (group,) = broker.call(describe(QUEUE), (TOPIC, DESCRIBE, "other")).groups
    assert len(group.members) == 1


# -- DescribeShareGroupOffsets


def test_all_offsets_are_those_of_topics_that_the_caller_may_describe(broker: FakeBroker) -> None:
    broker.call(alter("orders", "secret"))
    (group,) = broker.call(describe_offsets(is_all=True), (TOPIC, DESCRIBE, "secret")).groups
    (topic,) = group.topics
    assert topic.topic_name == "orders"
    (partition,) = topic.partitions
    assert (partition.start_offset, partition.leader_epoch, partition.lag) == (40, 2, 50)


def test_requested_topics_are_answered_one_by_one(broker: FakeBroker) -> None:
    request = describe_offsets(("orders", [0]), ("secret", [0, 1]), ("missing", [3]))
    (group,) = broker.call(request, (TOPIC, DESCRIBE, "secret")).groups
    orders, secret, missing = group.topics
    assert orders.partitions[0].start_offset == 40
    assert [(partition.start_offset, partition.error_code) for partition in secret.partitions] == [
        (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ] * 2
    assert secret.partitions[0].error_message == "User:ANONYMOUS lacks DESCRIBE on Topic:secret"
    assert (missing.topic_id, missing.partitions[0].start_offset, missing.partitions[0].error_code) == (
        Uuid.ZERO,
        -1,
        ErrorCode.NONE,
    )


def test_offsets_of_no_topics_are_an_empty_answer(broker: FakeBroker) -> None:
    (group,) = broker.call(describe_offsets()).groups
    assert (group.error_code, group.topics) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("partitions", [[], [0, -1]])
def test_impossible_partitions_are_refused(broker: FakeBroker, partitions: list[int]) -> None:
    (group,) = broker.call(describe_offsets(("orders", partitions))).groups
    assert group.error_code == ErrorCode.INVALID_REQUEST
    assert group.error_message == "Topic orders is requested without valid partitions."


def test_offsets_of_a_hidden_group_are_not_described(broker: FakeBroker) -> None:
    (group,) = broker.call(describe_offsets(is_all=True), (GROUP, DESCRIBE, QUEUE)).groups
    assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_version_0_has_no_lag(broker: FakeBroker) -> None:
    (group,) = broker.call(describe_offsets(("orders", [0])), version=0).groups
    assert group.topics[0].partitions[0].start_offset == 40


# -- AlterShareGroupOffsets, DeleteShareGroupOffsets, DeleteGroups


def test_offsets_are_altered_by_those_who_may_read_group_and_topic(broker: FakeBroker) -> None:
    denied = broker.call(alter("orders"), (GROUP, READ, QUEUE))
    assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert denied.error_message == "User:ANONYMOUS lacks READ on Group:queue"
    response = broker.call(alter("secret", "missing", "orders"), (TOPIC, READ, "secret"))
    assert [(topic.topic_name, topic.partitions[0].error_code) for topic in response.responses] == [
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.NONE),
    ]
    assert broker.driver.group.assignable == {broker.coordinator.view.id_of("orders"): {0}}


def test_a_refused_alteration_has_no_partitions(broker: FakeBroker) -> None:
    broker.call(heartbeat())
    response = broker.call(alter("secret", "orders"), (TOPIC, READ, "secret"))
    assert (response.error_code, response.responses) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_offsets_are_deleted_by_those_who_may_delete_the_group_and_read_the_topic(broker: FakeBroker) -> None:
    broker.call(alter("orders", "secret"))
    assert broker.call(delete("orders"), (GROUP, DELETE, QUEUE)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    response = broker.call(delete("secret", "orders"), (TOPIC, READ, "secret"))
    assert [(topic.topic_name, topic.error_code) for topic in response.responses] == [
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("orders", ErrorCode.NONE),
    ]
    assert broker.driver.group.assignable == {broker.coordinator.view.id_of("secret"): {0}}


def test_groups_are_deleted_with_their_states(broker: FakeBroker) -> None:
    broker.call(alter("orders"))
    response = broker.call(delete_groups.DeleteGroupsRequest(groups_names=[QUEUE, "unknown"]))
    assert [(result.group_id, result.error_code) for result in response.results] == [
        (QUEUE, ErrorCode.NONE),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
