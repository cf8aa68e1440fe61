"""Lists a metadata log or snapshot line by line, in the format of Kafka's DumpLogSegments.

One line for each batch and one for each record in it, as ``--cluster-metadata-decoder`` prints them, so that a log can
be compared with the output of the real tool.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from barnabas.protocol.control_record import ControlRecordType, decode_control_record
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, Record, iter_batches
from barnabas.protocol.record_serde import decode_metadata_record

__all__ = ["dump_metadata_log"]

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LABELS = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange: ",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader ",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter ",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion ",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters ",
}


def dump_metadata_log(path: str) -> Iterator[str]:
    """Yield the lines for a ``.log`` or ``.checkpoint`` file of the metadata partition."""
    yield f"Dumping {path}"
    stem = os.path.basename(path).partition(".")[0]
    if path.endswith(".checkpoint"):
        end_offset, _, epoch = stem.partition("-")
        yield f"Snapshot end offset: {int(end_offset)}, epoch: {int(epoch)}"
    else:
        yield f"Log starting offset: {int(stem)}"
    with open(path, "rb") as file:
        data = file.read()
    for batch in iter_batches(data):
        yield _describe_batch(batch)
        for record in batch.records():
            yield _describe_record(batch, record)


def _describe_batch(batch: BatchView) -> str:
    horizon = batch.delete_horizon_ms
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {_java(batch.is_transactional)} isControl: {_java(batch.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {batch.position} CreateTime: {batch.max_timestamp} size: {batch.size} magic: {batch.magic} "
        f"compresscodec: {batch.compression.name.lower()} crc: {batch.crc} isvalid: {_java(_is_valid(batch))}"
    )


def _describe_record(batch: BatchView, record: Record) -> str:
    head = (
        f"| offset: {record.offset} CreateTime: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {batch.base_sequence} headerKeys: [] "
    )
    if batch.is_control:
        control = decode_control_record(record.key, record.value)
        return head + _LABELS[control.type] + _compact(control.message.to_json(control.version))
    message, version = decode_metadata_record(record.value or b"")
    kind = _CAPITAL.sub("_", type(message).__name__).upper()
    return head + "payload: " + _compact({"type": kind, "version": version, "data": message.to_json(version)})


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _java(value: bool) -> str:
    return "true" if value else "false"


def _is_valid(batch: BatchView) -> bool:
    try:
        batch.ensure_valid()
    except DecodeError:
        return False
    return True


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
