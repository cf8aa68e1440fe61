"""Clients that write records with ``acks=all``, and clients that read them.

A producer sends one batch at a time to a partition and retries it until it knows the outcome. An idempotent producer
never abandons a batch for another one, so its numbers are in the log once and in order.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.clients.errors import ClientError
from barnabas.common.errors import ErrorCode
from barnabas.protocol.errors import CorruptRecordError
from barnabas.protocol.messages import fetch, init_producer_id, produce
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from tests.simulation.cluster.client_process import ClientProcess
from tests.simulation.cluster.data_checks import Acknowledged
from tests.simulation.cluster.data_rot import is_sound
from tests.simulation.cluster.data_watch import PartitionName

if TYPE_CHECKING:
    from barnabas.protocol.record_batch import BatchView
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = [
    "DATA_TOPIC",
    "Client",
    "Producer",
    "Reader",
    "Unavailable",
    "report_end",
    "start_producers",
    "unsettled_producers",
]

DATA_TOPIC = "data"
TIMEOUT_MS = 1500
MAX_WAIT_MS = 300
PAUSE_S = 0.1
BATCH_MAX = 4
REFUSED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""Errors after which a producer starts again with a new id.

The partition has lost the producer's state or sequence with its disks, or the leader's clock is more than
``message.timestamp.after.max.ms`` behind the producer's. Kafka's producers do not retry after these errors either.
"""


class Unavailable(Exception):
    """The partition has no leader, as far as some broker knows, or its leader cannot serve the request now."""


class Client:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._process = ClientProcess(world, 0)
        self._draw = random.Random(f"{name} {world.seed}")

    def _leader(self, index: int) -> tuple[int, int, Any]:
        """Return the leader, its epoch and the topic id as some live broker knows them, possibly outdated."""
        brokers = self._brokers()
        topic = self._draw.choice(brokers).loader.image.topics.by_name.get(DATA_TOPIC) if brokers else None
        if topic is None or topic.partitions[index].leader < 0:
            raise Unavailable
        return topic.partitions[index].leader, topic.partitions[index].leader_epoch, topic.id

    async def _pause(self) -> None:
        await asyncio.sleep(self._draw.uniform(0.5, 1.5) * self._pause_s)

    @property
    def _pause_s(self) -> float:
        return PAUSE_S

    def _brokers(self) -> list[SimulatedNode]:
        """Return the brokers that this client may contact."""
        return [node for node in self.world.nodes.values() if node.is_broker and node.is_up]


