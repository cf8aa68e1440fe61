"""Replay an offset topic: the positions where source connectors continue.

A partition may have several keys in the topic that differ only in the order of names: Java's tasks write the order of
the connector, Kafka's REST API the order of its hash tables. A task reads the key that it writes. So the key written
last applies here, and a change of an offset writes all keys (``records_to_write``). This includes deleted keys that the
topic still has, because the task will read one of the keys.

A connector may have a topic of its own (``offsets.storage.topic``). Its offsets take precedence over those in the
worker's topic (``MergedOffsets``). So offsets are deleted in both topics, in the worker's first: in the opposite order,
old offsets would reappear if the worker stopped in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.connect.decide.backing_stores.config_records import InvalidRecord
from barnabas.connect.decide.backing_stores.internal_json import JsonValue
from barnabas.connect.decide.backing_stores.offset_records import (
    OffsetRecord,
    SourceOffset,
    SourcePartition,
    canonical_partition,
    offset_record,
    parse_offset,
    parse_offset_key,
)

__all__ = ["MergedOffsets", "OffsetState", "PartitionOffset"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """A partition and its offset, as the REST API lists them."""

    partition: SourcePartition
    offset: SourceOffset


@dataclass(slots=True)
class _Written:
    partition: SourcePartition
    offset: dict[str, JsonValue] | None
    order: tuple[int, int]
    """The order of records: the timestamp, and the number of earlier records."""


class OffsetState:
    def __init__(self) -> None:
        self._replayed = 0
        self._connectors: dict[str, dict[bytes, dict[bytes, _Written]]] = {}

    def replay(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Apply a record. A key that can't be understood is ignored; an offset is lost, as for Kafka's tasks."""
        try:
            found = parse_offset_key(key)
        except InvalidRecord as error:
            log.warning("a record of the offset topic was ignored: %s", error)
            return
        assert key is not None
        try:
            offset = parse_offset(value)
        except InvalidRecord as error:
            log.error(
                "the offset of connector %s for %s is lost, it will start over there: %s", found.connector, key, error
            )
            offset = None
        self._replayed += 1
        forms = self._connectors.setdefault(found.connector, {}).setdefault(canonical_partition(found.partition), {})
        forms[bytes(key)] = _Written(found.partition, offset, (timestamp_ms, self._replayed))

    def offset(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        """Return where the connector continues in this partition; None at the start."""
        forms = self._connectors.get(connector, {}).get(canonical_partition(partition), {})
        last = _last(forms)
        return None if last is None else last.offset

    def offsets(self, connector: str) -> list[PartitionOffset]:
        """Return the offsets of all partitions that have one, in the order in which they appeared."""
        return [
            PartitionOffset(last.partition, last.offset)
            for forms in self._connectors.get(connector, {}).values()
            if (last := _last(forms)) is not None and last.offset is not None
        ]

    def records_to_write(
        self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> list[OffsetRecord]:
        """The records that change offsets, or delete them (None). If a partition is named twice, the last one applies.

        Raises InvalidOffset.
        """
        records: dict[bytes, OffsetRecord] = {}
        for partition, offset in offsets:
            record = offset_record(connector, partition, offset)
            forms = self._connectors.get(connector, {}).get(canonical_partition(partition), {})
            for key in forms or [record.key]:
                records[key] = OffsetRecord(key, record.value)
        return list(records.values())

    def removal_records(self, connector: str) -> list[OffsetRecord]:
        """Return records that delete all offsets of a connector."""
        return [
            OffsetRecord(key, None)
            for forms in self._connectors.get(connector, {}).values()
            for key, written in forms.items()
            if written.offset is not None
        ]


class MergedOffsets:
    """A connector's own topic, which takes precedence over that of the worker."""

    def __init__(self, dedicated: OffsetState, worker: OffsetState) -> None:
        self.dedicated = dedicated
        self.worker = worker

    def offset(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        found = self.dedicated.offset(connector, partition)
        return self.worker.offset(connector, partition) if found is None else found

    def offsets(self, connector: str) -> list[PartitionOffset]:
        merged = {canonical_partition(offset.partition): offset for offset in self.worker.offsets(connector)}
        merged |= {canonical_partition(offset.partition): offset for offset in self.dedicated.offsets(connector)}
        return list(merged.values())


def _last(forms: Mapping[bytes, _Written]) -> _Written | None:
    return max(forms.values(), key=lambda written: written.order, default=None)
