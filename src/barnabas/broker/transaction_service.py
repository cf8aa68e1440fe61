"""Runs the transaction coordinator in a broker, on the log ``__transaction_state``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.coordinator_host import CoordinatorHost
from barnabas.broker.transaction_markers import MarkerSender, MarkerWriter
from barnabas.broker.transaction_verifier import TransactionVerifier
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.coordinator.transaction.transaction_coordinator import PreparedTransaction, TransactionCoordinator
from barnabas.metadata.features import TRANSACTION_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barnabas.broker.group_service import GroupService
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import OtherBrokers
    from barnabas.broker.producer_ids import ProducerIdAllocator
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.coordinator.deferred import Deferred
    from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
    from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
    from barnabas.coordinator.transaction.transaction_coordinator_shard import ProducerResult
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["TransactionService"]

T = TypeVar("T")


class TransactionService:
    """Handlers use ``coordinator`` for requests and ``settled`` for deferred results."""

    def __init__(
        self,
        config: TransactionCoordinatorConfig,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        groups: GroupService,
        metadata: MetadataCache,
        clock: Clock,
        others: OtherBrokers,
        producer_ids: ProducerIdAllocator,
    ) -> None:
        self._producer_ids = producer_ids
        self._patience_s = config.add_partitions_to_txn_retry_backoff_ms / 1000
        """How long a request waits for the end of the last transaction. A refused producer waits as long, or longer."""
        self._awaited: dict[str, asyncio.Future[None]] = {}
        """Transactional ids for whose last change a request waits."""
        self.marker_writer = MarkerWriter(replicas, groups, clock)
        self._sender = MarkerSender(
            broker_id=broker_id, writer=self.marker_writer, metadata=metadata, others=others, complete=self._complete
        )
        self._host = CoordinatorHost(
            TRANSACTION_STATE_TOPIC,
            broker_id=broker_id,
            replicas=replicas,
            clock=clock,
            new_coordinator=lambda writer: TransactionCoordinator(
                config,
                writer=writer,
                take_producer_id=producer_ids.take_now,
                transaction_version=lambda: metadata.image.features.level(TRANSACTION_VERSION),
                on_prepared=self._sender.send,
                on_settled=self._settle,
            ),
        )
        self.coordinator = self._host.coordinator
        self.verifier = TransactionVerifier(
            config,
            broker_id=broker_id,
            coordinator=self.coordinator,
            add_partitions=self.add_partitions,
            now_ms=self.now_ms,
            metadata=metadata,
            others=others,
        )

    def now_ms(self) -> int:
        """Return wall-clock milliseconds that advance as the monotonic clock does."""
        return self._host.now_ms()

    def start(self) -> None:
        """Coordinate, once the broker has caught up with the metadata log."""
        self.coordinator.start()
        self._host.start()

    def stop(self) -> None:
        self._host.stop()
        self._sender.stop()
        self.coordinator.stop(self.now_ms())

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Follow the metadata log; installed after the replica manager."""
        self._host.publish(delta, new_image)

    async def settled(self, deferred: Deferred[T]) -> T:
        """Return a deferred result once it is complete."""
        answer = self._host.answer(deferred)
        return deferred.value if deferred.is_complete else await answer  # type: ignore[misc]

    async def with_producer_id(self, decide: Callable[[], Deferred[ProducerResult]]) -> ProducerResult:
        """Return the result of a decision that may need a new producer id. Few do, so ids are requested afterwards."""
        result = await self.settled(decide())
        if result.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not self._producer_ids.has_any:
            await self._producer_ids.ensure()
            result = await self.settled(decide())
        return result

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> ProducerResult:
        """Add partitions to the producer's transaction.

        The answer to EndTxn does not wait for the markers, so a quick producer begins its next transaction before the
        last one is complete. Its request waits for that a moment, instead of being refused at once.
        """

        def added() -> Deferred[ProducerResult]:
            return self.coordinator.add_partitions(
                transactional_id, producer, partitions, self.now_ms(), client_version=client_version
            )

        result = await self.settled(added())
        if result.error_code is ErrorCode.CONCURRENT_TRANSACTIONS and await self._has_settled(transactional_id):
            result = await self.settled(added())
        return result

    async def _has_settled(self, transactional_id: str) -> bool:
        """Wait for the change of an id; return False if that takes too long."""
        change = self._awaited.get(transactional_id)
        if change is None:
            change = self._awaited[transactional_id] = asyncio.get_running_loop().create_future()
        self._sender.hasten(transactional_id)
        await asyncio.wait((change,), timeout=self._patience_s)
        if not change.done() and self._awaited.get(transactional_id) is change:
            del self._awaited[transactional_id]
        return change.done()

    def _settle(self, transactional_id: str) -> None:
        change = self._awaited.pop(transactional_id, None)
        if change is not None:
            change.set_result(None)

    def _complete(self, prepared: PreparedTransaction) -> None:
        self.coordinator.complete(prepared, self.now_ms())
        self._host.schedule()
