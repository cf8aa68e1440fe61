"""The broker adds a partition to a transaction again while the producer's previous transaction is still being ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.broker.transaction_verifier import TransactionVerifier
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_shard import ProducerResult
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

ME, OTHER = 1, 2
PARTITION, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
PRODUCER = ProducerIdAndEpoch(7, 1)
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class World:
    """A coordinator here or on another broker, whose answers are scripted, and a clock that only pauses advance."""

    def __init__(self, leader: int, *script: list[ErrorCode]) -> None:
        self.leader = leader
        self.script = list(script)
        self.times_ms: list[int] = []
        self._now_ms = 1_000
        self._settings = TransactionCoordinatorConfig(
            add_partitions_to_txn_retry_backoff_ms=20, add_partitions_to_txn_retry_backoff_max_ms=100
        )

    def verify(self, *, adds: bool = True, markers: int = 0) -> list[ErrorCode]:
        """``markers``: during how many answers a marker arrives."""
        self._markers = markers
        verifier = TransactionVerifier(
            self._settings,
            broker_id=ME,
            coordinator=self,  # type: ignore[arg-type]
            now_ms=lambda: self._now_ms,
            add_partitions=self.add_partitions,
            metadata=self,  # type: ignore[arg-type]
            others=self,  # type: ignore[arg-type]
            pause=self._pause,
        )
        codes = asyncio.run(
            verifier.verify(
                "id", PRODUCER, [PARTITION, SECOND], renew=self._renew if adds else None, has_abortable_error=True
            )
        )
        return [codes[PARTITION], codes[SECOND]]

    def _renew(self) -> bool:
        self._markers -= 1
        return self._markers >= 0

    async def _pause(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)

    def _next(self) -> list[ErrorCode]:
        self.times_ms.append(self._now_ms - 1_000)
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def partition_for(self, transactional_id: str) -> int:
        return 0

    def partition(self, topic: str, partition: int) -> World:
        return self

    async def add_partitions(self, *args: object, **named: object) -> ProducerResult:
        return ProducerResult(self._next()[0])

    async def ask(self, leader: int, request: AddPartitionsToTxnRequest, *, timeout_s: float) -> Any:
        results = [
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index, code in enumerate(self._next())
        ]
        topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=results)
        result = AddPartitionsToTxnResult(transactional_id="id", topic_results=[topic])
        return AddPartitionsToTxnResponse(results_by_transaction=[result])


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_partition_is_added_once_the_previous_transaction_is_complete(leader: int) -> None:
    world = World(leader, [CONCURRENT] * 2, [CONCURRENT] * 2, [ErrorCode.NONE] * 2)
    assert world.verify() == [ErrorCode.NONE] * 2
    assert world.times_ms == [0, 20, 40]


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_the_producer_learns_of_it_when_the_previous_transaction_takes_long(leader: int) -> None:
    world = World(leader, [CONCURRENT] * 2)
    assert world.verify() == [CONCURRENT] * 2
    assert world.times_ms == [0, 20, 40, 60, 80, 100]


def test_one_partition_that_waits_is_enough_to_repeat() -> None:
    world = World(OTHER, [ErrorCode.NONE, CONCURRENT], [ErrorCode.NONE] * 2)
    assert world.verify() == [ErrorCode.NONE] * 2


def test_other_errors_are_returned_at_once() -> None:
    world = World(OTHER, [ErrorCode.INVALID_PRODUCER_EPOCH] * 2)
    assert world.verify() == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    assert world.times_ms == [0]


def test_a_verification_is_not_repeated() -> None:
    """A client that adds partitions itself learned of the previous transaction when it did."""
    world = World(OTHER, [CONCURRENT] * 2)
    assert world.verify(adds=False) == [CONCURRENT] * 2
    assert world.times_ms == [0]


def test_a_marker_during_the_answer_may_be_of_the_previous_transaction_so_the_coordinator_is_asked_again() -> None:
    world = World(OTHER, [ErrorCode.NONE] * 2)
    assert world.verify(markers=1) == [ErrorCode.NONE] * 2
    assert len(world.times_ms) == 2
    world = World(OTHER, [ErrorCode.NONE] * 2, [ErrorCode.INVALID_PRODUCER_EPOCH] * 2)
    assert world.verify(markers=1) == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
