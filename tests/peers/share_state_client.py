"""A client of share coordinators: it sends what brokers send to each other, and reads the records of the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from barnabas.broker.share_state_messages import (
    deletions,
    initializations,
    outcomes,
    reads,
    states,
    summaries,
    summary_reads,
    writes,
)
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateInitialization,
    StateOutcome,
    StateWrite,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.schema import Message, Request
from tests.interop.raw_client import RawClient

__all__ = ["ShareStateClient", "settle"]

_SETTLE_S = 30.0
_EARLIEST = -2
_NOT_YET = frozenset({14, 15, 16, 3, 5, 6})
"""The coordinator is loading, unknown or elsewhere; the topic or its leader is unknown."""


def settle(is_true: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + _SETTLE_S
    while not is_true():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


class ShareStateClient:
    """It uses a connection to one broker. ``version`` is that of requests which have it."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.version = 1

    def close(self) -> None:
        self.raw.close()

    # --- topics

    def create_topic(self, name: str, partitions: int) -> Uuid:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), answer.topics[0]
        settle(lambda: self.has_leaders(name), f"{name} has no leaders")
        return self.metadata(name).topic_id

    def metadata(self, name: str) -> MetadataResponseTopic:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return self.raw.call(wanted, 12).topics[0]

    def has_leaders(self, name: str) -> bool:
        partitions = self.metadata(name).partitions
        return bool(partitions) and all(partition.leader_id >= 0 for partition in partitions)

    # --- coordinators

    def find(self, key: str, version: int = 6) -> Coordinator:
        return self.raw.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version).coordinators[0]

    def prepare(self, keys: Sequence[SharePartitionKey]) -> None:
        """Wait until the coordinators of existing share-partitions answer here."""
        for key in keys:
            settle(partial(self._has_coordinator, key), f"{key} has no coordinator here")

    def _has_coordinator(self, key: SharePartitionKey) -> bool:
        return self.find(key.coordinator_key).error_code == 0 and self.summary(key).error_code not in _NOT_YET

    def _only(self, found: Iterator[tuple[Uuid, int, Any]]) -> Any:
        ((_, _, result),) = found
        return result

    def send(self, request: Request[Message]) -> Any:
        return self.raw.call(request, min(self.version, request.MAX_VERSION))

    def initialize(self, key: SharePartitionKey, state_epoch: int = 1, start_offset: int = 0) -> StateOutcome:
        wanted = StateInitialization(state_epoch, start_offset)
        outcome: StateOutcome = self._only(outcomes(self.send(initializations(key.group_id, [(key, wanted)]))))
        return outcome

    def read(self, key: SharePartitionKey, leader_epoch: int = -1) -> SharePartitionState:
        state: SharePartitionState = self._only(states(self.send(reads(key.group_id, [(key, leader_epoch)]))))
        return state

    def write(self, key: SharePartitionKey, write: StateWrite) -> StateOutcome:
        outcome: StateOutcome = self._only(outcomes(self.send(writes(key.group_id, [(key, write)]))))
        return outcome

    def delete(self, key: SharePartitionKey) -> StateOutcome:
        outcome: StateOutcome = self._only(outcomes(self.send(deletions(key.group_id, [(key, None)]))))
        return outcome

    def summary(self, key: SharePartitionKey) -> SharePartitionSummary:
        summary: SharePartitionSummary = self._only(summaries(self.send(summary_reads(key.group_id, [(key, -1)]))))
        return summary

    # --- records

    def log_starts(self, topic: str = SHARE_STATE_TOPIC) -> dict[int, int]:
        """Return the first offset of each partition that this broker leads."""
        partitions = [
            ListOffsetsPartition(partition_index=partition.partition_index, timestamp=_EARLIEST)
            for partition in self.metadata(topic).partitions
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
        found = self.raw.call(request, 7).topics[0].partitions
        return {partition.partition_index: partition.offset for partition in found if partition.error_code == 0}

    def records(self) -> dict[SharePartitionKey, list[Message | None]]:
        """Return the values of the records of each share-partition in order, None for a tombstone."""
        found: dict[SharePartitionKey, list[Message | None]] = {}
        for partition, start in self.log_starts().items():
            for key, value in self._read(partition, start):
                decoded = decode_coordinator_record(CoordinatorKind.SHARE, key, value)
                named: Any = decoded.key
                share_partition = SharePartitionKey(named.group_id, named.topic_id, named.partition)
                found.setdefault(share_partition, []).append(decoded.value)
        return found

    def _read(self, partition: int, offset: int) -> Iterator[tuple[bytes, bytes | None]]:
        while True:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
            topics = [FetchTopic(topic=SHARE_STATE_TOPIC, partitions=[wanted])]
            answer = self.raw.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=topics), 12)
            records = answer.responses[0].partitions[0].records if answer.responses else None
            if not records:
                return
            for batch in iter_batches(bytes(records)):
                for record in batch.records():
                    assert record.key is not None
                    yield bytes(record.key), None if record.value is None else bytes(record.value)
                offset = batch.next_offset
