"""Brokers with one topic in memory, for producers and consumers: requests pass through the codec of their version.

A broker keeps the rules that a producer relies on: only the leader accepts records, a producer's sequences are
consecutive, and a repeated batch is a duplicate. ``faults`` contains the outcomes of requests, in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, Disconnected, UnsupportedVersion
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.node_connection import SupportedVersions
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.record_batch import BatchView, increment_sequence
from tests.unit.stamped_batch import stamped_batch

__all__ = ["TOPIC", "Fault", "MemoryCluster"]

TOPIC = "orders"
TOPIC_ID = Uuid.from_int(1 << 90 | 3)
Fault = str
"""An error's name, ``lost`` (the connection ends before the request arrives), ``unheard`` (it ends afterwards), ``ok``,
or ``moved`` (the partition's leader becomes the other broker)."""


class MemoryCluster:
    """Two brokers; ``records`` contains the values of a partition in the order of its log."""

    def __init__(self, partitions: int = 1) -> None:
        self.leaders = dict.fromkeys(range(partitions), 1)
        self.logs: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        self.log_starts = dict.fromkeys(range(partitions), 0)
        self.faults: deque[Fault] = deque()
        self.throttle_ms = 0
        self.produced = 0
        self.fetched = 0
        self.topic_error = ErrorCode.NONE
        self.versions: dict[int, SupportedVersions] = {
            key: SupportedVersions(info.lowest, info.highest) for key, info in API_TABLE.items()
        }
        self._connections: dict[Address, MemoryConnection] = {}
        self._sequences: dict[int, dict[int, int]] = {partition: {} for partition in range(partitions)}

    # --- the methods of a NetworkClient

    @property
    def network(self) -> NetworkClient:
        return cast("NetworkClient", self)

    async def connect(self) -> MemoryConnection:
        return await self.connection_to(address_of(1))

    async def connection_to(self, address: Address) -> MemoryConnection:
        known = self._connections.get(address)
        if known is None or not known.is_open:
            known = self._connections[address] = MemoryConnection(self, address)
        return known

    # --- the contents of a log

    def end(self, partition: int) -> int:
        return sum(BatchView(batch).count for batch in self.logs[partition])

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for batch in self.logs[partition] for record in BatchView(batch).records()]

    def append(self, partition: int, data: bytes) -> ErrorCode:
        batch = BatchView(data)
        batch.ensure_valid()
        if batch.producer_id >= 0:
            # A producer that the partition does not know yet may begin at any sequence, as with Kafka.
            expected = self._sequences[partition].get(batch.producer_id, batch.base_sequence)
            if batch.base_sequence != expected:
                is_there = any(
                    BatchView(kept).base_sequence == batch.base_sequence for kept in self.logs[partition][-5:]
                )
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if is_there else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self._sequences[partition][batch.producer_id] = increment_sequence(batch.base_sequence, batch.count)
        self.logs[partition].append(stamped_batch(data, self.end(partition)))
        return ErrorCode.NONE

    # --- responses

    def answer(self, node: int, message: Any) -> Any:
        match ApiKey(message.API_KEY):
            case ApiKey.METADATA:
                return self._metadata()
            case ApiKey.INIT_PRODUCER_ID:
                return InitProducerIdResponse(producer_id=77, producer_epoch=0)
            case ApiKey.PRODUCE:
                return self._produce(node, message)
            case ApiKey.FETCH:
                return self._fetch(node, message)
            case other:
                raise AssertionError(f"unexpected request {other}")

    def _metadata(self) -> MetadataResponse:
        topic = MetadataResponseTopic(
            name=TOPIC,
            topic_id=TOPIC_ID,
            error_code=self.topic_error,
            partitions=[
                MetadataResponsePartition(partition_index=index, leader_id=leader)
                for index, leader in self.leaders.items()
                if not self.topic_error
            ],
        )
        brokers = [MetadataResponseBroker(node_id=node, host=f"node-{node}", port=9092) for node in (1, 2)]
        return MetadataResponse(brokers=brokers, topics=[topic])

    def _produce(self, node: int, message: Any) -> ProduceResponse:
        self.produced += 1
        fault = self.faults.popleft() if self.faults else "ok"
        if fault == "lost":
            raise Disconnected("lost")
        responses = []
        (topic,) = message.topic_data
        for partition in topic.partition_data:
            if fault == "moved":
                self.leaders[partition.index] = 3 - self.leaders[partition.index]
            code = ErrorCode.__members__.get(fault, ErrorCode.NONE)
            if not code:
                is_led = self.leaders[partition.index] == node
                code = self.append(partition.index, partition.records) if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER
            responses.append(PartitionProduceResponse(index=partition.index, error_code=code))
        if fault == "unheard":
            raise Disconnected("unheard")
        named = TopicProduceResponse(name=TOPIC, topic_id=TOPIC_ID, partition_responses=responses)
        return ProduceResponse(responses=[named], throttle_time_ms=self.throttle_ms)

    def _fetch(self, node: int, message: Any) -> FetchResponse:
        self.fetched += 1
        fault = self.faults.popleft() if self.faults else "ok"
        if fault in ("lost", "unheard"):
            raise Disconnected(fault)
        (topic,) = message.topics
        answers = []
        for partition in topic.partitions:
            if fault == "moved":
                self.leaders[partition.partition] = 3 - self.leaders[partition.partition]
            code, data = self._slice(node, partition.partition, partition.fetch_offset, partition.partition_max_bytes)
            code = ErrorCode.__members__.get(fault, code)
            answers.append(
                PartitionData(
                    partition_index=partition.partition,
                    error_code=code,
                    log_start_offset=self.log_starts[partition.partition],
                    records=b"" if code else data,
                )
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=answers)])

    def _slice(self, node: int, partition: int, offset: int, limit: int) -> tuple[ErrorCode, bytes]:
        if self.leaders[partition] != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        if not self.log_starts[partition] <= offset <= self.end(partition):
            return ErrorCode.OFFSET_OUT_OF_RANGE, b""
        wanted = [batch for batch in self.logs[partition] if BatchView(batch).last_offset >= offset]
        return ErrorCode.NONE, (wanted[0] + b"".join(wanted[1:]))[: max(limit, len(wanted[0]))] if wanted else b""


