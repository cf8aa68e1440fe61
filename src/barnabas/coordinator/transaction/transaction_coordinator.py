"""The transaction coordinator of a broker: passes each request to the shard of its transactional id.

It makes the checks that do not depend on the state of an id. Requests that write return a Deferred. ``now_ms`` is the
wall clock, corrected by the caller so that it never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime, PartitionWriter
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_shard import (
    ProducerResult,
    TransactionCoordinatorShard,
)
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.coordinator.write_errors import client_error

__all__ = ["PreparedTransaction", "TransactionCoordinator", "TransactionFilter"]

_STATES = {state.shown: state for state in TransactionState}


class PreparedTransaction(NamedTuple):
    """A transaction whose outcome is decided: its markers are to be written, in this coordinator's epoch."""

    partition: int
    """The partition of ``__transaction_state``."""
    coordinator_epoch: int
    metadata: TransactionMetadata
    is_present: Callable[[], bool]
    """Whether the markers are still to be written here: not after another broker has become the coordinator."""


class TransactionFilter(NamedTuple):
    """What ListTransactions asks for. Empty sets and a negative duration mean everything."""

    producer_ids: frozenset[int] = frozenset()
    states: frozenset[str] = frozenset()
    duration_ms: int = -1

    @property
    def unknown_states(self) -> list[str]:
        return sorted(self.states - _STATES.keys())

    def takes(self, found: TransactionMetadata, now_ms: int) -> bool:
        if self.producer_ids and found.producer_id not in self.producer_ids:
            return False
        if self.states and found.state.shown not in self.states:
            return False
        return self.duration_ms < 0 or now_ms - found.start_ms > self.duration_ms


class TransactionCoordinator:
    def __init__(
        self,
        config: TransactionCoordinatorConfig,
        *,
        writer: PartitionWriter,
        take_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
        on_prepared: Callable[[PreparedTransaction], None],
        on_settled: Callable[[str], None],
    ) -> None:
        """See ``TransactionCoordinatorShard``. ``on_prepared`` must call ``complete`` when all markers are written."""
        self.config = config
        self.is_active = False
        self._on_prepared = on_prepared
        self._partition_count = config.transaction_state_log_num_partitions

        def new_shard(partition: int, leader_epoch: int) -> TransactionCoordinatorShard:
            return TransactionCoordinatorShard(
                config,
                leader_epoch=leader_epoch,
                take_producer_id=take_producer_id,
                transaction_version=transaction_version,
                on_prepared=lambda shard, found: self._prepared(partition, shard, found),
                on_settled=on_settled,
            )

        self.runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            writer=writer, new_shard=new_shard
        )

    def start(self) -> None:
        """Answer requests from now on."""
        self.is_active = True

    def stop(self, now_ms: int) -> None:
        """Refer all waiting callers to another coordinator; later requests are not answered."""
        self.is_active = False
        for partition in range(self._partition_count):
            self.runtime.unload(partition, now_ms)

    def set_partition_count(self, partition_count: int) -> None:
        """Set the topic's actual number of partitions: the setting only applies when the topic is created."""
        self._partition_count = partition_count

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` of an id."""
        return coordinator_partition(transactional_id, self._partition_count)

    # -- producers and their transactions

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
    ) -> Deferred[ProducerResult]:
        if not 0 < timeout_ms <= self.config.transaction_max_timeout_ms:
            return Deferred.completed(ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        return self._write(
            transactional_id, lambda shard: shard.init_producer(transactional_id, timeout_ms, expected, now_ms), now_ms
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        *,
        client_version: int,
    ) -> Deferred[ProducerResult]:
        added = frozenset(partitions)
        return self._write(
            transactional_id,
            lambda shard: shard.add_partitions(
                transactional_id, producer, added, now_ms, client_version=client_version
            ),
            now_ms,
        )

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        now_ms: int,
        *,
        is_commit: bool,
        client_version: int,
    ) -> Deferred[ProducerResult]:
        return self._write(
            transactional_id,
            lambda shard: shard.end(
                transactional_id, producer, now_ms, is_commit=is_commit, client_version=client_version
            ),
            now_ms,
        )

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it belongs to the producer's open transaction."""
        wanted = list(partitions)
        try:
            return self._shard(transactional_id).verify(transactional_id, producer, wanted)
        except ApiException as error:
            return dict.fromkeys(wanted, error.code)

    def complete(self, prepared: PreparedTransaction, now_ms: int) -> None:
        """End a transaction whose markers are written in all its partitions."""
        self.runtime.write_quietly(
            prepared.partition, lambda shard: shard.complete(prepared.metadata, now_ms), now_ms=now_ms
        )

    # -- descriptions

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Raise ApiException."""
        found = self._shard(transactional_id).find(transactional_id)
        if found is None:
            raise ApiException(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"Transactional id {transactional_id} could not be found."
            )
        return found

    def list(self, wanted: TransactionFilter, now_ms: int) -> list[TransactionMetadata]:
        """Return the transactions of every partition that is led here. Raise ApiException while one is loading."""
        if not self.is_active:
            raise ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.runtime.is_loading():
            raise ApiException(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [
            found for _, shard in self.runtime.active_shards() for found in shard.all() if wanted.takes(found, now_ms)
        ]

    # -- pieces

    def _shard(self, transactional_id: str) -> TransactionCoordinatorShard:
        if not self.is_active:
            raise ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not transactional_id:
            raise ApiException(ErrorCode.INVALID_REQUEST)
        return self.runtime.shard(self.partition_for(transactional_id))

    def _write(
        self,
        transactional_id: str,
        decide: Callable[[TransactionCoordinatorShard], CoordinatorResult[ProducerResult]],
        now_ms: int,
    ) -> Deferred[ProducerResult]:
        if not self.is_active:
            return Deferred.completed(ProducerResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if not transactional_id:
            return Deferred.completed(ProducerResult(ErrorCode.INVALID_REQUEST))
        answer: Deferred[ProducerResult] = Deferred()
        self.runtime.write(
            self.partition_for(transactional_id),
            decide,
            now_ms=now_ms,
            answer=answer,
            on_failure=lambda code: ProducerResult(client_error(code)),
        )
        return answer

    def _prepared(self, partition: int, shard: TransactionCoordinatorShard, found: TransactionMetadata) -> None:
        self._on_prepared(PreparedTransaction(partition, shard.leader_epoch, found, lambda: shard.is_present(found)))
