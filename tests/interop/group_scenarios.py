"""Conversations with a group coordinator that run against any node; the answers are made comparable.

A scenario is a function of a ``Conversation``. It shows every answer under a label; ids that a node generates are
replaced by their order of appearance, so that the outputs of two nodes can be compared line by line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.interop.raw_client import RawClient

TOPIC = "group-story"
SESSION_MS = 10_000
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OF_THE_NODE = ("nodeId", "host", "port", "throttleTimeMs")


def versions(key: ApiKey) -> range:
    return range(API_TABLE[key].lowest, API_TABLE[key].highest + 1)


class Conversation:
    """One scenario run against one node. ``open`` returns more connections, for clients that wait."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[RawClient] = []
        self._names: dict[str, str] = {}
        self.story: list[tuple[str, Any]] = []
        self.client = self.open()
        self.topic_id = self._ensure_topic(TOPIC)

    def open(self, client_id: str | None = "raw") -> RawClient:
        client = RawClient(self._port, client_id=client_id)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def show(self, label: str, response: Any, version: int) -> Any:
        self.story.append((f"{label} v{version}", self._comparable(response.to_json(version))))
        return response

    def note(self, label: str, value: object) -> None:
        self.story.append((label, value))

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._comparable(part) for key, part in value.items() if key not in _OF_THE_NODE}
        if isinstance(value, list):  # Kafka's order is that of its hash maps.
            return sorted((self._comparable(part) for part in value), key=repr)
        if isinstance(value, str):
            if value == str(self.topic_id):
                return "<topic id>"
            return _MADE_UP.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names)}>"), value)
        return value

    def _ensure_topic(self, name: str) -> Uuid:
        self.topic_id = Uuid.ZERO
        self.client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)])
        )
        deadline = time.monotonic() + 10
        while True:
            (topic,) = self.client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics
            if topic.error_code == 0 and len(topic.partitions) == 2:
                topic_id: Uuid = topic.topic_id
                return topic_id
            assert time.monotonic() < deadline, f"{name} did not appear"
            time.sleep(0.05)

    def find_coordinator(self, group: str) -> None:
        deadline = time.monotonic() + 20
        request = FindCoordinatorRequest(coordinator_keys=[group])
        while self.client.call(request).coordinators[0].error_code != 0:
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.1)
        while self.client.call(DescribeGroupsRequest(groups=[group])).groups[0].error_code in (14, 15, 16):
            assert time.monotonic() < deadline, "the coordinator does not load"
            time.sleep(0.1)

    def stable(self, group: str, **options: Any) -> tuple[str, int]:
        """A group of one member, Stable."""
        member = self.client.call(join(group, **options), 9).member_id
        self._comparable(member)  # Ids are named in the order of their creation.
        joined = self.client.call(join(group, member, **options), 9)
        self.client.call(sync(group, member, joined.generation_id, {member: b"all"}), 5)
        return member, joined.generation_id


def subscription(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


def join(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: dict[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = 60_000,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in ({"range": subscription(TOPIC)} if protocols is None else protocols).items()
        ],
    )


def sync(
    group: str,
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=other, assignment=assignment)
            for other, assignment in (assignments or {}).items()
        ],
    )


def heartbeat(group: str, member_id: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members],
    )


def commit(
    group: str,
    offset: int = 5,
    *,
    topic: str = TOPIC,
    topic_id: Uuid = Uuid.ZERO,
    partitions: tuple[int, ...] = (0,),
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index in partitions
                ],
            )
        ],
    )


def fetch(group: str, version: int, topics: dict[str, list[int]] | None, topic_id: Uuid) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest(
            group_id=group,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        )
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestTopics(
                        name=name,
                        topic_id=topic_id if name == TOPIC else Uuid.from_int(12345),
                        partition_indexes=indexes,
                    )
                    for name, indexes in topics.items()
                ],
            )
        ]
    )


