"""Measures how long a partition accepts no records, without the timeouts of a client library in the figure.

One thread per partition produces one record after another with acks=all. An attempt is given up after
``ATTEMPT_S``, and the leader is looked up again at any broker that answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.history.clients import Client
from tests.history.payload import RecordId, encode
from tests.history.records_check import RecordsCheck

__all__ = ["Stall", "StallProbe"]

ATTEMPT_S = 1.0
"""Shorter than any measured guarantee, and longer than an answer takes on a busy machine."""
_INTERVAL_S = 0.05
_NOTED_FROM_S = 0.5


class Stall(NamedTuple):
    """An interval of the monotonic clock without an acknowledged record."""

    partition: int
    from_s: float
    to_s: float

    @property
    def lasted_s(self) -> float:
        return self.to_s - self.from_s

    def __str__(self) -> str:
        return f"partition {self.partition} accepted no record for {self.lasted_s:.1f} s, from {self.from_s:.1f} s on"


class StallProbe(Client):
    """``stalls`` are the pauses of at least half a second, in the order in which they ended."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, check: RecordsCheck, *, name: str) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._check = bootstrap, topic, partitions, check
        self.stalls: list[Stall] = []
        self.acknowledged_s = [time.monotonic()] * partitions
        """When each partition last acknowledged a record."""
        check.gave_up(name)  # It sends no record twice, and does not learn the outcome of a lost attempt.

    def _run(self) -> None:
        asyncio.run(self._probe())

    async def _probe(self) -> None:
        self.acknowledged_s = [time.monotonic()] * self._partitions
        await asyncio.gather(*(self._probe_partition(partition) for partition in range(self._partitions)))

    async def _probe_partition(self, partition: int) -> None:
        """Each partition has its own connections, so that a hung broker delays no other partition."""
        leader = _LeaderLookup(self._bootstrap, self._topic, first=partition)
        number = partition
        try:
            while not self._ends.is_set():
                record = RecordId(self.name, number)
                number += self._partitions
                if not await self._produce(leader, partition, record):
                    leader.forget()
                    await asyncio.sleep(_INTERVAL_S)
                    continue
                self.counts["acknowledged"] += 1
                self._note_stall(partition, time.monotonic())
                await asyncio.sleep(_INTERVAL_S)
        finally:
            await leader.close()
        self._note_stall(partition, time.monotonic())

    def _note_stall(self, partition: int, now_s: float) -> None:
        stall = Stall(partition, self.acknowledged_s[partition], now_s)
        self.acknowledged_s[partition] = now_s
        if stall.lasted_s >= _NOTED_FROM_S:
            self.stalls.append(stall)
            longest_ms = self.counts["longest stall, ms"]
            self.counts["longest stall, ms"] = max(longest_ms, int(stall.lasted_s * 1000))

    async def _produce(self, leader: _LeaderLookup, partition: int, record: RecordId) -> bool:
        self._check.sent(record, partition)
        try:
            async with asyncio.timeout(2 * ATTEMPT_S):
                offset = await leader.produce(partition, encode(record, partition))
        except (ClientError, AdminError, TimeoutError) as error:
            self.counts[f"attempts without an acknowledgement: {type(error).__name__}"] += 1
            return False
        if offset is None:
            return False
        self._check.acknowledged(record, partition, offset)
        return True


class _LeaderLookup:
    """Finds the leader of a partition at any broker that answers, another broker after each failure."""

    def __init__(self, bootstrap: str, topic: str, *, first: int) -> None:
        self._servers = bootstrap.split(",")
        self._topic = topic
        self._turn = first
        self._client: NetworkClient | None = None
        self._metadata: TopicMetadata | None = None

    def forget(self) -> None:
        self._metadata = None

    async def produce(self, partition: int, value: bytes) -> int | None:
        """Return the offset, or None if the leader refused or is unknown. Raise ClientError or AdminError."""
        metadata = self._metadata or await self._load()
        address = metadata.address_of(partition)
        if address is None or self._client is None:
            return None
        connection = await self._client.connection_to(address)
        batch = build_batch([Record(0, int(time.time() * 1000), None, value, ())])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(ATTEMPT_S * 1000),
            topic_data=[TopicProduceData(name=self._topic, topic_id=metadata.topic_id, partition_data=[data])],
        )
        response = await connection.request(request)
        answer = response.responses[0].partition_responses[0]
        return None if answer.error_code else int(answer.base_offset)

    async def _load(self) -> TopicMetadata:
        """Look the leader up over new connections: the old ones may lead to a broker that hangs."""
        await self.close()
        server = self._servers[self._turn % len(self._servers)]
        self._turn += 1
        self._client = NetworkClient(client_config(_SETTINGS, bootstrap=server))
        self._metadata = await TopicMetadataSource(self._client, self._topic).load()
        return self._metadata

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


_SETTINGS = {
    "request.timeout.ms": str(int(ATTEMPT_S * 1000)),
    "socket.connection.setup.timeout.ms": str(int(ATTEMPT_S * 1000)),
    "client.id": "stall-probe",
}


def longest(stalls: Sequence[Stall]) -> float:
    """Return the longest stall in seconds, or 0 without stalls."""
    return max((stall.lasted_s for stall in stalls), default=0.0)
