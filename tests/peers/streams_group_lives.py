"""Runs the steps of ``StreamsGroupLives.java`` on our group coordinator, with the same answers and records.

The answer of a step has no order where Kafka's is that of a hash table. Tasks that ours repeats for a member that
reports others are passed over: Kafka 4.3 does not repeat them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.messages.delete_groups import DeleteGroupsResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from tests.unit.coordinator.memory_log import MemoryTopic

__all__ = ["differences", "replayed"]

Json = dict[str, Any]

START_MS = 1_000_000
BROKERS = 3
_GROUP = int(ConfigResourceType.GROUP)


class _Life:
    def __init__(self, settings: Mapping[str, str]) -> None:
        config = GroupCoordinatorConfig(
            offsets_topic_num_partitions=1,
            **{name.replace(".", "_"): int(value) for name, value in settings.items()},  # type: ignore[arg-type]
        )
        self._now_ms = START_MS
        self._topic = MemoryTopic()
        self._view = ClusterView(MetadataImage.EMPTY)
        self._metadata_offset = 0
        self._leader_epoch = 0
        self._configs: dict[str, set[str]] = {}
        self._coordinator = GroupCoordinator(config, writer=self._topic, new_uuid=lambda: "uuid", view=self._view)
        self._topic.runtime = self._coordinator.runtime
        self._coordinator.start()
        brokers = [
            RegisterBrokerRecord(
                broker_id=broker, broker_epoch=broker, incarnation_id=_uuid(1, broker), rack=f"rack-{broker}"
            )
            for broker in range(BROKERS)
        ]
        self._publish(*brokers)
        self._load()

    def run(self, step: Json) -> Json:
        """Return what the step, as it was recorded, is answered, and what it writes."""
        before = len(self._topic.log(0).batches)
        result: Json = {"kind": step["kind"]}
        answer = getattr(self, "_" + step["kind"].replace(" ", "_"))(step)
        if answer is not None:
            result |= answer
        if step["kind"] != "end transaction":  # That writes a marker only.
            result["records"] = [
                [_base64(record.key), _base64(record.value)]
                for _, _, batch in self._topic.log(0).batches[before:]
                for view in iter_batches(batch)
                for record in view.records()
            ]
        return result

    # -- time and leadership

    def _advance(self, step: Json) -> None:
        end_ms = self._now_ms + step["ms"]
        runtime = self._coordinator.runtime
        while (deadline := runtime.next_deadline_ms()) is not None and deadline <= end_ms:
            self._now_ms = max(self._now_ms, deadline)
            self._tick()
        self._now_ms = end_ms
        self._tick()

    def _tick(self) -> None:
        self._topic.now_ms = self._now_ms
        self._coordinator.runtime.tick(self._now_ms)
        assert self._coordinator.runtime.failed_deadline_count == 0

    def _failover(self, step: Json) -> None:
        self._coordinator.runtime.unload(0, self._now_ms)
        self._load()

    def _load(self) -> None:
        runtime = self._coordinator.runtime
        self._leader_epoch += 1
        shard = runtime.start_loading(0, self._leader_epoch, self._now_ms)
        assert shard is not None
        CoordinatorLoader(runtime, 0, shard, self._topic.log(0)).run(self._now_ms)

    # -- the cluster

    def _topics(self, step: Json) -> None:
        if "id" not in step:
            return
        topic_id = Uuid.from_string(step["id"])
        if step["change"] == "delete":
            self._publish(RemoveTopicRecord(topic_id=topic_id))
            return
        created = [TopicRecord(name=step["topic"], topic_id=topic_id)] if step["change"] == "create" else []
        self._publish(*created, *_partitions(topic_id, step["first"], step["end"]))

    def _create_missing(self, step: Json) -> None:
        records: list[Any] = []
        for topic in step["topics"]:
            topic_id = Uuid.from_string(topic["id"])
            records.append(TopicRecord(name=topic["topic"], topic_id=topic_id))
            records += _partitions(topic_id, 0, topic["count"])
        self._publish(*records)

    def _config(self, step: Json) -> None:
        group = step["group"]
        known = self._configs.setdefault(group, set())
        self._publish(
            *(
                ConfigRecord(resource_type=_GROUP, resource_name=group, name=name, value=step["set"].get(name))
                for name in sorted(known | step["set"].keys())
            )
        )
        known.update(step["set"])

    def _publish(self, *records: Any) -> None:
        """Do what ``GroupService.publish`` does."""
        delta = MetadataDelta(self._view.image)
        for record in records:
            delta.replay(record)
        self._metadata_offset += 1
        image = delta.apply(MetadataProvenance(self._metadata_offset, 1, self._now_ms))
        self._coordinator.follow_metadata(delta, image)
        deleted = () if delta.topics is None else delta.topics.deleted.values()
        removed = {(topic.name, partition) for topic in deleted for partition in topic.partitions}
        if removed:
            self._coordinator.on_partitions_deleted(removed, self._now_ms)

    # -- requests

    def _heartbeat(self, step: Json) -> Json:
        request = StreamsGroupHeartbeatRequest.from_json(step["request"], 0)
        context = GroupRequestContext(0, step["client"], "/127.0.0.1")
        response, topics = self._coordinator.streams.heartbeat(context, request, self._now_ms).value
        create = [[topic.name, topic.num_partitions, topic.replication_factor] for topic in topics.values()]
        return {"answer": response.to_json(0), "create": create}

    def _describe(self, step: Json) -> Json:
        groups = [whole(self._coordinator.streams.describe(group_id)) for group_id in step["groups"]]
        return {"answer": StreamsGroupDescribeResponse(groups=groups).to_json(0)}

    def _list(self, step: Json) -> Json:
        request = ListGroupsRequest(states_filter=step["states"], types_filter=step["types"])
        return {"answer": self._coordinator.list_groups(request).to_json(5)}

    def _delete_groups(self, step: Json) -> Json:
        parts = self._coordinator.delete_groups(step["groups"], self._now_ms).value
        return {"answer": DeleteGroupsResponse(results=[result for part in parts for result in part]).to_json(2)}

    def _commit(self, step: Json) -> Json:
        version = step["version"]
        request = OffsetCommitRequest.from_json(step["request"], version)
        answer = self._coordinator.commit_offsets(_context(version), request, self._now_ms).value
        return {"answer": answer.to_json(version)}

    def _transactional_commit(self, step: Json) -> Json:
        request = TxnOffsetCommitRequest.from_json(step["request"], step["version"])
        answer = self._coordinator.commit_transactional_offsets(request, self._now_ms).value
        return {"answer": answer.to_json(step["version"])}

    def _end_transaction(self, step: Json) -> None:
        marker = TransactionMarker(step["producer"], 0, step["commits"], 1)
        ended: Deferred[ErrorCode] = self._coordinator.end_transaction(0, marker, self._now_ms)
        assert ended.value is ErrorCode.NONE

    def _fetch(self, step: Json) -> Json:
        request = OffsetFetchRequest.from_json(step["request"], step["version"])
        try:
            found = self._coordinator.fetch_offsets(request.groups[0], require_stable=request.require_stable)
        except ApiException as error:
            return {"answer": {"error": error.code}}
        return {"answer": OffsetFetchResponse(groups=[found]).to_json(step["version"])}

    def _delete_offsets(self, step: Json) -> Json:
        request = OffsetDeleteRequest.from_json(step["request"], step["version"])
        return {"answer": self._coordinator.delete_offsets(request, self._now_ms).value.to_json(step["version"])}


def replayed(life: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Run a recorded life, whose first element has the settings. Return each step with what ours did."""
    ours = _Life(life[0])
    for step in life[1:]:
        yield step, ours.run(step)


