"""Decide the requests of administrators about the start offsets of share groups without members.

The offsets are part of the state of share-partitions. So each request is decided in two steps: a record says what is
about to change, then the persister changes it, then another record says what was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.coordinator.group.share.share_group_records import state_partitions_record
from barnabas.coordinator.group.share.share_groups import ShareGroups
from barnabas.coordinator.group.share.state_calls import DeleteStates, InitializeStates
from barnabas.coordinator.group.share.state_partitions import SharedTopic, StatePartitions
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)

__all__ = ["UNKNOWN_PARTITION", "DecidedAlteration", "DecidedDeletion", "ShareGroupOffsets"]

UNKNOWN_PARTITION = "This server does not host this topic-partition."


class DecidedAlteration(NamedTuple):
    response: AlterShareGroupOffsetsResponse
    """The answer if the persister succeeds."""
    initialize: InitializeStates


class DecidedDeletion(NamedTuple):
    failed: list[DeleteShareGroupOffsetsResponseTopic]
    delete: DeleteStates
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class ShareGroupOffsets:
    def __init__(self, groups: ShareGroups, view: ClusterView) -> None:
        self._groups = groups
        self._view = view

    # -- AlterShareGroupOffsets

    def alter(self, request: AlterShareGroupOffsetsRequest) -> CoordinatorResult[DecidedAlteration]:
        """Begin to set start offsets. A group that does not exist is created."""
        group = self._groups.existing_or_new(request.group_id)
        group.validate_delete()
        response = AlterShareGroupOffsetsResponse()
        topics: dict[Uuid, SharedTopic] = {}
        offsets: dict[Uuid, dict[int, int]] = {}
        for topic in request.topics:
            topic_id = self._view.id_of(topic.topic_name)
            count = 0 if topic_id is None else self._view.partition_count(topic_id)
            known = {
                partition.partition_index: partition.start_offset
                for partition in topic.partitions
                if 0 <= partition.partition_index < count
            }
            response.responses.append(_altered(topic, topic_id, known))
            if topic_id is not None:
                topics[topic_id] = SharedTopic(topic.topic_name, frozenset(known))
                if known:
                    offsets[topic_id] = known
        records: list[CoordinatorRecord] = []
        if topics:
            records.append(self._record(group.group_id, group.known_partitions.with_initializing(topics)))
        initialize = InitializeStates(group.group_id, group.epoch, offsets)
        return CoordinatorResult(records, DecidedAlteration(response, initialize), is_ahead=True)

    # -- DeleteShareGroupOffsets

    def delete(self, request: DeleteShareGroupOffsetsRequest) -> CoordinatorResult[DecidedDeletion]:
        """Begin to delete the offsets of topics. Those of a deletion that may have failed are deleted again."""
        group = self._groups.require(request.group_id)
        group.validate_delete()
        failed: list[DeleteShareGroupOffsetsResponseTopic] = []
        deleted: dict[Uuid, frozenset[int]] = {}
        decided = DecidedDeletion(failed, DeleteStates(group.group_id, deleted))
        if group.partitions is None:
            return CoordinatorResult([], decided, is_ahead=True)
        initialized = dict(group.partitions.initialized)
        deleting = set(group.partitions.deleting)
        for name in (topic.topic_name for topic in request.topics):
            topic = self._view.topic(name)
            if topic is None:
                failed.append(_not_deleted(name, UNKNOWN_PARTITION))
            elif topic.id in initialized:
                deleted[topic.id] = initialized.pop(topic.id).partitions
                deleting.add(topic.id)
            elif topic.id in deleting:
                deleted[topic.id] = frozenset(range(len(topic.partitions)))
            else:
                failed.append(_not_deleted(name, "There is no offset information to delete."))
        rest = group.partitions._replace(initialized=initialized, deleting=frozenset(deleting))
        return CoordinatorResult([self._record(group.group_id, rest)], decided, is_ahead=True)

    def deleted(
        self, group_id: str, topics: Mapping[Uuid, str]
    ) -> CoordinatorResult[list[DeleteShareGroupOffsetsResponseTopic]]:
        """Record that the offsets of these topics (their ids and names) were deleted."""
        group = self._groups.find(group_id)
        if group is None or group.partitions is None:
            return CoordinatorResult([], [], is_ahead=True)
        rest = group.partitions._replace(deleting=group.partitions.deleting - topics.keys())
        deleted = [
            DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            for topic_id, name in topics.items()
        ]
        return CoordinatorResult([self._record(group_id, rest)], deleted, is_ahead=True)

    # -- DeleteGroups

    def delete_with_groups(self, group_ids: Iterable[str]) -> CoordinatorResult[dict[str, DeleteStates | ErrorCode]]:
        """Begin to delete share groups. Groups of other kinds are passed over, and share groups without states, too."""
        records: list[CoordinatorRecord] = []
        decided: dict[str, DeleteStates | ErrorCode] = {}
        for group_id in group_ids:
            group = self._groups.find(group_id)
            if group is None:
                continue
            try:
                group.validate_delete()
            except ApiException as error:
                decided[group_id] = error.code
                continue
            if group.partitions is not None:
                rest, topics = group.partitions.deleted_with_group(self._view)
                names = {topic_id: topic.name for topic_id, topic in topics.items()}
                records.append(state_partitions_record(group_id, rest, names.get))
                # With a topic its states are deleted.
                partitions = {
                    topic_id: topic.partitions
                    for topic_id, topic in topics.items()
                    if topic.partitions and self._view.topic_of(topic_id) is not None
                }
                if partitions:
                    decided[group_id] = DeleteStates(group_id, partitions)
        return CoordinatorResult(records, decided, is_ahead=True, is_atomic=False)

    # -- DescribeShareGroupOffsets

    def initialized(self, group_id: str) -> Partitions:
        """Return the partitions of a group that have start offsets; none for an unknown group."""
        group = self._groups.find(group_id)
        return {} if group is None else group.assignable

    def _record(self, group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
        return state_partitions_record(group_id, partitions, self._view.name_of)


def _altered(
    topic: AlterShareGroupOffsetsRequestTopic, topic_id: Uuid | None, known: Mapping[int, int]
) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic_id or Uuid.ZERO,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
            if partition.partition_index in known
            else AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=UNKNOWN_PARTITION,
            )
            for partition in topic.partitions
        ],
    )


def _not_deleted(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
    )
