"""A producer with transactions: the records of one transaction, and offsets of groups, are written as a whole or not.

    producer = TransactionalProducer(network, producer_config({"transactional.id": "billing"}, is_transactional=True))
    async with producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("bills", [StreamRecord(producer.now_ms(), b"key", b"value")])
            await producer.send_offsets({TopicPartition("orders", 0): OffsetAndMetadata(7)}, GroupMetadata("billing"))

A transactional id has one producer at a time: ``init_transactions`` fences an earlier one, and aborts its transaction.
Another process can end a transaction, after ``prepare`` (``prepared_transaction.py``).

It works with clusters before and since KIP-890, and continues after an aborted transaction (KIP-360). Clusters of Kafka
3.0 and later are supported. ``transaction_errors.py`` explains what to do after which error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.errors import ClientError, InvalidClientConfig
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.producer.prepared_transaction import PreparedTransaction
from barnabas.clients.producer.transaction_errors import TransactionError, TransactionTimedOut
from barnabas.clients.producer.transaction_manager import ProducerState, TransactionManager
from barnabas.clients.producer.transaction_requests import GroupMetadata, TransactionRequests
from barnabas.clients.producer.transaction_verdicts import produce_error
from barnabas.clients.producer.transactional_topic import TransactionalTopic

if TYPE_CHECKING:
    from barnabas.clients.admin.group_offsets import OffsetAndMetadata
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.producer.stream_batches import Pair, StreamBatch, StreamRecord
    from barnabas.common.topic_partition import TopicPartition

__all__ = ["TransactionalProducer"]

_CHECK_EVERY_S = 0.2


class TransactionalProducer:
    """Use it as ``async with``. ``delivered(topic, batch)`` receives each batch that the cluster has.

    Methods that wait raise TransactionTimedOut after ``timeout_s`` (by default ``default.api.timeout.ms``); then call
    the same method again. Only one task may call the methods of a producer at a time.
    """

    def __init__(
        self,
        network: NetworkClient,
        config: ProducerConfig,
        *,
        delivered: Callable[[str, StreamBatch], None] | None = None,
        timeout_s: float | None = None,
        epoch_time: Callable[[], float] = time.time,
    ) -> None:
        """Raise InvalidClientConfig without ``transactional.id``, or with settings that are not idempotent."""
        if not config.transactional_id:
            raise InvalidClientConfig(["a producer with transactions needs transactional.id"])
        if config.acks != -1 or config.idempotence is False:
            raise InvalidClientConfig(["transactional.id needs acks=all and enable.idempotence=true"])
        self.transactional_id = config.transactional_id
        self._network = network
        self._config = config
        self._delivered = delivered or _ignore
        self._timeout_s = float(network.config.values["default.api.timeout.ms"]) / 1000
        if timeout_s is not None:
            self._timeout_s = timeout_s
        self._epoch_time = epoch_time
        self._manager = TransactionManager(config.transactional_id)
        self._requests = TransactionRequests(network, config.transactional_id)
        self._topics: dict[str, TransactionalTopic] = {}
        self._adding: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    @property
    def state(self) -> ProducerState:
        return self._manager.state

    @property
    def error(self) -> TransactionError | None:
        """Why the transaction must be aborted, or the producer closed; None while both are sound."""
        return self._manager.error

    @property
    def waiting(self) -> int:
        """The number of records that are neither delivered nor given up."""
        return sum(topic.waiting for topic in self._topics.values())

    def now_ms(self) -> int:
        """Return the time for new records, in milliseconds since 1970."""
        return int(self._epoch_time() * 1000)

    # --- the life of a transaction

    async def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id, end their transaction, and receive an epoch.

        Call it once, before the first transaction. A prepared transaction of the id is aborted too.
        """
        self._manager.validate_init()
        with self._noting_failure():
            producer = await self._requests.init_producer(
                self._config.transaction_timeout_ms, NO_PRODUCER, self._deadline()
            )
        self._manager.initialized(producer)

    def begin(self) -> None:
        """Begin a transaction. Nothing is sent."""
        self._manager.begin(is_version_2=self._requests.is_version_2)
        for topic in self._topics.values():
            topic.begin()
        self._checking = asyncio.get_running_loop().create_task(self._keep_deadlines())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction; commit it at the end of the block, or abort it after an exception, which is raised."""
        self.begin()
        try:
            yield self
            await self.commit()
        except BaseException:
            if self.state in (ProducerState.IN_TRANSACTION, ProducerState.ABORTABLE_ERROR):
                with suppress(TransactionError):
                    await self.abort()
            raise

    async def flush(self) -> None:
        """Wait until the cluster has all records that were sent. They are not committed yet."""
        self._manager.validate_open("flush")
        deadline = self._deadline()
        try:
            async with asyncio.timeout(deadline.limit_s):
                await asyncio.gather(*(topic.flush() for topic in self._topics.values()))
        except TimeoutError as error:
            raise TransactionTimedOut(
                f"{self.waiting:,} records were not delivered in {deadline.limit_s:g} s"
            ) from error
        self._manager.validate_open("flush")

    async def prepare(self) -> PreparedTransaction:
        """Write all records, and return what another process needs to end the transaction.

        Afterwards only ``commit``, ``abort`` and ``close`` can be called; ``close`` leaves the transaction open. It
        must be ended before its time-out (``transaction.timeout.ms``) and before a producer of the id starts.
        """
        await self.flush()
        self._manager.prepared()
        return PreparedTransaction(self.transactional_id, *self._manager.producer)

    async def commit(self) -> None:
        """Write all records, and commit the transaction. Raise TransactionAbortable if it must be aborted instead."""
        if self.state is ProducerState.IN_TRANSACTION:
            await self.flush()
        self._manager.begin_commit()
        await self._end(is_commit=True)

    async def abort(self) -> None:
        """Drop records that were not sent, and abort the transaction."""
        self._manager.begin_abort()
        await self._stop_adding()
        deadline = self._deadline()
        for topic in self._topics.values():
            topic.stop()
        try:
            async with asyncio.timeout(deadline.limit_s):
                await asyncio.gather(*(topic.settled() for topic in self._topics.values()))
        except TimeoutError as error:
            raise TransactionTimedOut(f"records are in flight for {deadline.limit_s:g} s") from error
        await self._end(is_commit=False)
        for name, topic in list(self._topics.items()):
            if topic.is_ended:
                del self._topics[name]
                await topic.close()

    async def close(self) -> None:
        """End what is open, and close all connections.

        A commit that has begun is completed. Another transaction is aborted, unless it was prepared.
        """
        with suppress(TransactionError):
            if self.state is ProducerState.COMMITTING:
                await self.commit()
            elif self.state in (ProducerState.IN_TRANSACTION, ProducerState.ABORTABLE_ERROR, ProducerState.ABORTING):
                await self.abort()
        await self._stop_adding()
        self._stop_checking()
        for topic in self._topics.values():
            await topic.close()
        await self._requests.close()

    # --- records and offsets

    async def send(self, topic: str, records: Sequence[StreamRecord], *, partition: int | None = None) -> None:
        """Add records to the transaction. Wait only while the memory for unsent records is used up.

        Without ``partition``, a key goes to the partition that Kafka's producer chooses.
        """
        target = await self._topic(topic)
        target.append(records, partition=partition)
        await self._room(target)

    async def send_pairs(
        self, topic: str, pairs: Sequence[Pair], timestamp_ms: int, *, partition: int | None = None
    ) -> None:
        """Add records of these keys and values, as ``send`` does, faster for many records."""
        target = await self._topic(topic)
        target.append_pairs(pairs, timestamp_ms, partition=partition)
        await self._room(target)

    async def send_values(
        self, topic: str, values: Sequence[bytes], timestamp_ms: int, *, partition: int | None = None
    ) -> None:
        """Add values as records without keys, in their order."""
        target = await self._topic(topic)
        target.append_values(values, timestamp_ms, partition=partition)
        await self._room(target)

    async def partitions_of(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic that the transaction writes to."""
        return (await self._topic(topic)).partitions

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Commit offsets of a group with the transaction: the next offset to read of each partition.

        Raise CommitFailed if ``group`` is not the present member: it has lost its partitions in a rebalance (KIP-447).
        """
        self._manager.validate_open("send_offsets")
        if not offsets:
            return
        deadline, producer, is_version_2 = self._deadline(), self._manager.producer, self._manager.is_version_2
        self._manager.adding()
        with self._noting_failure():
            if not is_version_2:
                await self._requests.add_group(producer, group.group_id, deadline)
                self._manager.added()
            await self._requests.commit_offsets(producer, offsets, group, deadline, is_version_2=is_version_2)
            self._manager.added()

    # --- topics

    async def _topic(self, name: str) -> TransactionalTopic:
        self._manager.validate_open("send")
        found = self._topics.get(name)
        if found is None:
            found = TransactionalTopic(
                self._network,
                name,
                self._config,
                self._manager,
                lambda batch: self._delivered(name, batch),
                touched=self._add_partitions,
                failed=self._failed,
                epoch_time=self._epoch_time,
            )
            try:
                async with asyncio.timeout(self._timeout_s):
                    await found.open()
            except TimeoutError as error:
                raise TransactionTimedOut(f"topic {name} was not found in {self._timeout_s:g} s") from error
            except (AdminError, ClientError) as error:
                self._failed(produce_error(error))
                self._manager.validate_open("send")
            self._topics[name] = found
            found.begin()
            self._manager.validate_open("send")
        return found

    async def _room(self, topic: TransactionalTopic) -> None:
        while topic.is_full and self._manager.error is None:
            await topic.room()
        self._manager.validate_open("send")

    def _add_partitions(self) -> None:
        """Add new partitions to a transaction of version 1; those that come meanwhile are added together."""
        if self._manager.to_add and self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(self._add_all())

    async def _add_all(self) -> None:
        try:
            while partitions := self._manager.to_add:
                self._manager.adding()
                with suppress(TransactionTimedOut):
                    await self._requests.add_partitions(self._manager.producer, partitions, self._deadline())
                    self._manager.added(partitions)
                for topic in self._topics.values():
                    topic.wake_all()
        except TransactionError as error:
            self._failed(error)
        finally:
            self._adding = None

    async def _stop_adding(self) -> None:
        adding, self._adding = self._adding, None
        if adding is not None:
            adding.cancel()
            await asyncio.wait([adding])

    async def _keep_deadlines(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            for topic in list(self._topics.values()):
                topic.take_expired()

    def _stop_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None

    # --- ends and failures

    async def _end(self, *, is_commit: bool) -> None:
        """End the transaction that is being committed or aborted, and receive a new epoch if it is needed."""
        manager, deadline = self._manager, self._deadline()
        self._stop_checking()
        if manager.is_ended:
            pass  # An earlier call has ended it, and only the new epoch is missing.
        elif manager.must_send_end:
            with self._noting_failure():
                producer = await self._send_end(deadline, is_commit=is_commit)
            manager.ended(producer, is_version_2_next=self._requests.is_version_2)
        else:
            manager.ended(None, is_version_2_next=self._requests.is_version_2)
        for topic in self._topics.values():
            topic.stop()
        if manager.needs_new_epoch:
            with self._noting_failure():
                producer = await self._requests.init_producer(
                    self._config.transaction_timeout_ms, manager.producer, deadline
                )
            manager.initialized(producer)

    async def _send_end(self, deadline: Deadline, *, is_commit: bool) -> ProducerId | None:
        """Return the producer of the next transaction; None if the coordinator does not know this one."""
        try:
            return await self._requests.end(
                self._manager.producer, deadline, is_commit=is_commit, is_version_2=self._manager.is_version_2
            )
        except TransactionError as error:
            if not self._manager.is_over(error):
                raise
            return None

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except TransactionTimedOut:
            raise
        except TransactionError as error:
            self._failed(error)
            raise

    def _failed(self, error: TransactionError) -> None:
        """Note that the transaction can't be committed, and send nothing more."""
        self._manager.fail(error)
        for topic in self._topics.values():
            topic.stop(error)

    def _deadline(self) -> Deadline:
        return Deadline(self._timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _ignore(topic: str, batch: StreamBatch) -> None:
    """Take a delivered batch."""
