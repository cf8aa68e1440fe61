"""Broker 1 coordinates all transactions and groups: the real services on real logs, without a socket or a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.broker import Broker
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.group_service import GroupService
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.broker.producer_ids import ProducerIdAllocator
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.session_lease import SessionLease
from barnabas.broker.transaction_service import TransactionService
from barnabas.common.errors import ApiException
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.publisher import LoaderManifest
from barnabas.network.api_handler import Access, HandlerTable
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext
from barnabas.storage.log_manager import LogManager

NOW = 1_750_000_000_000
ID = "copier"
GROUP = "readers"
FIRST_PRODUCER_ID = 1000
COORDINATOR_EPOCH = 3
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
ELSEWHERE = TopicPartition("bills", 1)
"""Broker 2 has its only replica."""
MISSING = TopicPartition("missing", 0)

TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
_LEADERS = {"orders": [1], "bills": [1, 2], "__consumer_offsets": [1], "__transaction_state": [1]}
_BY_ID_SINCE = 13
_BROKERS_SINCE = 4


class Producer(NamedTuple):
    id: int
    epoch: int


class _Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 5_000


class _Controller:
    """Allocates blocks of two producer ids."""

    def __init__(self) -> None:
        self._next = FIRST_PRODUCER_ID

    async def send(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        self._next += 2
        return AllocateProducerIdsResponse(producer_id_start=self._next - 2, producer_id_len=2)


class TransactionalBroker:
    """Create it inside an event loop; ``close`` ends it."""

    def __init__(self, directory: Path, *, verifies: bool = True, patience_ms: int = 20) -> None:
        self._logs = LogManager([str(directory)])
        self._logs.startup(now_ms=NOW)
        clock, metadata = _Clock(), MetadataCache()
        controller: Any = _Controller()
        others: Any = SimpleNamespace()
        self.replicas = ReplicaManager(broker_id=1, logs=self._logs, clock=clock, defaults=TopicConfig({}))
        producer_ids = ProducerIdAllocator(broker_id=1, broker_epoch=lambda: 1, controller=controller)
        groups = GroupService(
            GroupCoordinatorConfig(),
            broker_id=1,
            replicas=self.replicas,
            clock=clock,
            new_uuid=str,
            lease=SessionLease(9.0),
            hurry_heartbeat=lambda: None,
        )
        self.transactions = TransactionService(
            TransactionCoordinatorConfig(add_partitions_to_txn_retry_backoff_ms=patience_ms),
            broker_id=1,
            replicas=self.replicas,
            groups=groups,
            metadata=metadata,
            clock=clock,
            others=others,
            producer_ids=producer_ids,
        )
        unused: Any = None
        self.broker = Broker(
            broker_id=1,
            cluster_id="cluster",
            settings=BrokerSettings(transaction_partition_verification_enable=verifies),
            static_configs={},
            served=SERVED_BY_BROKER,
            supported_features={},
            kraft_version=lambda: 1,
            metadata=metadata,
            replicas=self.replicas,
            fetch_sessions=unused,
            controller=controller,
            dynamic_settings=unused,
            producer_ids=producer_ids,
            topic_creation=unused,
            groups=groups,
            transactions=self.transactions,
            share_state=unused,
            new_share_persister=unused,
            new_share_groups=unused,
            share_partitions=unused,
            clock=clock,
        )
        groups.start()
        self.transactions._sender._delay_s = 0  # Markers are written in the loop's next turn, without a clock.
        self.transactions.start()
        delta = MetadataDelta(MetadataImage.EMPTY)
        for record in _cluster():
            delta.replay(record)
        image = delta.apply(cast("Any", MetadataImage.EMPTY.provenance))
        manifest = LoaderManifest(image.provenance, is_snapshot=False)
        for publisher in (metadata, self.replicas, groups, self.transactions):
            publisher.publish(delta, image, manifest)

    def close(self) -> None:
        self.transactions.stop()
        self.broker.groups.stop()
        self.replicas.close()
        for directory in self._logs.directories.all:
            directory.unlock()

    async def ask(self, request: Message, version: int) -> Any:
        """Return the response as the client decodes it."""
        handler = TABLE.handler(ApiKey(request.API_KEY))
        context = RequestContext(api_key=handler.api_key, api_version=version, correlation_id=1)
        request = handler.request_type.decode(request.encode(version), version)
        try:
            answer = handler.function(self.broker, request, Access(AllowAllAuthorizer(), context, handler.acl))
            if isinstance(answer, Awaitable):
                answer = await answer
        except ApiException as error:
            answer = handler.on_error(request, error)
        return handler.response_type.decode(answer.encode(version), version)

    async def settle(self) -> None:
        """Let the markers of ended transactions be written."""
        for _ in range(20):
            await asyncio.sleep(0)

    # --- requests of a producer

    async def init(self, transactional_id: str = ID) -> Producer:
        answer = await self.ask(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 5
        )
        assert answer.error_code == 0
        return Producer(answer.producer_id, answer.producer_epoch)

    async def add(
        self, producer: Producer, *partitions: TopicPartition, version: int = 3, verify_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the error codes."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions]
        if version < _BROKERS_SINCE:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            )
            results = (await self.ask(request, version)).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=ID,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            answer = await self.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
            assert answer.error_code == 0
            (result,) = answer.results_by_transaction
            assert result.transactional_id == ID
            results = result.topic_results
        return {
            TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
            for topic in results
            for partition in topic.results_by_partition
        }

    async def produce(
        self, producer: Producer, partition: TopicPartition = ORDERS, *, sequence: int = 0, version: int = 11
    ) -> int:
        """Produce one record of a transaction; return the error code."""
        batch = build_batch(
            [Record(0, NOW, None, b"value", ())],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=partition.partition, records=batch)]
        named: dict[str, Any] = {"name": partition.topic}
        if version >= _BY_ID_SINCE:
            topic = self.broker.metadata.topic(partition.topic)
            assert topic is not None
            named = {"topic_id": topic.id}
        request = ProduceRequest(
            transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(partition_data=data, **named)]
        )
        code: int = (await self.ask(request, version)).responses[0].partition_responses[0].error_code
        return code

    async def end(
        self, producer: Producer, *, committed: bool = True, version: int = 4, settles: bool = True
    ) -> EndTxnResponse:
        """Return the answer; the markers are written by then, unless not ``settles``."""
        request = EndTxnRequest(
            transactional_id=ID, producer_id=producer.id, producer_epoch=producer.epoch, committed=committed
        )
        answer: EndTxnResponse = await self.ask(request, version)
        if settles:
            await self.settle()
        return answer


def run_scenario(
    directory: Path,
    scenario: Callable[[TransactionalBroker], Awaitable[None]],
    *,
    verifies: bool = True,
    patience_ms: int = 20,
) -> None:
    async def main() -> None:
        world = TransactionalBroker(directory, verifies=verifies, patience_ms=patience_ms)
        try:
            async with asyncio.timeout(20):
                await scenario(world)
        finally:
            world.close()

    asyncio.run(main())


def _cluster() -> list[Any]:
    records: list[Any] = [FeatureLevelRecord(name="transaction.version", feature_level=2)]
    for number, (name, leaders) in enumerate(_LEADERS.items(), start=1):
        topic_id = Uuid.from_int(number)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[leader],
                isr=[leader],
                leader=leader,
                leader_epoch=COORDINATOR_EPOCH,
            )
            for index, leader in enumerate(leaders)
        ]
    return records
