"""Ask a node what it still has: every record of a topic, the offsets of a group, the ACLs."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
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
from tests.interop.raw_client import RawClient

__all__ = ["Found", "NodeClient"]


class Found(NamedTuple):
    """``values`` by offset; ``errors`` by the offset that was refused; ``wrong`` counts batches that fail their CRC."""

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

    def create_topics(self, names: list[str], configs: dict[str, str]) -> None:
        made = [
            CreatableTopic(
                name=name, num_partitions=1, replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name in names
        ]  # fmt: skip
        response = self._client.call(CreateTopicsRequest(topics=made, timeout_ms=20_000), 7)
        bad = [(topic.name, topic.error_message) for topic in response.topics if topic.error_code]
        assert not bad, bad

    def topic_id(self, name: str) -> Uuid | None:
        if name not in self._ids:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            (topic,) = self._client.call(request, 12).topics
            if topic.error_code:
                return None
            self._ids[name] = topic.topic_id
        return self._ids[name]

    def produce(self, name: str, value: bytes) -> None:
        batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
        data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])]
        for _ in range(100):
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
            code = self._client.call(request, 9).responses[0].partition_responses[0].error_code
            if not code:
                return
            time.sleep(0.1)
        raise AssertionError(f"{name} takes no record: {ErrorCode(code).name}")

    def end_offset(self, name: str) -> int | str:
        wanted = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        answer = self._client.call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics[0].partitions[0]
        return ErrorCode(answer.error_code).name if answer.error_code else int(answer.offset)

    def read(self, name: str, count: int) -> Found:
        """Read as a consumer does that steps over what it is refused, up to ``count`` records or the end."""
        found = Found({}, {}, 0)
        topic_id = self.topic_id(name)
        if topic_id is None:
            return found._replace(errors=dict.fromkeys(range(count), "UNKNOWN_TOPIC"))
        offset = wrong = retries = 0
        while offset < count:
            error, records = self._fetch(topic_id, offset)
            if error in ("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID") and retries < 30:
                retries += 1
                time.sleep(0.1)
                continue
            if error:
                found.errors[offset] = error
                offset += 1
                continue
            if not records:
                break
            offset, bad = self._take(records, offset, found.values)
            wrong += bad
        return found._replace(wrong=wrong)

    def _take(self, records: Any, offset: int, values: dict[int, bytes]) -> tuple[int, int]:
        try:
            for view in iter_batches(records):
                try:
                    view.ensure_valid()
                except Exception:
                    return max(view.next_offset, offset + 1), 1
                for record in view.records():
                    if record.offset >= offset:
                        values[record.offset] = bytes(record.value or b"")
                offset = max(view.next_offset, offset)
        except Exception:  # What is no batch at all: a client can't go on by itself.
            return offset + 1, 1
        return offset, 0

    def _fetch(self, topic_id: Uuid, offset: int) -> tuple[str, Any]:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
        )
        response = self._client.call(request, 13)
        answer = response.responses[0].partitions[0]
        return (ErrorCode(answer.error_code).name if answer.error_code else ""), answer.records

    def create_acls(self) -> None:
        def acl(principal: str, permission: int) -> AclCreation:
            return AclCreation(
                resource_type=2, resource_name="kept", resource_pattern_type=3, principal=principal, host="*",
                operation=3, permission_type=permission,
            )  # fmt: skip

        request = CreateAclsRequest(creations=[acl("User:alice", 3), acl("User:mallory", 2)])
        assert not any(result.error_code for result in self._client.call(request, 3).results)

    def acls(self) -> set[tuple[str, int]] | str:
        request = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        for _ in range(50):
            response = self._client.call(request, 3)
            if not response.error_code:
                return {(acl.principal, acl.permission_type) for each in response.resources for acl in each.acls}
            time.sleep(0.1)
        return ErrorCode(response.error_code).name

    def commit(self, group: str, topic: str, offset: int) -> None:
        for _ in range(200):
            found = self._client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
            if not found.coordinators[0].error_code:
                partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                request = OffsetCommitRequest(
                    group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
                )
                answer = self._client.call(request, 8).topics[0].partitions[0]
                if not answer.error_code:
                    return
            time.sleep(0.1)
        raise AssertionError("no offset could be committed")

    def committed(self, group: str, topic: str) -> int | str:
        request = OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=False
        )
        for _ in range(50):
            response = self._client.call(request, 7)
            if not response.error_code:
                partition = response.topics[0].partitions[0]
                return ErrorCode(partition.error_code).name if partition.error_code else int(partition.committed_offset)
            time.sleep(0.1)
        return ErrorCode(response.error_code).name
