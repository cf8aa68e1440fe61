"""Requests of followers, producers and consumers to the leader of replicated partitions, and its answers.

The leader is a freshly formatted combined node of Kafka's or ours with id 1, whose sessions are long. Brokers 5 and 6,
its followers, exist only here: they have no log, and report any state that the story needs.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient
from tests.peers.membership_story import registration

__all__ = ["SETTINGS", "LeaderStory"]

SETTINGS = {
    "broker.session.timeout.ms": "600000",
    "replica.lag.time.max.ms": "600000",
    "offsets.commit.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
}
FAR = 2**40
TOPIC = "orders"
OFFSETS = "__consumer_offsets"
NOW = 1_750_000_000_000
LEADER, FIRST, SECOND = 1, 5, 6


class LeaderStory:
    """``answers`` by step, in order, without values that differ from run to run."""

    def __init__(self, broker_port: int, controller_port: int, cluster_id: str) -> None:
        self.answers: dict[str, Any] = {}
        self._port = broker_port
        self._cluster_id = cluster_id
        self._controller = RawClient(controller_port)
        self._client = RawClient(broker_port)
        self._followers = {broker_id: RawClient(broker_port) for broker_id in (FIRST, SECOND, 9)}
        self._epochs = {9: 7}
        for broker_id in (FIRST, SECOND):
            self._join(broker_id)
        self._session_id = 0
        self._topic_ids: dict[str, Uuid] = {}
        self._create(TOPIC, LEADER, FIRST, SECOND)

    def run(self) -> dict[str, Any]:
        for part in (self._append, self._copy, self._be_wrong, self._old_versions, self._look, self._session,
                     self._wait, self._delete, self._fall_behind, self._coordinate):  # fmt: skip
            part()
        return self.answers

    def close(self) -> None:
        for client in (self._controller, self._client, *self._followers.values()):
            client.close()

    # --- the parts

    def _append(self) -> None:
        self.step("acks=1", lambda: self.produce(3))
        self.step("consumer before the first commit", lambda: self.consume(0))
        self.step("consumer beyond the high watermark", lambda: self.consume(2))
        self.step("acks=all without a follower's copy", lambda: self.produce(2, acks=-1, timeout_ms=50))

    def _copy(self) -> None:
        self.step("first follower from the beginning", lambda: self.fetch(FIRST, 0))
        self.step("second follower from the beginning", lambda: self.fetch(SECOND, 0))
        self.step("first follower at the end", lambda: self.fetch(FIRST, 5, last_fetched_epoch=0))
        self.step("consumer while one follower is behind", lambda: self.consume(0))
        self.fetch(SECOND, 3, last_fetched_epoch=0)
        self.step("consumer when all have three records", lambda: self.consume(0))
        self.fetch(SECOND, 5, last_fetched_epoch=0)
        self.step("first follower receives the high watermark", lambda: self.fetch(FIRST, 5, last_fetched_epoch=0))
        self.step("a follower in the middle of a batch", lambda: self.fetch(FIRST, 4, last_fetched_epoch=0))
        self.step("a follower with a limit of one byte", lambda: self.fetch(FIRST, 0, partition_max_bytes=1))
        self.step("acks=1 again", lambda: self.produce(1))
        self.step("a follower with a limit of zero bytes", lambda: self.fetch(FIRST, 0, max_bytes=0))
        for broker_id in (FIRST, SECOND):
            self.fetch(broker_id, 6, last_fetched_epoch=0)

    def _be_wrong(self) -> None:
        wrong: dict[str, dict[str, Any]] = {
            "an earlier leader epoch": {"current_leader_epoch": -1},
            "a later leader epoch": {"current_leader_epoch": 7},
            "an offset beyond the end": {"offset": 7},
            "an offset beyond the end and an epoch": {"offset": 7, "last_fetched_epoch": 0},
            "an offset below zero": {"offset": -1},
            "a later last epoch": {"last_fetched_epoch": 4},
            "an earlier broker epoch": {"replica_epoch": 0},
            "a later broker epoch": {"replica_epoch": FAR},
            "no broker epoch": {"replica_epoch": -1},
            "an unknown partition": {"partition": 3},
            "an unknown topic": {"topic_id": Uuid.from_int(999)},
            "another cluster": {"cluster_id": "another"},
        }
        for what, options in wrong.items():
            offset = options.pop("offset", 6)
            self.step(f"a follower with {what}", partial(self.fetch, FIRST, offset, **options))
        self.step("a broker without a replica", lambda: self.fetch(9, 0))
        self.step("a broker without a replica, no epoch", lambda: self.fetch(9, 0, current_leader_epoch=-1))

    def _old_versions(self) -> None:
        for version in (4, 5, 7, 9, 11, 12, 13, 14, 15, 16, 18):
            self.step(f"follower with Fetch v{version}", partial(self.fetch, FIRST, 6, version=version))
            self.step(f"a broker without a replica, Fetch v{version}", partial(self.fetch, 9, 6, version=version))

    def _look(self) -> None:
        for timestamp in (-1, -2, -3, -4, -5, NOW, NOW + 99):
            for replica in (-1, -2, FIRST):
                for epoch in (-1, 0, 1):
                    self.step(
                        f"offset at {timestamp} for {replica}, epoch {epoch}",
                        partial(self.list_offset, timestamp, replica, epoch),
                    )
        for epoch in (-1, 0, 1, 5):
            for current in (-1, 0, 1):
                self.step(
                    f"end of epoch {epoch} with leader epoch {current}",
                    partial(self.end_of_epoch, epoch, current),
                )

    def _session(self) -> None:
        self.step("a session begins", lambda: self.fetch(FIRST, 6, session_epoch=0))
        self.step("nothing new in a session", lambda: self.fetch(FIRST, None, session_epoch=1))
        self.produce(1)
        self.step("data in a session", lambda: self.fetch(FIRST, None, session_epoch=2))
        self.step("the session has the records", lambda: self.fetch(FIRST, 7, session_epoch=3))
        self.fetch(SECOND, 7)
        self.step("a higher high watermark in a session", lambda: self.fetch(FIRST, None, session_epoch=4))
        self.step("nothing new in a session again", lambda: self.fetch(FIRST, None, session_epoch=5))
        self.step("an earlier session epoch", lambda: self.fetch(FIRST, None, session_epoch=5))
        self.step("an unknown session", lambda: self.fetch(FIRST, None, session_epoch=1, session_id=12))
        self.step("an error in a session", lambda: self.fetch(FIRST, 7, session_epoch=6, current_leader_epoch=4))
        self.step("an error continues in a session", lambda: self.fetch(FIRST, None, session_epoch=7))
        self.step("an error in a session has ended", lambda: self.fetch(FIRST, 7, session_epoch=8))

    def _wait(self) -> None:
        self.send_produce(2, acks=-1, timeout_ms=30_000)
        self._settle()
        self.fetch(FIRST, 9)
        self.fetch(SECOND, 9)
        self.step("acks=all with all copies", lambda: self._client.receive())
        self.step("acks=3", lambda: self.produce(1, acks=3))

    def _delete(self) -> None:
        self.step("deleted records that the followers keep", lambda: self.delete_before(5, timeout_ms=50))
        self._client.send(self._deletion(7, 30_000), 2)
        self._settle()
        self.step("a follower whose log starts too early", lambda: self.fetch(FIRST, 0))
        self.fetch(FIRST, 9, log_start_offset=7)
        self.fetch(SECOND, 9, log_start_offset=8)
        self.step("records that all replicas delete", lambda: self._client.receive())
        self.step("deleted records beyond the high watermark", lambda: self.delete_before(10))
        self.step("all that is committed", lambda: self.delete_before(-1, timeout_ms=50))
        self.step("a follower that ends before the log starts", lambda: self.fetch(FIRST, 7, last_fetched_epoch=0))

    def _fall_behind(self) -> None:
        self._create("few", LEADER, FIRST, **{"min.insync.replicas": "2"})
        self._heartbeat(FIRST, want_fence=True)
        self._await_isr("few", [LEADER])
        self.step("acks=all with too few in sync", lambda: self.produce(1, acks=-1, topic="few"))
        self.step("acks=1 with too few in sync", lambda: self.produce(1, acks=1, topic="few"))
        self.step("consumer with too few in sync", lambda: self.consume(0, topic="few"))
        self.fetch(FIRST, 1, topic="few")
        self.step("consumer with too few in sync, all copies written", lambda: self.consume(0, topic="few"))
        self._heartbeat(FIRST, want_fence=False)
        self._await(lambda: self.fetch(FIRST, 1, topic="few") and self._isr("few") == [LEADER, FIRST])
        self.step("consumer with enough in sync", lambda: self.consume(0, topic="few"))

    def _coordinate(self) -> None:
        self._create(OFFSETS, LEADER, FIRST, **{"cleanup.policy": "compact"})
        self._await(lambda: self.fetch_offset().groups[0].error_code == 0)
        self.step("a commit without a follower's copy", lambda: self.commit_offset(5))
        self.step("offsets before the commit", self.fetch_offset)
        self._copy_offsets()
        self.step("a commit that timed out and is copied", self.fetch_offset)
        self._client.send(self._commit(6), 8)
        self._settle()
        self._copy_offsets()
        self.step("a commit that is copied", self._client.receive)
        self.step("offsets that are committed", self.fetch_offset)
        member = self._join_group("")
        self.step("assignments without a follower's copy", lambda: self.sync_group(member))
        self.step("a heartbeat after that", lambda: self.heartbeat(member))
        self._copy_offsets()
        member = self._join_group(member.member_id)
        self._client.send(self._sync(member), 2)
        self._settle()
        self._copy_offsets()
        self.step("assignments that are copied", self._client.receive)
        self.step("a heartbeat with assignments", lambda: self.heartbeat(member))

    def _copy_offsets(self) -> None:
        end = (
            self.list_offset(-1, FIRST, -1, topic=OFFSETS, client=self._followers[FIRST]).topics[0].partitions[0].offset
        )
        self.fetch(FIRST, end, topic=OFFSETS)

    def _join_group(self, member_id: str) -> Any:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="members",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._client.send(request, 3)
        self._settle()
        self._copy_offsets()
        answer = self._client.receive()
        assert answer.error_code == 0, answer
        return answer

    # --- requests

    def commit_offset(self, offset: int) -> Any:
        return self._client.call(self._commit(offset), 8)

    @staticmethod
    def _commit(offset: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        return OffsetCommitRequest(group_id="simple", generation_id_or_member_epoch=-1, topics=[topic])

    def fetch_offset(self) -> Any:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="simple", topics=[topic])])
        return self._client.call(request, 8)

    def sync_group(self, member: Any) -> Any:
        return self._client.call(self._sync(member), 2)

    @staticmethod
    def _sync(member: Any) -> SyncGroupRequest:
        assignment = SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")
        return SyncGroupRequest(
            group_id="members",
            generation_id=member.generation_id,
            member_id=member.member_id,
            assignments=[assignment],
        )

    def heartbeat(self, member: Any) -> Any:
        request = HeartbeatRequest(group_id="members", generation_id=member.generation_id, member_id=member.member_id)
        return self._client.call(request, 3)

    def produce(self, count: int, *, acks: int = 1, timeout_ms: int = 5_000, topic: str = TOPIC) -> Any:
        self.send_produce(count, acks=acks, timeout_ms=timeout_ms, topic=topic)
        return self._client.receive()

    def send_produce(self, count: int, *, acks: int, timeout_ms: int, topic: str = TOPIC) -> None:
        records = build_batch([Record(i, NOW, None, b"value") for i in range(count)])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        self._client.send(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data]), 12)

    def consume(self, offset: int, *, topic: str = TOPIC) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=9_999)
        return self._client.call(FetchRequest(topics=[FetchTopic(topic=topic, partitions=[partition])]), 11)

    def fetch(
        self,
        broker_id: int,
        offset: int | None,
        *,
        version: int = 17,
        topic: str = TOPIC,
        topic_id: Uuid | None = None,
        replica_epoch: int | None = None,
        session_id: int | None = None,
        session_epoch: int = -1,
        max_bytes: int = 99_999,
        cluster_id: str | None = None,
        **fields: Any,
    ) -> Any:
        """``offset`` None names no partition."""
        partition = FetchPartition(
            **{
                "partition": 0,
                "fetch_offset": offset or 0,
                "partition_max_bytes": 9_999,
                "current_leader_epoch": 0,
                "log_start_offset": 0,
                **fields,
            }
        )
        named = FetchTopic(topic=topic, topic_id=topic_id or self._topic_ids[topic], partitions=[partition])
        request = FetchRequest(
            cluster_id=cluster_id,
            max_bytes=max_bytes,
            session_epoch=session_epoch,
            session_id=session_id or (self._session_id if session_epoch > 0 else 0),
            topics=[] if offset is None else [named],
        )
        if version < 15:
            request.replica_id = broker_id
        else:
            epoch = self._epochs[broker_id] if replica_epoch is None else replica_epoch
            request.replica_state = ReplicaState(replica_id=broker_id, replica_epoch=epoch)
        answer = self._followers[broker_id].call(request, version)
        if session_epoch == 0:
            self._session_id = answer.session_id
        return answer

    def list_offset(
        self, timestamp: int, replica_id: int, epoch: int, *, topic: str = TOPIC, client: RawClient | None = None
    ) -> Any:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        )
        return (client or self._client).call(request, 9)

    def end_of_epoch(self, epoch: int, current: int) -> Any:
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        topic = OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])
        return self._client.call(OffsetForLeaderEpochRequest(replica_id=FIRST, topics=[topic]), 4)

    def delete_before(self, offset: int, *, timeout_ms: int = 5_000) -> Any:
        return self._client.call(self._deletion(offset, timeout_ms), 2)

    @staticmethod
    def _deletion(offset: int, timeout_ms: int) -> DeleteRecordsRequest:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        return DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=timeout_ms
        )

    # --- the cluster

    def _join(self, broker_id: int) -> None:
        answer = self._controller.call(registration(self._cluster_id, broker_id), 4)
        assert answer.error_code == 0, answer
        self._epochs[broker_id] = answer.broker_epoch
        self._heartbeat(broker_id, want_fence=False)

    def _heartbeat(self, broker_id: int, *, want_fence: bool) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self._epochs[broker_id],
            current_metadata_offset=FAR,
            want_fence=want_fence,
        )
        self._await(lambda: self._controller.call(request, 1).is_fenced == want_fence)

    def _create(self, topic: str, *replicas: int, **configs: str) -> None:
        creation = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        answer = self._client.call(CreateTopicsRequest(topics=[creation], timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == 0, answer
        self._topic_ids[topic] = answer.topics[0].topic_id
        self._await_isr(topic, list(replicas))

    def _isr(self, topic: str) -> list[int]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        partitions = self._client.call(request, 9).topics[0].partitions
        return sorted(partitions[0].isr_nodes) if partitions else []

    def _await_isr(self, topic: str, members: list[int]) -> None:
        self._await(lambda: self._isr(topic) == members)

    @staticmethod
    def _await(is_true: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 20
        while not is_true():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    @staticmethod
    def _settle() -> None:
        """Requests sent on one connection are processed before those sent on another from now on."""
        time.sleep(0.3)

    # --- recording

    def step(self, name: str, ask: Callable[[], Any]) -> None:
        answer = ask()
        assert name not in self.answers
        self.answers[name] = self._comparable(answer.to_json(answer.MAX_VERSION))

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._field(key, member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._comparable(item) for item in value]
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key == "records":
            return len(base64.b64decode(value or b""))
        if key in ("topicId", "sessionId", "nodeEndpoints") and value:
            return "given"
        return self._comparable(value)