class MemoryConnection:
    """Responses arrive in the order of the requests, one turn of the loop later."""

    def __init__(self, cluster: MemoryCluster, address: Address) -> None:
        self.address = address
        self.versions: Mapping[int, SupportedVersions] = cluster.versions
        self.is_open = True
        self.in_flight = 0
        self._cluster = cluster
        self._waiting: deque[asyncio.Future[Any]] = deque()

    def version_of(self, api_key: int) -> int:
        if api_key not in self.versions:
            raise UnsupportedVersion(API_TABLE[ApiKey(api_key)].name)
        return self.versions[api_key].max

    async def ready(self) -> None:
        return None

    async def request(self, message: Any, *, version: int, timeout_s: float | None = None, read: Any = None) -> Any:
        return await self.start(message, version=version)

    def start(self, message: Any, *, version: int) -> asyncio.Future[Any]:
        if not self.is_open:
            raise Disconnected("closed")
        received = type(message).decode(message.encode(version), version)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        asyncio.get_running_loop().call_soon(self._answer, received, version, future)
        return future

    def send_unanswered(self, message: Any, *, version: int) -> None:
        self._cluster.answer(self._node, type(message).decode(message.encode(version), version))

    @property
    def _node(self) -> int:
        return int(self.address.host.removeprefix("node-"))

    def _answer(self, message: Any, version: int, future: asyncio.Future[Any]) -> None:
        if future.done():
            return
        try:
            response = self._cluster.answer(self._node, message)
        except ClientError as error:
            self._end(error)
            return
        self._waiting.remove(future)
        future.set_result(type(response).decode(response.encode(version), version))

    def _end(self, error: ClientError) -> None:
        self.is_open = False
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def address_of(node: int) -> Address:
    return Address(f"node-{node}", 9092)
