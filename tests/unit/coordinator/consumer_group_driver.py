"""Drives a GroupCoordinator as consumers of both protocols would, with topics and controlled time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer_protocol import read_assignment
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import AnyGroupRecord, decode_record
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.unit.coordinator.cluster_metadata import ClusterMetadata
from tests.unit.coordinator.group_driver import GROUP, GroupDriver
from tests.unit.coordinator.memory_log import MemoryTopic

__all__ = ["ClassicConsumer", "Consumer", "ConsumerGroupDriver", "Owned"]

Owned = dict[str, set[int]]
"""Partitions by topic."""

CONSUMER_SESSION_MS = 45_000
INTERVAL_MS = 1_000
"""The time between two computations of a group's target."""


class ConsumerGroupDriver(GroupDriver):
    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        topic: MemoryTopic | None = None,
        metadata: ClusterMetadata | None = None,
    ) -> None:
        self.metadata = metadata or ClusterMetadata()
        super().__init__(config, topic, self.metadata.view)
        self.metadata.coordinators = [self.coordinator]
        self.asked_to_match: list[tuple[str, frozenset[str]]] = []
        self.hidden_topics: set[str] = set()
        """Topics that no member may describe."""

    @property
    def config(self) -> GroupCoordinatorConfig:
        return self.coordinator.config

    def restarted(self, config: GroupCoordinatorConfig | None = None) -> ConsumerGroupDriver:
        """Return another coordinator that has read the same log."""
        self.topic.auto_commit = True
        successor = ConsumerGroupDriver(config or self.config, self.topic, self.metadata)
        successor.now_ms = self.now_ms
        successor.load(leader_epoch=1)
        return successor

    # -- requests

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, version: int = 1, client: str = "client"
    ) -> Deferred[ConsumerGroupHeartbeatResponse]:
        context = GroupRequestContext(version, client, "/127.0.0.1")
        return self.coordinator.consumer_group_heartbeat(context, request, self._match_topics, self.now_ms)

    def _match_topics(self, group_id: str, patterns: frozenset[str]) -> None:
        self.asked_to_match.append((group_id, patterns))

    def match(self, *, fails: bool = False) -> None:
        """Finish the matching of regular expressions that members have started."""
        asked, self.asked_to_match = self.asked_to_match, []
        names = set(self.metadata.view.topic_names()) - self.hidden_topics
        for group_id, patterns in asked:
            found = {pattern: frozenset(name for name in names if re.fullmatch(pattern, name)) for pattern in patterns}
            version = self.metadata.image.offset
            self.coordinator.regular_expressions_matched(group_id, None if fails else found, version, self.now_ms)

    def describe_consumers(self, group: str = GROUP) -> DescribedGroup:
        return whole(self.coordinator.describe_consumer_group(group))

    # -- what the coordinator knows

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        found = self.shard.groups.find(group_id)
        assert isinstance(found, ConsumerGroup), f"{group_id} is {found}"
        return found

    def records(self, since: int = 0) -> list[AnyGroupRecord]:
        return [decode_record(key, value) for key, value in self.topic.log(0).records()[since:] if key is not None]

    # -- situations

    def consumers(self, count: int, **options: object) -> list[Consumer]:
        """Let consumers join one after the other, and settle."""
        members = [Consumer(self, f"member-{number}", **options) for number in range(count)]  # type: ignore[arg-type]
        for member in members:
            member.join()
        self.settle(*members)
        return members

    def settle(self, *members: Consumer | ClassicConsumer, rounds: int = 8) -> None:
        """Let all heartbeat until nobody's assignment changes, as time passes."""
        for _ in range(rounds):
            self.advance(INTERVAL_MS)
            before = [(member.epoch, dict(member.owned)) for member in members]
            for member in members:
                member.beat()
            is_due = any(group.assignment_epoch < group.epoch for group in self.shard.consumer)
            if not is_due and before == [(member.epoch, member.owned) for member in members]:
                break

    def owners(self, *members: Consumer | ClassicConsumer) -> dict[tuple[str, int], str]:
        """Return which member owns each partition; two owners of one are an error."""
        found: dict[tuple[str, int], str] = {}
        for member in members:
            for topic, partitions in member.owned.items():
                for partition in partitions:
                    assert (topic, partition) not in found, f"{topic}-{partition} is owned twice"
                    found[topic, partition] = member.member_id
        return found


