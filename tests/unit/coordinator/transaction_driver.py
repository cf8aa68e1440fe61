"""Drives a TransactionCoordinator as producers would, and controls its time, its log and its markers."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_coordinator import PreparedTransaction, TransactionCoordinator
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_shard import ProducerResult
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata
from tests.unit.coordinator.memory_log import MemoryTopic

ID = "copier"
TIMEOUT_MS = 60_000
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)


class TransactionDriver:
    def __init__(
        self,
        config: TransactionCoordinatorConfig | None = None,
        topic: MemoryTopic | None = None,
        *,
        transaction_version: int = 2,
        first_producer_id: int = 1000,
    ) -> None:
        self.now_ms = 1_000_000
        self.topic = topic or MemoryTopic()
        self.prepared: list[PreparedTransaction] = []
        self.settled: list[str] = []
        self.transaction_version = transaction_version
        self.next_producer_id: int | None = first_producer_id
        self.coordinator = TransactionCoordinator(
            config or TransactionCoordinatorConfig(transaction_state_log_num_partitions=1),
            writer=self.topic,
            take_producer_id=self._take_producer_id,
            transaction_version=lambda: self.transaction_version,
            on_prepared=self.prepared.append,
            on_settled=self.settled.append,
        )
        self.topic.runtime = self.coordinator.runtime
        self.coordinator.start()

    def _take_producer_id(self) -> int | None:
        taken = self.next_producer_id
        if taken is not None:
            self.next_producer_id = taken + 1
        return taken

    def load(self, *, leader_epoch: int = 0) -> TransactionDriver:
        runtime = self.coordinator.runtime
        shard = runtime.start_loading(0, leader_epoch, self.now_ms)
        assert shard is not None
        log = self.topic.log(0)
        log.high_watermark = log.log_end_offset
        CoordinatorLoader(runtime, 0, shard, log).run(self.now_ms)
        return self

    def restarted(self) -> TransactionDriver:
        """Return another coordinator that has read the same log."""
        successor = TransactionDriver(
            self.coordinator.config, self.topic, transaction_version=self.transaction_version, first_producer_id=9000
        )
        successor.now_ms = self.now_ms
        return successor.load(leader_epoch=7)

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.coordinator.runtime.tick(self.now_ms)

    # --- requests

    def begin_init(
        self, transactional_id: str = ID, *, timeout_ms: int = TIMEOUT_MS, expected: tuple[int, int] | None = None
    ) -> Deferred[ProducerResult]:
        known = None if expected is None else ProducerIdAndEpoch(*expected)
        return self.coordinator.init_producer(transactional_id, timeout_ms, known, self.now_ms)

    def init(
        self, transactional_id: str = ID, *, timeout_ms: int = TIMEOUT_MS, expected: tuple[int, int] | None = None
    ) -> ProducerResult:
        return self.begin_init(transactional_id, timeout_ms=timeout_ms, expected=expected).value

    def producer(self, transactional_id: str = ID) -> ProducerIdAndEpoch:
        """Start a producer, as a client does that repeats its request."""
        result = self.init(transactional_id)
        while result.error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.write_markers()
            result = self.init(transactional_id)
        assert result.error_code is ErrorCode.NONE
        return ProducerIdAndEpoch(result.producer_id, result.epoch)

    def begin_add(
        self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, client_version: int = 0
    ) -> Deferred[ProducerResult]:
        return self.coordinator.add_partitions(ID, producer, partitions, self.now_ms, client_version=client_version)

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, client_version: int = 0) -> ErrorCode:
        return self.begin_add(producer, *partitions, client_version=client_version).value.error_code

    def begin_end(
        self, producer: ProducerIdAndEpoch, *, is_commit: bool = True, client_version: int = 0
    ) -> Deferred[ProducerResult]:
        return self.coordinator.end(ID, producer, self.now_ms, is_commit=is_commit, client_version=client_version)

    def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool = True, client_version: int = 0) -> ProducerResult:
        return self.begin_end(producer, is_commit=is_commit, client_version=client_version).value

    def write_markers(self) -> list[TransactionMetadata]:
        """Write the markers of all prepared transactions, and complete them. Return what was prepared."""
        ready, self.prepared[:] = list(self.prepared), []
        for prepared in ready:
            self.coordinator.complete(prepared, self.now_ms)
        return [prepared.metadata for prepared in ready]

    @property
    def state(self) -> str:
        return self.coordinator.describe(ID).state.shown
