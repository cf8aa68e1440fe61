"""The APIs of share state: rights, empty requests, results of each share-partition, search for a coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER, SHARE_STATE_APIS
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch, StateInitialization, StateWrite
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.coordinator.share_driver import ACKNOWLEDGED, KEY, OTHER_KEY, OTHER_TOPIC, TOPIC, ShareDriver

SERVED = {**SERVED_BY_BROKER, **{key: (API_TABLE[key].lowest, API_TABLE[key].highest) for key in SHARE_STATE_APIS}}
TABLE = HandlerTable("barnabas.broker.apis", SERVED)
CLUSTER_ACTION = (ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION)
BATCH = StateBatch(3, 5, ACKNOWLEDGED, 1)


class Rights(Authorizer):
    def __init__(self, granted: frozenset[tuple[ResourceType, AclOperation]]) -> None:
        self._granted = granted
        self.decision_count = 0

    def authorize(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, *_: Any, **__: Any
    ) -> bool:
        self.decision_count += 1
        return (resource_type, operation) in self._granted


class FakeBroker:
    """A broker with a coordinator of all share-partitions, and other leaders of their topic's partitions."""

    def __init__(self) -> None:
        self.driver = ShareDriver().load()
        self.served: Mapping[ApiKey, tuple[int, int]] = SERVED
        self.replaced: set[SharePartitionKey] | None = None
        """The share-partitions that another broker coordinates; None: no request has to find out."""
        self.leaders: dict[int, int] = {0: 4, 1: 5, 2: 6}
        self.has_topic = True
        self.topic_creation = SimpleNamespace(create_and_wait=self._create)
        self.metadata = SimpleNamespace(
            topic=lambda name: SimpleNamespace() if self.has_topic else None,
            partition=lambda name, index: (
                SimpleNamespace(leader=self.leaders[index]) if name == SHARE_STATE_TOPIC and self.has_topic else None
            ),
            endpoint=lambda broker_id, listener: SimpleNamespace(host="h", port=9),
        )
        self.share_state = self

    async def _create(self, names: tuple[str, ...], context: object) -> None:
        assert names == (SHARE_STATE_TOPIC,)
        self.has_topic = True

    # --- ShareStateService

    @property
    def coordinator(self) -> Any:
        return self.driver.coordinator

    @property
    def are_reads_safe(self) -> bool:
        return self.replaced is None

    async def unconfirmed(self, keys: Iterable[SharePartitionKey]) -> set[SharePartitionKey]:
        return set() if self.replaced is None else self.replaced.intersection(keys)

    def answer(self, deferred: Deferred[Any]) -> Any:
        return deferred.value

    def initialize(self, key: SharePartitionKey, wanted: StateInitialization) -> Any:
        return self.coordinator.initialize(key, wanted, self.driver.now_ms)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Any:
        return self.coordinator.read(key, leader_epoch, self.driver.now_ms)

    def write(self, key: SharePartitionKey, write: StateWrite) -> Any:
        return self.coordinator.write(key, write, self.driver.now_ms)

    def delete(self, key: SharePartitionKey) -> Any:
        return self.coordinator.delete(key, self.driver.now_ms)

    def read_summary(self, key: SharePartitionKey) -> Any:
        return self.coordinator.read_summary(key, self.driver.now_ms)

    # --- requests

    def call(self, request: Message, version: int | None = None, *, is_broker: bool = True) -> Any:
        """Return what the caller receives: the handler's response, or its error response."""
        key = ApiKey(request.API_KEY)
        version = API_TABLE[key].highest if version is None else version
        handler = TABLE.handler(key)
        context = RequestContext(api_key=key, api_version=version, client_id="broker-4")
        self.rights = rights = Rights(frozenset({CLUSTER_ACTION} if is_broker else ()))
        try:
            answer = handler.function(self, request, Access(rights, context, handler.acl))
        except ApiException as error:
            answer = handler.on_error(request, error)
        if isinstance(answer, Awaitable):

            async def awaited() -> Any:
                return await answer

            answer = asyncio.run(awaited())
        answer.encode(version)  # Every response can be written in its version.
        return answer


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