def delete_offsets(group: str, topic: str = TOPIC, *partitions: int) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
        ],
    )


# -- the scenarios


def find_coordinator(talk: Conversation) -> None:
    talk.find_coordinator("found")
    for version in versions(ApiKey.FIND_COORDINATOR):
        keys = ["found", "another"] if version >= 4 else []
        request = FindCoordinatorRequest(key="" if keys else "found", coordinator_keys=keys)
        talk.show("group", talk.client.call(request, version), version)
    empty = FindCoordinatorRequest(coordinator_keys=[""])
    talk.show("empty group id", talk.client.call(empty, 6), 6)
    none = FindCoordinatorRequest(coordinator_keys=[])
    talk.show("no keys", talk.client.call(none, 6), 6)


def join_in_every_version(talk: Conversation) -> None:
    for version in versions(ApiKey.JOIN_GROUP):
        group = f"join-{version}"
        talk.find_coordinator(group)
        first = talk.show("join", talk.client.call(join(group), version), version)
        if first.error_code:
            first = talk.show("join again", talk.client.call(join(group, first.member_id), version), version)
        member = first.member_id
        sync_version = min(version, 5)
        talk.show("sync", talk.client.call(sync(group, member, 1, {member: b"a"}), sync_version), sync_version)
        talk.show("same join", talk.client.call(join(group, member), version), version)


def join_errors(talk: Conversation) -> None:
    group = "join-errors"
    talk.find_coordinator(group)
    for version in (0, 4, 6, 7, 9):
        for label, request in (
            ("empty group id", join("")),
            ("short session", join(group, session_ms=5_999)),
            ("long session", join(group, session_ms=1_800_001)),
            ("unknown member of unknown group", join("nowhere", "stranger")),
            ("no protocols", join("nobody", protocols={})),
            ("no protocol type", join("nobody", protocol_type="")),
        ):
            talk.show(label, talk.client.call(request, version), version)
    talk.stable(group)
    for version in (0, 4, 6, 7, 9):
        for label, request in (
            ("unknown member", join(group, "stranger")),
            ("other type", join(group, protocol_type="connect")),
            ("other protocol", join(group, protocols={"sticky": b""})),
            ("no protocols", join(group, protocols={})),
        ):
            talk.show(label, talk.client.call(request, version), version)
    for label, request in (
        ("unknown instance", join(group, "stranger", instance="i")),
        ("pending member turns static", join(group, talk.client.call(join(group), 9).member_id, instance="i")),
    ):
        talk.show(label, talk.client.call(request, 9), 9)


def in_every_state(talk: Conversation) -> None:
    """Send each request, from the member and from a stranger, in each state."""
    for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"):
        group = f"in-{state}"
        talk.find_coordinator(group)
        if state == "CompletingRebalance":
            member = talk.client.call(join(group), 9).member_id
            generation = talk.client.call(join(group, member), 9).generation_id
        else:
            member, generation = talk.stable(group)
        if state == "Empty":
            talk.client.call(leave(group, (member, None)), 5)
        if state == "PreparingRebalance":
            other = talk.open()
            joining = other.call(join(group), 9).member_id
            other.send(join(group, joining), 9)
            time.sleep(0.3)
        _ask_everything(talk, group, state, member, generation)


