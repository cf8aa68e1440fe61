"""A random walk through the requests of groups that have members of both protocols, drawn from a seed.

What a step sends depends on the node only through its earlier answers. Ids that a node makes are shown by the order in
which they appeared, so two nodes that decide alike tell the same story, and write the same records.

Ids of members and topics that a node makes differ, and with them the order in which Kafka assigns. So the walk uses the
assignor ``range``, which sorts members (made ids begin with the client's id), or ids of its own and one topic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from random import Random
from typing import Any, NamedTuple

from barnabas.common.config_codes import AlterConfigOpType, ConfigResourceType
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group import consumer_protocol
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
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
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.interop.group_records_of import GroupRecords, assignment_shown
from tests.interop.raw_client import RawClient

__all__ = ["WALK_SETTINGS", "Step", "Told", "walk"]

WALK_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.coordinator.append.linger.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignors": "range,uniform",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.assignment.interval.ms": "900000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.max.session.timeout.ms": "900000",
    "group.consumer.session.timeout.ms": "900000",
    "group.max.size": "6",
    "group.consumer.max.size": "7",
}
_LONG_MS = 900_000
_SETTLE_S = 20.0
_PARKED_S = 0.05
"""How long a request that waits for others is given to be answered."""
_UNKNOWN_TOPIC = Uuid.from_int(4242)
_MADE_UP = re.compile(r"(\w+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_JOIN, _LEAVE, _LEAVE_STATIC = 0, -1, -2


class Step(NamedTuple):
    what: str
    answer: str


class Told(NamedTuple):
    steps: list[Step]
    records: list[str]


class _Member:
    """What a client knows of itself. ``owned`` are partitions by topic."""

    def __init__(self, name: str, client: RawClient, *, instance: str | None = None) -> None:
        self.name = name
        self.client = client
        self.instance = instance
        self.member_id = ""
        self.epoch = _LEAVE
        self.previous_epoch = _LEAVE
        self.owned: dict[str, list[int]] = {}
        self.topics: list[str] = []
        self.is_classic = False
        self.parked: str | None = None
        """The request that waits for its answer."""
        self.protocol: str | None = None
        self.led: list[str] = []
        """The member ids of the generation that it leads."""

    def forget(self) -> None:
        self.member_id, self.epoch, self.previous_epoch, self.owned, self.led = "", _LEAVE, _LEAVE, {}, []

    def reach(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch


class _Walk:
    def __init__(self, port: int, seed: int, open_clients: ExitStack) -> None:
        self.random = Random(seed)
        self._port = port
        self._open = open_clients
        self.admin = self._client("admin")
        self.prefix = f"gw{seed}"
        self.transactional_id = f"{self.prefix}-transactions"
        self.topics = [f"{self.prefix}-{name}" for name in ("apples", "pears", "plums")]
        self.sizes = dict(zip(self.topics, (4, 3, 5), strict=True))
        self.ids: dict[str, Uuid] = {}
        self.names: dict[str, str] = {}
        """What ids of the node are shown as."""
        self.groups = {
            "mixed": self._members("x", statics=2),
            "plain": self._members("u", statics=1),
        }
        self.steps: list[Step] = []
        self.group = ""
        self.of_group: list[_Member] = []
        self.offset = 0
        self.probe_interval_ms = 7_000
        self._versions: dict[str, int] = {}

    def _client(self, name: str) -> RawClient:
        return self._open.enter_context(closing(RawClient(self._port, client_id=name, timeout_s=30)))

    def _members(self, letter: str, *, statics: int) -> list[_Member]:
        return [
            _Member(
                f"{letter}{number}",
                self._client(f"{letter}{number}"),
                instance=f"i{number}" if number < statics else None,
            )
            for number in range(5)
        ]

    # -- set-up

    def prepare(self) -> None:
        keys = [(0, self._id_of(group)) for group in self.groups] + [(1, self.transactional_id)]
        for key_type, key in keys:
            self._until(lambda key_type=key_type, key=key: self._has_coordinator(key_type, key))
        for _, key in keys[:-1]:
            self._until(lambda key=key: self._code_of(DescribeGroupsRequest(groups=[key])) not in _LOADING)
        for topic in self.topics:
            self._create(topic, self.sizes[topic])

    def _has_coordinator(self, key_type: int, key: str) -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return bool(self.admin.call(request).coordinators[0].error_code == 0)

    def _code_of(self, request: DescribeGroupsRequest) -> int:
        return int(self.admin.call(request).groups[0].error_code)

    def _until(self, is_true: Any) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while not is_true():
            assert time.monotonic() < deadline, "the node did not settle"
            time.sleep(0.02)

    def _create(self, name: str, partitions: int) -> None:
        self.admin.call(
            CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])
        )
        self._await_topic(name, partitions)

    def _await_topic(self, name: str, partitions: int) -> None:
        """Wait until the node knows the topic; its coordinator follows immediately after that."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

        def is_known() -> bool:
            (topic,) = self.admin.call(request).topics
            self.ids[name] = topic.topic_id
            return len(topic.partitions) == partitions

        self._until(is_known)
        self.names[str(self.ids[name])] = name
        self._until(lambda: self._partitions_at_the_coordinator(name) == partitions)

    def _partitions_at_the_coordinator(self, topic: str) -> int:
        """Return how many partitions of a topic a group of its own is assigned: the coordinator follows later."""
        answer = self._probe(_JOIN, topic)
        self._probe(_LEAVE, topic)
        if answer.error_code in _LOADING:
            return -1
        assert answer.assignment is not None, answer
        return sum(len(found.partitions) for found in answer.assignment.topic_partitions)

    def _probe(self, epoch: int, topic: str) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"probe-{self.prefix}",
            member_id="probe",
            member_epoch=epoch,
            rebalance_timeout_ms=_LONG_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        return self.admin.call(request, 1)

    def _id_of(self, group: str) -> str:
        return f"{self.prefix}-{group}"

    # -- steps

    def run(self, count: int) -> None:
        kinds = {
            "join": 16, "beat": 34, "late beat": 4, "wrong beat": 4, "change": 6, "leave": 5, "static leave": 3,
            "classic join": 18, "classic sync": 14, "classic beat": 12, "classic leave": 5,
            "commit": 8, "fetch": 4, "transaction": 3, "delete offsets": 2, "delete": 2, "list": 2,
            "topics": 2, "interval": 2, "malformed": 3, "settle": 8, "sweep": 4, "only classic": 3, "only consumer": 2,
        }  # fmt: skip
        for _ in range(count):
            name = self.random.choice(["mixed", "mixed", "plain"])
            self.group, self.of_group = self._id_of(name), self.groups[name]
            kind = self.random.choices(list(kinds), list(kinds.values()))[0]
            self._take(kind, self.random.choice(self.of_group))
            self._receive_parked()
            self._show("state", self._state())

    def _take(self, kind: str, member: _Member) -> None:
        if member.parked is None:
            getattr(self, "_" + kind.replace(" ", "_"))(member)

    def _show(self, what: str, answer: str) -> None:
        self.steps.append(Step(f"{self.group.removeprefix(self.prefix)} {what}", answer))

    def _ask(self, client: RawClient, what: str, request: Any, version: int) -> Any:
        response = client.call(request, version)
        self._show(f"{what} v{version}", self._shown(response, version))
        return response

    # -- members of the consumer protocol

    def _subscription(self) -> list[str]:
        """Return topics; none only for a member that has some: Kafka assigns partitions to a new member without."""
        if "plain" in self.group:
            return self.topics[:1]
        return sorted(self.random.sample(self.topics, self.random.choice([1, 2, 2, 3])))

    @property
    def _assignor(self) -> str:
        return "uniform" if "plain" in self.group else "range"

    def _new_member_id(self, member: _Member) -> str:
        return f"{member.name}.{self.random.randrange(3)}"

    def _join(self, member: _Member) -> None:
        """Join, or join again: often as a new process of the same name."""
        if member.is_classic and member.epoch >= 0 and member.instance is None:
            member.forget()
        if not member.member_id or self.random.random() < 0.1:
            member.member_id = self._new_member_id(member)
        member.topics = self._subscription()
        if member.instance is not None and self._is_rebalancing():
            return  # Kafka computes no assignment then, and ours does.
        member.owned = {}
        request = self._heartbeat(member, _JOIN, is_full=True)
        self._beat_with(member, "join", request)

    def _heartbeat(
        self, member: _Member, epoch: int, *, is_full: bool = False, owns: bool = False
    ) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=member.member_id, member_epoch=epoch, instance_id=member.instance
        )
        if is_full or owns or self.random.random() < 0.8:
            request.topic_partitions = self._partitions(member.owned)
        if is_full:
            request.rebalance_timeout_ms, request.server_assignor = _LONG_MS, self._assignor
            request.subscribed_topic_names = list(member.topics)
        return request

    def _partitions(self, owned: Mapping[str, Iterable[int]]) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.ids[topic], partitions=list(partitions))
            for topic, partitions in owned.items()
        ]

    def _beat_with(self, member: _Member, what: str, request: ConsumerGroupHeartbeatRequest) -> None:
        partitions = request.topic_partitions
        owned = None if partitions is None else sorted((self.names[str(p.topic_id)], p.partitions) for p in partitions)
        label = f"{what} {self._named(member.member_id)}/{member.instance} epoch {request.member_epoch} owned {owned}"
        if request.subscribed_topic_names is not None:
            label += f" topics {request.subscribed_topic_names}"
        response = self._ask(member.client, label, request, 1)
        if response.error_code == ErrorCode.NONE:
            member.is_classic = False
            member.reach(response.member_epoch)
            if response.assignment is not None:
                member.owned = {
                    self.names[str(topic.topic_id)]: sorted(topic.partitions)
                    for topic in response.assignment.topic_partitions
                }
        elif response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            member.forget()

    def _beat(self, member: _Member) -> None:
        if not member.is_classic and member.member_id:
            self._beat_with(member, "beat", self._heartbeat(member, max(member.epoch, 0) or 1))

    def _late_beat(self, member: _Member) -> None:
        """The answer that advanced its epoch was lost."""
        if not member.is_classic and member.member_id and member.previous_epoch > 0:
            self._beat_with(member, "late beat", self._heartbeat(member, member.previous_epoch))

    def _wrong_beat(self, member: _Member) -> None:
        if member.member_id:
            request = self._heartbeat(member, max(member.epoch, 1) + self.random.choice([-1, 1, 2]))
            if request.member_epoch == _JOIN:
                return
            if self.random.random() < 0.3:
                request.topic_partitions = [TopicPartitions(topic_id=_UNKNOWN_TOPIC, partitions=[0])]
                self.names[str(_UNKNOWN_TOPIC)] = "no topic"
            self._beat_with(member, "wrong beat", request)

    def _change(self, member: _Member) -> None:
        if not member.is_classic and member.epoch > 0:
            member.topics = [] if self.random.random() < 0.25 else self._subscription()
            self._beat_with(member, "change", self._heartbeat(member, member.epoch, is_full=True))

    def _leave(self, member: _Member) -> None:
        if member.member_id:
            self._beat_with(member, "leave", self._heartbeat(member, _LEAVE))
            member.forget()

    def _static_leave(self, member: _Member) -> None:
        if member.member_id and member.instance is not None:
            self._beat_with(member, "static leave", self._heartbeat(member, _LEAVE_STATIC))
            member.epoch = 0

    def _malformed(self, member: _Member) -> None:
        """Requests that no group accepts, and some that name nobody."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id="stranger",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[],
            topic_partitions=[],
        )
        change: dict[str, Any] = self.random.choice(
            [
                {"group_id": " "},
                {"member_id": ""},
                {"instance_id": ""},
                {"rack_id": " "},
                {"rebalance_timeout_ms": -1},
                {"topic_partitions": None},
                {"subscribed_topic_names": None},
                {"server_assignor": "sticky"},
                {"member_epoch": -3},
                {"member_epoch": -2},
                {"member_epoch": -1},
                {"member_epoch": 7},
                {"member_epoch": 7, "instance_id": "nobody"},
                {"group_id": f"{self.group}-unknown", "member_epoch": 3},
                {"group_id": f"{self.group}-unknown", "member_epoch": -1},
            ]
        )
        for field, value in change.items():
            setattr(request, field, value)
        version = 1 if request.member_id == "" else self.random.choice([0, 1])  # Version 0 makes an id.
        self._ask(member.client, f"malformed {change}", request, version)

    # -- members of the classic protocol

    def _classic_join(self, member: _Member) -> None:
        if "plain" in self.group and (member.instance is not None or not self._is_consumer_group()):
            return  # It would receive an id.
        if not member.is_classic:
            is_static_return = member.instance is not None and self.random.random() < 0.7
            if member.epoch >= 0 and not is_static_return:
                return
            member.forget()
            member.is_classic = True
        if not member.topics or self.random.random() < 0.2:
            member.topics = self._subscription()
        if not member.member_id and member.instance is None and self._is_consumer_group():
            member.member_id = f"{member.name}.c"
        owned = [TopicPartition(topic=topic, partitions=found) for topic, found in sorted(member.owned.items())]
        version = self.random.choice([0, 1, 2])
        data = ConsumerProtocolSubscription(topics=member.topics, owned_partitions=owned, generation_id=member.epoch)
        names = self.random.choice([["range"], ["range", "roundrobin"], ["roundrobin", "range"]])
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=member.member_id,
            group_instance_id=member.instance,
            session_timeout_ms=_LONG_MS,
            rebalance_timeout_ms=_LONG_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=encode_versioned(data, version)) for name in names],
        )
        label = f"classic join {self._named(member.member_id)}/{member.instance} {names} {member.topics} v{version}"
        self._send(member, label, request, self.random.choice([5, 6, 7, 9]))

    def _is_consumer_group(self) -> bool:
        found = self.admin.call(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1).groups[0]
        return found.error_code == ErrorCode.NONE and bool(found.members)

    def _is_rebalancing(self) -> bool:
        found = self.admin.call(DescribeGroupsRequest(groups=[self.group]), 6).groups[0]
        return found.group_state in ("PreparingRebalance", "CompletingRebalance")

    def _send(self, member: _Member, what: str, request: Any, version: int) -> None:
        """Send a request whose answer may have to wait for other members."""
        member.client.send(request, version)
        member.parked = f"{what} v{version}"
        self._versions[member.name] = version
        if self._are_answered([member])[0]:
            self._receive(member)

    def _receive_parked(self) -> None:
        parked = [member for member in self.of_group if member.parked is not None]
        if not parked:
            return
        for member, is_answered in zip(parked, self._are_answered(parked), strict=True):
            if is_answered:
                self._receive(member)

    def _receive(self, member: _Member) -> None:
        what, member.parked = member.parked, None
        assert what is not None
        response = member.client.receive()
        if " join " in f" {what} " and response.member_id != f"{member.name}.c":
            self._learn(response.member_id, _prefix_of(response.member_id) or member.name)
        if "sync" in what:
            self._show(what, self._shown(response, self._versions[member.name]))
            self._synced(member, response)
        else:
            self._joined(member, response)
            if response.leader:  # Kafka's is the first one in a hash table, if the group was a consumer group.
                response.leader, response.members = "a member", []
            self._show(what, self._shown(response, self._versions[member.name]))

    def _are_answered(self, members: list[_Member]) -> list[bool]:
        """Return whose answers have arrived, or do so when the coordinator has handled a later request."""
        if all(_are_readable(members, _PARKED_S)):
            return [True] * len(members)
        if self._is_consumer_group():
            return _are_readable(members, _SETTLE_S)
        later = HeartbeatRequest(group_id=self.group, member_id="nobody", generation_id=1)
        assert self.admin.call(later, 4).error_code != ErrorCode.NONE
        return _are_readable(members, 2 * _PARKED_S)

    def _learn(self, member_id: str, prefix: str) -> None:
        """Give an id that the node has made a name."""
        if member_id and member_id not in self.names:
            known = sum(name.startswith(f"<{prefix}.") for name in self.names.values())
            self.names[member_id] = f"<{prefix}.{known}>"

    def _joined(self, member: _Member, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            member.member_id = response.member_id
            member.reach(response.generation_id)
            member.protocol = response.protocol_name
            member.led = [found.member_id for found in response.members]
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.forget()

    def _classic_sync(self, member: _Member) -> None:
        if self._is_consumer_group():  # Elsewhere the leader's is the one that counts.
            self._sync(member, self.random.random())

    def _sync(self, member: _Member, wrong: float) -> None:
        """``wrong`` of one half is right."""
        if not member.is_classic or member.epoch < 0:
            return
        request = SyncGroupRequest(
            group_id=self.group,
            member_id=member.member_id,
            generation_id=member.epoch + (1 if wrong < 0.05 else 0),
            group_instance_id=member.instance,
            protocol_type="other" if wrong > 0.97 else "consumer",
            protocol_name="other" if 0.94 < wrong < 0.97 else member.protocol,
            assignments=self._led_assignments(member),
        )
        version = 5
        if 0.05 < wrong < 0.25:  # Version 5 demands both; earlier ones have neither.
            request.protocol_type = request.protocol_name = None
            version = self.random.choice([4, 5])
        what = f"sync {self._named(member.member_id)} {request.protocol_type} {request.protocol_name}"
        self._send(member, what, request, version)

    def _led_assignments(self, member: _Member) -> list[SyncGroupRequestAssignment]:
        """Divide the topics among the members, which are ordered by name."""
        order = sorted(member.led, key=self._named)
        assigned: dict[str, dict[str, list[int]]] = {found: {} for found in order}
        for topic in self.topics:
            for partition in range(self.sizes[topic]):
                if order:
                    assigned[order[partition % len(order)]].setdefault(topic, []).append(partition)
        return [
            SyncGroupRequestAssignment(
                member_id=found, assignment=consumer_protocol.write_assignment(partitions, b"\x00\x01")
            )
            for found, partitions in assigned.items()
        ]

    def _synced(self, member: _Member, response: Any) -> None:
        if response.error_code == ErrorCode.NONE and response.assignment:
            assigned = consumer_protocol.read_assignment(response.assignment).assigned_partitions
            member.owned = {topic.topic: sorted(topic.partitions) for topic in assigned}
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.forget()

    def _classic_beat(self, member: _Member) -> None:
        if member.is_classic and member.epoch >= 0:
            generation = member.epoch + self.random.choice([0] * 12 + [1, -1])
            request = HeartbeatRequest(
                group_id=self.group,
                member_id=member.member_id,
                generation_id=generation,
                group_instance_id=member.instance,
            )
            self._ask(member.client, f"heartbeat {self._named(member.member_id)} in {generation}", request, 4)

    def _classic_leave(self, member: _Member) -> None:
        others = [found for found in self.of_group if found.member_id and found.parked is None]
        chosen = [member] if member in others else []
        if others and self.random.random() < 0.3:
            chosen.append(self.random.choice(others))
        identities = [
            MemberIdentity(
                member_id="" if found.instance and self.random.random() < 0.3 else found.member_id,
                group_instance_id=found.instance,
            )
            for found in chosen
        ]
        if self.random.random() < 0.2:
            identities.append(MemberIdentity(member_id="stranger"))
        if self.random.random() < 0.1:
            identities.append(MemberIdentity(member_id="", group_instance_id="nobody"))
        shown = [(self._named(found.member_id), found.group_instance_id) for found in identities]
        if identities:
            self._ask(self.admin, f"leave {shown}", LeaveGroupRequest(group_id=self.group, members=identities), 5)
            for found in chosen:
                found.forget()

    # -- all members

    def _settle(self, member: _Member) -> None:
        """Let all members follow for some rounds, as living clients do."""
        for _ in range(3):
            for found in self.of_group:
                if found.parked is not None or not found.member_id:
                    continue
                if not found.is_classic:
                    if found.epoch > 0:
                        self._beat_with(found, "follow", self._heartbeat(found, found.epoch, owns=True))
                elif found.epoch >= 0:
                    self._classic_follow(found)
            self._receive_parked()
            began = len(self.steps)
            for found in sorted(self.of_group, key=lambda found: bool(found.led)):
                if found.is_classic and found.parked is None:
                    self._sync(found, wrong=0.5)  # The leader is the last.
            self._receive_parked()
            self.steps[began:] = sorted(self.steps[began:])

    def _classic_follow(self, member: _Member) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            member_id=member.member_id,
            generation_id=member.epoch,
            group_instance_id=member.instance,
        )
        what = f"follow {self._named(member.member_id)} in {member.epoch}"
        code = self._ask(member.client, what, request, 4).error_code
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._classic_join(member)
        elif code != ErrorCode.NONE:
            member.forget()

    def _sweep(self, member: _Member) -> None:
        """Remove members whose process has ended."""
        alive = {found.member_id for found in self.of_group}
        self._remove(lambda member_id, _: member_id not in alive)

    def _only_classic(self, member: _Member) -> None:
        self._remove(lambda _, member_type: member_type == 1)

    def _only_consumer(self, member: _Member) -> None:
        self._remove(lambda _, member_type: member_type == 0)

    def _remove(self, is_chosen: Callable[[str, int], bool]) -> None:
        group = self.admin.call(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1).groups[0]
        chosen = sorted(
            (found.member_id for found in group.members if is_chosen(found.member_id, found.member_type)),
            key=self._named,
        )
        for member_id in chosen:
            request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=member_id)])
            self._ask(self.admin, f"remove {self._named(member_id)}", request, 5)

    # -- offsets

    def _epoch_to_commit(self, member: _Member) -> int:
        return self.random.choice([member.epoch] * 6 + [member.previous_epoch] * 3 + [member.epoch + 1, 0, -1])

    def _commit(self, member: _Member) -> None:
        version = self.random.choice([8, 9, 10, 10])
        topics = self.random.sample(self.topics, self.random.choice([1, 1, 2]))
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self._epoch_to_commit(member),
            member_id=member.member_id if self.random.random() < 0.9 else "",
            group_instance_id=member.instance if self.random.random() < 0.8 else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic if version < 10 else "",
                    topic_id=self.ids[topic] if version >= 10 else Uuid.ZERO,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=self._next_offset(),
                            committed_metadata=self.random.choice(["", "note"]),
                        )
                        for partition in (member.owned.get(topic) or [0])[:2]
                    ],
                )
                for topic in topics
            ],
        )
        what = f"commit {self._named(request.member_id)}/{request.group_instance_id}"
        what += f" epoch {request.generation_id_or_member_epoch} {topics}"
        self._ask(member.client, what, request, version)

    def _next_offset(self) -> int:
        self.offset += 1
        return self.offset

    def _fetch(self, member: _Member) -> None:
        version = self.random.choice([8, 9, 10])
        names_member = self.random.random() < 0.6
        group = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member.member_id if names_member else None,
            member_epoch=self._epoch_to_commit(member) if names_member else -1,
            topics=[
                OffsetFetchRequestTopics(
                    name=topic if version < 10 else "",
                    topic_id=self.ids[topic] if version >= 10 else Uuid.ZERO,
                    partition_indexes=list(range(3)),
                )
                for topic in self.topics
            ],
        )
        if self.random.random() < 0.2:
            group.topics = None
        what = f"fetch {names_member and self._named(member.member_id)} epoch {group.member_epoch}"
        self._ask(member.client, what, OffsetFetchRequest(groups=[group]), version)

    def _transaction(self, member: _Member) -> None:
        """Commit offsets in a transaction of its own, and end it."""
        name = self.transactional_id
        request_id = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + _SETTLE_S
        while (producer := self.admin.call(request_id, 4)).error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline, f"no producer id: {producer}"
            time.sleep(0.02)
        added = self.admin.call(
            AddOffsetsToTxnRequest(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=self.group,
            ),
            3,
        )
        assert added.error_code == 0
        topic = self.random.choice(self.topics)
        offset = self._next_offset()
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=self.group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id=self._epoch_to_commit(member),
            member_id=member.member_id if self.random.random() < 0.9 else "",
            group_instance_id=member.instance if self.random.random() < 0.8 else None,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                        for partition in (member.owned.get(topic) or [0])[:2]
                    ],
                )
            ],
        )
        what = f"commit in a transaction {self._named(request.member_id)}/{request.group_instance_id}"
        self._ask(self.admin, f"{what} epoch {request.generation_id} {topic}", request, 4)
        end = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=self.random.random() < 0.7,
        )
        self._ask(self.admin, f"end {end.committed}", end, 4)
        self._until(lambda: not self._has_pending_offsets())

    def _has_pending_offsets(self) -> bool:
        """Return whether the transaction's markers have not arrived yet."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(5))) for topic in self.topics]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, topics=topics)], require_stable=True
        )
        found = self.admin.call(request, 9).groups[0]
        return any(
            partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            for topic in found.topics
            for partition in topic.partitions
        )

    def _delete_offsets(self, member: _Member) -> None:
        topic = self.random.choice(self.topics)
        partitions = [OffsetDeleteRequestPartition(partition_index=0), OffsetDeleteRequestPartition(partition_index=1)]
        request = OffsetDeleteRequest(
            group_id=self.group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        )
        self._ask(self.admin, f"delete offsets {topic}", request, 0)

    # -- groups, topics, settings

    def _delete(self, member: _Member) -> None:
        self._ask(self.admin, "delete", DeleteGroupsRequest(groups_names=[self.group]), 2)

    def _list(self, member: _Member) -> None:
        types = self.random.choice([[], ["consumer"], ["Classic"], ["classic", "consumer"]])
        states = self.random.choice([[], ["stable"], ["Empty", "Reconciling"], ["assigning", "preparingrebalance"]])
        response = self.admin.call(ListGroupsRequest(states_filter=states, types_filter=types), 5)
        response.groups = [found for found in response.groups if found.group_id.startswith(self.prefix)]
        self._show(f"list {types} {states}", self._shown(response, 5))

    def _topics(self, member: _Member) -> None:
        """Let a topic grow, or delete it and create it again."""
        topic = self.random.choice(self.topics)
        if self.random.random() < 0.6 and self.sizes[topic] < 8:
            self.sizes[topic] += 1
            grown = CreatePartitionsTopic(name=topic, count=self.sizes[topic], assignments=None)
            self._ask(self.admin, f"grow {topic}", CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), 3)
            self._await_topic(topic, self.sizes[topic])
            return
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        self.admin.call(gone, 6)
        self._show(f"delete and create {topic}", "")
        self._await_topic_gone(topic)
        self.sizes[topic] = self.random.randint(2, 5)
        self._create(topic, self.sizes[topic])
        for members in self.groups.values():
            for found in members:
                found.owned.pop(topic, None)

    def _await_topic_gone(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        self._until(lambda: self.admin.call(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._until(lambda: self._partitions_at_the_coordinator(topic) == 0)

    def _interval(self, member: _Member) -> None:
        """Let targets be computed only once in a long time, or at once."""
        value = self.random.choice(["0", "0", "0", str(_LONG_MS)])
        self._show(f"interval {value}", "")
        self._configure(self.group, "consumer.assignment.interval.ms", value)
        self.probe_interval_ms = 16_000 - self.probe_interval_ms
        self._configure(f"probe-{self.prefix}", "consumer.heartbeat.interval.ms", str(self.probe_interval_ms))
        self._until(lambda: self._probe(_JOIN, self.topics[0]).heartbeat_interval_ms == self.probe_interval_ms)
        self._probe(_LEAVE, self.topics[0])

    def _configure(self, group: str, name: str, value: str) -> None:
        setting = AlterableConfig(name=name, config_operation=int(AlterConfigOpType.SET), value=value)
        resource = AlterConfigsResource(
            resource_type=int(ConfigResourceType.GROUP), resource_name=group, configs=[setting]
        )
        answer = self.admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE

    # -- showing

    def _state(self) -> str:
        described = self.admin.call(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1)
        classic = self.admin.call(DescribeGroupsRequest(groups=[self.group]), 6)
        for found in classic.groups:
            for member in found.members:
                member.member_metadata = b""
        return f"{self._shown(described, 1)} {self._shown(classic, 6)}"

    def _named(self, text: str) -> str:
        for found, name in self.names.items():
            if found in text:
                text = text.replace(found, name)
        return text

    def _shown(self, response: Any, version: int) -> str:
        return repr(self._comparable(response.to_json(version)))

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, dict):
            shown = {key: self._comparable(part) for key, part in value.items() if key != "throttleTimeMs"}
            for key in ("assignment", "memberAssignment"):
                if isinstance(value.get(key), str):
                    shown[key] = assignment_shown(value[key])
            return shown
        if isinstance(value, list):
            return sorted((self._comparable(part) for part in value), key=repr)
        if isinstance(value, str):
            prefix = _prefix_of(value)
            if prefix is not None:  # Its JoinGroup still waits.
                self._learn(value, prefix)
            return self._named(value)
        return value


def _are_readable(members: list[_Member], within_s: float) -> list[bool]:
    """Return who has an answer; wait for all of them together."""
    deadline = time.monotonic() + within_s
    return [member.client.is_readable(max(0.0, deadline - time.monotonic())) for member in members]


def _prefix_of(member_id: str) -> str | None:
    """Return what a node has put before the UUID of a classic member's id."""
    found = _MADE_UP.fullmatch(member_id)
    return None if found is None else found[1]


def walk(port: int, seed: int, count: int) -> Told:
    """Take ``count`` steps, describing the group after each; return the story, and the records that the node wrote."""
    with ExitStack() as open_clients:
        walker = _Walk(port, seed, open_clients)
        walker.prepare()
        walker.run(count)
        records = GroupRecords(walker.admin, walker.names).of_groups(walker.prefix)
        return Told(walker.steps, records)
