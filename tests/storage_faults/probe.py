"""Read from a node what it still has: every record of a topic, the offsets of a group, the ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.schema import Message, Request
from tests.interop.raw_client import RawClient

__all__ = ["Found", "NodeClient"]

_TRANSIENT = ("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID", "FENCED_LEADER_EPOCH")


class Found(NamedTuple):
    """The view of a consumer that reads only committed records.

    ``values`` by offset; ``errors`` by the refused offset; ``wrong`` counts batches that fail their CRC.
    """

    values: dict[int, bytes]
    errors: dict[int, str]
    wrong: int


class NodeClient:
    def __init__(self, port: int) -> None:
        self._port = port
        self._client = RawClient(port, timeout_s=20)
        self._ids: dict[str, Uuid] = {}

    def close(self) -> None:
        self._client.close()

    def create_topics(self, names: Sequence[str], configs: dict[str, str], brokers: Sequence[int] = ()) -> None:
        """Create topics with a partition on this broker, or on the given ones, the preferred leader first."""
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))] if brokers else []
        made = [
            CreatableTopic(
                name=name, num_partitions=-1 if brokers else 1, replication_factor=-1 if brokers else 1,
                assignments=assignments,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name in names
        ]  # fmt: skip
        response = self._client.call(CreateTopicsRequest(topics=made, timeout_ms=20_000), 7)
        bad = [(topic.name, topic.error_message) for topic in response.topics if topic.error_code]
        assert not bad, bad

    def partitions(self, names: Sequence[str]) -> dict[str, tuple[int, frozenset[int]]]:
        """Return leader and ISR of the first partition of each topic; topics with an error are omitted."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        response = self._client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        return {
            topic.name: (topic.partitions[0].leader_id, frozenset(topic.partitions[0].isr_nodes))
            for topic in response.topics
            if not topic.error_code and topic.partitions
        }

    def delete_topics(self, names: Sequence[str]) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=20_000)
        bad = [topic.name for topic in self._client.call(request, 6).responses if topic.error_code]
        assert not bad, bad

    def elect_preferred(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        self._client.call(request, 2)

    def topic_id(self, name: str) -> Uuid | None:
        if name not in self._ids:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            (topic,) = self._client.call(request, 12).topics
            if topic.error_code:
                return None
            self._ids[name] = topic.topic_id
        return self._ids[name]

    def try_produce(self, names: Sequence[str], values: Sequence[bytes]) -> dict[str, tuple[ErrorCode, int]]:
        """Produce one record to each topic in one request. Return the error and the offset of each."""
        data = []
        for name, value in zip(names, values, strict=True):
            batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
            data.append(TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)]))
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
        answered = {topic.name: topic.partition_responses[0] for topic in self._client.call(request, 9).responses}
        return {name: (ErrorCode(answer.error_code), int(answer.base_offset)) for name, answer in answered.items()}

    def produce(self, names: Sequence[str], values: Sequence[bytes]) -> None:
        """Repeat ``try_produce`` until each topic has accepted its record."""
        wanted = dict(zip(names, values, strict=True))
        for _ in range(200):
            answers = self.try_produce(list(wanted), list(wanted.values()))
            wanted = {name: value for name, value in wanted.items() if answers[name][0]}
            if not wanted:
                return
            time.sleep(0.1)
        raise AssertionError(f"some topics accept no record: {answers}")

    def read(self, name: str, count: int) -> Found:
        """Read as a consumer that skips refused offsets, up to ``count`` records or the end."""
        found = Found({}, {}, 0)
        topic_id = self.topic_id(name)
        if topic_id is None:
            return found._replace(errors=dict.fromkeys(range(count), "UNKNOWN_TOPIC"))
        offset = wrong = retries = 0
        while offset < count:
            error, answer = self._fetch(topic_id, offset)
            if error in _TRANSIENT and retries < 30:
                retries += 1
                time.sleep(0.1)
                continue
            if error:
                found.errors[offset] = error
                offset += 1
                continue
            if not answer.records:
                break
            offset, bad = self._take(answer, offset, found.values)
            wrong += bad
        return found._replace(wrong=wrong)

    def _take(self, answer: Any, offset: int, values: dict[int, bytes]) -> tuple[int, int]:
        aborted = sorted(
            (transaction.first_offset, transaction.producer_id) for transaction in answer.aborted_transactions or ()
        )
        hidden: set[int] = set()
        try:
            for view in iter_batches(answer.records):
                try:
                    view.ensure_valid()
                except Exception:
                    return max(view.next_offset, offset + 1), 1
                while aborted and aborted[0][0] <= view.last_offset:
                    hidden.add(aborted.pop(0)[1])
                if view.is_control:
                    hidden.discard(view.producer_id)
                elif not (view.is_transactional and view.producer_id in hidden):
                    for record in view.records():
                        if record.offset >= offset:
                            values[record.offset] = bytes(record.value or b"")
                offset = max(view.next_offset, offset)
        except Exception:  # The bytes are not a batch: a client can't continue without a seek.
            return offset + 1, 1
        return offset, 0

    def _fetch(self, topic_id: Uuid, offset: int) -> tuple[str, Any]:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, isolation_level=1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        )  # fmt: skip
        response = self._client.call(request, 13)
        if response.error_code:
            return ErrorCode(response.error_code).name, None
        answer = response.responses[0].partitions[0]
        return (ErrorCode(answer.error_code).name if answer.error_code else ""), answer

    def create_acls(self, rules: Iterable[tuple[str, int]]) -> None:
        """Create ACLs, each for a principal and a permission type."""

        def acl(principal: str, permission: int) -> AclCreation:
            return AclCreation(
                resource_type=2, resource_name="kept", resource_pattern_type=3, principal=principal, host="*",
                operation=3, permission_type=permission,
            )  # fmt: skip

        request = CreateAclsRequest(creations=[acl(principal, permission) for principal, permission in rules])
        bad = [result.error_message for result in self._client.call(request, 3).results if result.error_code]
        assert not bad, bad

    def acls(self) -> set[tuple[str, int]] | str:
        request = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        for _ in range(50):
            response = self._client.call(request, 3)
            if not response.error_code:
                return {
                    (acl.principal, acl.permission_type) for resource in response.resources for acl in resource.acls
                }
            time.sleep(0.1)
        return ErrorCode(response.error_code).name

    def commit(self, group: str, topic: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        )
        for _ in range(300):
            answer = self._ask_coordinator(group, request, 8)
            if answer is not None and not answer.topics[0].partitions[0].error_code:
                return
            time.sleep(0.1)
        raise AssertionError("no offset could be committed")

    def committed(self, group: str, topic: str) -> int | str:
        request = OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=False
        )
        error = "COORDINATOR_NOT_AVAILABLE"
        for _ in range(100):
            answer = self._ask_coordinator(group, request, 7)
            if answer is not None:
                partition = None if answer.error_code else answer.topics[0].partitions[0]
                if partition is not None and not partition.error_code:
                    return int(partition.committed_offset)
                error = ErrorCode(answer.error_code if partition is None else partition.error_code).name
            time.sleep(0.1)
        return error

    def _ask_coordinator(self, group: str, request: Request[Message], version: int) -> Any:
        """Return None while the group has no reachable coordinator."""
        found = self._client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators[0]
        if found.error_code:
            return None
        try:
            client = RawClient(found.port, timeout_s=20)
        except OSError:
            return None
        try:
            return client.call(request, version)
        except OSError:
            return None
        finally:
            client.close()
