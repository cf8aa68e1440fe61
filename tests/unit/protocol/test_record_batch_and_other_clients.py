"""Batches exchanged between barnabas and the record code of two Python clients, in both directions and every codec."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from barnabas.protocol.compression import Compression
from barnabas.protocol.produce_validation import ProduceRules, validate_produced
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # It reads its schemas in a way that Python will remove.
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

NOW = 1_750_000_000_000
RECORDS = [
    Record(0, NOW, b"key", b"value"),
    Record(1, NOW + 1, None, b"x" * 5000, (("header", b"text"), ("null", None))),
    Record(2, NOW - 7, b"", None),
    *(Record(index, NOW + 1000 * index, b"k%d" % index, b"v" * index) for index in range(3, 200)),
]
every_client_and_codec = pytest.mark.parametrize(
    ("reader", "builder", "codec"),
    [
        *((AiokafkaBatch, AiokafkaBuilder, codec) for codec in Compression),
        # kafka-python requires another snappy library than the installed one.
        *((KafkaPythonBatch, KafkaPythonBuilder, codec) for codec in Compression if codec is not Compression.SNAPPY),
    ],
)


@every_client_and_codec
def test_clients_read_our_batches(reader: Any, builder: Any, codec: Compression) -> None:
    batch = reader(build_batch(RECORDS, compression=codec, producer_id=5, producer_epoch=1, base_sequence=9))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 9)
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == RECORDS


@every_client_and_codec
def test_we_read_batches_of_clients(reader: Any, builder: Any, codec: Compression) -> None:
    writer = builder(
        magic=2,
        compression_type=codec.value,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000_000,
    )
    for record in RECORDS:
        writer.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    data = bytes(writer.build())
    validated = validate_produced(data, ProduceRules(), now_ms=NOW, partition="t-0")
    assert validated.data == data
    batch = BatchView(data)
    batch.ensure_valid()
    assert batch.compression == codec
    assert list(batch.records()) == RECORDS