def differences(life: list[Json]) -> list[str]:
    """Return the steps that ours answers in another way, or after which it writes other records, until the first."""
    before: list[str] = []
    for number, (step, ours) in enumerate(replayed(life)):
        expected, found = _comparable(step), _comparable(_without_repeated_tasks(step, ours))
        if expected != found:
            shown = {name: value for name, value in step.items() if name not in ("answer", "records")}
            kinds = " | ".join(before[-12:])
            return [f"step {number}: {shown} after {kinds}: {_difference(expected, found)}"]
        before.append(_short(step))
    return []


def _short(step: Json) -> str:
    request = step.get("request", {})
    return " ".join(
        str(part) for part in (step["kind"], request.get("memberId", ""), request.get("memberEpoch", "")) if part != ""
    )


def _difference(expected: Json, found: Json) -> str:
    return "; ".join(
        f"{name}: {found.get(name)}, in Kafka {expected.get(name)}"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    )


def _comparable(step: Json) -> Json:
    records = [_decoded(key, value) for key, value in step.get("records", [])]
    if step["kind"] == "advance":
        records = list({_text(key): [key, value] for key, value in records}.values())
    return {
        "answer": _in_order(_shown(step.get("answer"))),
        "create": step.get("create"),
        "records": sorted(records, key=_text),
    }


def _without_repeated_tasks(step: Json, ours: Json) -> Json:
    """Return what ours did without the tasks of its answer, if Kafka has not changed them and they were reported."""
    if step["kind"] != "heartbeat" or step["answer"]["activeTasks"] is not None:
        return ours
    if step["request"]["memberEpoch"] <= 0 or step["request"]["activeTasks"] is None:
        return ours
    tasks = ("activeTasks", "standbyTasks", "warmupTasks")
    return {**ours, "answer": {**ours["answer"], **dict.fromkeys(tasks)}}


def _shown(answer: Any) -> Any:
    """Kafka's text of an unexpected error never reaches a client. A failed OffsetFetch has two forms in Kafka."""
    if not isinstance(answer, dict):
        return answer
    if answer.get("errorCode") == ErrorCode.UNKNOWN_SERVER_ERROR:
        return {**answer, "errorMessage": None}
    if answer.get("groups") and answer["groups"][0].get("topics") == []:
        return {"error": answer["groups"][0]["errorCode"]}
    return answer


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((_in_order(part) for part in value), key=_text)
    return value


def _decoded(key: str, value: str | None) -> list[Any]:
    raw = None if value is None else b64decode(value)
    decoded = decode_coordinator_record(CoordinatorKind.GROUP, b64decode(key), raw)
    shown = None if decoded.value is None else decoded.value.to_json(decoded.version)
    return [[type(decoded.key).__name__, decoded.key.to_json(0)], _in_order(shown)]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _context(version: int) -> GroupRequestContext:
    return GroupRequestContext(version, "client", "/127.0.0.1")


def _partitions(topic_id: Uuid, first: int, end: int) -> list[PartitionRecord]:
    return [
        PartitionRecord(
            topic_id=topic_id,
            partition_id=partition,
            replicas=[partition % BROKERS, (partition + 1) % BROKERS],
            isr=[partition % BROKERS],
            leader=partition % BROKERS,
        )
        for partition in range(first, end)
    ]


def _uuid(most: int, least: int) -> Uuid:
    return Uuid.from_int((most << 64) + least)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
