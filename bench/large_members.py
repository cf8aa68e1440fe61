"""Members of large groups: each kind joins, heartbeats and leaves as its clients do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.share.state_calls import DecidedHeartbeat
from barnabas.protocol.messages import consumer_group_heartbeat as consumer
from barnabas.protocol.messages import share_group_heartbeat as share
from barnabas.protocol.messages import streams_group_heartbeat as streams
from bench.large_coordinator import GROUP, LargeCoordinator

__all__ = ["ConsumerMember", "Member", "ShareMember", "StreamsMember"]

_LEAVE_EPOCH = -1
_REBALANCE_TIMEOUT_MS = 300_000


class Member(ABC):
    def __init__(self, number: int) -> None:
        self.member_id = f"member-{number:05}"
        self.epoch = 0

    @abstractmethod
    def request(self, topics: list[str], *, joins: bool) -> Any: ...

    @abstractmethod
    def leaving(self) -> Any: ...

    @abstractmethod
    def ask(self, large: LargeCoordinator, request: Any) -> Any:
        """Return the response."""

    @abstractmethod
    def receive(self, response: Any) -> bool:
        """Return whether something has changed for the member."""

    def send(self, large: LargeCoordinator, *, joins: bool = False) -> bool:
        """Return whether something has changed for the member."""
        request = self.request(large.topics, joins=joins)
        while True:
            response = self.ask(large, request)
            if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            large.advance(100)  # Its topics are being read.
        assert response.error_code == ErrorCode.NONE, response
        has_changed = response.member_epoch != self.epoch
        self.epoch = response.member_epoch
        return self.receive(response) or has_changed

    def leave(self, large: LargeCoordinator) -> None:
        assert self.ask(large, self.leaving()).error_code == ErrorCode.NONE


class ConsumerMember(Member):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.owned: dict[Uuid, list[int]] = {}

    def request(self, topics: list[str], *, joins: bool) -> consumer.ConsumerGroupHeartbeatRequest:
        request = consumer.ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=0 if joins else self.epoch
        )
        request.topic_partitions = [
            consumer.TopicPartitions(topic_id=topic_id, partitions=of_topic)
            for topic_id, of_topic in self.owned.items()
        ]
        if joins:
            request.rebalance_timeout_ms, request.subscribed_topic_names = _REBALANCE_TIMEOUT_MS, topics
        return request

    def leaving(self) -> consumer.ConsumerGroupHeartbeatRequest:
        return consumer.ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
        )

    def ask(
        self, large: LargeCoordinator, request: consumer.ConsumerGroupHeartbeatRequest
    ) -> consumer.ConsumerGroupHeartbeatResponse:
        coordinator, context = large.coordinator, large.context(1)
        return large.answered(lambda: coordinator.consumer_group_heartbeat(context, request, _no_match, large.now_ms))

    def receive(self, response: consumer.ConsumerGroupHeartbeatResponse) -> bool:
        if response.assignment is None:
            return False
        self.owned = {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}
        return True


class ShareMember(Member):
    def request(self, topics: list[str], *, joins: bool) -> share.ShareGroupHeartbeatRequest:
        request = share.ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=0 if joins else self.epoch
        )
        if joins:
            request.subscribed_topic_names = topics
        return request

    def leaving(self) -> share.ShareGroupHeartbeatRequest:
        return share.ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVE_EPOCH)

    def ask(
        self, large: LargeCoordinator, request: share.ShareGroupHeartbeatRequest
    ) -> share.ShareGroupHeartbeatResponse:
        requests, context = large.coordinator.share, large.context(1)
        decided: DecidedHeartbeat = large.answered(lambda: requests.heartbeat(context, request, large.now_ms))
        wanted = decided.initialize
        if wanted is not None:  # The persister initializes the states at once.
            large.answered(lambda: requests.states_initialized(GROUP, wanted.partitions, large.now_ms))
        return decided.response

    def receive(self, response: share.ShareGroupHeartbeatResponse) -> bool:
        return response.assignment is not None


class StreamsMember(Member):
    """A thread of a process of its own. It has the active tasks that it was told."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.endpoint_epoch = 0
        self.active: list[streams.TaskIds] = []

    def request(self, topics: list[str], *, joins: bool) -> streams.StreamsGroupHeartbeatRequest:
        request = streams.StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=0 if joins else self.epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            active_tasks=self.active,
            standby_tasks=[],
            warmup_tasks=[],
        )
        if joins:
            request.rebalance_timeout_ms = _REBALANCE_TIMEOUT_MS
            request.process_id = f"process of {self.member_id}"
            request.client_tags = []
            request.topology = streams.Topology(
                subtopologies=[
                    streams.Subtopology(subtopology_id=str(number), source_topics=[topic])
                    for number, topic in enumerate(topics)
                ]
            )
        return request

    def leaving(self) -> streams.StreamsGroupHeartbeatRequest:
        return streams.StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVE_EPOCH)

    def ask(
        self, large: LargeCoordinator, request: streams.StreamsGroupHeartbeatRequest
    ) -> streams.StreamsGroupHeartbeatResponse:
        requests, context = large.coordinator.streams, large.context(0)
        return large.answered(lambda: requests.heartbeat(context, request, large.now_ms)).response

    def receive(self, response: streams.StreamsGroupHeartbeatResponse) -> bool:
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is None:
            return False
        self.active = response.active_tasks
        return True


def _no_match(group_id: str, patterns: frozenset[str]) -> None:
    raise AssertionError("the members have no regular expressions")
