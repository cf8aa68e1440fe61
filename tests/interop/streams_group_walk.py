"""A random walk through the requests of streams groups on a node: ``streams_group_steps`` on the wire.

What a step sends depends on the node only through its earlier answers, and nothing depends on time. So two nodes that
decide alike tell the same story, and write the same records. Internal topics are those that the node creates: the walk
waits for them.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.config_codes import AlterConfigOpType, ConfigResourceType
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.interop.group_records_of import GroupRecords
from tests.interop.raw_client import RawClient
from tests.peers.streams_group_steps import GROUPS, steps_without_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["WALK_SETTINGS", "Told", "tell_apart", "walk", "walk_with_moves"]

Json = dict[str, Any]

WALK_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.coordinator.append.linger.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "600000",
    "group.streams.max.session.timeout.ms": "900000",
    "group.streams.session.timeout.ms": "900000",
    "group.streams.max.size": "5",
}
_SETTLE_S = 20.0
_FOLLOW_S = 0.4
"""How long the coordinator may follow the metadata of its node."""
_MISSING = 3
_COORDINATOR_MOVES = frozenset({14, 15, 16, 51})


class Step(NamedTuple):
    what: str
    answer: str


class Told(NamedTuple):
    steps: list[Step]
    records: list[str]


class _Member:
    """What a member knows of itself."""

    def __init__(self) -> None:
        self.epoch = self.previous_epoch = 1
        self.endpoint_epoch = 0
        self.active: list[Json] = []
        self.standby: list[Json] = []


class _Walk:
    _client: RawClient

    def __init__(self, *, has_moves: bool = False) -> None:
        self._has_moves = has_moves
        self._members: dict[tuple[str, str], _Member] = {}
        self._names: dict[str, str] = {}
        self.steps: list[Step] = []

    def follow(self, client: RawClient) -> None:
        """Go on with this coordinator, once it is ready."""
        self._client = client
        for keys, key_type in ((list(GROUPS), 0), (["t"], 1)):
            request = FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)
            self._until(
                lambda asked=request: not any(found.error_code for found in self._client.call(asked).coordinators)
            )
        self._until(lambda: self._described(["nothing"])["groups"][0]["errorCode"] not in _COORDINATOR_MOVES)
        self._commit_anything()
        self._show("state", self._described(list(GROUPS)))

    def _commit_anything(self) -> None:
        """Let the last record before a move become committed: Kafka shows only what is."""
        self._partition_count(GROUP_METADATA_TOPIC)  # Gives its id a name.
        topic = OffsetCommitRequestTopic(name=GROUP_METADATA_TOPIC, partitions=[OffsetCommitRequestPartition()])
        answer = self._client.call(OffsetCommitRequest(group_id="settled", topics=[topic]), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def run(self, steps: list[Json]) -> None:
        for step in steps:
            getattr(self, "_" + step["kind"].replace(" ", "_"))(step)
            self._show("state", self._described(list(GROUPS)))

    def records(self) -> list[str]:
        return GroupRecords(self._client, self._names).of_groups("")

    def _show(self, what: str, answer: Any) -> None:
        self.steps.append(Step(what, repr(_in_order(answer))))

    def _until(self, is_true: Any) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while not is_true():
            assert time.monotonic() < deadline, "the node did not settle"
            time.sleep(0.02)

    def _described(self, groups: list[str]) -> Json:
        answer: Json = self._client.call(StreamsGroupDescribeRequest(group_ids=groups), 0).to_json(0)
        return _without_partition_counts(answer) if self._has_moves else answer

    # -- members

    def _heartbeat(self, step: Json) -> None:
        fields = self._with_epoch(step["request"], "memberEpoch")
        member = self._member(fields)
        if fields["endpointInformationEpoch"] == "current":
            fields["endpointInformationEpoch"] = member.endpoint_epoch
        for name, tasks in (("activeTasks", member.active), ("standbyTasks", member.standby)):
            if fields[name] == "assigned":
                fields[name] = tasks
        response = self._client.call(StreamsGroupHeartbeatRequest.from_json(fields, 0), 0)
        shown = response.to_json(0)
        what = {name: value for name, value in fields.items() if value is not None and name != "topology"}
        self._show(f"heartbeat {what}", shown)
        if response.error_code == ErrorCode.NONE and response.member_epoch >= 0:
            self._remember(member, shown)
        self._await_internal_topics(response)

    def _remember(self, member: _Member, answer: Json) -> None:
        if answer["memberEpoch"] != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, answer["memberEpoch"]
        member.endpoint_epoch = answer["endpointInformationEpoch"]
        if answer["activeTasks"] is not None:
            member.active, member.standby = answer["activeTasks"], answer["standbyTasks"]

    def _member(self, fields: Json) -> _Member:
        return self._members.setdefault((fields["groupId"], fields.get("memberId") or ""), _Member())

    def _with_epoch(self, request: Json, name: str) -> Json:
        member = self._member(request)
        known = {"current": member.epoch, "previous": member.previous_epoch, "older": max(member.epoch - 3, 1)}
        return {**request, name: known.get(request[name], request[name])}

    def _await_internal_topics(self, response: StreamsGroupHeartbeatResponse) -> None:
        for status in response.status or ():
            found = re.fullmatch("Internal topics are missing: (.*)", status.status_detail)
            if status.status_code == _MISSING and found:
                for name in found[1].split(", "):
                    self._await_topic(name, lambda count: count > 0)

    def _classic_join(self, step: Json) -> None:
        group = step["group"]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = self._client.call(request, 9)
        self._show(f"classic join of {group}", joined.error_code)
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            return
        request.member_id = joined.member_id
        self._names[joined.member_id] = "a classic member"
        joined = self._client.call(request, 9)
        self._show(f"classic join of {group} with its id", joined.error_code)
        leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=request.member_id)])
        self._show(f"leave {group}", self._client.call(leave, 5).members[0].error_code)
        self._show("state", self._client.call(DescribeGroupsRequest(groups=[group]), 6).groups[0].group_state)

    # -- the cluster

    def _topics(self, step: Json) -> None:
        name, count = step["topic"], step["count"]
        present = self._partition_count(name)
        if (present == 0) != (step["change"] == "create"):
            return
        if step["change"] == "create":
            topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            self._client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            self._await_topic(name, lambda found: found == count)
        elif step["change"] == "delete":
            self._client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000))
            self._await_topic(name, lambda found: found == 0)
        else:
            grown = CreatePartitionsTopic(name=name, count=present + count, assignments=None)
            self._client.call(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000))
            self._await_topic(name, lambda found: found == present + count)

    def _partition_count(self, name: str) -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = self._client.call(request).topics
        if topic.partitions:
            self._names[str(topic.topic_id)] = name
        return len(topic.partitions)

    def _await_topic(self, name: str, is_right: Any) -> None:
        self._until(lambda: is_right(self._partition_count(name)))
        time.sleep(_FOLLOW_S)

    def _config(self, step: Json) -> None:
        changes = [
            AlterableConfig(name=name, config_operation=AlterConfigOpType.SET, value=value)
            for name, value in step["set"].items()
        ]
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.GROUP, resource_name=step["group"], configs=changes
        )
        answer = self._client.call(IncrementalAlterConfigsRequest(resources=[resource]))
        self._show(f"set {step['set']} of {step['group']}", answer.to_json(1)["responses"])
        time.sleep(_FOLLOW_S)

    # -- other requests

    def _ask(self, what: str, request: Any, version: int) -> None:
        self._show(f"{what} {request}", self._client.call(request, version).to_json(version))

    def _describe(self, step: Json) -> None:
        self._show(f"describe {step['groups']}", self._described(step["groups"]))

    def _list(self, step: Json) -> None:
        self._ask("list", ListGroupsRequest(states_filter=step["states"], types_filter=step["types"]), 5)

    def _delete_groups(self, step: Json) -> None:
        self._ask("delete", DeleteGroupsRequest(groups_names=step["groups"]), 2)

    def _commit(self, step: Json) -> None:
        fields = self._with_epoch(step["request"], "generationIdOrMemberEpoch")
        self._ask("commit", OffsetCommitRequest.from_json(fields, step["version"]), step["version"])

    def _fetch(self, step: Json) -> None:
        (group,) = step["request"]["groups"]
        fields = {**step["request"], "groups": [self._with_epoch(group, "memberEpoch")]}
        self._ask("fetch", OffsetFetchRequest.from_json(fields, step["version"]), step["version"])

    def _delete_offsets(self, step: Json) -> None:
        self._ask("delete", OffsetDeleteRequest.from_json(step["request"], step["version"]), step["version"])

    def _transactional_commit(self, step: Json) -> None:
        """Commit offsets in a transaction of its own, and end it."""
        fields = self._with_epoch(step["request"], "generationId")
        begin = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        self._until(lambda: self._client.call(begin, 4).error_code not in _COORDINATOR_MOVES)
        producer = self._client.call(begin, 4)
        of_producer = {"producerId": producer.producer_id, "producerEpoch": producer.producer_epoch}
        add = {"transactionalId": "t", "groupId": fields["groupId"], **of_producer}
        assert self._client.call(AddOffsetsToTxnRequest.from_json(add, 3), 3).error_code == ErrorCode.NONE
        request = TxnOffsetCommitRequest.from_json({**fields, **of_producer}, 3)
        what = {**fields, "producerId": "", "producerEpoch": ""}
        self._show(f"commit in a transaction {what}", self._client.call(request, 3).to_json(3))
        end = EndTxnRequest.from_json({"transactionalId": "t", "committed": True, **of_producer}, 3)
        self._show("end", self._client.call(end, 3).error_code)
        self._until(lambda: not self._has_pending_offsets(fields))

    def _has_pending_offsets(self, commit: Json) -> bool:
        """Return whether the transaction's markers have not arrived yet."""
        topics = [{"name": topic["name"], "partitionIndexes": [0, 1, 2]} for topic in commit["topics"]]
        group = {"groupId": commit["groupId"], "memberId": None, "memberEpoch": -1, "topics": topics}
        request = OffsetFetchRequest.from_json({"groups": [group], "requireStable": True}, 9)
        return any(
            partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            for topic in self._client.call(request, 9).groups[0].topics
            for partition in topic.partitions
        )


