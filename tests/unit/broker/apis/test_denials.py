"""If everything is denied, each API reports it as Kafka 4.3.1 does, in every version that is served.

The broker's parts that would do the work fail the test when they are used: the denial comes first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER, SHARE_STATE_APIS
from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.network.api_handler import HandlerTable
from barnabas.network.close_connection import CloseConnection
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.network.response_errors import ResponseErrors
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnTopic
from barnabas.protocol.messages.describe_configs import DescribeConfigsResource
from barnabas.protocol.messages.fetch import ReplicaState
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_delete import OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchResponseGroup, OffsetFetchResponseTopics
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from barnabas.server.controller.quorum_handlers import SERVED_IN_PROCESS, QuorumHandlers
from barnabas.server.controller_channel.in_process import InProcessChannel
from tests.peers.every_request import Target, request_for
from tests.unit.controller.controller_harness import ControllerHarness, topic

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53
ON_PLAINTEXT = 64
"""The error of every request for delegation tokens on a PLAINTEXT listener, whatever the rights."""
LOGGED_IN = 34
"""The connection has no login left to do, whatever the rights."""
TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)

# The error codes that a denied request of tests.peers.every_request receives; empty if the API omits what is denied.
DENIED_CODES: dict[ApiKey, set[int]] = {
    ApiKey.PRODUCE: {TOPIC},
    ApiKey.FETCH: {TOPIC},
    ApiKey.LIST_OFFSETS: {TOPIC},
    ApiKey.METADATA: {TOPIC},
    ApiKey.OFFSET_COMMIT: {GROUP},
    ApiKey.OFFSET_FETCH: {GROUP},
    ApiKey.FIND_COORDINATOR: {GROUP},
    ApiKey.JOIN_GROUP: {GROUP},
    ApiKey.HEARTBEAT: {GROUP},
    ApiKey.LEAVE_GROUP: {GROUP},
    ApiKey.SYNC_GROUP: {GROUP},
    ApiKey.DESCRIBE_GROUPS: {GROUP},
    ApiKey.LIST_GROUPS: set(),
    ApiKey.API_VERSIONS: set(),
    ApiKey.CREATE_TOPICS: {TOPIC},
    ApiKey.DELETE_TOPICS: {TOPIC},
    ApiKey.DELETE_RECORDS: {TOPIC},
    ApiKey.INIT_PRODUCER_ID: {CLUSTER},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {TOPIC},
    ApiKey.ADD_PARTITIONS_TO_TXN: {TRANSACTIONAL_ID},
    ApiKey.ADD_OFFSETS_TO_TXN: {TRANSACTIONAL_ID},
    ApiKey.END_TXN: {TRANSACTIONAL_ID},
    ApiKey.WRITE_TXN_MARKERS: {CLUSTER},
    ApiKey.TXN_OFFSET_COMMIT: {TRANSACTIONAL_ID},
    ApiKey.DESCRIBE_CONFIGS: {TOPIC, GROUP, CLUSTER},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {CLUSTER},
    ApiKey.DESCRIBE_LOG_DIRS: {CLUSTER},
    ApiKey.CREATE_PARTITIONS: {TOPIC},
    ApiKey.DESCRIBE_ACLS: {CLUSTER},
    ApiKey.CREATE_ACLS: {CLUSTER},
    ApiKey.DELETE_ACLS: {CLUSTER},
    ApiKey.SASL_HANDSHAKE: {LOGGED_IN},
    ApiKey.SASL_AUTHENTICATE: {LOGGED_IN},
    ApiKey.CREATE_DELEGATION_TOKEN: {ON_PLAINTEXT},
    ApiKey.RENEW_DELEGATION_TOKEN: {ON_PLAINTEXT},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {ON_PLAINTEXT},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {ON_PLAINTEXT},
    ApiKey.DELETE_GROUPS: {GROUP},
    ApiKey.ALTER_CONFIGS: {TOPIC},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {TOPIC},
    ApiKey.OFFSET_DELETE: {GROUP},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {CLUSTER},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {CLUSTER},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {CLUSTER},
    ApiKey.ALTER_CLIENT_QUOTAS: {CLUSTER},
    ApiKey.ELECT_LEADERS: {CLUSTER},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {CLUSTER},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {CLUSTER},
    ApiKey.DESCRIBE_QUORUM: {CLUSTER},
    ApiKey.UPDATE_FEATURES: {CLUSTER},
    ApiKey.UNREGISTER_BROKER: {CLUSTER},
    ApiKey.DESCRIBE_CLUSTER: set(),
    ApiKey.DESCRIBE_PRODUCERS: {TOPIC},
    ApiKey.DESCRIBE_TRANSACTIONS: {TRANSACTIONAL_ID},
    ApiKey.LIST_TRANSACTIONS: set(),
    ApiKey.LIST_CONFIG_RESOURCES: {CLUSTER},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {TOPIC},
    ApiKey.ADD_RAFT_VOTER: {CLUSTER},
    ApiKey.REMOVE_RAFT_VOTER: {CLUSTER},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {GROUP},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {GROUP},
    ApiKey.SHARE_GROUP_HEARTBEAT: {GROUP},
    ApiKey.SHARE_GROUP_DESCRIBE: {GROUP},
    ApiKey.SHARE_FETCH: {GROUP},
    ApiKey.SHARE_ACKNOWLEDGE: {GROUP},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {GROUP},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {GROUP},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {GROUP},
    **{key: {CLUSTER} for key in SHARE_STATE_APIS},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {GROUP},
    ApiKey.STREAMS_GROUP_DESCRIBE: {GROUP},
}
VERSIONS = [
    (key, version)
    for key, (low, high) in SERVED_BY_BROKER.items()
    for version in range(3 if key is ApiKey.PRODUCE else low, high + 1)
]


class Denying(Authorizer):
    """Denies everything except what was named as ``TYPE:OPERATION``; records denials that would be logged."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = set(allowed)
        self.logged: set[str] = set()

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
        right = f"{resource_type.name}:{operation.name}"
        if right not in self._allowed and log_if_denied:
            self.logged.add(right)
        return right in self._allowed

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return f"{resource_type.name}:{operation.name}" in self._allowed

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        return names if f"{resource_type.name}:{operation.name}" in self._allowed else []

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return 0

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        return [0] * len(names)


