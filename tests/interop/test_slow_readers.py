"""Consumers that fetch much and read nothing cost the node little, and receive everything when they finally read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::ResourceWarning")]

MIB = 1024 * 1024
RECORDS = 30
VALUE_BYTES = 1_000_000
READERS = 20
MEMORY_PER_READER = 6 * MIB


def own_memory(pid: int) -> int:
    """Return the memory in bytes without file pages."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def append(client: RawClient, number: int) -> float:
    """Append a record. Return the seconds until its acknowledgement."""
    value = b"%06d" % number + b"." * VALUE_BYTES
    data = [PartitionProduceData(index=0, records=build_batch([Record(0, int(time.time() * 1000), None, value, ())]))]
    began = time.monotonic()
    answer = client.call(
        ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="large", partition_data=data)]), 12
    )
    assert answer.responses[0].partition_responses[0].error_code == 0
    return time.monotonic() - began


def numbers(records: bytes) -> list[int]:
    found, position = [], 0
    while position < len(records):
        view = BatchView(memoryview(records)[position:])
        found += [int((record.value or b"")[:6]) for record in view.records()]
        position += view.size
    return found


def test_stalled_readers_cost_the_node_little_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with Node() as node:
        client = RawClient(node.port)
        client.call(CreateTopicsRequest(topics=[CreatableTopic(name="large", num_partitions=1, replication_factor=1)]))
        for number in range(RECORDS):
            append(client, number)
        before = own_memory(node.pid)
        wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)]
        readers = [RawClient(node.port) for _ in range(READERS)]
        for reader in readers:
            reader.send(
                FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="large", partitions=wanted)]), 12
            )
        time.sleep(1)
        grown = own_memory(node.pid) - before
        slowest = max(append(client, RECORDS + number) for number in range(5))
        for reader in readers[1:]:
            partition = reader.receive().responses[0].partitions[0]
            assert numbers(bytes(partition.records)) == list(range(RECORDS))
            reader.close()
        readers[0].close()  # One reader disconnects without having read.
        client.close()
        node.stop()
        with capsys.disabled():
            print(
                f"\n{READERS} readers that wait with {RECORDS} MB each: {grown / MIB:.0f} MiB; "
                f"an append of 1 MB meanwhile takes {slowest * 1e3:.0f} ms at the most"
            )
        assert grown < READERS * MEMORY_PER_READER
        assert slowest < 5
        assert "Traceback" not in node.log
