"""Broker 1 leads a partition that 2 and 3 replicate: real logs, and a controller that accepts every ISR."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.isr_maintenance import LeaderReplicas
from barnabas.broker.partition import Partition
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.replication_quota import ReplicationQuota
from barnabas.broker.session_lease import SessionLease
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.network.api_handler import Access
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog
from tests.unit.broker.replication.leader import EPOCHS, cluster, registration

NOW = 1_750_000_000_000
TOPIC, TOPIC_ID = "orders", Uuid.from_int(5)
ORDERS = TopicPartition(TOPIC, 0)
LAG_MS = 30_000


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return NOW + self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Controller:
    """Accepts every ISR, or answers with ``refusal``."""

    def __init__(self) -> None:
        self.proposals: list[list[int]] = []
        self.refusal: ApiException | None = None

    def versions(self) -> None: ...

    async def send(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        (topic,) = request.topics
        (asks,) = topic.partitions
        members = [member.broker_id for member in asks.new_isr_with_epochs]
        self.proposals.append(members)
        if self.refusal is not None:
            raise self.refusal
        data = AlterPartitionResponsePartitionData(
            partition_index=asks.partition_index,
            leader_id=1,
            leader_epoch=asks.leader_epoch,
            isr=members,
            partition_epoch=asks.partition_epoch + 1,
        )
        return AlterPartitionResponse(
            topics=[AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=[data])]
        )


class ReplicatedBroker:
    """Create it inside an event loop; ``close`` ends it."""

    def __init__(self, directory: Path, state: PartitionRegistration | None = None, **settings: object) -> None:
        self.clock = Clock()
        self.controller = Controller()
        self.lease = SessionLease(9.0)
        self.leader_quota = ReplicationQuota(window_count=11, window_ms=1000)
        self.replicas = ReplicaManager(
            broker_id=1,
            logs=LogManager(["unused"]),
            clock=self.clock,
            defaults=TopicConfig(settings),
            leader_quota=self.leader_quota,
        )
        self.leader_replicas = self.replicas.leader_replicas = LeaderReplicas(
            broker_id=1,
            broker_epoch=lambda: EPOCHS[1],
            cluster=cluster(),
            controller=cast("Any", self.controller),
            clock=self.clock,
            replica_lag_time_max_ms=LAG_MS,
        )
        self.partition = Partition(ORDERS, TOPIC_ID, lambda partition: self._create_log(directory, settings))
        self.replicas.partitions[ORDERS] = self.partition
        self.follow(state or registration())
        self.replicas.topic_name = lambda topic_id: TOPIC if topic_id == TOPIC_ID else None  # type: ignore[method-assign]
        self.sessions = FetchSessionCache(slots=5, eviction_ms=1000, new_session_id=iter(range(7, 99)).__next__)
        self.broker = cast(
            "Any",
            SimpleNamespace(
                broker_id=1,
                replicas=self.replicas,
                quotas=None,
                fetch_sessions=self.sessions,
                clock=self.clock,
                lease=self.lease,
                replica_selector=None,
                settings=SimpleNamespace(fetch_max_bytes=10_000_000),
                metadata=SimpleNamespace(
                    partition=lambda name, index: None,
                    image=SimpleNamespace(topics=SimpleNamespace(partition=lambda topic_id, index: None)),
                ),
            ),
        )

    def _create_log(self, directory: Path, settings: dict[str, object]) -> PartitionLog:
        return PartitionLog.create(
            str(directory / str(ORDERS)),
            ORDERS,
            topic_id=TOPIC_ID,
            config=TopicConfig(settings),
            pool=FilePool(100),
            now_ms=NOW,
        )

    def close(self) -> None:
        self.replicas.close()

    def follow(self, state: PartitionRegistration) -> None:
        """Apply a partition state from the metadata log."""
        self.partition.update(state)
        if state.leader == 1:
            self.leader_replicas.lead(self.partition, state)
        else:
            self.leader_replicas.end(self.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(self, count: int = 1) -> None:
        self.replicas.append(self.partition, batch(count), requires_all_in_sync=False)

    async def ask(self, handler: Any, request: Any, version: int) -> Any:
        """Wait for the response and return it."""
        declared = handler.api_handler
        context = RequestContext(api_key=declared.api_key, api_version=version, correlation_id=1)
        answer = handler(self.broker, request, Access(AllowAllAuthorizer(), context, declared.acl))
        return await answer if isinstance(answer, Awaitable) else answer


def batch(count: int) -> bytes:
    return build_batch([Record(i, NOW, None, b"value") for i in range(count)])
