"""Produces batches that are slow to validate: ``python -m tests.interop.hostile_batches PORT SECONDS``.

It is a separate process, so that it does not share an interpreter with the measured client. Each kind has a topic and a
connection. The output lists the number of answered batches of each kind, and the errors.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from barnabas.protocol.compression import Compression
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient

__all__ = ["KINDS"]

HOUR_MS = 3_600_000
_PRODUCE_VERSION = 11


def _empty_records(count: int, codec: Compression, timestamp: int) -> bytes:
    return build_batch([Record(i, timestamp, None, b"") for i in range(count)], compression=codec)


KINDS = {
    "many": lambda now: _empty_records(80_000, Compression.NONE, now),
    "packed": lambda now: _empty_records(200_000, Compression.ZSTD, now),
    "bomb": lambda now: build_batch([Record(0, now, None, bytes(60 << 20))], compression=Compression.GZIP),
    "dated": lambda now: _empty_records(50_000, Compression.LZ4, now + 48 * HOUR_MS),
}
"""The contents of a batch: records of 8 bytes, the same compressed, one large record, and only invalid ones."""


def send(port: int, kind: str, deadline: float, answers: dict[str, list[int]]) -> None:
    client = RawClient(port, timeout_s=30)
    topic = f"hostile-{kind}"
    client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)], timeout_ms=10_000
        )
    )
    batch = KINDS[kind](int(time.time() * 1000))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data])
    while time.monotonic() < deadline:
        answer = client.call(request, _PRODUCE_VERSION)
        answers[kind].append(answer.responses[0].partition_responses[0].error_code)
    client.close()


def main(port: int, seconds: float) -> int:
    answers: dict[str, list[int]] = {kind: [] for kind in KINDS}
    deadline = time.monotonic() + seconds
    threads = [threading.Thread(target=send, args=(port, kind, deadline, answers)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
