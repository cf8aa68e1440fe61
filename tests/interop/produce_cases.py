"""Valid and invalid record batches for a broker to judge, and the topics that they are sent to."""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch, encode_record, with_header

__all__ = ["CASES", "TOPICS", "ProduceCase", "batch_of", "changed"]

HOUR = 3_600_000
FOREVER = 2**63 - 1
NOW = int(time.time() * 1000)

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "append-time-zstd": {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
    "gzip": {"compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed"},
    "bounded": {"message.timestamp.before.max.ms": str(HOUR), "message.timestamp.after.max.ms": str(HOUR)},
    "unbounded": {"message.timestamp.after.max.ms": str(FOREVER)},
    "small": {"max.message.bytes": "1000"},
    "small-uncompressed": {"max.message.bytes": "1000", "compression.type": "uncompressed"},
}


class ProduceCase(NamedTuple):
    name: str
    topic: str
    records: bytes | None


def batch_of(
    section: bytes, count: int, codec: Compression = Compression.NONE, *, base_timestamp: int = NOW, **fields: int
) -> bytes:
    """Return a batch of any record section, valid or not, with the right checksum."""
    return with_header(
        compress(codec, section),
        **{
            "base_offset": 0,
            "leader_epoch": -1,
            "attributes": int(codec),
            "last_offset_delta": count - 1,
            "base_timestamp": base_timestamp,
            "max_timestamp": base_timestamp,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "count": count,
            **fields,
        },
    )


def changed(batch: bytes, position: int, new: bytes) -> bytes:
    """Return the batch with some of its bytes replaced and its checksum unchanged."""
    return batch[:position] + new + batch[position + len(new) :]


def record(offset: int = 0, timestamp: int = NOW, key: bytes | None = b"key", value: bytes | None = b"value") -> Record:
    return Record(offset, timestamp, key, value)