def initialize(*partitions: tuple[Uuid, int], group_id: str = "group") -> Message:
    message = initialize_share_group_state
    return message.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            message.InitializeStateData(
                topic_id=topic_id,
                partitions=[message.PartitionData(partition=partition, state_epoch=2, start_offset=3)],
            )
            for topic_id, partition in partitions
        ],
    )


def read(*partitions: tuple[Uuid, int], leader_epoch: int = -1) -> Message:
    message = read_share_group_state
    return message.ReadShareGroupStateRequest(
        group_id="group",
        topics=[
            message.ReadStateData(
                topic_id=topic_id,
                partitions=[message.PartitionData(partition=partition, leader_epoch=leader_epoch)],
            )
            for topic_id, partition in partitions
        ],
    )


def write(*partitions: tuple[Uuid, int]) -> Message:
    message = write_share_group_state
    return message.WriteShareGroupStateRequest(
        group_id="group",
        topics=[
            message.WriteStateData(
                topic_id=topic_id,
                partitions=[
                    message.PartitionData(
                        partition=partition,
                        state_epoch=2,
                        leader_epoch=-1,
                        start_offset=3,
                        delivery_complete_count=3,
                        state_batches=[
                            message.StateBatch(first_offset=3, last_offset=5, delivery_state=2, delivery_count=1)
                        ],
                    )
                ],
            )
            for topic_id, partition in partitions
        ],
    )


def delete(*partitions: tuple[Uuid, int]) -> Message:
    message = delete_share_group_state
    return message.DeleteShareGroupStateRequest(
        group_id="group",
        topics=[
            message.DeleteStateData(topic_id=topic_id, partitions=[message.PartitionData(partition=partition)])
            for topic_id, partition in partitions
        ],
    )


def read_summary(*partitions: tuple[Uuid, int]) -> Message:
    message = read_share_group_state_summary
    return message.ReadShareGroupStateSummaryRequest(
        group_id="group",
        topics=[
            message.ReadStateSummaryData(
                topic_id=topic_id, partitions=[message.PartitionData(partition=partition, leader_epoch=-1)]
            )
            for topic_id, partition in partitions
        ],
    )


def results(response: Any) -> dict[tuple[Uuid, int], Any]:
    return {
        (topic.topic_id, partition.partition): partition for topic in response.results for partition in topic.partitions
    }


def codes(response: Any) -> dict[tuple[Uuid, int], ErrorCode]:
    return {key: ErrorCode(partition.error_code) for key, partition in results(response).items()}


ALL = [initialize, read, write, delete, read_summary]
HERE, THERE, MISSING = (TOPIC, 0), (OTHER_TOPIC, 1), (Uuid.from_int(5), 0)


def test_state_is_created_written_read_and_removed(broker: FakeBroker) -> None:
    assert codes(broker.call(initialize(HERE, THERE))) == {HERE: ErrorCode.NONE, THERE: ErrorCode.NONE}
    assert codes(broker.call(write(HERE))) == {HERE: ErrorCode.NONE}
    state = results(broker.call(read(HERE)))[HERE]
    assert (state.error_code, state.error_message, state.state_epoch, state.start_offset) == (0, None, 2, 3)
    (batch,) = state.state_batches
    assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == BATCH
    summary = results(broker.call(read_summary(HERE)))[HERE]
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (2, 0, 3)
    assert summary.delivery_complete_count == 3
    assert codes(broker.call(delete(HERE))) == {HERE: ErrorCode.NONE}
    assert codes(broker.call(read(HERE, THERE))) == {HERE: ErrorCode.INVALID_REQUEST, THERE: ErrorCode.NONE}


@pytest.mark.parametrize("request_of", ALL)
def test_each_share_partition_has_its_own_error(broker: FakeBroker, request_of: Any) -> None:
    broker.call(initialize(HERE))
    found = results(broker.call(request_of(HERE, MISSING)))
    assert found[HERE].error_code == 0
    assert found[MISSING].error_code != 0
    assert found[MISSING].error_message


@pytest.mark.parametrize("request_of", ALL)
def test_only_brokers_may_use_them(broker: FakeBroker, request_of: Any) -> None:
    broker.call(initialize(HERE))
    written = broker.driver.kinds()
    found = results(broker.call(request_of(HERE, THERE), is_broker=False))
    assert [partition.error_code for partition in found.values()] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert all("lacks CLUSTER_ACTION" in partition.error_message for partition in found.values())
    assert broker.driver.kinds() == written