def _ask_everything(talk: Conversation, group: str, state: str, member: str, generation: int) -> None:
    client = talk.client
    talk.show(f"{state} describe", client.call(DescribeGroupsRequest(groups=[group]), 6), 6)
    for who, member_id, number in (
        ("stranger", "stranger", generation),
        ("older generation", member, generation - 1),
        ("member", member, generation),
    ):
        label = f"{state} {who}"
        for version in versions(ApiKey.HEARTBEAT):
            talk.show(f"{label} heartbeat", client.call(heartbeat(group, member_id, number), version), version)
        for version in versions(ApiKey.OFFSET_COMMIT):
            request = commit(group, member_id=member_id, generation=number, topic_id=talk.topic_id)
            talk.show(f"{label} commit", client.call(request, version), version)
        if who != "member" or state != "CompletingRebalance":
            for version in versions(ApiKey.SYNC_GROUP):
                talk.show(f"{label} sync", client.call(sync(group, member_id, number), version), version)
    other_name = sync(group, member, generation, protocol_name="sticky")
    talk.show(f"{state} sync other protocol", client.call(other_name, 5), 5)
    talk.show(f"{state} sync without protocol", client.call(sync(group, member, generation, protocol_name=None), 5), 5)
    talk.show(f"{state} unknown instance", client.call(heartbeat(group, member, generation, "i-0"), 4), 4)
    anonymous = commit(group, topic_id=talk.topic_id)
    talk.show(f"{state} commit without member", client.call(anonymous, 10), 10)
    talk.show(f"{state} commit with member id only", client.call(commit(group, member_id=member), 9), 9)
    talk.show(f"{state} delete offsets", client.call(delete_offsets(group, TOPIC, 0, 1)), 0)
    talk.show(f"{state} delete group", client.call(DeleteGroupsRequest(groups_names=[group]), 2), 2)
    for version in (0, 3, 5):
        leaving = leave(group, ("stranger", None), ("", "nobody"))
        if version < 3:
            leaving = LeaveGroupRequest(group_id=group, member_id="stranger")
        talk.show(f"{state} stranger leaves", client.call(leaving, version), version)


def static_members(talk: Conversation) -> None:
    group = "static"
    client = talk.client
    talk.find_coordinator(group)
    first = talk.show("join", client.call(join(group, instance="i-1"), 9), 9)
    old = first.member_id
    talk.show("sync", client.call(sync(group, old, 1, {old: b"one"}, instance="i-1"), 5), 5)
    for version in (5, 8, 9):
        back = talk.show("rejoin", client.call(join(group, instance="i-1"), version), version)
        talk.show("sync", client.call(sync(group, back.member_id, 1, instance="i-1"), 5), 5)
        talk.show("fenced heartbeat", client.call(heartbeat(group, old, 1, "i-1"), 4), 4)
        talk.show("fenced sync", client.call(sync(group, old, 1, instance="i-1"), 5), 5)
        talk.show("fenced join", client.call(join(group, old, instance="i-1"), version), version)
        talk.show("fenced leave", client.call(leave(group, (old, "i-1")), 5), 5)
        fenced = commit(group, member_id=old, generation=1, instance="i-1")
        talk.show("fenced commit", client.call(fenced, 9), 9)
        talk.show("old id alone", client.call(heartbeat(group, old, 1), 4), 4)
        talk.show("new id alone", client.call(heartbeat(group, back.member_id, 1), 4), 4)
        old = back.member_id
    talk.show("describe", client.call(DescribeGroupsRequest(groups=[group]), 6), 6)
    talk.show("leave by instance", client.call(leave(group, ("", "i-1"), ("", "i-2")), 5), 5)
    talk.show("describe", client.call(DescribeGroupsRequest(groups=[group]), 6), 6)


def leave_in_every_version(talk: Conversation) -> None:
    for version in versions(ApiKey.LEAVE_GROUP):
        group = f"leave-{version}"
        talk.find_coordinator(group)
        member, _ = talk.stable(group)
        request = leave(group, (member, None)) if version >= 3 else LeaveGroupRequest(group_id=group, member_id=member)
        talk.show("leave", talk.client.call(request, version), version)
        talk.show("leave again", talk.client.call(request, version), version)
        request.group_id = ""
        talk.show("no group id", talk.client.call(request, version), version)
        request.group_id = "nowhere"
        talk.show("unknown group", talk.client.call(request, version), version)


