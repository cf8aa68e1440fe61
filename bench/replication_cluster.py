"""One controller and three brokers of either side, and what is asked of them as a client would."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from bench.quorum_cluster import broker_of, quorum_of
from tests.interop.raw_client import RawClient
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import Quorum, wait_until

__all__ = ["BROKERS", "ReplicatedCluster", "running_cluster"]

BROKERS = (1, 2, 3)
_OF_CONTROLLERS = {
    "broker.session.timeout.ms": "3000",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}
"""A broker that was killed is missed after three seconds, on both sides."""
_OF_BROKERS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1073741824",
}
_METADATA_VERSION = 12
_PRODUCE_VERSION = 9
_ANSWER_S = 60
_PREFERRED = 0
_WRITTEN_AT_ONCE = 250
_NOBODY = -1


class ReplicatedCluster:
    def __init__(self, quorum: Quorum, brokers: dict[int, RealBroker | OurBroker]) -> None:
        self._quorum = quorum
        self.brokers = brokers

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def create(self, name: str, assignments: Sequence[Sequence[int]]) -> None:
        """One partition for each list of brokers, the first of which leads."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(assignments)
            ],
        )
        (result,) = self.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics
        if result.error_code:
            raise AssertionError(f"{name}: {ErrorCode(result.error_code).name} {result.error_message}")
        self.wait_until_in_sync(name, len(assignments[0]))

    def ask(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        client = RawClient(self.brokers[broker_id].port, timeout_s=_ANSWER_S)
        try:
            return client.call(request, version)
        finally:
            client.close()

    def partitions(self, name: str, asked: int) -> list[Any]:
        """Return them as in a broker's Metadata."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (topic,) = self.ask(asked, request, _METADATA_VERSION).topics
        return list(topic.partitions)

    def wait_until_in_sync(self, name: str, replicas: int) -> None:
        def is_in_sync() -> bool:
            found = self.partitions(name, 1)
            return bool(found) and all(each.leader_id >= 0 and len(each.isr_nodes) == replicas for each in found)

        wait_until(is_in_sync, what=f"that all replicas of {name} are in sync", timeout_s=120)

    def prefer_first_leaders(self, name: str) -> None:
        partitions = [each.partition_index for each in self.partitions(name, 1)]
        topics = [TopicPartitions(topic=name, partitions=partitions)]
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=topics, timeout_ms=60_000)
        self.ask(2, request)
        wait_until(
            lambda: all(each.leader_id == 1 for each in self.partitions(name, 2)),
            what="preferred leaders",
            timeout_s=60,
        )

    def write_to_all(self, name: str, asked: int, *, without: int = _NOBODY) -> None:
        """A record to each partition with acks=all, again and again to those that refuse it, until all have one.

        ``without``: the broker that will stop; it receives no records.
        """
        waiting = {each.partition_index for each in self.partitions(name, asked)}
        while waiting:
            leaders: dict[int, list[int]] = {}
            for each in self.partitions(name, asked):
                if each.partition_index in waiting and each.leader_id not in (_NOBODY, without):
                    leaders.setdefault(each.leader_id, []).append(each.partition_index)
            for leader, partitions in leaders.items():
                for start in range(0, len(partitions), _WRITTEN_AT_ONCE):
                    waiting -= self._write(name, leader, partitions[start : start + _WRITTEN_AT_ONCE])
            if waiting:
                time.sleep(0.02)

    def _write(self, name: str, leader: int, partitions: Sequence[int]) -> set[int]:
        batch = RecordBatchBuilder()
        batch.append(0, int(time.time() * 1000), None, b"after")
        data = [PartitionProduceData(index=index, records=batch.build()) for index in partitions]
        topics = [TopicProduceData(name=name, partition_data=data)]
        answer = self.ask(leader, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), _PRODUCE_VERSION)
        return {each.index for each in answer.responses[0].partition_responses if each.error_code == ErrorCode.NONE}


@contextmanager
def running_cluster(side: str, folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[ReplicatedCluster]:
    """Run it during a ``with`` block. ``settings`` are further ones of the brokers."""
    quorum = quorum_of(side, folder, 1, _OF_CONTROLLERS)
    brokers: dict[int, RealBroker | OurBroker] = {}
    try:
        quorum.start()
        for broker_id in BROKERS:
            own = folder / f"broker-{broker_id}"
            all_settings = {**_OF_BROKERS, "log.dirs": str(own / "data"), **(settings or {})}
            brokers[broker_id] = broker_of(side, own, quorum, broker_id, all_settings)
            brokers[broker_id].start()
        yield ReplicatedCluster(quorum, brokers)
    finally:
        for broker in brokers.values():
            broker.kill()
        quorum.kill()
