"""What the members of a share group get: records a second, and the time from a record's producing to its acquisition.

A reader fetches with one request after the other, and each accepts what the one before acquired, as Java's consumer
does. It has its own connection, and reads no more of the records than it needs. Kafka's ``ShareConsumerPerformance``
does the same in a real client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from struct import Struct
from typing import Any, NamedTuple

from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.share_acknowledge import AcknowledgementBatch as OwnBatch
from barnabas.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from barnabas.protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from bench.groups_client import Connection, run_load
from bench.groups_members import GroupOfMembers, ShareMember
from bench.groups_node import Figures, GroupsNode
from tests.peers import run_class

__all__ = ["ShareSizes", "measure_share_consuming"]

_PARTITIONS = 10
_FULL, _PACED = "jobs", "paced-jobs"
_ACCEPT = 1
_FINAL = -1
_FETCH_VERSION, _ACKNOWLEDGE_VERSION, _PRODUCE_VERSION = 2, 2, 12
_WAIT_MS = 500
_RECORDS_MAX = 500
_BATCH = 100
_VALUE = b"x" * 100
_LIMIT_S = 100.0
_SENT_NS = Struct(">q")
_BATCH_LENGTH = Struct(">qi")
_NUMBERS = count()

Acquired = list[tuple[int, int, int]]
"""Partition, first offset, last offset."""


class ShareSizes(NamedTuple):
    consumers: tuple[int, ...] = (1, 10, 100)
    java_consumers: tuple[int, ...] = (1, 10)
    records: int = 300_000
    rate: int = 500
    """Records a second while the latency is measured."""
    paced: int = 4_000


def measure_share_consuming(node: GroupsNode, sizes: ShareSizes) -> Figures:
    full, paced = node.create(_FULL, _PARTITIONS), node.create(_PACED, _PARTITIONS)
    run_load(_fill(node.port, sizes.records))
    run_load(_read_all(node, full, 10, sizes.records))  # Not counted.
    figures: Figures = {}
    for consumers in sizes.consumers:
        name = f"share, {_consumers(consumers)}"
        rate, cpu_us = run_load(_read_all(node, full, consumers, sizes.records))
        figures[f"{name}, records/s"] = rate
        figures[f"{name}: CPU of a record, us"] = cpu_us
    for consumers in sizes.consumers:
        figures |= run_load(_read_paced(node, paced, consumers, sizes))
    for consumers in sizes.java_consumers:
        figures[f"share, Java, {_consumers(consumers)}, records/s"] = _read_with_java(node, consumers, sizes.records)
    return figures


def _consumers(count: int) -> str:
    return f"{count} consumer{'s' if count > 1 else ''}"


async def _fill(port: int, records: int) -> None:
    connection = await Connection.open(port)
    now_ms = int(time.time() * 1000)  # Older records would be deleted by their retention.
    batch = build_batch([Record(index, now_ms, None, _VALUE) for index in range(_BATCH)])
    for number in range(records // _BATCH):
        await _produce(connection, _FULL, number % _PARTITIONS, batch)
    connection.close()


async def _produce(connection: Connection, topic: str, partition: int, batch: bytes) -> None:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = await connection.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), _PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


async def _read_all(node: GroupsNode, topic_id: Uuid, consumers: int, records: int) -> tuple[float, float]:
    """Return records a second, and microseconds of the node's CPU for each."""
    group = await _joined(node, _FULL, topic_id, consumers)
    read = _Count(records)
    before, began = node.cpu_s, time.perf_counter()
    await _with_readers(group, read.add, read.is_complete)
    return records / (time.perf_counter() - began), (node.cpu_s - before) / records * 1e6


