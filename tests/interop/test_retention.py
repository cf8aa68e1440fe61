"""Retention by time and by size on real segments of a running node, and settings that change while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.raw_client import RawClient

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

MIB = 1024 * 1024
VALUE_BYTES = 100_000
IN_A_SEGMENT = MIB // VALUE_BYTES
SET, DELETE = 0, 1
EARLIEST, LATEST = -2, -1


class Cluster:
    """A node that checks its logs five times a second, and a connection to it."""

    def __init__(self) -> None:
        self.node = Node(settings={"log.retention.check.interval.ms": "200", "log.segment.delete.delay.ms": "100"})
        self.node.start()
        self._client = RawClient(self.node.port)

    def restart(self) -> None:
        self._client.close()
        self.node.stop()
        self.node.start()
        self._client = RawClient(self.node.port)

    def close(self) -> None:
        self._client.close()
        self.node.stop()
        assert "Traceback" not in self.node.log_path.read_text()

    def create(self, topic: str, **configs: str) -> None:
        wanted = {"segment_bytes": str(MIB), **configs}
        answer = self._client.call(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic,
                        num_partitions=1,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=name.replace("_", "."), value=value)
                            for name, value in wanted.items()
                        ],
                    )
                ]
            )
        )
        assert answer.topics[0].error_code == 0, answer

    def alter(self, topic: str, *changes: tuple[str, int, str | None]) -> None:
        configs = [AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in changes]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
        answer = self._client.call(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0, answer

    def append(self, topic: str, *numbers: int) -> int:
        """Produce one batch with one record for each number; return the error code of the last."""
        code = 0
        for number in numbers:
            value = b"%06d" % number + b"." * VALUE_BYTES
            batch = build_batch([Record(0, int(time.time() * 1000), None, value, ())])
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
            answer = self._client.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 12)
            code = answer.responses[0].partition_responses[0].error_code
        return code

    def offset(self, topic: str, which: int) -> int:
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=which)]
        answer = self._client.call(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]), 7
        )
        found: int = answer.topics[0].partitions[0].offset
        return found

    def fetch_error(self, topic: str, offset: int) -> int:
        wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
        answer = self._client.call(FetchRequest(topics=[FetchTopic(topic=topic, partitions=wanted)]), 12)
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def files(self, topic: str) -> list[str]:
        return sorted(path.name for path in (self.node.broker.folder / "data" / f"{topic}-0").iterdir())

    def segments(self, topic: str) -> list[int]:
        return [int(name.partition(".")[0]) for name in self.files(topic) if name.endswith(".log")]

    def consume(self, topic: str) -> list[tuple[int, int]]:
        """Return (offset, number) of every record that a new consumer reads."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.node.bootstrap_servers,
                "group.id": "retention",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[int, int]] = []
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF"
                break
            found.append((message.offset(), int(message.value()[:6])))
        consumer.close()
        return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def wait_until(what: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def files_are_deleted(cluster: Cluster, topic: str, start: int) -> bool:
    """Return whether all files of segments before ``start`` are deleted, including those that wait for their
    deletion."""
    names = [name for name in cluster.files(topic) if name[:20].isdigit() and not name.endswith(".snapshot")]
    return all(int(name[:20]) >= start and not name.endswith(".deleted") for name in names)


def test_records_beyond_retention_bytes_are_deleted(cluster: Cluster) -> None:
    cluster.create("sized", retention_bytes=str(3 * MIB))
    cluster.append("sized", *range(8 * IN_A_SEGMENT))
    wait_until(lambda: len(cluster.segments("sized")) <= 4 and cluster.offset("sized", EARLIEST) > 0)
    start = cluster.offset("sized", EARLIEST)
    wait_until(lambda: files_are_deleted(cluster, "sized", start))
    assert cluster.segments("sized")[0] == start
    assert cluster.offset("sized", LATEST) == 8 * IN_A_SEGMENT
    kept = sum(path.stat().st_size for path in (cluster.node.broker.folder / "data" / "sized-0").glob("*.log"))
    assert 3 * MIB <= kept < 4 * MIB
    assert cluster.consume("sized") == [(number, number) for number in range(start, 8 * IN_A_SEGMENT)]
    assert cluster.fetch_error("sized", start - 1) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.fetch_error("sized", start) == 0
    cluster.restart()
    assert cluster.offset("sized", EARLIEST) == start
    assert cluster.consume("sized")[0] == (start, start)


def test_records_older_than_retention_ms_are_deleted(cluster: Cluster) -> None:
    count = 3 * IN_A_SEGMENT
    cluster.create("timed", retention_ms="1500")
    cluster.append("timed", *range(count))
    assert cluster.offset("timed", LATEST) == count
    wait_until(lambda: cluster.offset("timed", EARLIEST) == count)
    wait_until(lambda: files_are_deleted(cluster, "timed", count))
    assert cluster.segments("timed") == [count]
    assert cluster.consume("timed") == []
    # The log continues at its end offset.
    cluster.alter("timed", ("retention.ms", SET, "600000"))
    assert cluster.append("timed", 777) == 0
    assert cluster.consume("timed") == [(count, 777)]
    cluster.restart()
    assert cluster.offset("timed", EARLIEST) == count
    assert cluster.consume("timed") == [(count, 777)]


def test_retention_changes_while_the_node_runs(cluster: Cluster) -> None:
    count = 6 * IN_A_SEGMENT
    cluster.create("changed", retention_bytes="-1", retention_ms="-1")
    cluster.append("changed", *range(count))
    time.sleep(0.6)  # The time of three retention checks.
    assert cluster.offset("changed", EARLIEST) == 0
    cluster.alter("changed", ("retention.bytes", SET, str(2 * MIB)))
    wait_until(lambda: cluster.offset("changed", EARLIEST) >= 3 * IN_A_SEGMENT)
    start = cluster.offset("changed", EARLIEST)
    cluster.alter("changed", ("retention.bytes", DELETE, None))
    cluster.append("changed", *range(count, 2 * count))
    time.sleep(0.6)
    assert cluster.offset("changed", EARLIEST) == start
    cluster.alter("changed", ("retention.ms", SET, "1"))
    wait_until(lambda: cluster.offset("changed", EARLIEST) == 2 * count)


def test_the_policy_and_the_limits_change_while_the_node_runs(cluster: Cluster) -> None:
    cluster.create("policy", cleanup_policy="compact", retention_ms="1")
    cluster.create("limits", segment_bytes=str(16 * MIB))
    cluster.append("limits", *range(3 * IN_A_SEGMENT))
    assert cluster.segments("limits") == [0]
    cluster.alter("limits", ("segment.bytes", SET, str(MIB)))
    cluster.append("limits", *range(2 * IN_A_SEGMENT + 1))
    assert len(cluster.segments("limits")) >= 3
    cluster.alter("limits", ("max.message.bytes", SET, "1000"))
    assert cluster.append("limits", 0) == ErrorCode.MESSAGE_TOO_LARGE
    cluster.alter("limits", ("max.message.bytes", DELETE, None))
    assert cluster.append("limits", 0) == 0

    # A compacted topic rejects records without a key; with the delete policy it accepts them, and deletes them.
    assert cluster.append("policy", 1) == ErrorCode.INVALID_RECORD
    cluster.alter("policy", ("cleanup.policy", SET, "delete"))
    assert cluster.append("policy", 1) == 0
    wait_until(lambda: cluster.offset("policy", EARLIEST) == 1)
