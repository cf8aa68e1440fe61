"""Our answers to the questions about streams groups, in the form of those of ``StreamsGroups.java``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.metadata_hash import group_hash, topic_hash
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.current_assignment import next_assignment
from barnabas.coordinator.group.streams.endpoint_to_partitions import EndpointInformation
from barnabas.coordinator.group.streams.heartbeat_checks import validate_heartbeat, validate_member_epoch
from barnabas.coordinator.group.streams.internal_topic_manager import configure_topics
from barnabas.coordinator.group.streams.streams_group_member import Endpoint, MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_values import (
    current_assignment_value,
    member_metadata_value,
    member_with_assignment,
    member_with_metadata,
    target_assignment_tasks,
    target_assignment_value,
)
from barnabas.coordinator.group.streams.task_processes import TaskProcessIndex
from barnabas.coordinator.group.streams.tasks import NO_TASKS, TasksTuple, TasksTupleWithEpochs
from barnabas.coordinator.group.streams.topology import StreamsTopology, topology_value
from barnabas.protocol.messages import streams_group_describe as describe
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TopicPartition,
)
from barnabas.protocol.record_serde import encode_versioned

__all__ = ["answer_to", "differences"]

Json = dict[str, Any]


def answer_to(question: Json) -> Json:
    if question["kind"] == "topology":
        return _topology_answer(question)
    if question["kind"] == "heartbeat":
        return _heartbeat_answer(question)
    return _Walk().answer(question)


def differences(question: Json, answer: Json) -> list[str]:
    """Return the parts of Kafka's answer that ours differs from.

    The order of a topic's configs is that of a Java map and has no meaning. And where Kafka's coordinator fails on an
    endpoint because a topic does not exist, ours omits the topic.
    """
    ours: Json = json.loads(json.dumps(answer_to(question)))
    for topology in (ours.get("configured"), answer.get("configured")):
        _sort_configs(topology or {"subtopologies": []})
    if answer.get("endpoint") == "UNKNOWN_SERVER_ERROR":
        ours["endpoint"] = answer["endpoint"]
    return [
        f"{part} of {question}: {ours.get(part)}, in Kafka {answer.get(part)}"
        for part in sorted({*ours, *answer})
        if ours.get(part) != answer.get(part)
    ]


def _sort_configs(topology: Json) -> None:
    for subtopology in topology["subtopologies"]:
        for topic in (*subtopology["repartitionSourceTopics"], *subtopology["stateChangelogTopics"]):
            topic["topicConfigs"].sort(key=lambda config: config["key"])


# -- topologies


def _topology_answer(question: Json) -> Json:
    answer: Json = {}
    try:
        _add_topology(question, answer)
    except ApiException as error:
        answer |= _error(error)
    return answer


def _error(error: ApiException) -> Json:
    return {"error": error.code.name, "message": _message(error)}


def _message(error: ApiException) -> str:
    """Kafka's text of an unexpected error never reaches a client."""
    return "" if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else error.message or ""


def _topic_hash(name: str, topic: Json) -> int:
    return topic_hash(Uuid.from_string(topic["id"]), name, [sorted(racks) for racks in topic["racks"]])


def _add_topology(question: Json, answer: Json) -> None:
    value = topology_value(StreamsGroupHeartbeatRequest.from_json(question["request"], 0).topology)
    answer["record"] = encode_versioned(value, 0).hex()
    topology = StreamsTopology.of(value)
    answer["described"] = _json(topology.describe())
    answer["required"] = sorted(topology.required_topics())
    answer["sources"] = dict(sorted(topology.subtopology_id_by_source_topic.items()))
    topics = question["topics"]
    existing = [name for name in topology.required_topics() if name in topics]
    answer["hash"] = str(group_hash({name: _topic_hash(name, topics[name]) for name in existing}))
    counts = {name: len(topic["racks"]) for name, topic in topics.items()}
    configured = configure_topics(topology, 0, counts.get)
    if configured.error is not None:
        answer |= {"status": configured.error.status.value, "message": str(configured.error)}
    answer["configured"] = _json(configured.describe())
    answer["tasks"] = {name: of.task_count for name, of in (configured.subtopologies or {}).items()}
    answer["create"] = [
        [topic.name, topic.num_partitions, topic.replication_factor, {c.name: c.value for c in topic.configs}]
        for topic in sorted(configured.topics_to_create.values(), key=lambda topic: topic.name)
    ]
    answer["endpoint"] = _endpoint(question["member"], configured, counts)


def _json(topology: describe.Topology) -> Json:
    response = describe.StreamsGroupDescribeResponse(groups=[describe.DescribedGroup(topology=topology)])
    described: Json = response.to_json(0)["groups"][0]["topology"]
    return described