class Consumer:
    """A member of the consumer protocol. It gives up partitions as soon as it is told."""

    def __init__(
        self,
        driver: ConsumerGroupDriver,
        member_id: str,
        *,
        topics: Iterable[str] = ("orders",),
        regex: str | None = None,
        instance: str | None = None,
        group: str = GROUP,
        rebalance_ms: int = 30_000,
        assignor: str | None = None,
        rack: str | None = None,
    ) -> None:
        self.driver = driver
        self.member_id = member_id
        self.topics: list[str] | None = list(topics)
        self.regex = regex
        self.instance = instance
        self.group = group
        self.rebalance_ms = rebalance_ms
        self.assignor = assignor
        self.rack = rack
        self.epoch = 0
        self.owned: Owned = {}
        self.interval_ms = -1

    def request(
        self, *, epoch: int, is_full: bool = False, owned: Owned | None = None
    ) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        if owned is not None:
            request.topic_partitions = [
                TopicPartitions(topic_id=self.driver.metadata.id_of(topic), partitions=sorted(partitions))
                for topic, partitions in owned.items()
            ]
        if is_full:
            request.rack_id, request.rebalance_timeout_ms = self.rack, self.rebalance_ms
            request.subscribed_topic_names, request.subscribed_topic_regex = self.topics, self.regex
            request.server_assignor = self.assignor
        return request

    def send(self, request: ConsumerGroupHeartbeatRequest) -> Deferred[ConsumerGroupHeartbeatResponse]:
        return self.driver.consumer_heartbeat(request)

    def join(self) -> ConsumerGroupHeartbeatResponse:
        return self.received(self.send(self.request(epoch=0, is_full=True, owned={})).value)

    def beat(self) -> ConsumerGroupHeartbeatResponse:
        """Report what it owns; give up what its assignment lacks, and report that with the next heartbeat. Join again
        after it was fenced."""
        if self.epoch <= 0:
            return self.join()
        return self.received(self.send(self.request(epoch=self.epoch, owned=self.owned)).value)

    def change(self, **changes: object) -> ConsumerGroupHeartbeatResponse:
        """Change its subscription (``topics``, ``regex``, ``assignor``), and tell the coordinator."""
        for name, value in changes.items():
            setattr(self, name, value)
        return self.received(self.send(self.request(epoch=self.epoch, is_full=True, owned=self.owned)).value)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        self.owned = {}
        return self.send(self.request(epoch=epoch)).value

    def received(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, {}
        if response.error_code != ErrorCode.NONE:
            return response
        self.epoch, self.interval_ms = response.member_epoch, response.heartbeat_interval_ms
        if response.assignment is not None:
            self.owned = by_name(self.driver, response.assignment.topic_partitions)
        return response


def by_name(driver: ConsumerGroupDriver, partitions: Iterable[TopicPartitions]) -> Owned:
    """Return the partitions of topics that exist."""
    named = ((driver.metadata.view.name_of(topic.topic_id), topic.partitions) for topic in partitions)
    return {name: set(of_topic) for name, of_topic in named if name is not None}


class ClassicConsumer:
    """A member of the classic protocol with cooperative rebalances, in a consumer group or in a classic one.

    In a classic group it is a follower, or the leader that assigns with ``assign``.
    """

    def __init__(
        self,
        driver: ConsumerGroupDriver,
        *,
        topics: Iterable[str] = ("orders",),
        instance: str | None = None,
        group: str = GROUP,
        protocols: Iterable[str] = ("range",),
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        version: int = 9,
    ) -> None:
        self.driver = driver
        self.topics = list(topics)
        self.instance = instance
        self.group = group
        self.protocols = list(protocols)
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version
        self.member_id = ""
        self.epoch = -1
        self.protocol: str | None = None
        self.owned: Owned = {}
        self.joining: Deferred[JoinGroupResponse] | None = None
        self.led: list[str] = []
        """The member ids of the generation that it leads."""

    def subscription(self) -> bytes:
        owned = [TopicPartition(topic=topic, partitions=sorted(partitions)) for topic, partitions in self.owned.items()]
        data = ConsumerProtocolSubscription(
            topics=self.topics, owned_partitions=owned, generation_id=self.epoch, rack_id=None
        )
        return encode_versioned(data, 3)

    def send_join(self) -> Deferred[JoinGroupResponse]:
        self.joining = self.driver.join(
            self.member_id,
            version=self.version,
            group=self.group,
            instance=self.instance,
            protocols=dict.fromkeys(self.protocols, self.subscription()),
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
        return self.joining

    def join(self) -> int:
        """Join, with an id of the coordinator if it asks for that; return the error code of the answer."""
        response = self.send_join().value
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = self.send_join().value
        return self.joined(response)

    def joined(self, response: JoinGroupResponse) -> int:
        if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.epoch, self.owned = "", -1, {}
        if response.error_code == ErrorCode.NONE:
            self.member_id, self.epoch = response.member_id, response.generation_id
            self.protocol = response.protocol_name
        return response.error_code

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> int:
        answer = self.driver.sync(
            self.member_id,
            self.epoch,
            dict(assignments or {}),
            group=self.group,
            instance=self.instance,
            protocol_name=self.protocol,
        ).value
        if answer.error_code == ErrorCode.NONE:
            assigned = read_assignment(answer.assignment).assigned_partitions if answer.assignment else []
            self.owned = {topic.topic: set(topic.partitions) for topic in assigned}
        return answer.error_code

    def heartbeat(self) -> int:
        return self.driver.heartbeat(self.member_id, self.epoch, group=self.group, instance=self.instance)

    def beat(self) -> int:
        """Heartbeat, and join and sync again if the coordinator says so."""
        code = self.heartbeat()
        if code == ErrorCode.NONE:
            return code
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.epoch, self.owned = "", -1, {}
        return self.join_and_sync()

    def join_and_sync(self) -> int:
        code = self.join()
        return self.sync() if code == ErrorCode.NONE else code

    def leave(self) -> int:
        self.owned = {}
        answer = self.driver.leave((self.member_id, self.instance), group=self.group).value
        return answer.members[0].error_code if answer.members else answer.error_code
