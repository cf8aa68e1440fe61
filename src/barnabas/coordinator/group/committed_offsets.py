"""The committed offsets of one partition's groups, and offsets of open transactions.

Transactional offsets are records of a producer and take effect with its commit marker. Of a transactional and a plain
commit for one partition, the later record in the log wins, whatever the order of the markers. Records are replayed in
log order, so for partitions with an open transaction it suffices to store the offset of the last plain or committed
record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.coordinator.group.offset_and_metadata import OffsetAndMetadata

__all__ = ["CommittedOffsets"]

Partition = tuple[str, str, int]
TopicOffsets = dict[str, dict[int, OffsetAndMetadata]]


class CommittedOffsets:
    def __init__(self) -> None:
        self._by_group: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[Partition, tuple[int, OffsetAndMetadata]]] = {}
        """Producer id to its uncommitted offsets, each with the log offset of its record."""
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """Group to partitions with open transactions to their producer ids."""
        self._applied_at: dict[Partition, int] = {}
        """Log offset of the last record applied to a partition that has an open transaction."""
        self.count = 0

    # -- reading

    def of_group(self, group_id: str) -> TopicOffsets:
        return self._by_group.get(group_id) or {}

    def groups(self) -> Iterable[str]:
        return self._by_group.keys() | self._open.keys()

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        topics = self._by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction may still change this offset."""
        partitions = self._open.get(group_id)
        return partitions is not None and (topic, partition) in partitions

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def known_partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Return every partition with an offset of the group, committed or pending."""
        seen: set[tuple[str, int]] = set(self._open.get(group_id, ()))
        for topic, partitions in self.of_group(group_id).items():
            seen.update((topic, partition) for partition in partitions)
        return iter(sorted(seen))

    # -- replay

    def put(self, group_id: str, topic: str, partition: int, value: OffsetAndMetadata, record_offset: int) -> None:
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        if partition not in partitions:
            self.count += 1
        partitions[partition] = value
        if self._open and self.is_pending(group_id, topic, partition):
            self._applied_at[group_id, topic, partition] = record_offset

    def put_topic(
        self, group_id: str, topic: str, offsets: dict[int, OffsetAndMetadata], first_record_offset: int
    ) -> None:
        """Apply offsets of several partitions of a topic, whose records are consecutive."""
        if group_id in self._open:
            for record_offset, (partition, value) in enumerate(offsets.items(), first_record_offset):
                self.put(group_id, topic, partition, value, record_offset)
            return
        partitions = self._by_group.setdefault(group_id, {}).setdefault(topic, {})
        known = len(partitions)
        partitions.update(offsets)
        self.count += len(partitions) - known

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetAndMetadata, record_offset: int
    ) -> None:
        self._pending.setdefault(producer_id, {})[group_id, topic, partition] = (record_offset, value)
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone: remove the committed offset, and the pending ones of open transactions."""
        topics = self._by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is not None and partitions is not None and partitions.pop(partition, None) is not None:
            self.count -= 1
            if not partitions:
                del topics[topic]
                if not topics:
                    del self._by_group[group_id]
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            pending = self._pending[producer_id]
            del pending[group_id, topic, partition]
            if not pending:
                del self._pending[producer_id]
            self._close(producer_id, group_id, topic, partition)

    def end_transaction(self, producer_id: int, *, committed: bool) -> list[Partition]:
        """Apply or drop a producer's pending offsets; return the applied partitions."""
        applied: list[Partition] = []
        for key, (record_offset, value) in self._pending.pop(producer_id, {}).items():
            if committed and record_offset > self._applied_at.get(key, -1):
                self.put(*key, value, record_offset)
                applied.append(key)
            self._close(producer_id, *key)
        return applied

    def _close(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        partitions = self._open[group_id]
        producers = partitions[topic, partition]
        producers.discard(producer_id)
        if producers:
            return
        self._applied_at.pop((group_id, topic, partition), None)
        del partitions[topic, partition]
        if not partitions:
            del self._open[group_id]