class Untouched:
    """A part of the broker that a denied request must not use, apart from what ``given`` contains."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a denied request reached {name}")


class World:
    """A broker with one topic and one group, and a controller, behind an authorizer that denies."""

    def __init__(self, *allowed: str) -> None:
        self.authorizer = Denying(*allowed)
        self.harness = ControllerHarness().activate()
        self.harness.start_broker(1)
        self.harness.create(topic("secret"))
        image = self.harness.controller.committed_image
        topic_id = next(iter(image.topics.by_id))
        self.target = Target(topic="secret", topic_id=topic_id, group="hidden", new_topic="new")
        metadata = MetadataCache()
        metadata.image = image
        channel = InProcessChannel(
            controller=self.harness.controller,
            handlers=QuorumHandlers(Untouched(), served=SERVED_IN_PROCESS),  # type: ignore[arg-type]
            authorizer=self.authorizer,
            own_context=lambda key, version: RequestContext(api_key=key, api_version=version),
        )
        self.broker = SimpleNamespace(
            broker_id=1,
            cluster_id="cluster",
            served=SERVED_BY_BROKER,
            supported_features={},
            kraft_version=lambda: 1,
            settings=SimpleNamespace(
                fetch_max_bytes=1000, auto_create_topics_enable=True, max_request_partition_size_limit=10
            ),
            static_configs={},
            other_brokers=None,
            metadata=metadata,
            controller=channel,
            replicas=Untouched(topic_name=lambda i: "secret" if i == topic_id else None, bytes_out=0),
            producer_ids=Untouched(),
            topic_creation=Untouched(),
            quotas=None,
            fetch_sessions=FetchSessionCache(slots=10, eviction_ms=1000, new_session_id=lambda: 1),
            groups=SimpleNamespace(
                now_ms=lambda: 0,
                answer=lambda deferred: deferred.value,
                confirm=lambda group_ids: None,
                serves_streams_groups=True,
                coordinator=Untouched(**self._groups()),
                serves_consumer_groups=True,
                serves_share_groups=True,
            ),
            share_partitions=Untouched(is_enabled=True),
            transactions=Untouched(
                now_ms=lambda: 0,
                coordinator=Untouched(list=lambda wanted, now_ms: [TransactionMetadata("hidden-too", 7, 0, 1000)]),
            ),
            clock=SimpleNamespace(now_ms=lambda: 0),
        )

    def _groups(self) -> dict[str, Any]:
        def fetch_offsets(group: Any, *, require_stable: bool) -> OffsetFetchResponseGroup:
            topics = [OffsetFetchResponseTopics(name="secret")] if group.topics is None else []
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

        def delete_offsets(request: Any, now_ms: int) -> Deferred[OffsetDeleteResponse]:
            assert request.topics == []
            answer: Deferred[OffsetDeleteResponse] = Deferred()
            answer.complete(OffsetDeleteResponse())
            return answer

        def delete_groups(names: list[str], now_ms: int) -> Deferred[list[list[Any]]]:
            assert names == []
            answer: Deferred[list[list[Any]]] = Deferred()
            answer.complete([])
            return answer

        listed = ListGroupsResponse(groups=[ListedGroup(group_id="hidden")])
        return {
            "list_groups": lambda request: listed,
            "fetch_offsets": fetch_offsets,
            "delete_offsets": delete_offsets,
            "delete_groups": delete_groups,
        }

    def ask(self, request: Message, version: int) -> Any:
        """Return the response as the client decodes it."""
        key = ApiKey(request.API_KEY)
        handler = TABLE.handler(key)
        dispatcher = RequestDispatcher(server=self.broker, handlers=TABLE, authorizer=self.authorizer, stats={})
        context = RequestContext(api_key=key, api_version=version, listener_name="PLAINTEXT")
        request = handler.request_type.decode(request.encode(version), version)

        async def answer() -> Any:
            response = dispatcher.call(handler, request, context)
            if isinstance(response, Awaitable):
                waiting = asyncio.ensure_future(response)
                for _ in range(3):
                    await asyncio.sleep(0)
                    self.harness.settle()
                try:
                    response = await waiting
                except ApiException as error:
                    response = handler.on_error(request, error)
            return response

        response = asyncio.run(answer())
        if response is None:
            return None
        chunks: list[Any] = []
        response.write(version, chunks)
        return handler.response_type.decode(b"".join(chunks), version)


def codes(answer: Any) -> set[int]:
    found = set(ResponseErrors(type(answer)).of(answer))
    if isinstance(answer, AddPartitionsToTxnResponse):
        found |= {
            partition.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
    return found


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_a_denied_request_receives_kafkas_error(key: ApiKey, version: int) -> None:
    world = World()
    answer = world.ask(request_for(key, version, world.target), version)
    denied_codes = DENIED_CODES[key]
    if key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        denied_codes = set()
        assert answer.results == []
    if key is ApiKey.ADD_PARTITIONS_TO_TXN and version >= 4:  # The sender is a broker.
        denied_codes = {CLUSTER}
        assert (answer.error_code, answer.results_by_transaction) == (CLUSTER, [])
    assert codes(answer) == denied_codes
    if key is ApiKey.LIST_GROUPS:
        assert answer.groups == []
    if key is ApiKey.LIST_TRANSACTIONS:
        assert answer.transaction_states == []
    filters = (
        key is ApiKey.INIT_PRODUCER_ID
        or denied_codes in ({ON_PLAINTEXT}, {LOGGED_IN})
        or not (denied_codes or key is ApiKey.DESCRIBE_LOG_DIRS)
    )
    assert bool(world.authorizer.logged) != filters, "a check that only filters is not logged"


@pytest.mark.parametrize("key", SERVED_BY_BROKER, ids=lambda key: key.name)
def test_a_denial_names_principal_and_right_where_the_response_has_a_text(key: ApiKey) -> None:
    world, version = World(), SERVED_BY_BROKER[key][1]
    named = r"(secret|new|hidden(-queue(-altered)?)?|kafka-cluster)"
    if key is ApiKey.PRODUCE and version >= 13:
        named = r"[\w-]{22}"  # By its id, as in the request: the denial does not reveal the name.
    form = re.compile(rf"User:ANONYMOUS lacks [A-Z_]+ on (Topic|Group|Cluster):{named}")
    for text in denial_texts(world.ask(request_for(key, version, world.target), version)):
        assert form.fullmatch(text or "")


def denial_texts(part: Any) -> Iterator[str | None]:
    names = {field.name for field in part.FIELDS}
    if {"error_code", "error_message"} <= names and part.error_code in (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, 65):
        yield part.error_message
    for name in names:
        value = getattr(part, name)
        for element in value if isinstance(value, list) else ():
            if hasattr(element, "FIELDS"):
                yield from denial_texts(element)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_denied_producer_that_awaits_no_response_is_disconnected(version: int) -> None:
    world = World()
    request = request_for(ApiKey.PRODUCE, version, world.target)
    request.acks = 0
    with pytest.raises(CloseConnection, match="TOPIC_AUTHORIZATION_FAILED"):
        world.ask(request, version)


def test_a_denied_transaction_is_refused_as_a_whole() -> None:
    world = World("TOPIC:WRITE", "CLUSTER:IDEMPOTENT_WRITE")
    request = request_for(ApiKey.PRODUCE, 12, world.target)
    request.transactional_id = "t"
    record = Record(0, 0, b"key", b"value", ())
    request.topic_data[0].partition_data[0].records = build_batch([record], is_transactional=True)
    assert codes(world.ask(request, 12)) == {TRANSACTIONAL_ID}
    request = request_for(ApiKey.INIT_PRODUCER_ID, 5, world.target)
    request.transactional_id = "t"
    assert codes(world.ask(request, 5)) == {TRANSACTIONAL_ID}


def answers_by_topic(answer: Any) -> dict[str, int]:
    return {
        topic.name: partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
def test_one_denied_topic_keeps_all_others_out_of_a_transaction(version: int) -> None:
    world = World("TRANSACTIONAL_ID:WRITE")
    request = request_for(ApiKey.ADD_PARTITIONS_TO_TXN, version, world.target)
    request.v3_and_below_topics += [
        AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("missing", "__consumer_offsets")
    ]
    # A missing topic looks like a denied one.
    assert answers_by_topic(world.ask(request, version)) == dict.fromkeys(
        ("secret", "missing", "__consumer_offsets"), TOPIC
    )
    writer = World("TRANSACTIONAL_ID:WRITE", "TOPIC:WRITE")
    assert answers_by_topic(writer.ask(request, version)) == {
        "secret": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": TOPIC,
    }


@pytest.mark.parametrize("version", range(5))
def test_a_group_joins_no_transaction_without_the_right_to_read_it(version: int) -> None:
    world = World("TRANSACTIONAL_ID:WRITE")
    assert codes(world.ask(request_for(ApiKey.ADD_OFFSETS_TO_TXN, version, world.target), version)) == {GROUP}


@pytest.mark.parametrize("version", range(6))
def test_offsets_in_a_transaction_need_read_on_the_group_and_on_each_topic(version: int) -> None:
    request = request_for(ApiKey.TXN_OFFSET_COMMIT, version, World().target)
    assert codes(World("GROUP:READ", "TOPIC:READ").ask(request, version)) == {TRANSACTIONAL_ID}
    assert codes(World("TRANSACTIONAL_ID:WRITE", "TOPIC:READ").ask(request, version)) == {GROUP}
    assert codes(World("TRANSACTIONAL_ID:WRITE", "GROUP:READ").ask(request, version)) == {TOPIC}


@pytest.mark.parametrize("right", ["CLUSTER:ALTER", "CLUSTER:CLUSTER_ACTION"])
def test_markers_need_alter_or_cluster_action(right: str) -> None:
    world = World(right)

    class Writer:
        async def write(self, *_: object) -> ErrorCode:
            return ErrorCode.NONE

    world.broker.transactions = Untouched(marker_writer=Writer())
    assert codes(world.ask(request_for(ApiKey.WRITE_TXN_MARKERS, 2, world.target), 2)) == set()
    assert world.authorizer.logged == set()


def test_a_described_transaction_shows_only_topics_that_may_be_described() -> None:
    partitions = frozenset({TopicPartition("secret", 1), TopicPartition("secret", 0)})
    found = TransactionMetadata("t", 7, 2, 1000, TransactionState.ONGOING, partitions, start_ms=5)
    request = request_for(ApiKey.DESCRIBE_TRANSACTIONS, 0, World().target)
    shown = []
    for rights in (("TRANSACTIONAL_ID:DESCRIBE",), ("TRANSACTIONAL_ID:DESCRIBE", "TOPIC:DESCRIBE")):
        world = World(*rights)
        world.broker.transactions = Untouched(coordinator=Untouched(describe=lambda transactional_id: found))
        (state,) = world.ask(request, 0).transaction_states
        assert (state.error_code, state.transaction_state, state.producer_id) == (0, "Ongoing", 7)
        assert world.authorizer.logged == set()
        shown.append([(topic.topic, topic.partitions) for topic in state.topics])
    assert shown == [[], [("secret", [0, 1])]]


def test_producers_of_an_invalid_topic_name_are_refused_before_the_rights() -> None:
    world = World()
    request = request_for(ApiKey.DESCRIBE_PRODUCERS, 0, world.target._replace(topic="a topic"))
    assert codes(world.ask(request, 0)) == {ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert world.authorizer.logged == set()


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_a_denied_follower_receives_an_authorization_error_of_its_topics(version: int) -> None:
    world = World("TOPIC:READ")
    request = request_for(ApiKey.FETCH, version, world.target)
    if version < 15:
        request.replica_id = 2
    else:
        request.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    assert codes(world.ask(request, version)) == {TOPIC}
    assert world.authorizer.logged == {"CLUSTER:CLUSTER_ACTION"}


@pytest.mark.parametrize(("key_type", "error"), [(0, GROUP), (1, TRANSACTIONAL_ID), (2, CLUSTER)])
def test_a_coordinator_is_not_named_without_the_right_to_describe(key_type: int, error: int) -> None:
    world = World()
    request = request_for(ApiKey.FIND_COORDINATOR, 6, world.target)
    request.key_type = key_type
    answer = world.ask(request, 6)
    assert codes(answer) == {error}
    assert [(coordinator.node_id, coordinator.host, coordinator.port) for coordinator in answer.coordinators] == [
        (-1, "", -1)
    ]


def test_offsets_of_a_denied_partition_are_unknown() -> None:
    world = World()
    answer = world.ask(request_for(ApiKey.LIST_OFFSETS, 11, world.target), 11)
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.offset, partition.timestamp) == (TOPIC, -1, -1)


def test_metadata_shows_no_denied_topic() -> None:
    world = World()
    assert world.ask(MetadataRequest(topics=None), 12).topics == []
    by_id = [MetadataRequestTopic(name=None, topic_id=world.target.topic_id)]
    (hidden,) = world.ask(MetadataRequest(topics=by_id), 12).topics
    assert (hidden.error_code, hidden.name, hidden.topic_id) == (TOPIC, None, world.target.topic_id)
    assert hidden.partitions == []
    named = [MetadataRequestTopic(name=name) for name in ("secret", "missing")]
    shown = world.ask(MetadataRequest(topics=named), 12).topics
    assert [(topic.error_code, topic.topic_id, topic.partitions) for topic in shown] == [(TOPIC, Uuid.ZERO, [])] * 2


def test_a_missing_topic_is_not_created_with_only_the_right_to_describe() -> None:
    world = World("TOPIC:DESCRIBE")
    (missing,) = world.ask(MetadataRequest(topics=[MetadataRequestTopic(name="missing")]), 12).topics
    assert missing.error_code == TOPIC
    assert world.authorizer.logged == {"TOPIC:CREATE"}


@pytest.mark.parametrize("version", [8, 10])
def test_without_describe_the_cluster_has_no_operations(version: int) -> None:
    world = World()
    answer = world.ask(MetadataRequest(topics=[], include_cluster_authorized_operations=True), version)
    assert answer.cluster_authorized_operations == 0
    request = request_for(ApiKey.DESCRIBE_CLUSTER, 2, world.target)
    request.include_cluster_authorized_operations = True
    assert world.ask(request, 2).cluster_authorized_operations == 0
    assert world.authorizer.logged == {"CLUSTER:DESCRIBE"}


@pytest.mark.parametrize("version", [2, 9, 10])
def test_the_right_on_a_group_does_not_allow_commits_for_its_topics(version: int) -> None:
    world = World("GROUP:READ")
    assert codes(world.ask(request_for(ApiKey.OFFSET_COMMIT, version, world.target), version)) == {TOPIC}


@pytest.mark.parametrize("version", [1, 7, 8, 10])
def test_the_right_on_a_group_does_not_show_offsets_of_denied_topics(version: int) -> None:
    world = World("GROUP:DESCRIBE")
    named = request_for(ApiKey.OFFSET_FETCH, version, world.target)
    assert codes(world.ask(named, version)) == {TOPIC}
    if version >= 2:
        everything = request_for(ApiKey.OFFSET_FETCH, version, world.target)
        (everything.groups[0] if version >= 8 else everything).topics = None
        answer = world.ask(everything, version)
        assert codes(answer) == set()
        assert (answer.groups[0] if version >= 8 else answer).topics == []


def test_the_right_on_a_group_does_not_delete_offsets_of_denied_topics() -> None:
    world = World("GROUP:DELETE")
    assert codes(world.ask(request_for(ApiKey.OFFSET_DELETE, 0, world.target), 0)) == {TOPIC}


def test_denied_configs_have_the_error_of_their_resource_type() -> None:
    world = World()
    request = request_for(ApiKey.DESCRIBE_CONFIGS, 4, world.target)
    request.resources += [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((8, "1"), (16, "metrics"))
    ]
    answer = world.ask(request, 4)
    assert {(result.resource_type, result.error_code) for result in answer.results} == {
        (2, TOPIC),
        (4, CLUSTER),
        (8, CLUSTER),
        (16, CLUSTER),
        (32, GROUP),
    }
    assert all(result.configs == [] for result in answer.results)


def test_a_denied_topic_is_neither_created_nor_deleted_nor_extended() -> None:
    world = World()
    created = world.ask(request_for(ApiKey.CREATE_TOPICS, 7, world.target), 7).topics[0]
    assert (created.error_code, created.error_message) == (TOPIC, "User:ANONYMOUS lacks CREATE on Topic:new")
    gone = request_for(ApiKey.DELETE_TOPICS, 6, world.target._replace(new_topic="secret"))
    assert codes(world.ask(gone, 6)) == {TOPIC}
    by_id = request_for(ApiKey.DELETE_TOPICS, 6, world.target)
    by_id.topics[0].name, by_id.topics[0].topic_id = None, world.target.topic_id
    (hidden,) = world.ask(by_id, 6).responses
    assert (hidden.error_code, hidden.name, hidden.topic_id) == (TOPIC, None, world.target.topic_id)
    world.ask(request_for(ApiKey.CREATE_PARTITIONS, 3, world.target), 3)
    image = world.harness.controller.committed_image
    assert set(image.topics.by_name) == {"secret"}
    assert len(image.topics.by_name["secret"].partitions) == 1


def test_the_creator_of_a_topic_sees_its_settings_only_with_describe_configs() -> None:
    world = World("TOPIC:CREATE")
    (created,) = world.ask(request_for(ApiKey.CREATE_TOPICS, 7, world.target), 7).topics
    assert (created.error_code, created.topic_config_error_code) == (0, TOPIC)
    assert (created.num_partitions, created.replication_factor) == (-1, -1)
    assert not created.configs
