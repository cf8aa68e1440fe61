"""The records that a node has written to ``__consumer_offsets``, in a form that two nodes can be compared by.

Ids that a node makes are shown by names, hashes by the order in which they appeared, and times not at all. The order of
records in a batch is that of hash tables in Kafka, so a batch is shown as a sorted list.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.coordinator.group import consumer_protocol
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue
from tests.interop.raw_client import RawClient

__all__ = ["GroupRecords"]

_FETCH_VERSION = 12
_TIMES = frozenset({"commitTimestamp", "currentStateTimestamp", "assignmentTimestamp", "timestamp", "expireTimestamp"})
_LEFT_OUT = _TIMES | {"version", "leader"}
"""Any member may lead a classic group that was a consumer group."""


class GroupRecords:
    def __init__(self, client: RawClient, names: Mapping[str, str]) -> None:
        """``names`` has what ids of the node are shown as."""
        self._client = client
        self._names = names
        self._hashes: dict[int, str] = {0: "no hash"}

    def of_groups(self, prefix: str) -> list[str]:
        """Return the batches with records of groups whose id begins with ``prefix``, each as one line."""
        lines = []
        for batch in self._batches():
            records = [] if batch.is_control else sorted(self._shown(batch, prefix))
            if records:
                lines.append("\n  ".join(records))
        return lines

    def _batches(self) -> Iterator[BatchView]:
        offset = 0
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 26)
            topic = FetchTopic(topic=GROUP_METADATA_TOPIC, partitions=[partition])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, topics=[topic])
            found = self._client.call(request, _FETCH_VERSION).responses[0].partitions[0]
            assert found.error_code == 0
            batches = list(iter_batches(found.records or b""))
            if not batches:
                return
            yield from batches
            offset = batches[-1].next_offset

    def _shown(self, batch: BatchView, prefix: str) -> Iterator[str]:
        for record in batch.records():
            assert record.key is not None
            decoded = decode_coordinator_record(CoordinatorKind.GROUP, record.key, record.value)
            key = decoded.key.to_json(0)
            if not (key.get("groupId") or key.get("group")).startswith(prefix):
                continue
            value = None if decoded.value is None else decoded.value.to_json(decoded.version)
            if isinstance(decoded.value, GroupMetadataValue) and decoded.value.generation == 0:
                continue  # Kafka writes an empty group before its first member has joined.
            yield f"{type(decoded.key).__name__} {self._comparable(key)}: {self._comparable(value)}"

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._field(name, part) for name, part in value.items() if name not in _LEFT_OUT}
        if isinstance(value, list):
            return sorted((self._comparable(part) for part in value), key=repr)
        if isinstance(value, str):
            for found, name in self._names.items():
                value = value.replace(found, name)
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name == "metadataHash":
            return self._hashes.setdefault(value, f"hash {len(self._hashes)}")
        if name == "assignment" and isinstance(value, str):
            return assignment_shown(value)
        if name == "assignedPartitions" or name == "partitionsPendingRevocation":
            return self._comparable([_with_epochs(topic) for topic in value])
        return self._comparable(value)


def _with_epochs(topic: dict[str, Any]) -> dict[str, Any]:
    """Show partitions with their epochs: their order is that of hash tables."""
    return {
        "topicId": topic["topicId"],
        "epochs": list(zip(topic["partitions"], topic["assignmentEpochs"], strict=True)),
    }


def assignment_shown(data: str) -> Any:
    """Show an assignment in the embedded protocol, in base64, without the order of its topics."""
    raw = b64decode(data)
    if not raw:
        return ""
    read = consumer_protocol.read_assignment(raw)
    return raw[:2].hex(), sorted((topic.topic, sorted(topic.partitions)) for topic in read.assigned_partitions)
