"""Record batches: our reading, refusing and writing, compared with Kafka's own reader and writer."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.control_record import decode_control_record
from barnabas.protocol.errors import DecodeError, UnknownMessageType, UnsupportedMagic
from barnabas.protocol.record_batch import BatchView, Record, TimestampType, increment_sequence, iter_batches
from barnabas.protocol.record_batch_builder import build_batch, empty_batch
from barnabas.protocol.records.end_txn_marker import EndTxnMarker
from tests.oracles.corpus import check_all, grouped

pytestmark = pytest.mark.oracle

GROUPS = grouped("batches", lambda data: data["family"])
LENIENT_FAMILIES = {"bad-compression", "fuzz"}
"""Damaged input that Kafka happens to read; refusing it would also be right. We refuse none of it, see below."""


@pytest.mark.parametrize("family", GROUPS)
def test_batches_are_read_and_refused_as_by_kafka(family: str) -> None:
    check_all(GROUPS[family], check_batches)


def check_batches(data: dict[str, Any]) -> None:
    buf = bytes.fromhex(data["hex"])
    legacy = [batch["magic"] for batch in data["batches"] if batch["magic"] < 2]
    if legacy:
        with pytest.raises(UnsupportedMagic, match=f"magic {legacy[0]} is not supported"):
            list(iter_batches(buf))
        return
    if not data["ok"]:
        with pytest.raises(DecodeError):
            read_all(buf)
        return
    batches = read_all(buf)
    assert sum(batch.size for batch, _ in batches) == data["validBytes"]
    assert len(batches) == len(data["batches"])
    for (batch, records), expected in zip(batches, data["batches"], strict=True):
        assert as_json(batch, records) == comparable_part(expected)
        if "recordsHex" in expected:
            assert batch.record_section().hex() == expected["recordsHex"]
    if data["reencodable"]:
        assert b"".join(rebuild(batch, records) for batch, records in batches).hex() == data["hex"]
    elif not LENIENT_FAMILIES & {data["family"]}:
        check_rebuilt_reads_the_same(batches)


def comparable_part(expected: dict[str, Any]) -> dict[str, Any]:
    """Return the record. For a control type that Kafka does not know either, keep only that it is unknown."""
    compared = {key: value for key, value in expected.items() if key not in ("valid", "recordsHex")}
    for record in compared["records"]:
        if record.get("control", {}).get("type") == "UNKNOWN":
            record["control"] = {"type": "UNKNOWN"}
    return compared


def check_rebuilt_reads_the_same(batches: list[tuple[BatchView, list[Record]]]) -> None:
    for batch, records in batches:
        if [record.offset for record in records] == sorted({record.offset for record in records}) and batch.count:
            if records[0].offset < batch.base_offset or records[-1].offset > batch.last_offset:
                continue
            again = BatchView(rebuild(batch, records))
            again.ensure_valid()
            assert list(again.records()) == records


def read_all(buf: bytes) -> list[tuple[BatchView, list[Record]]]:
    batches = []
    for batch in iter_batches(buf):
        batch.ensure_valid()
        batches.append((batch, list(batch.records())))
    return batches


def rebuild(batch: BatchView, records: list[Record]) -> bytes:
    if not records:
        return empty_batch(batch)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_batch(
        records,
        base_offset=batch.base_offset,
        compression=batch.compression,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        log_append_time_ms=batch.max_timestamp if is_append_time else None,
        delete_horizon_ms=batch.delete_horizon_ms,
        last_offset=batch.last_offset,
    )


def as_json(batch: BatchView, records: list[Record]) -> dict[str, Any]:
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "nextOffset": batch.next_offset,
        "sizeInBytes": batch.size,
        "magic": batch.magic,
        "compression": batch.compression.name.lower(),
        "timestampType": {0: "CreateTime", 1: "LogAppendTime"}[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp,
        "partitionLeaderEpoch": batch.leader_epoch,
        "crc": batch.crc,
        "baseTimestamp": batch.base_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "count": batch.count,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "records": [record_as_json(batch, record) for record in records],
    }


def record_as_json(batch: BatchView, record: Record) -> dict[str, Any]:
    sequence = -1
    if batch.base_sequence >= 0:
        sequence = increment_sequence(batch.base_sequence, record.offset - batch.base_offset)
    json: dict[str, Any] = {
        "offset": record.offset,
        "sequence": sequence,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
    }
    if batch.is_control:
        json["control"] = control_as_json(record)
    return json


def control_as_json(record: Record) -> dict[str, Any]:
    try:
        control = decode_control_record(record.key, record.value)
    except UnknownMessageType:
        return {"type": "UNKNOWN"}
    json: dict[str, Any] = {"type": control.type.name, "typeId": control.type.value}
    if isinstance(control.message, EndTxnMarker):
        return json | {"coordinatorEpoch": control.message.coordinator_epoch}
    return json | {"version": control.version, "json": control.message.to_json(control.version)}
