"""Open files stay bounded: many more partitions than descriptors, all of them written and read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient
from tests.peers.command_node import CommandNode

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PARTITIONS = 3000
DESCRIPTORS = 256
AT_ONCE = 500


class NodeWithFewDescriptors(CommandNode):
    def command(self) -> list[str]:
        return ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$0" "$@"', *super().command()]

    def open_descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def produce(client: RawClient, topic_id: Uuid, partitions: list[int], turn: int) -> None:
    data = [
        PartitionProduceData(
            index=partition,
            records=build_batch([Record(0, int(time.time() * 1000), None, b"%d in turn %d" % (partition, turn), ())]),
        )
        for partition in partitions
    ]
    answer = client.call(
        ProduceRequest(
            acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=data)]
        )
    )
    answers = answer.responses[0].partition_responses
    assert [(response.index, response.error_code, response.base_offset) for response in answers] == [
        (partition, 0, turn) for partition in partitions
    ]


def fetch(client: RawClient, topic_id: Uuid, partitions: list[int], turn: int) -> None:
    wanted = [FetchPartition(partition=p, fetch_offset=turn, partition_max_bytes=10_000) for p in partitions]
    answer = client.call(
        FetchRequest(min_bytes=1, max_wait_ms=0, topics=[FetchTopic(topic_id=topic_id, partitions=wanted)]), 17
    )
    found = {
        response.partition_index: [record.value for record in BatchView(bytes(response.records)).records()]
        for response in answer.responses[0].partitions
    }
    assert found == {partition: [b"%d in turn %d" % (partition, turn)] for partition in partitions}


def test_3000_partitions_are_served_with_256_descriptors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = NodeWithFewDescriptors(tmp_path)
    node.start()
    client = RawClient(node.port, timeout_s=60)
    client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=60_000
        )
    )
    topic_id = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="many")]), 12).topics[0].topic_id
    chunks = [list(range(start, start + AT_ONCE)) for start in range(0, PARTITIONS, AT_ONCE)]
    counts = []
    for turn in range(2):
        for work in (produce, fetch):
            for chunk in chunks:
                work(client, topic_id, chunk, turn)
                counts.append(node.open_descriptors())

    # Each of these takes a descriptor; in the end more are requested than are available.
    held = [RawClient(node.port) for _ in range(50)]
    for connection in held:
        assert connection.call(MetadataRequest(topics=[]), 12).controller_id == 1
    held += [RawClient(node.port) for _ in range(DESCRIPTORS)]
    time.sleep(0.3)
    produce(client, topic_id, chunks[0], 2)
    fetch(client, topic_id, chunks[-1], 1)
    counts.append(node.open_descriptors())
    for connection in held:
        connection.close()
    deadline = time.monotonic() + 10
    while node.open_descriptors() > DESCRIPTORS * 3 // 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    late = RawClient(node.port)
    assert late.call(MetadataRequest(topics=[]), 12).controller_id == 1
    late.close()
    client.close()
    assert node.stop() == 0

    node.start()
    client = RawClient(node.port, timeout_s=60)
    for chunk in chunks:
        fetch(client, topic_id, chunk, 1)
        counts.append(node.open_descriptors())
    client.close()
    assert node.stop() == 0
    with capsys.disabled():
        print(f"\n{PARTITIONS} partitions with records: at most {max(counts)} of {DESCRIPTORS} descriptors were open")
    assert max(counts) <= DESCRIPTORS