def _cases() -> list[ProduceCase]:
    good = build_batch([record(index) for index in range(3)])
    single, triple = (
        encode_record(0, 0, b"k", b"v"),
        b"".join(encode_record(index, 0, b"k", b"v") for index in range(3)),
    )
    cases = [
        ("good", "plain", good),
        ("empty", "plain", b""),
        ("short", "plain", good[:40]),
        ("cut", "plain", good[:-1]),
        ("two batches", "plain", good * 2),
        ("a cut second batch", "plain", good + good[:30]),
        ("a tiny second batch", "plain", good + b"\0" * 8),
        ("magic 0", "plain", changed(good, 16, b"\0")),
        ("magic 1", "plain", changed(good, 16, b"\1")),
        ("magic 3", "plain", changed(good, 16, b"\3")),
        ("wrong checksum", "plain", good[:-1] + b"?"),
        ("length 13", "plain", changed(good, 8, (13).to_bytes(4, "big"))),
        ("length -1", "plain", changed(good, 8, b"\xff\xff\xff\xff")),
        ("base offset 7", "plain", build_batch([record(7)], base_offset=7)),
        ("count 0", "plain", batch_of(b"", 0)),
        ("count 0 over one offset", "plain", batch_of(b"", 0, last_offset_delta=0)),
        ("control", "plain", build_batch([record(0, NOW, bytes(4), bytes(6))], is_control=True)),
        ("compression 5", "plain", batch_of(single, 1, attributes=5)),
        ("compression 7", "plain", batch_of(single, 1, attributes=7)),
        ("producer without sequence", "plain", build_batch([record()], producer_id=9, producer_epoch=0)),
        ("unknown attribute", "plain", batch_of(single, 1, attributes=0x80)),
        ("delete horizon", "plain", build_batch([record()], delete_horizon_ms=NOW)),
        ("claims append time", "plain", build_batch([record()], log_append_time_ms=NOW)),
        ("claims late append time", "plain", build_batch([record()], log_append_time_ms=NOW + 9 * HOUR)),
        ("claims append time", "append-time", build_batch([record()], log_append_time_ms=NOW)),
        ("far future", "append-time", build_batch([record(0, NOW + 10 * HOUR)])),
        ("far future", "plain", build_batch([record(0, NOW), record(1, NOW + 10 * HOUR)])),
        ("far past", "plain", build_batch([record(0, 1)])),
        ("no timestamp", "plain", build_batch([record(0, -1)])),
        ("negative timestamp", "plain", build_batch([record(0, -5)])),
        ("far past", "bounded", build_batch([record(0, NOW), record(1, NOW - 10 * HOUR), record(2, NOW + 10 * HOUR)])),
        ("no timestamp", "bounded", build_batch([record(0, -1)])),
        ("far future", "unbounded", build_batch([record(0, NOW + 1000 * HOUR)])),
        ("wrong largest timestamp", "plain", batch_of(triple, 3, max_timestamp=NOW - 9)),
        ("no key", "compacted", build_batch([record(0), record(1, NOW, None), record(2, NOW, None)])),
        ("no key and late", "compacted", build_batch([record(0, NOW, None), record(1, NOW + 9 * HOUR)])),
        ("with keys", "compacted", good),
        ("good", "append-time", good),
        ("good", "append-time-zstd", good),
        ("good", "gzip", good),
        ("already gzip", "gzip", build_batch([record(index) for index in range(3)], compression=Compression.GZIP)),
        ("snappy", "uncompressed", build_batch([record()], compression=Compression.SNAPPY)),
        ("large", "small", build_batch([record(0, NOW, None, b"x" * 2000)])),
        ("compressible", "small", build_batch([record(0, NOW, None, b"x" * 2000)], compression=Compression.GZIP)),
        ("grows", "small-uncompressed", build_batch([record(0, NOW, None, b"x" * 2000)], compression=Compression.GZIP)),
        ("a transaction without id", "plain", build_batch([record()], is_transactional=True)),
    ]
    for codec in Compression:
        name = codec.name.lower()
        cases += [
            (f"{name}: good", "plain", batch_of(triple, 3, codec)),
            (f"{name}: more records than counted", "plain", batch_of(triple, 2, codec)),
            (f"{name}: fewer records than counted", "plain", batch_of(triple, 4, codec)),
            (f"{name}: count and offsets differ", "plain", batch_of(triple, 3, codec, last_offset_delta=5)),
            (f"{name}: negative last offset", "plain", batch_of(triple, 3, codec, last_offset_delta=-1)),
            (f"{name}: offsets twice", "plain", batch_of(single + single, 2, codec)),
            (f"{name}: offsets with a gap", "plain", batch_of(single + encode_record(5, 0, b"k", b"v"), 2, codec)),
            (f"{name}: no record", "plain", batch_of(b"", 1, codec)),
            (f"{name}: record too short", "plain", batch_of(b"\x0a" + single[1:], 1, codec)),
            (f"{name}: record too long", "plain", batch_of(b"\x7e" + single[1:], 1, codec)),
            (f"{name}: negative record length", "plain", batch_of(b"\x01" + single[1:], 1, codec)),
            (f"{name}: negative header count", "plain", batch_of(b"\x0c\x00\x00\x00\x01\x01\x01", 1, codec)),
            (f"{name}: null header key", "plain", batch_of(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, codec)),
            (f"{name}: key length -2", "plain", batch_of(b"\x0c\x00\x00\x00\x03\x01\x00", 1, codec)),
            (f"{name}: long varint", "plain", batch_of(b"\xff" * 6 + single, 1, codec)),
            (f"{name}: late", "plain", build_batch([record(0, NOW + 9 * HOUR)], compression=codec)),
            (f"{name}: no key", "compacted", build_batch([record(0, NOW, None)], compression=codec)),
        ]
        if codec:
            cases.append((f"{name}: not compressed at all", "plain", batch_of(triple, 3, attributes=int(codec))))
            compressed = batch_of(compress(codec, triple)[:-3], 3, attributes=int(codec))
            cases.append((f"{name}: cut", "plain", compressed))
    return [ProduceCase(*case) for case in cases]


CASES = _cases()
