"""A broker with share groups: real logs and handlers, in virtual time, with a persister in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.broker import Broker
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.broker.share.share_partition_manager import SharePartitionManager
from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import (
    SUCCESS,
    UNINITIALIZED_OFFSET,
    SharePartitionState,
    StateBatch,
    StateOutcome,
)
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.publisher import LoaderManifest, MetadataPublisher
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.end_transaction_batch import end_transaction_batch
from barnabas.protocol.messages.share_acknowledge import AcknowledgementBatch as OwnBatch
from barnabas.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from barnabas.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from barnabas.storage.log_manager import LogManager
from barnabas.storage.produced_batch import AppendOrigin
from tests.peers.share_partition_script import joined
from tests.simulation.cluster.virtual_loop import VirtualLoop

NOW = 1_750_000_000_000
GROUP = "workers"
TOPIC, TOPIC_ID = "jobs", Uuid.from_int(1)
OTHER, OTHER_ID = "mails", Uuid.from_int(2)
ELSEWHERE = 2
"""Broker 2 leads this partition of the topic."""
LOCK_MS = 30_000
VERSIONS = {ApiKey.SHARE_FETCH: (1, 2), ApiKey.SHARE_ACKNOWLEDGE: (1, 2)}
TABLE = HandlerTable("barnabas.broker.apis", {**SERVED_BY_BROKER, **VERSIONS})

Acks = dict[int, Sequence[tuple[int, int, Sequence[int]]]]
"""Partition -> (first offset, last offset, acknowledge types)."""


class MemoryPersister:
    """Stores states, or fails; while it is ``blocked`` it does not answer."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.states: dict[tuple[str, Uuid, int], tuple[int, dict[int, tuple[int, int]]]] = {}
        self.writes: list[tuple[int, int, list[StateBatch]]] = []
        """(start offset, delivery complete count, batches)."""
        self.leader_epochs: list[int] = []
        self.error = ErrorCode.NONE
        self.blocked: asyncio.Future[None] | None = None
        self.reads = 0

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        self.reads += 1
        await self._answers()
        if self.error is not ErrorCode.NONE:
            return SharePartitionState(self.error, "as the test wants", 0, UNINITIALIZED_OFFSET, ())
        start, states = self.states.get((group_id, topic_id, partition), (UNINITIALIZED_OFFSET, {}))
        batches = joined((offset, offset, *state) for offset, state in sorted(states.items()))
        return SharePartitionState(0, None, 7, start, tuple(StateBatch(*batch) for batch in batches))

    async def write_state(
        self,
        group_id: str,
        topic_id: Uuid,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> StateOutcome:
        await self._answers()
        if self.error is not ErrorCode.NONE:
            return StateOutcome(self.error, "as the test wants")
        assert state_epoch == 7
        self.leader_epochs.append(leader_epoch)
        self.writes.append((start_offset, delivery_complete_count, list(batches)))
        _, states = self.states.get((group_id, topic_id, partition), (0, {}))
        for first, last, state, count in batches:
            states.update(dict.fromkeys(range(first, last + 1), (state, count)))
        kept = {offset: state for offset, state in states.items() if offset >= start_offset}
        self.states[group_id, topic_id, partition] = (start_offset, kept)
        return SUCCESS

    def block(self) -> None:
        self.blocked = self._loop.create_future()

    def answer(self) -> None:
        """Answer what waits, and the following requests."""
        blocked, self.blocked = self.blocked, None
        if blocked is not None:
            blocked.set_result(None)

    async def _answers(self) -> None:
        if self.blocked is not None:
            await self.blocked


class Rights(Authorizer):
    """Allows everything but what ``denied`` names."""

    def __init__(self) -> None:
        self.denied: set[str] = set()

    def authorize(
        self,
        context: Any,
        operation: Any,
        resource_type: Any,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return resource_name not in self.denied


class Peer:
    """A connection, for as long as it exists."""

    peer_port = 0
    client_software_name = client_software_version = "unknown"

    def __init__(self, number: int) -> None:
        self.id = f"PLAINTEXT-{number}"
        self._listeners: list[Callable[[], None]] = []

    def add_close_listener(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        for listener in self._listeners:
            listener()


class ShareBroker:
    def __init__(self, directory: Path, config: SharePartitionConfig | None = None) -> None:
        self.loop = VirtualLoop()
        self.persister = MemoryPersister(self.loop)
        self.rights = Rights()
        self.image = MetadataImage.EMPTY
        self._logs = LogManager([str(directory)])
        self._logs.startup(now_ms=NOW)
        self._metadata = MetadataCache()
        self._peers = 0
        self.replicas = ReplicaManager(broker_id=1, logs=self._logs, clock=self, defaults=TopicConfig({}))
        self.shares = SharePartitionManager(
            config or SharePartitionConfig(),
            replicas=self.replicas,
            metadata=self._metadata,
            persister=self.persister,
            clock=self,
        )
        self._publishers: list[MetadataPublisher] = [self._metadata, self.replicas, self.shares]
        unused: Any = None
        self.broker = Broker(
            broker_id=1,
            cluster_id="cluster",
            settings=BrokerSettings(),
            static_configs={},
            served=SERVED_BY_BROKER,
            supported_features={},
            kraft_version=lambda: 1,
            metadata=self._metadata,
            replicas=self.replicas,
            fetch_sessions=unused,
            controller=unused,
            dynamic_settings=unused,
            producer_ids=unused,
            topic_creation=unused,
            groups=unused,
            transactions=unused,
            share_state=unused,
            new_share_persister=unused,
            new_share_groups=unused,
            share_partitions=lambda: self.shares,
            clock=self,
        )
        self.publish(*_cluster())

    def close(self) -> None:
        self.call(self.shares.stop)
        self.run(0)
        self.replicas.close()
        for directory in self._logs.directories.all:
            directory.unlock()

    # --- the world

    def monotonic_ms(self) -> int:
        return 5_000 + round(self.loop.now_s * 1000)

    def now_ms(self) -> int:
        return NOW + round(self.loop.now_s * 1000)

    def run(self, ms: float = 0) -> None:
        """Let time pass; 0 runs what is due now."""
        self.loop.run_until(self.loop.now_s + ms / 1000)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function in the loop, and run what is due then."""
        results: list[Any] = []
        self.loop.call_soon(lambda: results.append(function(*arguments)))
        self.run()
        return results[0]

    def follow(self, publisher: MetadataPublisher) -> None:
        self._publishers.append(publisher)

    def publish(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(cast("Any", MetadataImage.EMPTY.provenance))
        manifest = LoaderManifest(self.image.provenance, is_snapshot=False)
        for publisher in self._publishers:
            self.call(publisher.publish, delta, self.image, manifest)

    def set_config(self, name: str, value: str, group: str = GROUP) -> None:
        self.publish(
            ConfigRecord(resource_type=int(ConfigResourceType.GROUP), resource_name=group, name=name, value=value)
        )

    def lead_by(self, leader: int, partition: int = 0) -> None:
        """Begin another leader epoch, with the same leader or another."""
        self.publish(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=partition, leader=leader))

    def delete_topic(self) -> None:
        self.publish(RemoveTopicRecord(topic_id=TOPIC_ID))

    def produce(self, count: int = 1, partition: int = 0, topic: str = TOPIC, *, producer_id: int = -1) -> None:
        """Append one batch; with a producer id it belongs to a transaction."""
        is_transactional = producer_id >= 0
        batch = build_batch(
            [Record(number, self.now_ms(), None, b"x" * 100) for number in range(count)],
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=self._sequence(count) if is_transactional else -1,
            is_transactional=is_transactional,
        )
        self._append(batch, partition, topic)

    _next_sequence = 0

    def _sequence(self, count: int) -> int:
        self._next_sequence += count
        return self._next_sequence - count

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        marker = end_transaction_batch(
            producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=self.now_ms()
        )
        self._append(marker, 0, TOPIC, AppendOrigin.COORDINATOR)

    def _append(self, batch: bytes, partition: int, topic: str, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        led = self.replicas.partitions[TopicPartition(topic, partition)]
        self.call(lambda: self.replicas.append(led, batch, requires_all_in_sync=False, origin=origin))

    def delete_records(self, before: int, partition: int = 0) -> None:
        log = self.replicas.partitions[TopicPartition(TOPIC, partition)].log
        self.call(lambda: log.maybe_increment_log_start(before))

    def new_peer(self) -> Peer:
        self._peers += 1
        return Peer(self._peers)

    def ask(self, request: Message, version: int, peer: Peer) -> asyncio.Task[Any]:
        """Begin a request; its task returns the response as the client decodes it."""
        handler = TABLE.handler(ApiKey(request.API_KEY))
        context = RequestContext(
            api_key=handler.api_key, api_version=version, listener_name="PLAINTEXT", connection_id=peer.id
        )
        context.peer = peer
        received = handler.request_type.decode(request.encode(version), version)

        async def answer() -> Any:
            try:
                response = handler.function(self.broker, received, Access(self.rights, context, handler.acl))
                if isinstance(response, Awaitable):
                    response = await response
            except ApiException as error:
                response = handler.on_error(received, error)
            return handler.response_type.decode(response.encode(version), version)

        task: asyncio.Task[Any] = self.loop.create_task(answer())
        self.run()
        return task


class Member:
    """A member of the group, with a connection and a share session."""

    def __init__(self, broker: ShareBroker, member_id: str = "alice", group: str = GROUP) -> None:
        self.broker = broker
        self.id = member_id
        self.group = group
        self.peer = broker.new_peer()
        self.epoch = 0

    def begin(
        self,
        partitions: Sequence[int] = (),
        *,
        acks: Acks | None = None,
        forget: Sequence[int] = (),
        topic_id: Uuid = TOPIC_ID,
        epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> asyncio.Task[ShareFetchResponse]:
        """Send a ShareFetch, with partitions that the session adds."""
        named = {index: FetchPartition(partition_index=index) for index in (*partitions, *(acks or {}))}
        for index, batches in (acks or {}).items():
            named[index].acknowledgement_batches = [
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                for first, last, types in batches
            ]
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=list(named.values()))] if named else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=list(forget))] if forget else [],
            **{"max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields},
        )
        self.epoch += 1
        return self.broker.ask(request, version, self.peer)

    def fetch(self, partitions: Sequence[int] = (), **fields: Any) -> ShareFetchResponse:
        """Return the response, however long it takes."""
        task = self.begin(partitions, **fields)
        self.broker.run(fields.get("max_wait_ms", 0))
        return task.result()

    def begin_acknowledge(
        self, acks: Acks, *, epoch: int | None = None, version: int = 2, topic_id: Uuid = TOPIC_ID, **fields: Any
    ) -> asyncio.Task[ShareAcknowledgeResponse]:
        partitions = [
            AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    OwnBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                    for first, last, types in batches
                ],
            )
            for index, batches in acks.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=partitions)] if acks else [],
            **fields,
        )
        self.epoch += 1
        return self.broker.ask(request, version, self.peer)

    def acknowledge(self, acks: Acks, **fields: Any) -> ShareAcknowledgeResponse:
        return self.begin_acknowledge(acks, **fields).result()


def partitions_of(response: ShareFetchResponse) -> dict[int, PartitionData]:
    return {partition.partition_index: partition for topic in response.responses for partition in topic.partitions}


def acquired(response: ShareFetchResponse, partition: int = 0) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count) of what the member received."""
    assert response.error_code == 0, response.error_message
    answer = partitions_of(response).get(partition)
    if answer is None:
        return []
    assert answer.error_code == 0, answer.error_message
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in answer.acquired_records]


def errors_of(response: ShareAcknowledgeResponse) -> dict[int, int]:
    return {
        partition.partition_index: partition.error_code
        for topic in response.responses
        for partition in topic.partitions
    }


def _cluster() -> list[Any]:
    records: list[Any] = [FeatureLevelRecord(name="share.version", feature_level=1)]
    records += [
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=Uuid.from_int(100 + broker_id),
            broker_epoch=broker_id,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
            rack=f"rack{broker_id}",
            fenced=False,
        )
        for broker_id in (1, 2)
    ]
    for name, topic_id, leaders in ((TOPIC, TOPIC_ID, [1, 1, 2]), (OTHER, OTHER_ID, [1])):
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=[leader], isr=[leader], leader=leader, leader_epoch=3
            )
            for index, leader in enumerate(leaders)
        ]
    return records
