"""The APIs of streams groups: the required rights, the creation of internal topics, and what hides a group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.streams_topic_creation import StreamsTopicCreation
from barnabas.broker.unsupported_requests import MissingFeatures
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.coordinator.group_driver import GROUP
from tests.unit.coordinator.streams_group_driver import WORDS, StreamsGroupDriver, StreamsThread

TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
MEMBER = {"Group:READ", "Topic:DESCRIBE"}
MISSING = "Internal topics are missing: counts, by-word"


class Rights(Authorizer):
    """Rights as ``Topic:CREATE``, or ``Topic:CREATE:name`` for one name."""

    def __init__(self, granted: set[str]) -> None:
        self._granted = granted
        self.logged: list[str] = []

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
        right = f"{resource_type.name.capitalize()}:{operation.name}"
        allowed = right in self._granted or f"{right}:{resource_name}" in self._granted
        if not allowed and log_if_denied:
            self.logged.append(f"{right}:{resource_name}")
        return allowed

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return 3400


class Controller:
    """Refuses the topics of ``refusals``; ``is_unreachable`` fails the whole request."""

    def __init__(self) -> None:
        self.refusals: dict[str, str | None] = {}
        self.is_unreachable = False
        self.requests: list[tuple[CreateTopicsRequest, RequestContext]] = []

    async def forward(self, request: Any, context: RequestContext) -> CreateTopicsResponse:
        self.requests.append((request, context))
        if self.is_unreachable:
            raise ApiException(ErrorCode.REQUEST_TIMED_OUT, "no controller answers")
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=code, error_message=self.refusals[topic.name])
                if topic.name in self.refusals
                else CreatableTopicResult(name=topic.name)
                for topic in request.topics
            ]
        )

    @property
    def created(self) -> list[list[str]]:
        return [sorted(topic.name for topic in request.topics) for request, _ in self.requests]


class FakeBroker:
    """A broker in a cluster with the source topic of ``word_count``."""

    def __init__(self) -> None:
        self.driver = StreamsGroupDriver()
        self.driver.load()
        self.driver.metadata.create_topic(WORDS, 3)
        self.controller = Controller()
        channel: Any = self.controller
        creation = StreamsTopicCreation(controller=channel, timeout_ms=1_000)
        self.topic_creation = SimpleNamespace(of_streams=creation)
        self.is_late = False
        self.missing_features = MissingFeatures()
        self.groups = SimpleNamespace(
            coordinator=self.driver.coordinator,
            now_ms=lambda: self.driver.now_ms,
            answer=self._answer,
            serves_streams_groups=True,
            confirm=self._confirm,
        )
        self.unconfirmed: set[str] | None = None
        """None: no request has to wait for confirmations."""

    def _confirm(self, group_ids: Iterable[str]) -> Awaitable[set[str]] | None:
        async def confirmed() -> set[str]:
            assert self.unconfirmed is not None
            return self.unconfirmed.intersection(group_ids)

        return None if self.unconfirmed is None else confirmed()

    def _answer(self, deferred: Deferred[Any]) -> Any:
        async def later() -> Any:
            return deferred.value

        return later() if self.is_late else deferred.value

    async def ask(self, request: Message, rights: set[str], *, authorizer: Rights | None = None) -> Any:
        key = ApiKey(request.API_KEY)
        handler = TABLE.handler(key)
        context = RequestContext(api_key=key, api_version=0, client_id="app")
        access = Access(authorizer or Rights(rights), context, handler.acl)
        try:
            answer = handler.function(self, request, access)
            return await answer if isinstance(answer, Awaitable) else answer
        except ApiException as error:
            return handler.on_error(request, error)

    async def join(self, rights: set[str], member: str = "m", **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsThread(self.driver, member).join_request(**fields)
        response: StreamsGroupHeartbeatResponse = await self.ask(request, rights)
        for _ in range(3):
            await asyncio.sleep(0)  # The controller answers.
        return response


def run(scene: Callable[[FakeBroker], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene(FakeBroker())

    asyncio.run(play())


def missing_of(response: StreamsGroupHeartbeatResponse) -> str:
    (detail,) = [
        status.status_detail
        for status in response.status or ()
        if status.status_code == HeartbeatStatus.MISSING_INTERNAL_TOPICS
    ]
    return detail


# -- StreamsGroupHeartbeat


@pytest.mark.parametrize("is_late", [False, True], ids=["immediately", "later"])
def test_missing_internal_topics_are_created_in_the_name_of_the_member(is_late: bool) -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.is_late = is_late
        response = await broker.join({*MEMBER, "Cluster:CREATE"})
        assert (response.error_code, missing_of(response)) == (ErrorCode.NONE, MISSING)
        ((request, context),) = broker.controller.requests
        assert {topic.name: (topic.num_partitions, topic.replication_factor) for topic in request.topics} == {
            "by-word": (3, -1),
            "counts": (3, -1),
        }
        assert (context.api_key, context.client_id) == (ApiKey.CREATE_TOPICS, "app")

    run(scene)


def test_create_on_each_topic_suffices() -> None:
    async def scene(broker: FakeBroker) -> None:
        response = await broker.join({*MEMBER, "Topic:CREATE"})
        assert missing_of(response) == MISSING
        assert broker.controller.created == [["by-word", "counts"]]

    run(scene)


def test_a_member_that_may_not_create_a_topic_learns_it() -> None:
    async def scene(broker: FakeBroker) -> None:
        response = await broker.join({*MEMBER, "Topic:CREATE:counts"})
        assert missing_of(response) == f"{MISSING}; Unauthorized to CREATE on topics by-word."
        assert broker.controller.created == []

    run(scene)


def test_a_failure_is_reported_with_the_next_heartbeat_and_then_tried_again() -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.controller.refusals = {"counts": "too many replicas", "by-word": None}
        rights = {*MEMBER, "Cluster:CREATE"}
        assert missing_of(await broker.join(rights)) == MISSING
        failures = "Creation failed: counts (too many replicas), by-word (INVALID_REPLICATION_FACTOR)."
        assert missing_of(await broker.join(rights)) == f"{MISSING}; {failures}"
        assert len(broker.controller.requests) == 1

    run(scene)


def test_a_failure_is_forgotten_after_two_heartbeat_intervals() -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.controller.refusals = {"counts": "too many replicas"}
        creation = broker.topic_creation.of_streams
        topics = {"counts": SimpleNamespace(name="counts")}
        context = RequestContext(api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, api_version=0)
        creation.create(topics, context, keep_failures_ms=0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert creation.failures_of(topics) == {}
        creation.create(topics, context, keep_failures_ms=0)
        await asyncio.sleep(0)
        assert len(broker.controller.requests) == 2

    run(scene)


def test_a_controller_that_does_not_answer_is_a_failure_of_every_topic() -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.controller.is_unreachable = True
        rights = {*MEMBER, "Cluster:CREATE"}
        await broker.join(rights)
        failures = "Creation failed: counts (no controller answers), by-word (no controller answers)."
        assert missing_of(await broker.join(rights)) == f"{MISSING}; {failures}"

    run(scene)


def test_a_creation_under_way_is_not_requested_again() -> None:
    async def scene(broker: FakeBroker) -> None:
        rights = {*MEMBER, "Cluster:CREATE"}
        for member in ("first", "second"):
            await broker.ask(StreamsThread(broker.driver, member).join_request(), rights)
        await asyncio.sleep(0)
        assert broker.controller.created == [["by-word", "counts"]]

    run(scene)


@pytest.mark.parametrize(
    ("rights", "code", "message"),
    [
        ({"Topic:DESCRIBE"}, ErrorCode.GROUP_AUTHORIZATION_FAILED, f"User:ANONYMOUS lacks READ on Group:{GROUP}"),
        (
            {"Group:READ", "Topic:DESCRIBE:words", "Topic:DESCRIBE:by-word"},
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "User:ANONYMOUS lacks DESCRIBE on Topic:counts",
        ),
    ],
)
def test_a_member_needs_rights_on_the_group_and_every_topic(rights: set[str], code: ErrorCode, message: str) -> None:
    async def scene(broker: FakeBroker) -> None:
        response = await broker.join(rights)
        assert (response.error_code, response.error_message) == (code, message)

    run(scene)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_a_topology_with_an_impossible_topic_is_refused(source: str, message: str) -> None:
    async def scene(broker: FakeBroker) -> None:
        request = StreamsThread(broker.driver, "m").join_request()
        assert request.topology is not None
        request.topology.subtopologies[0].source_topics = [source]
        response = await broker.ask(request, MEMBER)
        assert (response.error_code, response.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)

    run(scene)


def test_without_the_feature_the_apis_are_refused() -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.groups.serves_streams_groups = False
        assert (await broker.join(MEMBER)).error_code == ErrorCode.UNSUPPORTED_VERSION
        answer = await broker.ask(StreamsGroupDescribeRequest(group_ids=["a", "b"]), set())
        assert [group.error_code for group in answer.groups] == [ErrorCode.UNSUPPORTED_VERSION] * 2

    run(scene)


# -- StreamsGroupDescribe


async def described(broker: FakeBroker, rights: set[str]) -> DescribedGroup:
    await broker.join({*MEMBER, "Cluster:CREATE"})
    request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    (group,) = (await broker.ask(request, rights)).groups
    assert isinstance(group, DescribedGroup)
    return group


@pytest.mark.parametrize(
    ("unconfirmed", "code", "members"), [(GROUP, ErrorCode.NOT_COORDINATOR, 0), ("another", ErrorCode.NONE, 1)]
)
def test_a_coordinator_that_may_have_been_replaced_describes_no_group(
    unconfirmed: str, code: ErrorCode, members: int
) -> None:
    async def scene(broker: FakeBroker) -> None:
        broker.unconfirmed = {unconfirmed}
        group = await described(broker, {"Group:DESCRIBE", "Topic:DESCRIBE"})
        assert (group.group_id, group.error_code, len(group.members)) == (GROUP, code, members)

    run(scene)


def test_a_description_has_the_operations_of_the_caller() -> None:
    async def scene(broker: FakeBroker) -> None:
        group = await described(broker, {"Group:DESCRIBE", "Topic:DESCRIBE"})
        assert (group.error_code, group.authorized_operations, len(group.members)) == (ErrorCode.NONE, 3400, 1)

    run(scene)


def test_a_group_with_a_hidden_topic_is_not_described() -> None:
    async def scene(broker: FakeBroker) -> None:
        group = await described(broker, {"Group:DESCRIBE", "Topic:DESCRIBE:words", "Topic:DESCRIBE:by-word"})
        assert (group.error_code, group.error_message, group.members, group.topology) == (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The described group uses topics that the client is not authorized to describe.",
            [],
            None,
        )

    run(scene)


def test_a_caller_without_rights_on_the_group_learns_what_is_missing() -> None:
    async def scene(broker: FakeBroker) -> None:
        group = await described(broker, {"Topic:DESCRIBE"})
        assert (group.error_code, group.error_message) == (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            f"User:ANONYMOUS lacks DESCRIBE on Group:{GROUP}",
        )

    run(scene)


def test_the_right_to_create_on_the_cluster_is_a_first_attempt() -> None:
    async def scene(broker: FakeBroker) -> None:
        authorizer = Rights({*MEMBER, "Topic:CREATE:counts"})
        request: StreamsGroupHeartbeatRequest = StreamsThread(broker.driver, "m").join_request()
        await broker.ask(request, set(), authorizer=authorizer)
        assert authorizer.logged == ["Topic:CREATE:by-word"]

    run(scene)
