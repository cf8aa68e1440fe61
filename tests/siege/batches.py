"""Record batches that need much work, from a user that may write to a topic."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.uuid import Uuid
from barnabas.protocol.compression import Compression
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.siege.entry import Entry, Payloads
from tests.siege.frames import MIB, batch_of, record, request, zigzag
from tests.siege.stage import MALLORY

__all__ = ["BATCHES", "produced"]

_SASL = "SASL_PLAINTEXT"
_HOUR_MS = 3_600_000


def produced(make: Callable[[int], list[bytes]], *, partition: int = 0) -> Payloads:
    """Return a request for each batch that ``make`` builds for a time in ms."""
    return lambda scene, rng: [
        request(
            ProduceRequest(
                acks=1,
                timeout_ms=5000,
                topic_data=[
                    TopicProduceData(
                        topic_id=Uuid(scene.own_topic_id),
                        partition_data=[PartitionProduceData(index=partition, records=batch)],
                    )
                ],
            )
        )
        for batch in make(int(time.time() * 1000))
    ]


def many_records(count: int, codec: Compression, now_ms: int) -> bytes:
    """Records of some seven bytes."""
    return batch_of(b"".join(record(offset_delta=n) for n in range(count)), count, compression=codec, now_ms=now_ms)


def many_headers(count: int, codec: Compression, now_ms: int) -> bytes:
    """One record with empty headers, of two bytes each."""
    return batch_of(record(zigzag(count) + bytes(2 * count)), 1, compression=codec, now_ms=now_ms)


def _bomb(codec: Compression, size: int) -> Callable[[int], list[bytes]]:
    return lambda now_ms: [batch_of(record(value=bytes(size)), 1, compression=codec, now_ms=now_ms)]


def _renumbered(now_ms: int) -> list[bytes]:
    section = b"".join(record(offset_delta=n + 1) for n in range(80_000))
    return [batch_of(section, 80_000, now_ms=now_ms)]


def _tiny_batches(now_ms: int) -> list[bytes]:
    return [batch_of(record(), 1, now_ms=now_ms)] * 50


def _many_in_one(scene: object, rng: object) -> list[bytes]:
    now_ms = int(time.time() * 1000)
    data = [PartitionProduceData(index=n, records=batch_of(record(), 1, now_ms=now_ms)) for n in range(40_000)]
    topic = TopicProduceData(topic_id=Uuid(scene.own_topic_id), partition_data=data)  # type: ignore[attr-defined]
    return [request(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]))]


def _same_in_one(scene: object, rng: object) -> list[bytes]:
    now_ms = int(time.time() * 1000)
    data = [PartitionProduceData(index=0, records=batch_of(record(), 1, now_ms=now_ms)) for _ in range(20_000)]
    topic = TopicProduceData(topic_id=Uuid(scene.own_topic_id), partition_data=data)  # type: ignore[attr-defined]
    return [request(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]))]


_CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)

BATCHES = (
    *(
        Entry(f"record with 33 million headers, {codec.name.lower()}", _SASL,
              produced(lambda now, codec=codec: [many_headers(33_000_000, codec, now)]), user=MALLORY)  # type: ignore[misc]
        for codec in (Compression.ZSTD, Compression.GZIP)
    ),
    Entry("records with 9,000 headers each, zstd", _SASL,
          produced(lambda now: [batch_of(b"".join(record(zigzag(9000) + bytes(18_000), offset_delta=n)
                                                  for n in range(22)), 22, compression=Compression.ZSTD, now_ms=now)]),
          user=MALLORY),
    Entry("1,000,000 records of 7 bytes, zstd", _SASL,
          produced(lambda now: [many_records(1_000_000, Compression.ZSTD, now)]), user=MALLORY),
    Entry("100,000 records of 7 bytes, as they are", _SASL,
          produced(lambda now: [many_records(100_000, Compression.NONE, now)]), user=MALLORY),
    Entry("200,000 records of a wrong time, lz4", _SASL,
          produced(lambda now: [many_records(200_000, Compression.LZ4, now + 48 * _HOUR_MS)]), user=MALLORY),
    Entry("80,000 records whose offsets must be assigned again", _SASL, produced(_renumbered), user=MALLORY),
    *(
        Entry(f"decompression bomb of 60 MB, {codec.name.lower()}", _SASL, produced(_bomb(codec, 60 * MIB)),
              user=MALLORY)
        for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    ),
    *(
        Entry(f"decompression bomb of 600 MB, {codec.name.lower()}", _SASL, produced(_bomb(codec, 600 * MIB)),
              user=MALLORY)
        for codec in (Compression.GZIP, Compression.ZSTD)
    ),
    Entry("decompression bomb of 20 MB, snappy", _SASL, produced(_bomb(Compression.SNAPPY, 20 * MIB)), user=MALLORY),
    Entry("batch that claims 2^31 - 1 records", _SASL,
          produced(lambda now: [batch_of(record(), 2**31 - 1, now_ms=now)]), user=MALLORY),
    Entry("batch that claims 1,000,000 records and has 10", _SASL,
          produced(lambda now: [batch_of(record() * 10, 1_000_000, compression=Compression.ZSTD, now_ms=now)]),
          user=MALLORY),
    Entry("batch of garbage under each compression", _SASL,
          produced(lambda now: [batch_of(b"", 1, compression=codec, now_ms=now) + b"garbage" for codec in _CODECS]),
          user=MALLORY),
    Entry("batches of one record, one after the other", _SASL, produced(_tiny_batches), user=MALLORY, connections=16),
    Entry("40,000 partitions that do not exist in one Produce", _SASL, _many_in_one, user=MALLORY),
    Entry("20,000 batches for one partition in one Produce", _SASL, _same_in_one, user=MALLORY),
    Entry("Produce without a right to it", _SASL,
          produced(lambda now: [many_records(100_000, Compression.NONE, now)]), user="bob"),
    Entry("Produce that names 500,000 partitions of nothing", _SASL,
          lambda scene, rng: [request(ProduceRequest(acks=1, topic_data=[TopicProduceData(
              topic_id=Uuid(scene.own_topic_id),
              partition_data=[PartitionProduceData(index=0, records=None)] * 500_000)]))],
          user="bob", connections=2),
)  # fmt: skip
