"""Kafka's own log reader reads batches that we wrote: every codec, compacted, emptied and control batches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.compression import Compression
from barnabas.protocol.control_record import ControlRecordType, encode_control_record
from barnabas.protocol.record_batch import BatchView, Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch, empty_batch, retain_records
from barnabas.protocol.records.end_txn_marker import EndTxnMarker
from tests.peers import run_class

pytestmark = pytest.mark.interop

NOW = 1_750_000_000_000


def written_by_us() -> bytes:
    out, offset = b"", 0
    for codec in Compression:
        records = [
            Record(offset, NOW, None, b"x" * 200_000),
            Record(offset + 1, NOW + 1, b"key", b"value", (("header", b"text"), ("null", None))),
            Record(offset + 2, NOW + 2, b"", None),
        ]
        producer: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0, "base_sequence": offset}
        out += build_batch(records, base_offset=offset, compression=codec, leader_epoch=2, **producer)
        offset += 3
    five = build_batch([Record(offset + index, NOW, b"k", b"v") for index in range(5)], base_offset=offset)
    batch = BatchView(five)
    out += retain_records(batch, list(batch.records())[3:4], delete_horizon_ms=NOW + 999)
    offset += 5
    batch = BatchView(build_batch([Record(offset, NOW, b"k", b"v")], base_offset=offset, log_append_time_ms=NOW + 5))
    out += batch.tobytes() + empty_batch(
        BatchView(build_batch([Record(offset + 1, NOW, b"k", b"")], base_offset=offset + 1))
    )
    offset += 2
    key, value = encode_control_record(ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=7))
    marker = {"is_control": True, "is_transactional": True, "producer_id": 4, "producer_epoch": 0}
    return out + build_batch([Record(offset, NOW, key, value)], base_offset=offset, **marker)  # type: ignore[arg-type]


def test_kafka_reads_the_batches_that_we_write(kafka_peer: Path, tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(written_by_us())
    text = run_class("dump-log", "--files", str(log), "--deep-iteration", "--print-data-log").stdout
    batches = list(iter_batches(log.read_bytes()))
    assert text.count("isvalid: true") == len(batches)
    assert "isvalid: false" not in text
    assert re.findall(r"compresscodec: (\w+)", text) == [batch.compression.name.lower() for batch in batches]
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == [record.offset for batch in batches for record in batch.records()]
    assert f"deleteHorizonMs: OptionalLong[{NOW + 999}]" in text
    assert f"LogAppendTime: {NOW + 5}" in text
    assert "endTxnMarker: COMMIT coordinatorEpoch: 7" in text
    assert "headerKeys: [header,null]" in text
