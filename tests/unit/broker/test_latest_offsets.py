"""The ends of partitions: of logs that this broker leads, and from the leaders of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.latest_offsets import LatestOffset, LatestOffsets
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

pytestmark = pytest.mark.anyio

FIRST, SECOND, THIRD = (TopicPartition("orders", partition) for partition in range(3))


class Cluster:
    """Broker 1 is this one; ``leaders`` and ``ends`` are those of partitions."""

    def __init__(self) -> None:
        self.leaders = {FIRST: 1, SECOND: 2, THIRD: 3}
        self.ends: dict[TopicPartition, int | ErrorCode] = {FIRST: 10, SECOND: 20, THIRD: 30}
        self.is_catching_up = False
        self.asked: list[tuple[int, list[int]]] = []
        self.unreachable: set[int] = set()
        self.pauses: list[float] = []
        self.on_pause: Any = lambda: None
        self.offsets = LatestOffsets(
            broker_id=1,
            replicas=self,  # type: ignore[arg-type]
            metadata=self,  # type: ignore[arg-type]
            others=self,
            pause=self._pause,
        )

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.on_pause()

    def partition(self, topic: str, partition: int) -> Any:
        leader = self.leaders.get(TopicPartition(topic, partition))
        return None if leader is None else SimpleNamespace(leader=leader)

    def leader_of(self, partition: TopicPartition) -> Any:
        end = self.ends[partition]
        if isinstance(end, ErrorCode):
            raise ApiException(end)
        return SimpleNamespace(
            log=SimpleNamespace(high_watermark=end),
            leader_replica=SimpleNamespace(is_catching_up=self.is_catching_up),
        )

    async def ask(self, broker_id: int, request: Any, *, timeout_s: float | None = None) -> Any:
        assert isinstance(request, ListOffsetsRequest)
        assert request.replica_id == -1
        (topic,) = request.topics
        wanted = [partition.partition_index for partition in topic.partitions]
        self.asked.append((broker_id, wanted))
        if broker_id in self.unreachable:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE)
        answers = []
        for index in wanted:
            end = self.ends.get(TopicPartition(topic.name, index))
            if isinstance(end, ErrorCode):
                answers.append(ListOffsetsPartitionResponse(partition_index=index, error_code=end))
            elif end is not None:
                answers.append(ListOffsetsPartitionResponse(partition_index=index, offset=end))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answers)])


async def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    cluster = Cluster()
    cluster.leaders[THIRD] = 2
    assert await cluster.offsets.of([FIRST, SECOND, THIRD]) == {
        FIRST: LatestOffset(10),
        SECOND: LatestOffset(20),
        THIRD: LatestOffset(30),
    }
    assert cluster.asked == [(2, [1, 2])]
    assert cluster.pauses == []


async def test_a_new_leader_is_found() -> None:
    cluster = Cluster()
    cluster.leaders[SECOND] = -1
    cluster.on_pause = lambda: cluster.leaders.update({SECOND: 3})
    assert await cluster.offsets.of([SECOND]) == {SECOND: LatestOffset(20)}
    assert len(cluster.pauses) == 1


async def test_without_any_leader_the_error_is_returned_after_some_attempts() -> None:
    cluster = Cluster()
    cluster.unreachable = {2}
    assert await cluster.offsets.of([SECOND, FIRST]) == {
        SECOND: LatestOffset.failed(ErrorCode.NETWORK_EXCEPTION),
        FIRST: LatestOffset(10),
    }
    assert cluster.asked == [(2, [1])] * 4


async def test_a_leader_that_does_not_know_the_end_yet_says_so() -> None:
    cluster = Cluster()
    cluster.is_catching_up = True
    assert await cluster.offsets.of([FIRST]) == {FIRST: LatestOffset.failed(ErrorCode.OFFSET_NOT_AVAILABLE)}


async def test_an_answer_without_the_partition_is_an_error() -> None:
    cluster = Cluster()
    del cluster.ends[SECOND]
    assert await cluster.offsets.of([SECOND]) == {SECOND: LatestOffset.failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


async def test_other_errors_are_not_retried() -> None:
    cluster = Cluster()
    cluster.ends[FIRST] = ErrorCode.KAFKA_STORAGE_ERROR
    assert await cluster.offsets.of([FIRST]) == {FIRST: LatestOffset.failed(ErrorCode.KAFKA_STORAGE_ERROR)}
    assert cluster.pauses == []
