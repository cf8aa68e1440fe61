"""Brokers with one topic in memory, which coordinate the transactions of one transactional id.

The coordinator keeps the rules that a producer relies on: a fenced epoch is refused, records need a partition of the
transaction, and the end of a transaction of version 2 assigns another epoch. ``coordinator_faults`` are the outcomes of
the next requests of an API, as ``faults`` are those of Produce.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from barnabas.clients.client_config import Address, client_config
from barnabas.clients.errors import Disconnected
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.end_txn import EndTxnResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.record_batch import BatchView
from tests.unit.clients.memory_cluster import MemoryCluster, MemoryConnection

__all__ = ["TransactionCluster"]

_PRODUCER_ID = 77
_FENCED = ErrorCode.PRODUCER_FENCED


class _OwnConnection(MemoryConnection):
    features: dict[str, int]

    async def close(self) -> None:
        self.is_open = False


class TransactionCluster(MemoryCluster):
    """``ends`` are the outcomes of transactions: the values of their records, and whether they were committed."""

    def __init__(self, partitions: int = 2, *, transaction_version: int = 2) -> None:
        super().__init__(partitions)
        self.config = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"})
        self.transaction_version = transaction_version
        self.epoch = -1
        self.is_open = False
        self.added: set[int] = set()
        self.offsets: dict[int, int] = {}
        self.ends: list[tuple[list[bytes | None], bool]] = []
        self.asked: list[tuple[ApiKey, Any]] = []
        self.coordinator_faults: dict[ApiKey, deque[str]] = {key: deque() for key in ApiKey}
        self._values: list[bytes | None] = []

    async def open(self, address: Address) -> MemoryConnection:
        connection = _OwnConnection(self, address)
        connection.features = {"transaction.version": self.transaction_version}
        return connection

    def requests(self, key: ApiKey) -> list[Any]:
        return [message for asked, message in self.asked if asked is key]

    def answer(self, node: int, message: Any) -> Any:
        key = ApiKey(message.API_KEY)
        self.asked.append((key, message))
        faults = self.coordinator_faults[key]
        fault = faults.popleft() if faults else "ok"
        if fault == "lost":
            raise Disconnected(fault)
        code = ErrorCode.__members__.get(fault, ErrorCode.NONE)
        answered = self._answer(node, key, message, code)
        if fault == "unheard":
            raise Disconnected(fault)
        return answered

    def _answer(self, node: int, key: ApiKey, message: Any, code: ErrorCode) -> Any:
        match key:
            case ApiKey.FIND_COORDINATOR:
                found = Coordinator(key="id", node_id=1, host="node-1", port=9092, error_code=code)
                return FindCoordinatorResponse(coordinators=[found])
            case ApiKey.INIT_PRODUCER_ID:
                return self._init(message, code)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return self._add(message, code or self._fencing(message.v3_and_below_producer_epoch))
            case ApiKey.ADD_OFFSETS_TO_TXN:
                code = code or self._fencing(message.producer_epoch)
                self.is_open = self.is_open or not code
                return AddOffsetsToTxnResponse(error_code=code)
            case ApiKey.TXN_OFFSET_COMMIT:
                return self._commit_offsets(message, code or self._fencing(message.producer_epoch))
            case ApiKey.END_TXN:
                return self._end(message, code)
            case _:
                return super().answer(node, message)

    def _fencing(self, epoch: int) -> ErrorCode:
        return ErrorCode.NONE if epoch == self.epoch else _FENCED

    def _init(self, message: Any, code: ErrorCode) -> InitProducerIdResponse:
        if not code and message.producer_id >= 0:
            code = self._fencing(message.producer_epoch)
        if code:
            return InitProducerIdResponse(error_code=code)
        if self.is_open:
            self._finish(is_commit=False)
        self._next_epoch()
        return InitProducerIdResponse(producer_id=_PRODUCER_ID, producer_epoch=self.epoch)

    def _add(self, message: Any, code: ErrorCode) -> AddPartitionsToTxnResponse:
        (topic,) = message.v3_and_below_topics
        if not code:
            self.is_open = True
            self.added.update(topic.partitions)
        results = [
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
            for number in topic.partitions
        ]
        named = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[named])

    def _commit_offsets(self, message: Any, code: ErrorCode) -> TxnOffsetCommitResponse:
        (topic,) = message.topics
        if not code:
            self.is_open = True
            self.offsets.update({part.partition_index: part.committed_offset for part in topic.partitions})
        results = [
            TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ]
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=topic.name, partitions=results)])

    def _end(self, message: Any, code: ErrorCode) -> EndTxnResponse:
        is_repeated = self.transaction_version == 2 and message.producer_epoch == self.epoch - 1 and bool(self.ends)
        if not code and not is_repeated:
            code = self._fencing(message.producer_epoch)
            if not code and not self.is_open and (message.committed or self.transaction_version < 2):
                code = ErrorCode.INVALID_TXN_STATE
            if not code:
                was_added = bool(self.added)  # So the producer follows version 1.
                self._finish(is_commit=message.committed)
                if self.transaction_version == 2 and not was_added:
                    self._next_epoch()
        return EndTxnResponse(error_code=code, producer_id=_PRODUCER_ID, producer_epoch=self.epoch)

    def _finish(self, *, is_commit: bool) -> None:
        self.ends.append((self._values, is_commit))
        self._values, self.is_open = [], False
        self.added.clear()

    def _next_epoch(self) -> None:
        self.epoch += 1
        for known in self._sequences.values():
            known[_PRODUCER_ID] = 0

    def append(self, partition: int, data: bytes) -> ErrorCode:
        batch = BatchView(data)
        assert batch.is_transactional
        if batch.producer_epoch != self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.transaction_version < 2 and partition not in self.added:
            return ErrorCode.INVALID_TXN_STATE
        code = super().append(partition, data)
        if not code:
            self.is_open = True
            self._values.extend(record.value for record in batch.records())
        return code