@pytest.mark.parametrize("request_of", ALL)
def test_a_request_without_a_group_or_topics_has_no_results(broker: FakeBroker, request_of: Any) -> None:
    request = request_of(HERE)
    request.group_id = ""
    assert broker.call(request).results == []
    assert broker.call(request_of()).results == []


@pytest.mark.parametrize("request_of", ALL)
def test_a_topic_without_partitions_voids_the_request_except_an_initialization(
    broker: FakeBroker, request_of: Any
) -> None:
    broker.call(initialize(HERE))
    request = request_of(HERE, THERE)
    request.topics[1].partitions = []
    assert len(results(broker.call(request))) == (1 if request_of is initialize else 0)


@pytest.mark.parametrize("version", [0, 1])
def test_the_count_of_completed_deliveries_came_with_version_1(broker: FakeBroker, version: int) -> None:
    broker.call(initialize(HERE))
    request = write_share_group_state.WriteShareGroupStateRequest.decode(write(HERE).encode(version), version)
    broker.call(request, version)
    assert broker.driver.summary().delivery_complete_count == (3 if version else -1)


def test_many_share_partitions_are_served_in_steps(broker: FakeBroker) -> None:
    broker.driver.partition_counts[TOPIC] = 1_000
    many = [(TOPIC, partition) for partition in range(150)]
    assert set(codes(broker.call(initialize(*many))).values()) == {ErrorCode.NONE}
    assert len(codes(broker.call(write(*many)))) == 150
    assert {len(state.state_batches) for state in results(broker.call(read(*many))).values()} == {1}


@pytest.mark.parametrize("request_of", [read, read_summary])
def test_a_coordinator_that_may_be_replaced_shows_no_state(broker: FakeBroker, request_of: Any) -> None:
    broker.call(initialize(HERE, THERE))
    broker.replaced = {OTHER_KEY}
    assert codes(broker.call(request_of(HERE, THERE))) == {HERE: ErrorCode.NONE, THERE: ErrorCode.NOT_COORDINATOR}


# -- FindCoordinator


def find(broker: FakeBroker, key: str, version: int = 6, *, is_broker: bool = True) -> Any:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    return broker.call(request, version, is_broker=is_broker).coordinators[0]


def test_the_leader_of_a_share_partitions_partition_coordinates_it(broker: FakeBroker) -> None:
    broker.driver.coordinator.set_partition_count(3)
    for number in range(10):
        key = KEY._replace(group_id=f"group:{number}")
        found = find(broker, key.coordinator_key)
        expected = broker.leaders[broker.driver.coordinator.partition_for(key)]
        assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, expected, "h", 9)
    padded = f"{key.group_id}:{key.topic_id}:+0{key.partition}"
    assert find(broker, padded).node_id == expected, "the key is read, not only hashed"


@pytest.mark.parametrize(
    ("key", "version", "is_broker", "expected"),
    [
        (KEY.coordinator_key, 6, False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (KEY.coordinator_key, 5, False, ErrorCode.INVALID_REQUEST),
        ("group", 6, True, ErrorCode.INVALID_REQUEST),
        (f"group:{TOPIC}:x", 6, True, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_search_for_a_share_coordinator_has_a_reason(
    broker: FakeBroker, key: str, version: int, is_broker: bool, expected: ErrorCode
) -> None:
    broker.has_topic = False
    found = find(broker, key, version, is_broker=is_broker)
    assert (found.error_code, found.node_id) == (expected, -1)
    assert found.error_message
    assert not broker.has_topic, "nothing is created"


def test_a_search_for_several_share_coordinators_is_one_access(broker: FakeBroker) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[KEY.coordinator_key, "not a key"])
    found = broker.call(request, is_broker=False).coordinators
    assert [coordinator.error_code for coordinator in found] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert broker.rights.decision_count == 1


def test_the_first_search_for_a_share_coordinator_creates_the_topic(broker: FakeBroker) -> None:
    broker.has_topic = False
    assert find(broker, KEY.coordinator_key).error_code == ErrorCode.NONE
    assert broker.has_topic
