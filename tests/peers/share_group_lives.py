"""Runs the steps of ``ShareGroupLives.java`` on our group coordinator and our handlers, with the same answers.

A step's answer is that of the request, the calls that the persister received, and the records that were written.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any

from barnabas.broker.apis.alter_share_group_offsets import handle_alter_share_group_offsets
from barnabas.broker.apis.delete_groups import handle_delete_groups
from barnabas.broker.apis.delete_share_group_offsets import handle_delete_share_group_offsets
from barnabas.broker.apis.describe_share_group_offsets import handle_describe_share_group_offsets
from barnabas.broker.apis.share_group_describe import handle_share_group_describe
from barnabas.broker.latest_offsets import LatestOffset
from barnabas.broker.share_group_service import ShareGroupService
from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.share.persister import SharePartitionSummary
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.network.api_handler import Access
from barnabas.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from barnabas.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.coordinator.memory_log import MemoryTopic

__all__ = ["ScriptedShareGroups", "normalized"]

Step = dict[str, Any]

START_MS = 1_000_000
BROKERS = 3
UNEXPLAINED = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_STATE_EPOCH,
    }
)
"""Errors of persisters and leaders, for which Kafka has its standard messages."""


class ScriptedShareGroups:
    """A broker that coordinates all groups. ``close`` it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._now_ms = START_MS
        config = GroupCoordinatorConfig(
            offsets_topic_num_partitions=1,
            **{name.replace(".", "_"): int(value) for name, value in settings.items()},  # type: ignore[arg-type]
        )
        self._topic = MemoryTopic()
        self._tasks: list[asyncio.Task[None]] = []
        self._view = ClusterView(MetadataImage.EMPTY)
        self._metadata_offset = 0
        self._leader_epoch = 0
        self.persister = ScriptedPersister()
        self.coordinator = GroupCoordinator(config, writer=self._topic, new_uuid=lambda: "uuid", view=self._view)
        self._topic.runtime = self.coordinator.runtime
        self.coordinator.start()
        self.groups = self
        self.serves_share_groups = True
        self.share_groups = ShareGroupService(self, self.persister, ScriptedEnds())  # type: ignore[arg-type]
        delta = MetadataDelta(self._view.image)
        delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
        delta.replay(FeatureLevelRecord(name="share.version", feature_level=1))
        for broker in range(BROKERS):
            delta.replay(
                RegisterBrokerRecord(
                    broker_id=broker, broker_epoch=broker, incarnation_id=_uuid(1, broker), rack=f"rack-{broker}"
                )
            )
        self._publish(delta)
        self._load()

    def run(self, step: Step) -> Step:
        """Return what the step, as it was recorded, is answered, and what it writes."""
        before = len(self._topic.log(0).records())
        self.persister.is_heartbeat = step["kind"] == "heartbeat"
        perform = getattr(self, "_" + step["kind"].replace(" ", "_"))
        result: Step = {"kind": step["kind"]}
        answer = perform(step)
        self._settle()
        if answer is not None:
            result["answer"] = answer
        result["records"] = [[_base64(key), _base64(value)] for key, value in self._topic.log(0).records()[before:]]
        result["calls"], self.persister.calls = self.persister.calls, []
        return result

    def close(self) -> None:
        """Release the calls that still wait. Raise the first error of work that no request waited for."""
        for waiting in self.persister.pending:
            waiting.set_result(None)
        self._loop.run_until_complete(asyncio.gather(*self._tasks))
        self._loop.close()

    # -- GroupService

    def confirm(self, group_ids: Iterable[str]) -> None:
        """Everything is confirmed: there is one coordinator."""

    def now_ms(self) -> int:
        return self._now_ms

    def answer(self, deferred: Deferred[Any]) -> Any:
        return deferred.value

    def start_task(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(self._loop.create_task(work))

    # -- steps

    def _advance(self, step: Step) -> None:
        end_ms = self._now_ms + step["ms"]
        runtime = self.coordinator.runtime
        while (deadline := runtime.next_deadline_ms()) is not None and deadline <= end_ms:
            self._now_ms = max(self._now_ms, deadline)
            self._tick()
        self._now_ms = end_ms
        self._tick()

    def _tick(self) -> None:
        self._topic.now_ms = self._now_ms
        self.coordinator.runtime.tick(self._now_ms)
        assert self.coordinator.runtime.failed_deadline_count == 0

    def _persister(self, step: Step) -> None:
        self.persister.mode, self.persister.waits = step["mode"], step["waits"]

    def _release(self, step: Step) -> None:
        if self.persister.pending:
            self.persister.pending.pop(0).set_result(None)

    def _failover(self, step: Step) -> None:
        self.coordinator.runtime.unload(0, self._now_ms)
        self._load()

    def _load(self) -> None:
        runtime = self.coordinator.runtime
        self._leader_epoch += 1
        shard = runtime.start_loading(0, self._leader_epoch, self._now_ms)
        assert shard is not None
        CoordinatorLoader(runtime, 0, shard, self._topic.log(0)).run(self._now_ms)

    def _topics(self, step: Step) -> None:
        delta = MetadataDelta(self._view.image)
        topic_id = Uuid.from_string(step["id"])
        if step["change"] == "create":
            delta.replay(TopicRecord(name=step["topic"], topic_id=topic_id))
        elif step["change"] == "delete":
            delta.replay(RemoveTopicRecord(topic_id=topic_id))
        for partition in step["partitions"]:
            leader = partition % BROKERS
            other = (leader + 1) % BROKERS
            delta.replay(
                PartitionRecord(
                    topic_id=topic_id,
                    partition_id=partition,
                    replicas=[leader, other],
                    isr=[leader],
                    directories=[_uuid(2, leader), _uuid(2, other)],
                    leader=leader,
                )
            )
        self._publish(delta)

    def _config(self, step: Step) -> None:
        delta = MetadataDelta(self._view.image)
        for name, value in step["set"].items():
            delta.replay(
                ConfigRecord(
                    resource_type=ConfigResourceType.GROUP, resource_name=step["group"], name=name, value=value
                )
            )
        self._publish(delta)

    def _publish(self, delta: MetadataDelta) -> None:
        """Do what ``GroupService.publish`` does."""
        self._metadata_offset += 1
        image = delta.apply(MetadataProvenance(self._metadata_offset, 1, self._now_ms))
        self.coordinator.follow_metadata(delta, image)
        if delta.topics is not None and delta.topics.deleted:
            self.coordinator.share.on_topics_deleted(delta.topics.deleted.keys(), self._now_ms)

    def _heartbeat(self, step: Step) -> Any:
        request = ShareGroupHeartbeatRequest.from_json(step["request"], 1)
        context = GroupRequestContext(1, step["client"], "/127.0.0.1")
        answer = self.share_groups.heartbeat(context, request)
        assert not isinstance(answer, Awaitable)
        return answer.to_json(1)

    def _describe(self, step: Step) -> Any:
        return self._handled(handle_share_group_describe, ShareGroupDescribeRequest(group_ids=step["groups"]), 1)

    def _list(self, step: Step) -> Any:
        request = ListGroupsRequest(states_filter=step["states"], types_filter=step["types"])
        return self.coordinator.list_groups(request).to_json(5)

    def _delete_groups(self, step: Step) -> Any:
        return self._handled(handle_delete_groups, DeleteGroupsRequest(groups_names=step["groups"]), 2)

    def _alter_offsets(self, step: Step) -> Any:
        request = AlterShareGroupOffsetsRequest.from_json(step["request"], 0)
        return self._handled(handle_alter_share_group_offsets, request, 0)

    def _delete_offsets(self, step: Step) -> Any:
        request = DeleteShareGroupOffsetsRequest.from_json(step["request"], 0)
        return self._handled(handle_delete_share_group_offsets, request, 0)

    def _describe_offsets(self, step: Step) -> Any:
        request = DescribeShareGroupOffsetsRequest.from_json(step["request"], 1)
        return self._handled(handle_describe_share_group_offsets, request, 1)

    def _handled(self, handle: Any, request: Any, version: int) -> Any:
        handler = handle.api_handler
        context = RequestContext(api_key=handler.api_key, api_version=version, client_id="client")
        answer = handler.function(self, request, Access(_AllRights(), context, handler.acl))
        if isinstance(answer, Awaitable):
            answer = self._loop.run_until_complete(_awaited(answer))
        return answer.to_json(version)

    def _settle(self) -> None:
        for _ in range(6):
            self._loop.run_until_complete(asyncio.sleep(0))


class ScriptedPersister:
    """Fails calls about one partition, and lets those of heartbeats wait, as the script says."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.waits = False
        self.is_heartbeat = False
        self.pending: list[asyncio.Future[None]] = []
        self.calls: list[Step] = []
        self._states: dict[tuple[str, Uuid, int], int] = {}
        self._open: dict[str, tuple[Step, asyncio.Future[None] | None]] = {}
        """The calls of this turn of the loop: those about several partitions are made together."""

    async def initialize_state(
        self, group_id: str, topic_id: Uuid, partition: int, state_epoch: int, start_offset: int
    ) -> tuple[int, str | None]:
        error = self._error(partition)
        waiting = self._note("initialize", group_id, topic_id, partition, f"{state_epoch}/{start_offset}")
        if error is ErrorCode.NONE:
            self._states[group_id, topic_id, partition] = start_offset
        if waiting is not None:
            await waiting
        return error, None if error is ErrorCode.NONE else error.name

    async def delete_state(self, group_id: str, topic_id: Uuid, partition: int) -> tuple[int, str | None]:
        error = self._error(partition)
        self._note("delete", group_id, topic_id, partition, "")
        if error is ErrorCode.NONE:
            self._states.pop((group_id, topic_id, partition), None)
        return error, None if error is ErrorCode.NONE else error.name

    async def read_summary(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int
    ) -> SharePartitionSummary:
        error = self._error(partition)
        start = self._states.get((group_id, topic_id, partition))
        summary = SharePartitionSummary(error, None, 0, 0, -1, -1)
        if error is ErrorCode.NONE and start is not None:
            summary = SharePartitionSummary(error, None, 1, 4, start, -1 if partition == 3 else 2 * partition)
        self._call("read summary", group_id)["results"].append(
            [
                str(topic_id),
                partition,
                summary.state_epoch,
                summary.start_offset,
                summary.delivery_complete_count,
                summary.leader_epoch,
                summary.error_code,
            ]
        )
        return summary

    def _error(self, partition: int) -> ErrorCode:
        if self.mode == "ok":
            return ErrorCode.NONE
        failing, name = self.mode.split()
        return ErrorCode[name] if partition == int(failing) else ErrorCode.NONE

    def _note(
        self, name: str, group_id: str, topic_id: Uuid, partition: int, argument: str
    ) -> asyncio.Future[None] | None:
        is_new = name not in self._open
        call = self._call(name, group_id)
        call["results"].append([str(topic_id), partition, argument, int(self._error(partition))])
        if is_new and name == "initialize" and self.waits and self.is_heartbeat:
            waiting = asyncio.get_running_loop().create_future()
            self.pending.append(waiting)
            self._open[name] = call, waiting
            call["waits"] = True
        return self._open[name][1]

    def _call(self, name: str, group_id: str) -> Step:
        if name not in self._open:
            call: Step = {"call": name, "group": group_id, "results": []}
            self.calls.append(call)
            self._open[name] = call, None
            asyncio.get_running_loop().call_soon(self._open.clear)
        return self._open[name][0]


class ScriptedEnds:
    async def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LatestOffset]:
        return {
            partition: LatestOffset.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if partition.partition == 2
            else LatestOffset(100 + partition.partition)
            for partition in partitions
        }


class _AllRights(Authorizer):
    def authorize(self, *_: Any, **__: Any) -> bool:
        return True


def normalized(step: Step) -> Step:
    """Return answers, calls and records of a step in a form that does not depend on the order of hash tables."""
    records = [_decoded(key, value) for key, value in step.get("records", [])]
    if step["kind"] == "advance":
        records = _in_any_order(records)
    elif step["kind"] == "delete groups":
        records.sort(key=lambda record: str(record[0][1]["groupId"]))
    result = {
        "answer": _sorted(step.get("answer")),
        "calls": _sorted([call for call in step.get("calls", []) if call["results"]]),
        "records": [[key, _sorted(value)] for key, value in _in_runs(records)],
    }
    return _unexplained(result)


def _in_any_order(records: list[Any]) -> list[Any]:
    """Return removals of members, whose sessions may have ended at the same time, and the last epoch of each group."""
    last = {json.dumps(key): [key, value] for key, value in records}
    return sorted(last.values(), key=json.dumps)


def _in_runs(records: list[Any]) -> list[Any]:
    """Sort records of one type that follow each other: those of several members, or groups."""
    runs: list[list[Any]] = []
    for record in records:
        if runs and runs[-1][0][0][0] == record[0][0]:
            runs[-1].append(record)
        else:
            runs.append([record])
    return [record for run in runs for record in sorted(run, key=lambda record: json.dumps(record[0]))]


def _decoded(key: str, value: str | None) -> Any:
    record = decode_coordinator_record(CoordinatorKind.GROUP, _bytes(key) or b"", _bytes(value))
    decoded = None if record.value is None else record.value.to_json(0)
    return [[record.key.API_KEY, record.key.to_json(0)], decoded]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _unexplained(value: Any) -> Any:
    """Leave out messages that are not the coordinator's own."""
    if isinstance(value, dict):
        rest = {name: _unexplained(item) for name, item in value.items()}
        if value.get("errorCode") in UNEXPLAINED:
            rest.pop("errorMessage", None)
        return rest
    return [_unexplained(item) for item in value] if isinstance(value, list) else value


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _uuid(most: int, least: int) -> Uuid:
    return Uuid.from_int((most << 64) + least)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