def offset_commits(talk: Conversation) -> None:
    client = talk.client
    talk.find_coordinator("commits")
    talk.find_coordinator("")
    for version in versions(ApiKey.OFFSET_COMMIT):
        group = f"commits-{version}"
        known, unknown = talk.topic_id, Uuid.from_int(4711)
        for label, request in (
            ("simple", commit(group, topic_id=known)),
            ("one of two partitions", commit(group, topic_id=known, partitions=(0, 7))),
            ("unknown partition", commit(group, topic_id=known, partitions=(7,))),
            ("unknown topic", commit(group, topic="no-such-topic", topic_id=unknown)),
            ("large metadata", commit(group, topic_id=known, metadata="x" * 4097)),
            ("null metadata", commit(group, topic_id=known, metadata=None)),
            ("empty group id", commit("", topic_id=known)),
            ("unknown group with generation", commit("nowhere", topic_id=known, generation=3, member_id="m")),
            ("unknown group with member", commit("nowhere-2", topic_id=known, member_id="m")),
            ("negative offset", commit(group, -5, topic_id=known)),
        ):
            talk.show(label, client.call(request, version), version)
    no_topics = OffsetCommitRequest(group_id="commits")
    talk.show("no topics", client.call(no_topics, 9), 9)


def offset_fetches(talk: Conversation) -> None:
    client = talk.client
    for group in ("fetches", "never-seen"):
        talk.find_coordinator(group)
    client.call(commit("fetches", 11, topic_id=talk.topic_id, metadata="a note"), 10)
    for version in versions(ApiKey.OFFSET_FETCH):
        for group in ("fetches", "never-seen", ""):
            for label, topics in (
                ("named", {TOPIC: [0, 1, 9]}),
                ("unknown topic", {"no-such-topic": [0]}),
                ("both", {TOPIC: [0], "no-such-topic": [0]}),
                ("none", {}),
                *((("all", None),) if version >= 2 else ()),
            ):
                request = fetch(group, version, topics, talk.topic_id)
                talk.show(f"{group} {label}", client.call(request, version), version)
    both = fetch("fetches", 10, None, talk.topic_id)
    both.groups += fetch("never-seen", 10, {TOPIC: [0]}, talk.topic_id).groups
    talk.show("two groups", client.call(both, 10), 10)


def offset_deletes(talk: Conversation) -> None:
    client = talk.client
    for group in ("deletes", "reading", "connected", ""):
        talk.find_coordinator(group)
    client.call(commit("deletes", 11, topic_id=talk.topic_id), 10)
    for label, request in (
        ("unknown topic of empty group id", delete_offsets("", "no-such-topic", 0)),
        ("unknown group", delete_offsets("nowhere", TOPIC, 0)),
        ("empty group id", delete_offsets("", TOPIC, 0)),
        ("unknown topic", delete_offsets("deletes", "no-such-topic", 0)),
        ("unknown topic of unknown group", delete_offsets("nowhere", "no-such-topic", 0)),
        ("unknown partition", delete_offsets("deletes", TOPIC, 9)),
        ("never committed", delete_offsets("deletes", TOPIC, 1)),
        ("committed", delete_offsets("deletes", TOPIC, 0)),
        ("no topics", OffsetDeleteRequest(group_id="deletes")),
        ("no topics of unknown group", OffsetDeleteRequest(group_id="nowhere")),
    ):
        talk.show(label, client.call(request), 0)
    talk.show("after", client.call(fetch("deletes", 9, None, talk.topic_id), 9), 9)
    member, generation = talk.stable("reading")
    client.call(commit("reading", member_id=member, generation=generation, topic_id=talk.topic_id), 10)
    talk.show("subscribed", client.call(delete_offsets("reading", TOPIC, 0)), 0)
    member = client.call(join("connected", protocol_type="connect"), 9).member_id
    client.call(join("connected", member, protocol_type="connect"), 9)
    talk.show("other protocol type", client.call(delete_offsets("connected", TOPIC, 0)), 0)