def _endpoint(tasks: Json, configured: ConfiguredTopology, counts: Mapping[str, int]) -> list[Any]:
    member = StreamsGroupMember(
        "m",
        user_endpoint=Endpoint("host", 65535),
        assigned_tasks=TasksTupleWithEpochs(
            {name: dict.fromkeys(partitions, 1) for name, partitions in tasks["active"].items()},
            {name: frozenset(partitions) for name, partitions in tasks["standby"].items()},
            {},
        ),
    )
    (entry,) = EndpointInformation().of_members([member], configured.subtopologies or {}, counts.get)
    endpoint = entry.user_endpoint
    return [endpoint.host, endpoint.port, _texts(entry.active_partitions), _texts(entry.standby_partitions)]


def _texts(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted(f"{topic.topic} {topic.partitions}" for topic in partitions)


# -- requests


def _heartbeat_answer(question: Json) -> Json:
    try:
        validate_heartbeat(StreamsGroupHeartbeatRequest.from_json(question["request"], 0))
    except ApiException as error:
        return _error(error)
    return {}


# -- members


class _Walk:
    """Every value goes through its record, as in a coordinator."""

    def __init__(self) -> None:
        self._members: dict[str, StreamsGroupMember] = {}
        self._targets: dict[str, TasksTuple] = {}
        self._target_epoch = 1
        self._processes = TaskProcessIndex()

    def answer(self, question: Json) -> Json:
        steps = [self._answer_to(step) for step in question["steps"]]
        processes = [
            [
                self._processes.active(name, partition),
                sorted(self._processes.standby(name, partition)),
                sorted(self._processes.warmup(name, partition)),
            ]
            for name, partition in question["tasks"]
        ]
        return {"steps": steps, "processes": processes}

    def _answer_to(self, step: Json) -> str:
        match step["do"]:
            case "join":
                return self._join(step)
            case "leave":
                self._targets.pop(step["member"], None)
                self._processes.update(self._members.pop(step["member"]), None)
                return ""
            case "forget":
                self._update(self._members[step["member"]]._replace(state=MemberState.UNKNOWN))
                return ""
            case "target":
                return self._assign(step)
        return self._heartbeat(self._members[step["member"]], step)

    def _update(self, member: StreamsGroupMember) -> None:
        self._processes.update(self._members.get(member.member_id), member)
        self._members[member.member_id] = member

    def _join(self, step: Json) -> str:
        value = member_metadata_value(
            StreamsGroupMember(
                step["member"],
                process_id=step["process"],
                rack_id=step["rack"],
                client_id=step["member"] + "-client",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=step["timeout"],
                topology_epoch=step["topology"],
                client_tags=step["tags"],
                user_endpoint=None if step["endpoint"] is None else Endpoint(*step["endpoint"]),
            )
        )
        self._update(member_with_metadata(StreamsGroupMember(step["member"]), value))
        return encode_versioned(value, 0).hex()

    def _assign(self, step: Json) -> str:
        self._target_epoch = step["epoch"]
        records = []
        for member_id, tasks in step["targets"].items():
            value = target_assignment_value(_tasks(tasks))
            self._targets[member_id] = target_assignment_tasks(value)
            records.append(encode_versioned(value, 0).hex())
        return "".join(records)

    def _heartbeat(self, member: StreamsGroupMember, step: Json) -> str:
        owned = _owned(member, step["owned"])
        request = StreamsGroupHeartbeatRequest(member_epoch=_epoch(member, step["epoch"]))
        if owned is not None:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = map(_task_ids, owned)
        try:
            validate_member_epoch(member, request)
            if member.is_reconciled_to(self._target_epoch):
                return "="
            target = self._targets.get(member.member_id, NO_TASKS)
            moved = next_assignment(
                member, target_epoch=self._target_epoch, target=target, owned=owned, processes=self._processes
            )
        except ApiException as error:
            return f"{error.code.name}: {_message(error)}"
        if moved == member:
            return "="
        value = current_assignment_value(moved)
        self._update(member_with_assignment(member, value))
        return encode_versioned(value, 0).hex()


def _epoch(member: StreamsGroupMember, kind: str) -> int:
    match kind:
        case "join":
            return 0
        case "current":
            return member.member_epoch
        case "previous":
            return member.previous_member_epoch
        case "newer":
            return member.member_epoch + 1
    return member.previous_member_epoch - 1


def _owned(member: StreamsGroupMember, owned: Any) -> TasksTuple | None:
    match owned:
        case "none":
            return None
        case "nothing":
            return NO_TASKS
        case "assigned":
            return _without_epochs(member.assigned_tasks)
        case "all":
            return _without_epochs(member.assigned_tasks.merged(member.tasks_pending_revocation))
    return _tasks(owned)


def _without_epochs(tasks: TasksTupleWithEpochs) -> TasksTuple:
    active = {name: frozenset(epochs) for name, epochs in tasks.active.items()}
    return TasksTuple(active, tasks.standby, tasks.warmup)


def _tasks(tasks: Json) -> TasksTuple:
    return TasksTuple(
        *({name: frozenset(partitions) for name, partitions in tasks[role].items()}
          for role in ("active", "standby", "warmup"))
    )  # fmt: skip


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(partitions)) for name, partitions in tasks.items()]
