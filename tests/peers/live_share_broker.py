"""A broker of either kind, over the network, for the walk of ``share_requests``."""

from __future__ import annotations

import time
from typing import Any

from barnabas.broker.share.share_session import FINAL_EPOCH
from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.schema import Message
from tests.interop.raw_client import RawClient
from tests.peers.share_requests import CONFIGS, GROUP, TOPICS

__all__ = ["LiveShareBroker"]


class LiveShareBroker:
    """The topics and the group are created; a member of it has its state initialized."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client = RawClient(port)
        self._connections: dict[str, RawClient] = {}
        creatable = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()
        ]
        created = self._client.call(CreateTopicsRequest(topics=creatable), 7)
        self._ids = {topic.name: topic.topic_id for topic in created.topics}
        for name, value in CONFIGS.items():
            self._configure(name, value)
        self._join()

    def _configure(self, name: str, value: str) -> None:
        resource = AlterConfigsResource(
            resource_type=int(ConfigResourceType.GROUP),
            resource_name=GROUP,
            configs=[AlterableConfig(name=name, config_operation=0, value=value)],
        )
        answer = self._client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer

    def _join(self) -> None:
        """Wait until the state of the share-partitions is initialized: only then are they assigned."""
        epoch, deadline = 0, time.monotonic() + 60
        while time.monotonic() < deadline:
            if epoch == 0:
                self._client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
            request = ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="11111111-1111-1111-1111-111111111111",
                member_epoch=epoch,
                subscribed_topic_names=list(TOPICS) if epoch == 0 else None,
            )
            answer = self._client.call(request, 1)
            if answer.error_code == 0:
                epoch = answer.member_epoch
                assigned = answer.assignment.topic_partitions if answer.assignment else []
                if sum(len(topic.partitions) for topic in assigned) == sum(TOPICS.values()):
                    return
            time.sleep(0.2)
        raise AssertionError("the group was not assigned its partitions")

    def topic_id(self, name: str) -> Uuid:
        return self._ids[name]

    def produce(self, topic: str, partition: int, count: int) -> None:
        batch = build_batch([Record(number, int(time.time() * 1000), None, b"x" * 100, ()) for number in range(count)])
        data = [PartitionProduceData(index=partition, records=batch)]
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        answer = self._client.call(request, 12)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def delete_topic(self, name: str) -> None:
        state = DeleteTopicState(topic_id=self._ids[name])
        answer = self._client.call(DeleteTopicsRequest(topics=[state], timeout_ms=5000), 6)
        assert answer.responses[0].error_code == 0
        time.sleep(2)

    def ask(self, member_id: str, request: Message, version: int) -> Any:
        if member_id not in self._connections:
            self._connections[member_id] = RawClient(self._port)
        client: Any = self._connections[member_id]
        answer = client.call(request, version)
        if getattr(request, "share_session_epoch", 0) == FINAL_EPOCH:
            time.sleep(0.3)  # Brokers answer before the records are released.
        return answer

    def close(self) -> None:
        for client in (self._client, *self._connections.values()):
            client.close()

    def disconnect(self, member_id: str) -> None:
        self._connections.pop(member_id).close()
        time.sleep(1)
