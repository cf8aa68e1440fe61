"""Writes the records of an internal topic; the text of a failure says what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.producer.record_producer import NotDelivered, RecordProducer
from barnabas.common.error_code import ErrorCode
from barnabas.connect.errors import ConnectError

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadata

__all__ = ["TopicWriter", "WriteFailed"]

_TOO_LARGE = " -> raise max.message.bytes of the topic, or make the configuration smaller"
_HINTS = {
    ErrorCode.MESSAGE_TOO_LARGE: _TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: " -> the worker's principal needs WRITE on it",
}


class WriteFailed(ConnectError):
    """Not all records were acknowledged. The others may be in the topic nevertheless."""


class TopicWriter:
    """A ``RecordProducer`` whose failures are those of Connect."""

    def __init__(self, network: NetworkClient, topic: str, *, epoch_time: Callable[[], float] = time.time) -> None:
        self._producer = RecordProducer(network, topic, epoch_time=epoch_time)

    def start(self, metadata: TopicMetadata) -> None:
        self._producer.start(metadata)

    async def write(self, records: Sequence[tuple[bytes | None, bytes | None]], *, timeout_s: float) -> list[int]:
        """See ``RecordProducer.produce``. Raise WriteFailed."""
        try:
            return await self._producer.produce(records, timeout_s=timeout_s)
        except NotDelivered as error:
            cause = error.__cause__
            hint = _HINTS.get(cause.code, "") if isinstance(cause, AdminError) else ""
            raise WriteFailed(f"{error}{hint}") from error

    async def close(self) -> None:
        await self._producer.close()