def _without_partition_counts(described: Json) -> Json:
    """Leave out the partitions of internal topics: after a move, Kafka shows them from the next record on."""
    for group in described["groups"]:
        for part in (group["topology"] or {"subtopologies": []})["subtopologies"]:
            for topic in [*part["stateChangelogTopics"], *part["repartitionSourceTopics"]]:
                del topic["partitions"]
    return described


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(part) for name, part in value.items() if name != "throttleTimeMs"}
    if isinstance(value, list):
        return sorted((_in_order(part) for part in value), key=repr)
    return value


def walk(port: int, seed: int, count: int) -> Told:
    """Take ``count`` steps, describing the groups after each; return the story, and the records that were written."""
    return walk_with_moves(lambda port: port, [port], seed, count)


def walk_with_moves(move: Callable[[int], int], targets: Sequence[int], seed: int, count: int) -> Told:
    """Take ``count`` steps after each move of the coordinator. ``move`` returns the port of a target."""
    walker = _Walk(has_moves=len(targets) > 1)
    steps = steps_without_time(seed, count * len(targets))
    for number, target in enumerate(targets):
        with closing(RawClient(move(target), client_id="walker", timeout_s=30)) as client:
            walker.follow(client)
            walker.run(steps[count * number : count * (number + 1)])
            records = walker.records()
    return Told(walker.steps, records)


def tell_apart(theirs: Told, ours: Told, what: str) -> None:
    """Fail at the first step or batch in which two stories differ; ``what`` names them."""
    for number, (expected, seen) in enumerate(zip(theirs.steps, ours.steps, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in theirs.steps[max(number - 8, 0) : number])
        assert seen == expected, f"{what}, step {number}: after\n{before}\nkafka: {expected}\n ours: {seen}"
    for number, (expected_lines, lines) in enumerate(zip(theirs.records, ours.records, strict=True)):
        before = "\n".join(theirs.records[max(number - 3, 0) : number])
        assert lines == expected_lines, (
            f"{what}, batch {number}: after\n{before}\nkafka: {expected_lines}\n ours: {lines}"
        )
