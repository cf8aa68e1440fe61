"""Drives a GroupCoordinator as threads of streams applications would, with topics and controlled time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import AnyGroupRecord, KeyedRecord, decode_record
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.streams.heartbeat import DecidedHeartbeat
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.protocol.messages.streams_group_describe import DescribedGroup
from barnabas.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.coordinator.cluster_metadata import ClusterMetadata
from tests.unit.coordinator.group_driver import GROUP, GroupDriver
from tests.unit.coordinator.memory_log import MemoryTopic

__all__ = ["INTERVAL_MS", "WORDS", "StreamsGroupDriver", "StreamsThread", "streams_config", "word_count"]

INTERVAL_MS = 1_000
"""The time between two computations of a group's target."""
WORDS = "words"
"""The source topic of ``word_count``."""
Tasks = dict[str, set[int]]


def streams_config(**settings: Any) -> GroupCoordinatorConfig:
    """Return settings without an initial delay."""
    return GroupCoordinatorConfig(
        **{"offsets_topic_num_partitions": 1, "group_streams_initial_rebalance_delay_ms": 0, **settings}
    )


def word_count(epoch: int = 0) -> Topology:
    """A subtopology reads words and writes them by key; another one counts them in a store."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[WORDS], repartition_sink_topics=["by-word"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="by-word")],
                state_changelog_topics=[TopicInfo(name="counts")],
            ),
        ],
    )


class StreamsGroupDriver(GroupDriver):
    def __init__(
        self,
        config: GroupCoordinatorConfig | None = None,
        topic: MemoryTopic | None = None,
        metadata: ClusterMetadata | None = None,
    ) -> None:
        self.metadata = metadata or ClusterMetadata()
        super().__init__(config or streams_config(), topic, self.metadata.view)
        self.metadata.coordinators = [self.coordinator]

    def restarted(self) -> StreamsGroupDriver:
        """Return another coordinator that has read the same log."""
        self.topic.auto_commit = True
        successor = StreamsGroupDriver(self.coordinator.config, self.topic, self.metadata)
        successor.now_ms = self.now_ms
        successor.load(leader_epoch=1)
        return successor

    def heartbeat_of_streams(
        self, request: StreamsGroupHeartbeatRequest, *, client: str = "client"
    ) -> Deferred[DecidedHeartbeat]:
        context = GroupRequestContext(0, client, "/127.0.0.1")
        return self.coordinator.streams.heartbeat(context, request, self.now_ms)

    def describe_streams(self, group: str = GROUP) -> DescribedGroup:
        return whole(self.coordinator.streams.describe(group))

    def group(self, group_id: str = GROUP) -> StreamsGroup:
        found = self.shard.groups.find(group_id)
        assert isinstance(found, StreamsGroup), f"{group_id} is {found}"
        return found

    def records(self, since: int = 0) -> list[AnyGroupRecord]:
        return [decode_record(key, value) for key, value in self.topic.log(0).records()[since:] if key is not None]

    def record_names(self, since: int = 0) -> list[str]:
        """Return the types of records, with a minus for a tombstone."""
        return [
            ("" if record.value else "-") + type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
            for record in self.records(since)
            if isinstance(record, KeyedRecord)
        ]

    # -- situations

    def create_topics(self, partition_count: int = 3) -> None:
        """Create all topics of ``word_count``."""
        for name in (WORDS, "by-word", "counts"):
            self.metadata.create_topic(name, partition_count)

    def threads(self, count: int, **options: Any) -> list[StreamsThread]:
        """Let threads of as many processes join one after the other, and settle."""
        members = [StreamsThread(self, f"thread-{number}", **options) for number in range(count)]
        for member in members:
            member.join_group()
        self.settle(*members)
        return members

    def settle(self, *members: StreamsThread, rounds: int = 8) -> None:
        """Let all heartbeat until nobody's tasks change, as time passes."""
        for _ in range(rounds):
            self.advance(INTERVAL_MS)
            before = [(member.epoch, dict(member.active), dict(member.standby)) for member in members]
            for member in members:
                member.beat()
            if before == [(member.epoch, member.active, member.standby) for member in members]:
                break


class StreamsThread:
    """A member. It gives up tasks as soon as it is told."""

    def __init__(
        self,
        driver: StreamsGroupDriver,
        member_id: str,
        *,
        process: str | None = None,
        topology: Topology | None = None,
        group: str = GROUP,
        rebalance_ms: int = 30_000,
        endpoint: tuple[str, int] | None = None,
    ) -> None:
        self.driver = driver
        self.member_id = member_id
        self.process = process or f"process of {member_id}"
        self.topology = topology or word_count()
        self.group = group
        self.rebalance_ms = rebalance_ms
        self.endpoint = endpoint
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}
        self.to_create: list[str] = []

    @property
    def statuses(self) -> dict[int, str]:
        """Those of the last answer, by code."""
        return {status.status_code: status.status_detail for status in self.response.status or ()}

    def request(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            **{"endpoint_information_epoch": self.endpoint_epoch, **fields},
        )

    def join_request(self, **fields: Any) -> StreamsGroupHeartbeatRequest:
        joins = {
            "rebalance_timeout_ms": self.rebalance_ms,
            "process_id": self.process,
            "topology": self.topology,
            "client_tags": [],
            "user_endpoint": self.endpoint and Endpoint(host=self.endpoint[0], port=self.endpoint[1]),
        }
        return self.request(0, **_owned({}, {}), **{**joins, **fields})

    def join_group(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        return self.send(self.join_request(**fields))

    def beat(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Report what it owns; give up what its assignment lacks, and report that with the next heartbeat."""
        return self.send(self.request(self.epoch, **_owned(self.active, self.standby), **fields))

    def leave(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        self.active, self.standby = {}, {}
        return self.send(self.request(-1, **fields))

    def send(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        return self.received(self.driver.heartbeat_of_streams(request).value)

    def received(self, decided: DecidedHeartbeat) -> StreamsGroupHeartbeatResponse:
        response = self.response = decided.response
        self.to_create = list(decided.topics_to_create)
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.active, self.standby = 0, {}, {}
        if response.error_code != ErrorCode.NONE:
            return response
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None:
            self.active = _tasks(response.active_tasks)
            self.standby = _tasks(response.standby_tasks or [])
        return response


def _owned(active: Mapping[str, set[int]], standby: Mapping[str, set[int]]) -> dict[str, list[TaskIds]]:
    return {"active_tasks": _task_ids(active), "standby_tasks": _task_ids(standby), "warmup_tasks": []}


def _task_ids(tasks: Mapping[str, set[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(partitions)) for name, partitions in tasks.items()]


def _tasks(task_ids: list[TaskIds]) -> Tasks:
    return {ids.subtopology_id: set(ids.partitions) for ids in task_ids}
