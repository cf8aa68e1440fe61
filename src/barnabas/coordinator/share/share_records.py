"""The records of ``__share_group_state``: converts between their bytes and the arguments of ``replay``."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.coordinator.coordinator_result import SingleRecord
from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch
from barnabas.coordinator.share.share_group_offset import ShareGroupOffset, ShareUpdate
from barnabas.coordinator.share.state_batches import CombinedBatches
from barnabas.protocol.errors import DecodeError, UnknownMessageType
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record, encode_versioned
from barnabas.protocol.records import share_snapshot_value, share_update_value
from barnabas.protocol.records.share_snapshot_key import ShareSnapshotKey
from barnabas.protocol.records.share_snapshot_value import ShareSnapshotValue
from barnabas.protocol.records.share_update_key import ShareUpdateKey
from barnabas.protocol.records.share_update_value import ShareUpdateValue

__all__ = ["ShareSnapshotRecord", "ShareUpdateRecord", "decode_record"]

_SNAPSHOT = (0).to_bytes(2, "big")
_UPDATE = (1).to_bytes(2, "big")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class ShareSnapshotRecord(SingleRecord):
    """The whole state of a share-partition, or with ``offset`` None its removal."""

    key: SharePartitionKey
    offset: ShareGroupOffset | None

    def encode_key(self) -> bytes:
        group_id, topic_id, partition = self.key
        return _SNAPSHOT + ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition).encode(0)

    def encode_value(self) -> bytes | None:
        offset = self.offset
        if offset is None:
            return None
        value = ShareSnapshotValue(
            snapshot_epoch=offset.snapshot_epoch,
            state_epoch=offset.state_epoch,
            leader_epoch=offset.leader_epoch,
            start_offset=offset.start_offset,
            delivery_complete_count=offset.delivery_complete_count,
            create_timestamp=offset.create_timestamp_ms,
            write_timestamp=offset.write_timestamp_ms,
            state_batches=[
                share_snapshot_value.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in offset.state_batches.batches
            ],
        )
        return encode_versioned(value, _VERSION)


@dataclass(frozen=True, slots=True)
class ShareUpdateRecord(SingleRecord):
    """A change of the state since the last snapshot."""

    key: SharePartitionKey
    update: ShareUpdate

    def encode_key(self) -> bytes:
        group_id, topic_id, partition = self.key
        return _UPDATE + ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition).encode(0)

    def encode_value(self) -> bytes:
        update = self.update
        value = ShareUpdateValue(
            snapshot_epoch=update.snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=[
                share_update_value.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in update.state_batches.batches
            ],
        )
        return encode_versioned(value, _VERSION)


def decode_record(key: bytes, value: bytes | None) -> ShareSnapshotRecord | ShareUpdateRecord | None:
    """Return the record; None for a type that this version does not know. Raise DecodeError."""
    try:
        found = decode_coordinator_record(CoordinatorKind.SHARE, key, value)
    except UnknownMessageType:
        return None
    record_key, record_value = found.key, found.value
    if not isinstance(record_key, (ShareSnapshotKey, ShareUpdateKey)):
        raise DecodeError(f"a record of __share_group_state has a key of type {type(record_key).__name__}")
    partition_key = SharePartitionKey(record_key.group_id, record_key.topic_id, record_key.partition)
    if isinstance(record_key, ShareSnapshotKey):
        if record_value is None:
            return ShareSnapshotRecord(partition_key, None)
        if isinstance(record_value, ShareSnapshotValue):
            return ShareSnapshotRecord(partition_key, _snapshot(record_value))
    elif isinstance(record_value, ShareUpdateValue):
        return ShareUpdateRecord(partition_key, _update(record_value))
    shown = "no value" if record_value is None else f"a value of type {type(record_value).__name__}"
    raise DecodeError(f"share-partition {partition_key.coordinator_key}: {type(record_key).__name__} has {shown}")


def _snapshot(value: ShareSnapshotValue) -> ShareGroupOffset:
    return ShareGroupOffset(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def _update(value: ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
    )


def _batches(
    found: list[share_snapshot_value.StateBatch] | list[share_update_value.StateBatch],
) -> CombinedBatches:
    """Whether another broker has joined all neighbors is unknown."""
    batches = tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) for batch in found
    )
    return CombinedBatches(batches, is_joined=len(batches) < 2)
