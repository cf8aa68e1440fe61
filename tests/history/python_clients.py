"""kafka-python and aiokafka: producers that wait for the acknowledgement of every record."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from typing import Any

from tests.history.clients import Client
from tests.history.payload import RecordId, encode
from tests.history.records_check import RecordsCheck

__all__ = ["AiokafkaProducer", "KafkaPythonProducer"]

_TIMEOUT_S = 60


class _OneByOne(Client):
    def __init__(self, bootstrap: str, topic: str, partitions: int, check: RecordsCheck, *, name: str) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._check = bootstrap.split(","), topic, partitions, check
        self._number = 0

    def _next(self) -> tuple[RecordId, int, bytes]:
        record, partition = RecordId(self.name, self._number), random.randrange(self._partitions)
        self._number += 1
        self._check.sent(record, partition)
        return record, partition, encode(record, partition, 300)

    def _done(self, record: RecordId, metadata: Any) -> None:
        self.counts["acknowledged"] += 1
        self._check.acknowledged(record, metadata.partition, metadata.offset)


class KafkaPythonProducer(_OneByOne):
    def _run(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", enable_idempotence=True)
        try:
            while not self._ends.wait(0.005):
                record, partition, value = self._next()
                self._done(record, producer.send(self._topic, value=value, partition=partition).get(_TIMEOUT_S))
        finally:
            producer.close()
            with warnings.catch_warnings():  # The library leaves sockets to the garbage collector.
                warnings.simplefilter("ignore", ResourceWarning)
                del producer
                gc.collect()


class AiokafkaProducer(_OneByOne):
    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, acks="all", enable_idempotence=True)
        await producer.start()
        try:
            while not self._ends.is_set():
                record, partition, value = self._next()
                sent = producer.send_and_wait(self._topic, value=value, partition=partition)
                self._done(record, await asyncio.wait_for(sent, _TIMEOUT_S))
                await asyncio.sleep(0.005)
        finally:
            await producer.stop()
