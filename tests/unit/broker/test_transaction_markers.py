"""Markers reach the leader of every partition of a transaction, whoever leads at that time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.broker.transaction_markers import MarkerSender
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.transaction.transaction_coordinator import PreparedTransaction
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ME, OTHER, THIRD = 1, 2, 3
A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)


class Leader:
    def __init__(self, leader: int) -> None:
        self.leader = leader


class World:
    """A broker that leads A; others lead B and C. Answers are scripted by partition."""

    def __init__(self, delay_s: float = 0) -> None:
        self.leaders: dict[TopicPartition, int] = {A: ME, B: OTHER, C: THIRD}
        self.scripts: dict[TopicPartition, list[ErrorCode]] = {}
        self.written: list[tuple[TopicPartition, TransactionMarker]] = []
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.silent: set[int] = set()
        self.broken: set[int] = set()
        self.completed: list[PreparedTransaction] = []
        self.is_present = True
        self.sender = MarkerSender(
            broker_id=ME,
            writer=self,  # type: ignore[arg-type]
            metadata=self,  # type: ignore[arg-type]
            others=self,  # type: ignore[arg-type]
            complete=self.completed.append,
            delay_s=delay_s,
            retry_s=0,
        )

    def partition(self, topic: str, partition: int) -> Leader | None:
        leader = self.leaders.get(TopicPartition(topic, partition))
        return None if leader is None else Leader(leader)

    def _answer(self, partition: TopicPartition) -> ErrorCode:
        script = self.scripts.get(partition)
        return script.pop(0) if script else ErrorCode.NONE

    async def write(self, marker: TransactionMarker, partition: TopicPartition, version: int) -> ErrorCode:
        code = self._answer(partition)
        if code is ErrorCode.NONE:
            self.written.append((partition, marker))
        return code

    async def ask(self, broker_id: int, request: Any, *, timeout_s: float | None = None) -> WriteTxnMarkersResponse:
        self.requests.append((broker_id, request))
        await asyncio.sleep(0)
        if broker_id in self.silent:
            self.silent.discard(broker_id)
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, "it hangs")
        if broker_id in self.broken:
            self.broken.discard(broker_id)
            raise RuntimeError("an answer that nobody can read")
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self._answer(TopicPartition(topic.name, index))
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def send(self, *partitions: TopicPartition, producer_id: int = 7) -> PreparedTransaction:
        metadata = TransactionMetadata(
            f"id-{producer_id}", producer_id, 3, 1000, TransactionState.PREPARE_COMMIT, frozenset(partitions)
        )
        prepared = PreparedTransaction(0, 5, metadata, lambda: self.is_present)
        self.sender.send(prepared)
        return prepared


def run_scenario(scenario: Callable[[World], Awaitable[None]], *, delay_s: float = 0) -> None:
    async def main() -> None:
        world = World(delay_s)
        await scenario(world)
        world.sender.stop()

    asyncio.run(main())


async def turns(count: int = 50) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def settled(world: World, count: int = 1) -> None:
    await turns()
    assert len(world.completed) == count


def test_markers_are_written_here_and_sent_to_the_other_leaders() -> None:
    async def scenario(world: World) -> None:
        prepared = world.send(A, B, C)
        await settled(world)
        assert world.completed == [prepared]
        assert world.written == [(A, TransactionMarker(7, 3, True, 5))]
        assert {leader for leader, _ in world.requests} == {OTHER, THIRD}

    run_scenario(scenario)


def test_markers_for_one_leader_wait_for_each_other_and_share_a_request() -> None:
    async def scenario(world: World) -> None:
        for number in range(4):
            world.send(B, producer_id=number)
        await turns(2)  # The request is on its way now.
        for number in range(4, 10):
            world.send(B, producer_id=number)
        await settled(world, 10)
        assert [len(request.markers) for _, request in world.requests] == [4, 6]

    run_scenario(scenario)


def test_a_refused_marker_is_sent_again_to_the_leader_of_that_time() -> None:
    async def scenario(world: World) -> None:
        world.scripts[B] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        world.send(A, B)
        await turns(2)  # The leaders are looked up after the answer to EndTxn.
        world.leaders[B] = THIRD
        await settled(world)
        assert [leader for leader, _ in world.requests] == [OTHER, THIRD]
        assert len(world.written) == 1, "what was written is not written again"

    run_scenario(scenario)


def test_a_leader_that_does_not_answer_is_asked_again() -> None:
    async def scenario(world: World) -> None:
        world.silent.add(OTHER)
        world.send(B)
        await settled(world)
        assert len(world.requests) == 2

    run_scenario(scenario)


def test_an_unexpected_failure_stops_no_later_marker() -> None:
    async def scenario(world: World) -> None:
        world.broken.add(OTHER)
        world.send(B)
        await settled(world)
        world.send(B, producer_id=8)
        await settled(world, 2)

    run_scenario(scenario)


def test_a_partition_without_a_leader_is_waited_for_and_a_deleted_one_is_not() -> None:
    async def scenario(world: World) -> None:
        world.leaders[B] = -1
        del world.leaders[C]
        world.send(A, B, C)
        await turns(2)
        assert world.completed == []
        world.leaders[B] = ME
        await settled(world)
        assert [partition for partition, _ in world.written] == [A, B]

    run_scenario(scenario)


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    async def scenario(world: World) -> None:
        world.send()
        await settled(world)

    run_scenario(scenario)


def test_a_fenced_coordinator_gives_up() -> None:
    async def scenario(world: World) -> None:
        world.scripts[B] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        world.send(B)
        await turns()
        assert world.completed == []
        assert len(world.requests) == 1

    run_scenario(scenario)


def test_a_coordinator_that_was_replaced_sends_nothing_more() -> None:
    async def scenario(world: World) -> None:
        world.scripts[B] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        world.send(B)
        await turns(4)
        assert len(world.requests) == 1
        world.is_present = False
        await turns()
        assert world.completed == []
        assert len(world.requests) == 1

    run_scenario(scenario)


def test_markers_wait_until_the_client_has_its_answer_or_needs_them() -> None:
    async def scenario(world: World) -> None:
        world.send(A, producer_id=7)
        awaited = world.send(A, producer_id=8)
        await turns()
        assert world.written == []
        world.sender.hasten("id-8")
        world.sender.hasten("id-8")
        world.sender.hasten("id-9")
        await settled(world)
        assert world.completed == [awaited]
        assert [marker.producer_id for _, marker in world.written] == [8]

    run_scenario(scenario, delay_s=3600)
