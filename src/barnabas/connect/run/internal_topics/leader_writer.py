"""The leader's transactional writes to the config topic (KIP-618), with the transactional id of Kafka's workers.

Each claim starts another producer, which fences the one of any earlier leader, this worker's own included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.transaction_errors import TransactionError
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.internal_topics.topic_writer import WriteFailed

__all__ = ["LeaderWriter"]

_TIMEOUT_S = 30.0


class LeaderWriter:
    """``properties`` are those of the worker's clients for the topic."""

    def __init__(self, topic: str, properties: Mapping[str, str], group_id: str) -> None:
        client_id = f"{properties['client.id']}-leader"
        self._topic = topic
        self._network = NetworkClient(client_config({**properties, "client.id": client_id}, source="worker settings"))
        self._config = ProducerConfig(transactional_id=f"connect-cluster-{group_id}", linger_s=0)
        self._producer: TransactionalProducer | None = None

    async def claim(self) -> None:
        """Fence every earlier producer. Raise ConnectError."""
        await self._discard()
        self._producer = TransactionalProducer(self._network, self._config, timeout_s=_TIMEOUT_S)
        try:
            await self._producer.init_transactions()
        except TransactionError as error:
            await self._discard()
            raise ConnectError(
                f"topic {self._topic} can't be claimed by this worker as its leader: {error}. Its principal needs "
                f"WRITE and DESCRIBE on the transactional id {self._config.transactional_id}"
            ) from error

    async def write(self, records: Sequence[ConfigRecord]) -> None:
        """Write records in one transaction. Raise WriteFailed; the producer can then not be used any more."""
        producer = self._producer
        if producer is None:
            raise WriteFailed(f"this worker has not claimed topic {self._topic} as its leader; try again")
        try:
            async with producer.transaction():
                pairs = [(record.key, record.value) for record in records]
                await producer.send_pairs(self._topic, pairs, producer.now_ms())
        except TransactionError as error:
            await self._discard()
            raise WriteFailed(
                f"topic {self._topic} was not written in a transaction: {error}. If another worker has taken the lead, "
                "send the request to it; otherwise try again"
            ) from error

    async def close(self) -> None:
        await self._discard()
        await self._network.close()

    async def _discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await asyncio.shield(producer.close())