class Producer(Client):
    """Writes to random partitions until all faults have ended; ``is_settled`` when it waits for no answer."""

    def __init__(self, world: World, number: int, *, is_idempotent: bool) -> None:
        super().__init__(world, f"producer-{number}")
        self.is_settled = False
        self._is_idempotent = is_idempotent
        self._producer_id = -1
        self._life = 0
        self._next = 0
        self._sequences: dict[int, int] = {}

    async def run(self) -> None:
        while not self.world.is_healed:
            await self._pause()
            if self._is_idempotent and self._producer_id < 0 and not await self._begin():
                continue
            await self._write(self._draw.randrange(self.world.shape.data_partitions))
        self.is_settled = True

    async def _begin(self) -> bool:
        brokers = [node.id for node in self._brokers()]
        if not brokers:
            return False
        try:
            answer = await self._process.request(
                self._draw.choice(brokers), init_producer_id.InitProducerIdRequest(transactional_id=None)
            )
        except ClientError:
            return False
        if answer.error_code != ErrorCode.NONE:
            return False
        self._producer_id, self._sequences = answer.producer_id, {}
        self._life += 1
        self._next = 0
        return True

    async def _write(self, index: int) -> None:
        """Send one batch until it is acknowledged or permanently refused; retries are identical."""
        name = PartitionName(DATA_TOPIC, index)
        count = self._draw.randrange(1, BATCH_MAX)
        mark = ":" if self._is_idempotent else "#"
        values = [f"{self.name}.{self._life}{mark}{self._next + position}".encode() for position in range(count)]
        self._next += count
        batch = self._batch(index, values)
        while True:
            losses = self.world.checks.records.losses(name)
            try:
                leader, _, topic_id = self._leader(index)
                code, offset = await self._send(leader, topic_id, index, batch)
            except (ClientError, Unavailable):
                code, offset = ErrorCode.REQUEST_TIMED_OUT, -1
            if code is ErrorCode.NONE:
                records = [Acknowledged(offset + position, value) for position, value in enumerate(values)]
                self.world.checks.records.acknowledged(name, records, losses)
                self._sequences[index] = self._sequences.get(index, 0) + count
                return
            if code in REFUSED or (not self._is_idempotent and self._draw.random() < 0.3):
                self._producer_id = -1
                return
            if self.world.is_healed and not self._is_idempotent:
                return
            await self._pause()

    def _batch(self, index: int, values: list[bytes]) -> bytes:
        builder = RecordBatchBuilder()
        if self._is_idempotent:
            builder = RecordBatchBuilder(
                producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequences.get(index, 0)
            )
        for position, value in enumerate(values):
            builder.append(position, int(self.world.loop.now_s * 1000) + 1_700_000_000_000, None, value)
        return bytes(builder.build())

    async def _send(self, leader: int, topic_id: Any, index: int, batch: bytes) -> tuple[ErrorCode, int]:
        data = produce.PartitionProduceData(index=index, records=batch)
        topic = produce.TopicProduceData(name=DATA_TOPIC, topic_id=topic_id, partition_data=[data])
        request = produce.ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        answer = (await self._process.request(leader, request)).responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or (code is ErrorCode.NONE and answer.base_offset < 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1  # The batch is in the log, but its offset is lost.
        return code, answer.base_offset


class Reader(Client):
    """Reads one partition from its beginning, and starts again if its position was lost."""

    def __init__(self, world: World, index: int, *, name: str | None = None, isolation_level: int = 0) -> None:
        super().__init__(world, name or f"reader-{index}")
        self._isolation_level = isolation_level
        self._partition = PartitionName(DATA_TOPIC, index)
        self._position = 0
        self._losses = 0
        self._epoch = -1
        """The newest leader epoch that a broker has reported."""
        self.is_settled = True
        """Whether it has read all committed records since its last restart."""

    def read_again(self) -> None:
        """Read the partition again from its beginning, so that corrupt records below the position are found."""
        self._position, self.is_settled = 0, False

    async def run(self) -> None:
        while True:
            try:
                await self._read()
            except (ClientError, Unavailable):
                await self._pause()
            if self.world.is_healed:
                await self._pause()

    async def _read(self) -> None:
        checks, name = self.world.checks.records, self._partition
        losses = checks.losses(name)
        if losses != self._losses:
            self._losses, self._position = losses, 0
        leader, epoch, topic_id = self._leader(name.partition)
        if epoch < self._epoch:
            raise Unavailable  # As in a client (KIP-320): a broker that was suspended reports an earlier leader.
        self._epoch = epoch
        part = fetch.FetchPartition(partition=name.partition, fetch_offset=self._position, partition_max_bytes=1 << 20)
        part.current_leader_epoch = epoch  # Otherwise a lagging follower would report our offset as out of range.
        topic = fetch.FetchTopic(topic_id=topic_id, partitions=[part])
        request = fetch.FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        request.isolation_level = self._isolation_level
        request.session_epoch = -1
        node, position = self.world.nodes[leader], self._position
        life = node.lives
        response = await self._process.request(leader, request)
        if self._position != position:
            return  # The reader was reset meanwhile.
        if response.error_code:
            self.world.checks.fail(f"{self.name} receives the error {ErrorCode(response.error_code).name}")
        answer = response.responses[0].partitions[0]
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if losses == checks.losses(name) and self._position <= checks.committed_end(name):
                self.world.checks.fail(f"{self.name} has read up to {self._position}, which is now out of range")
            self._position = 0
        if answer.error_code:
            self.is_settled = self.is_settled or checks.has_gap(name)
            raise Unavailable
        batches, is_sound_to_the_end = _sound_batches(bytes(answer.records or b""))
        self._received(batches, answer, losses)
        self.is_settled = self.is_settled or self._position >= checks.committed_end(name)
        if not is_sound_to_the_end:
            if not self.world.checks.data_rot.may_be_served(node, self._partition, life):
                self.world.checks.fail(f"{self.name} receives a corrupt batch from {node.name}")
            raise Unavailable

    def _received(self, batches: list[BatchView], answer: Any, losses: int) -> None:
        """Take the records of these batches, which are those before the first corrupt one."""
        checks, records = self.world.checks.records, []
        for batch in batches:
            if batch.is_control:
                if batch.base_offset != self._position:
                    self.world.checks.fail(f"{self.name} receives {batch.base_offset} instead of {self._position}")
                self._position = batch.next_offset
                continue
            for record in batch.records():
                if record.offset < self._position:
                    continue
                if record.offset != self._position:
                    self.world.checks.fail(f"{self.name} receives {record.offset} instead of {self._position}")
                self._position = record.offset + 1
                records.append(Acknowledged(record.offset, bytes(record.value or b"")))
        checks.read(self._partition, records, losses)


def _sound_batches(data: bytes) -> tuple[list[BatchView], bool]:
    """Return the batches before the first corrupt one, and whether these are all."""
    sound: list[BatchView] = []
    try:
        for batch in iter_batches(data):
            if not is_sound(bytes(batch.buf[batch.position :][: batch.size])):
                return sound, False
            sound.append(batch)
    except CorruptRecordError:
        return sound, False
    return sound, True


def start_producers(world: World) -> list[Producer | Reader]:
    """Start the producers and readers. Call this outside the context of any node."""
    shape = world.shape
    producers = [Producer(world, number, is_idempotent=idem) for number, idem in enumerate(shape.producers)]
    clients: list[Producer | Reader] = [
        *producers,
        *(Reader(world, index) for index in range(shape.data_partitions) if producers or shape.transactions),
    ]
    for client in clients:
        task = world.loop.create_task(client.run())
        task.add_done_callback(partial(report_end, world, client))
    return clients


class Named(Protocol):
    """Any client."""

    name: str


def report_end(world: World, client: Named, task: asyncio.Task[None]) -> None:
    """Report a client that ended with an error: it would otherwise look like one that waits until the run's end."""
    error = None if task.cancelled() else task.exception()
    if error is not None and world.violation is None:
        world.checks.fail(f"{client.name} ends with {type(error).__name__}: {error}")


def unsettled_producers(clients: list[Producer | Reader]) -> str | None:
    for client in clients:
        if not client.is_settled:
            what = "the acknowledgement of its batch" if isinstance(client, Producer) else "committed records"
            return f"{client.name} still waits for {what}"
    return None