async def _read_paced(node: GroupsNode, topic_id: Uuid, consumers: int, sizes: ShareSizes) -> Figures:
    group = await _joined(node, _PACED, topic_id, consumers, reset="latest")
    latencies: list[float] = []
    read = _Count(sizes.paced)

    def take(records: int, data: bytes | memoryview) -> None:
        now_ns = time.perf_counter_ns()
        latencies.extend((now_ns - sent_ns) / 1e6 for sent_ns in _sent_ns(data) if sent_ns)
        read.add(records, data)

    async def produce_then_wait() -> None:
        await _warm_partitions(node.port)
        await asyncio.sleep(1)
        latencies.clear()
        await _produce_paced(node.port, sizes)
        await read.is_complete()

    before = node.cpu_s
    read.count = -_PARTITIONS
    await _with_readers(group, take, produce_then_wait)
    ordered = sorted(latencies)
    name = f"share, {_consumers(consumers)}, {sizes.rate} records/s"
    return {
        f"{name}: acquired after, p50, ms": ordered[len(ordered) // 2],
        f"{name}: acquired after, p99, ms": ordered[int(len(ordered) * 0.99)],
        f"{name}: CPU of the node, s": node.cpu_s - before,
    }


async def _joined(
    node: GroupsNode, topic: str, topic_id: Uuid, consumers: int, *, reset: str = "earliest"
) -> GroupOfMembers:
    name = f"share-readers-{next(_NUMBERS)}"
    node.configure_group(name, "share.auto.offset.reset", reset)
    group = GroupOfMembers(name, ShareMember, topic, topic_id, _PARTITIONS, node.port)
    await group.open()
    await group.join(consumers)
    return group


async def _with_readers(
    group: GroupOfMembers, take: Callable[[int, bytes | memoryview], None], until: Callable[[], Awaitable[None]]
) -> None:
    """Let each member read, until the function returns; then all leave."""
    connections = [await Connection.open(group.port) for _ in group.members]
    readers = [
        _Reader(group, member, connection, take)
        for member, connection in zip(group.members, connections, strict=True)
        if isinstance(member, ShareMember)
    ]
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    try:
        async with asyncio.timeout(_LIMIT_S):
            await _first_of(until(), reading)
    finally:
        for reader in readers:
            reader.ends = True
        await asyncio.gather(*reading)
        await group.disband()
        for connection in connections:
            connection.close()


async def _first_of(awaited: Awaitable[None], reading: list[asyncio.Task[None]]) -> None:
    """Raise the error of a reader that ends."""
    waiting = asyncio.ensure_future(awaited)
    done, _ = await asyncio.wait([waiting, *reading], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


class _Count:
    def __init__(self, expected: int) -> None:
        self.count = 0
        self._expected = expected
        self._done = asyncio.Event()

    def add(self, records: int, data: bytes | memoryview) -> None:
        self.count += records
        if self.count >= self._expected:
            self._done.set()

    async def is_complete(self) -> None:
        await self._done.wait()


class _Reader:
    def __init__(
        self,
        group: GroupOfMembers,
        member: ShareMember,
        connection: Connection,
        take: Callable[[int, bytes | memoryview], None],
    ) -> None:
        self.ends = False
        self._group = group
        self._member = member
        self._connection = connection
        self._take = take
        self._epoch = 0
        self._acquired: Acquired = []

    async def read(self) -> None:
        while not self.ends:
            answer = await self._connection.call(self._request(), _FETCH_VERSION)
            assert not answer.error_code, answer
            self._epoch += 1
            self._acquired = []
            for topic in answer.responses:
                for partition in topic.partitions:
                    self._receive(partition)
        await self._end()

    def _receive(self, partition: Any) -> None:
        assert not partition.error_code, partition
        assert not partition.acknowledge_error_code, partition
        ranges = [
            (partition.partition_index, each.first_offset, each.last_offset) for each in partition.acquired_records
        ]
        self._acquired += ranges
        if ranges:
            self._take(sum(last - first + 1 for _, first, last in ranges), partition.records or b"")

    def _request(self) -> ShareFetchRequest:
        request = ShareFetchRequest(
            group_id=self._group.name,
            member_id=self._member.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_records=_RECORDS_MAX,
            batch_size=_RECORDS_MAX,
        )
        partitions = self._all() if self._epoch == 0 else self._accepted()
        request.topics = [FetchTopic(topic_id=self._group.topic_id, partitions=partitions)] if partitions else []
        return request

    def _all(self) -> list[FetchPartition]:
        return [FetchPartition(partition_index=index) for index in self._member.assigned]

    def _accepted(self) -> list[FetchPartition]:
        partitions: dict[int, FetchPartition] = {}
        for index, first, last in self._acquired:
            partition = partitions.setdefault(index, FetchPartition(partition_index=index))
            partition.acknowledgement_batches.append(
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[_ACCEPT])
            )
        return list(partitions.values())

    async def _end(self) -> None:
        partitions = [
            AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[OwnBatch(first_offset=first, last_offset=last, acknowledge_types=[_ACCEPT])],
            )
            for index, first, last in self._acquired
        ]
        request = ShareAcknowledgeRequest(
            group_id=self._group.name, member_id=self._member.member_id, share_session_epoch=_FINAL
        )
        request.topics = [AcknowledgeTopic(topic_id=self._group.topic_id, partitions=partitions)] if partitions else []
        await self._connection.call(request, _ACKNOWLEDGE_VERSION)


async def _warm_partitions(port: int) -> None:
    """Write a record to each partition, so that the readers have begun to read all."""
    await asyncio.sleep(1)
    connection = await Connection.open(port)
    for partition in range(_PARTITIONS):
        await _produce(connection, _PACED, partition, _batch(0))
    connection.close()


async def _produce_paced(port: int, sizes: ShareSizes) -> None:
    connections = [await Connection.open(port) for _ in range(_PARTITIONS)]
    sending = []
    began = time.perf_counter()
    for number in range(sizes.paced):
        await asyncio.sleep(max(began + number / sizes.rate - time.perf_counter(), 0))
        partition = number % _PARTITIONS
        batch = _batch(time.perf_counter_ns())
        sending.append(asyncio.create_task(_produce(connections[partition], _PACED, partition, batch)))
    await asyncio.gather(*sending)
    for connection in connections:
        connection.close()


def _batch(sent_ns: int) -> bytes:
    return build_batch([Record(0, int(time.time() * 1000), None, _SENT_NS.pack(sent_ns))])


def _sent_ns(data: bytes | memoryview) -> Iterator[int]:
    """Yield the value of each batch of one record: what is before the record's last byte, its number of headers."""
    position = 0
    while position < len(data):
        position += _BATCH_LENGTH.unpack_from(data, position)[1] + _BATCH_LENGTH.size
        yield _SENT_NS.unpack_from(data, position - 1 - _SENT_NS.size)[0]


def _read_with_java(node: GroupsNode, consumers: int, records: int) -> float:
    name = f"java-readers-{next(_NUMBERS)}"
    node.configure_group(name, "share.auto.offset.reset", "earliest")
    done = run_class(
        "share-consumer-perf",
        "--topic", _FULL,
        "--group", name,
        "--num-records", str(records),
        "--threads", str(consumers),
        "--bootstrap-server", node.bootstrap_servers,
        "--timeout", "60000",
        timeout_s=150,
    )  # fmt: skip
    columns = [column.strip() for column in done.stdout.strip().splitlines()[-1].split(",")]
    assert int(columns[5]) >= records, done.stdout
    return float(columns[4])