_FILTERS: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    (["stable"], []),
    (["Empty", "DEAD"], []),
    (["nonsense"], []),
    ([], ["Classic"]),
    ([], ["consumer"]),
    ([], ["nonsense"]),
    (["Stable"], ["classic", "consumer"]),
)


def groups_listed_and_described(talk: Conversation) -> None:
    client = talk.client
    names = ["listed-simple", "listed-stable", "listed-empty"]
    for name in names:
        talk.find_coordinator(name)
    client.call(commit("listed-simple", topic_id=talk.topic_id), 10)
    talk.stable("listed-stable")
    member, _ = talk.stable("listed-empty")
    client.call(leave("listed-empty", (member, None)), 5)
    for version in versions(ApiKey.LIST_GROUPS):
        for states, types in _FILTERS:
            if (states and version < 4) or (types and version < 5):
                continue
            response = client.call(ListGroupsRequest(states_filter=states, types_filter=types), version)
            response.groups = sorted(
                (group for group in response.groups if group.group_id in names), key=lambda group: str(group.group_id)
            )
            talk.show(f"list {states} {types}", response, version)
    for version in versions(ApiKey.DESCRIBE_GROUPS):
        request = DescribeGroupsRequest(groups=[*names, "nowhere", ""], include_authorized_operations=version >= 3)
        talk.show("describe", client.call(request, version), version)
    for version in versions(ApiKey.DELETE_GROUPS):
        deleted = client.call(DeleteGroupsRequest(groups_names=["listed-stable", "nowhere", ""]), version)
        deleted.results.sort(key=lambda result: str(result.group_id))
        talk.show("delete", deleted, version)
    twice = client.call(DeleteGroupsRequest(groups_names=["listed-simple", "listed-empty", "listed-simple"]), 2)
    twice.results.sort(key=lambda result: str(result.group_id))
    talk.show("delete twice", twice, 2)


def two_members(talk: Conversation) -> None:
    """Show a rebalance as two clients see it."""
    group = "pair"
    client, other = talk.client, talk.open()
    talk.find_coordinator(group)
    protocols = {"range": subscription(TOPIC), "roundrobin": subscription(TOPIC)}
    leader = client.call(join(group, protocols=protocols), 9).member_id
    joined = talk.show("leader", client.call(join(group, leader, protocols=protocols), 9), 9)
    client.call(sync(group, leader, joined.generation_id, {leader: b"1"}), 5)
    reversed_protocols = dict(reversed(protocols.items()))
    follower = other.call(join(group, protocols=reversed_protocols), 9).member_id
    other.send(join(group, follower, protocols=reversed_protocols), 9)
    deadline = time.monotonic() + 10
    while client.call(heartbeat(group, leader, joined.generation_id), 4).error_code != 27:
        assert time.monotonic() < deadline, "no rebalance"
        time.sleep(0.02)
    again = talk.show("leader", client.call(join(group, leader, protocols=protocols), 9), 9)
    talk.show("follower", other.receive(), 9)
    name = again.protocol_name
    other.send(sync(group, follower, again.generation_id, protocol_name=name), 5)
    time.sleep(0.2)
    request = sync(group, leader, again.generation_id, {leader: b"1", follower: b"2"}, protocol_name=name)
    talk.show("leader syncs", client.call(request, 5), 5)
    talk.show("follower syncs", other.receive(), 5)
    talk.show("describe", client.call(DescribeGroupsRequest(groups=[group]), 6), 6)
    talk.show("follower leaves", other.call(leave(group, (follower, None)), 5), 5)
    talk.show("heartbeat", client.call(heartbeat(group, leader, again.generation_id), 4), 4)
    last = talk.show("leader alone", client.call(join(group, leader, protocols=protocols), 9), 9)
    talk.note("generation", last.generation_id)


