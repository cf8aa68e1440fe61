"""A replica whose log is damaged: the damage is found at start or on a read, the replica is copied again, and it is
never elected meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.history.log_files import read_batches
from tests.interop.raw_client import RawClient
from tests.peers.quorums import ControllerNode, OurBroker, OurController, RealController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

COUNT = 40
DAMAGED = 17
CONTROLLERS = [
    pytest.param(OurController, id="our-controller"),
    pytest.param(RealController, id="kafkas-controller", marks=pytest.mark.long),
]


class Three:
    """Three brokers of ours and a partition with a replica on each; broker 1 is the preferred leader."""

    def __init__(self, folder: Path, brokers: dict[int, OurBroker]) -> None:
        self.folder = folder
        self.brokers = brokers
        self.topic_id = Uuid.ZERO

    @contextmanager
    def client(self, number: int) -> Iterator[RawClient]:
        client = RawClient(self.brokers[number].port)
        try:
            yield client
        finally:
            client.close()

    def create(self) -> None:
        topic = CreatableTopic(
            name="three",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])],
        )
        with self.client(2) as client:
            response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        self.topic_id = response.topics[0].topic_id
        self.until(lambda: self.isr() == [1, 2, 3], "all in sync")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(holds, what=what, timeout_s=60)

    def partition(self) -> MetadataResponsePartition:
        with self.client(2) as client:
            request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=Uuid.ZERO, name="three")])
            partition: MetadataResponsePartition = client.call(request, 12).topics[0].partitions[0]
            return partition

    def isr(self) -> list[int]:
        return sorted(self.partition().isr_nodes)

    def leader(self) -> int:
        return self.partition().leader_id

    def produce(self, count: int) -> None:
        with self.client(self.leader()) as client:
            for number in range(count):
                batch = build_batch([Record(0, int(time.time() * 1000), None, b"value %d" % number)])
                data = TopicProduceData(name="three", partition_data=[PartitionProduceData(index=0, records=batch)])
                response = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
                assert response.responses[0].partition_responses[0].error_code == 0

    def fetch(self, offset: int) -> tuple[ErrorCode, int]:
        """Fetch from the leader. Return the error and the number of bytes."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=self.topic_id, partitions=[wanted])]
        with self.client(self.leader()) as client:
            answer = client.call(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics), 13)
        data = answer.responses[0].partitions[0]
        return ErrorCode(data.error_code), len(data.records or b"")

    def lead_by_the_first(self) -> None:
        request = ElectLeadersRequest(
            election_type=0, topic_partitions=[TopicPartitions(topic="three", partitions=[0])], timeout_ms=5_000
        )
        with self.client(2) as client:
            client.call(request, 2)
        self.until(lambda: self.leader() == 1, "the preferred leader leads")

    def log_file(self, number: int) -> Path:
        return self.brokers[number].folder / "data" / "three-0" / "00000000000000000000.log"

    def flip(self, number: int) -> None:
        path = self.log_file(number)
        content = bytearray(path.read_bytes())
        position = 0
        for _ in range(DAMAGED):
            position += int.from_bytes(content[position + 8 : position + 12], "big") + 12
        content[position + 65] ^= 4
        path.write_bytes(content)

    def batches(self, number: int) -> dict[int, bytes]:
        return read_batches(self.log_file(number).parent)


@contextmanager
def running_three(folder: Path, controller: type[ControllerNode]) -> Iterator[Three]:
    with running_quorum(folder, [controller]) as quorum:
        brokers = {
            number: OurBroker(
                folder / f"broker-{number}", quorum, node_id=number, settings={"controlled.shutdown.enable": "true"}
            )
            for number in (1, 2, 3)
        }
        try:
            for broker in brokers.values():
                broker.start()
            three = Three(folder, brokers)
            three.create()
            yield three
        finally:
            for broker in brokers.values():
                broker.kill()


@pytest.mark.parametrize("is_found_at_start", [True, False], ids=["found-at-start", "found-by-a-reader"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_damaged_replica_gives_up_leadership_and_copies_lost_records(
    tmp_path: Path, controller: type[ControllerNode], is_found_at_start: bool
) -> None:
    with running_three(tmp_path, controller) as three:
        three.produce(COUNT)
        if is_found_at_start:
            three.brokers[1].kill()
        else:
            three.brokers[1].stop()
        three.flip(1)
        three.brokers[1].start()
        three.until(lambda: three.isr() == [1, 2, 3], "all in sync again")
        if not is_found_at_start:
            three.lead_by_the_first()
            assert three.fetch(DAMAGED)[0] in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            three.until(lambda: three.leader() in (2, 3), "another replica leads")
            three.until(lambda: three.fetch(DAMAGED)[1] > 0, "the record can be read")
            three.until(lambda: three.isr() == [1, 2, 3], "all in sync again")
        printed = three.brokers[1].printed()
        assert f"{three.log_file(1)} is damaged at position" in printed
        assert f"is truncated at offset {DAMAGED}, where it is damaged" in printed
        assert "Traceback" not in printed
        three.until(lambda: three.batches(1) == three.batches(2), "the replicas are equal")
        assert len(three.batches(1)) == COUNT
        assert list(three.log_file(1).parent.glob("*.damaged"))