def a_topic_is_deleted(talk: Conversation) -> None:
    """Deleting a group deletes its committed offsets."""
    client = talk.client
    kept = talk.topic_id
    gone = talk._ensure_topic("group-story-gone")
    talk.topic_id = kept
    talk.find_coordinator("bereft")
    client.call(commit("bereft", 1, topic_id=kept), 10)
    client.call(commit("bereft", 2, topic="group-story-gone", topic_id=gone), 10)
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="group-story-gone")], timeout_ms=10_000))
    deadline = time.monotonic() + 10
    while len(client.call(fetch("bereft", 9, None, kept), 9).groups[0].topics) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    talk.show("after", client.call(fetch("bereft", 9, None, kept), 9), 9)


def a_client_without_a_name(talk: Conversation) -> None:
    talk.find_coordinator("nameless")
    client = talk.open(None)
    member = talk.show("join", client.call(join("nameless"), 9), 9).member_id
    talk.show("join again", client.call(join("nameless", member), 9), 9)
    talk.show("sync", client.call(sync("nameless", member, 1, {member: b"a"}), 5), 5)
    talk.show("describe", client.call(DescribeGroupsRequest(groups=["nameless"]), 6), 6)


def time_passes(talk: Conversation) -> None:
    """Sessions expire, and members that do not join or sync in time are removed."""
    client, late = talk.client, talk.open()
    for group in ("silent", "pending", "unsynced", "unjoined", "static-silent"):
        talk.find_coordinator(group)
    silent, generation = talk.stable("silent", session_ms=6_000)
    static = client.call(join("static-silent", instance="i", session_ms=6_000), 9).member_id
    client.call(sync("static-silent", static, 1, {static: b"a"}, instance="i"), 5)
    pending = client.call(join("pending", session_ms=6_000), 9).member_id
    unsynced = client.call(join("unsynced", session_ms=60_000, rebalance_ms=2_000), 9).member_id
    client.call(join("unsynced", unsynced, session_ms=60_000, rebalance_ms=2_000), 9)
    first, _ = talk.stable("unjoined", session_ms=60_000, rebalance_ms=2_000)
    second = late.call(join("unjoined", session_ms=60_000, rebalance_ms=2_000), 9).member_id
    late.send(join("unjoined", second, session_ms=60_000, rebalance_ms=2_000), 9)
    time.sleep(3.5)
    talk.show("joined without the first", late.receive(), 9)
    talk.show("first was removed", client.call(heartbeat("unjoined", first, 1), 4), 4)
    talk.show("unsynced was removed", client.call(heartbeat("unsynced", unsynced, 1), 4), 4)
    talk.show("unsynced", client.call(DescribeGroupsRequest(groups=["unsynced"]), 6), 6)
    talk.show("silent is still there", client.call(DescribeGroupsRequest(groups=["silent"]), 6), 6)
    time.sleep(4)
    talk.show("silent was removed", client.call(heartbeat("silent", silent, generation), 4), 4)
    talk.show("static was removed", client.call(heartbeat("static-silent", static, 1, "i"), 4), 4)
    talk.show("pending was forgotten", client.call(join("pending", pending), 9), 9)
    for group in ("silent", "pending", "static-silent"):
        talk.show(f"{group} afterwards", client.call(DescribeGroupsRequest(groups=[group]), 6), 6)


SCENARIOS: dict[str, Callable[[Conversation], None]] = {
    scenario.__name__: scenario
    for scenario in (
        find_coordinator,
        join_in_every_version,
        join_errors,
        in_every_state,
        static_members,
        leave_in_every_version,
        offset_commits,
        offset_fetches,
        offset_deletes,
        groups_listed_and_described,
        two_members,
        a_topic_is_deleted,
        a_client_without_a_name,
        time_passes,
    )
}


def story_of(port: int, scenario: str) -> list[tuple[str, Any]]:
    talk = Conversation(port)
    try:
        SCENARIOS[scenario](talk)
        return talk.story
    finally:
        talk.close()
