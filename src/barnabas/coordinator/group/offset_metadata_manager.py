"""Decide OffsetCommit, OffsetFetch and OffsetDelete, and when committed offsets expire.

A commit without a member and a generation is from an admin client or from a consumer that assigns its
partitions itself. It is accepted while the group has no members, and creates a simple group if none exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.group import CheckPartition, Group, OffsetCommitter
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import OffsetCommitRecord, TopicOffsetsRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.offset_and_metadata import (
    INVALID_OFFSET,
    NO_LEADER_EPOCH,
    NO_METADATA,
    OffsetAndMetadata,
)
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["OffsetMetadataManager"]

_NEVER = -1
_NO_PRODUCER_ID = -1
_GROUP_NOT_FOUND_SINCE = 9
"""OffsetCommit version from which a generation of an unknown group is answered with GROUP_ID_NOT_FOUND."""


class OffsetMetadataManager:
    def __init__(
        self, config: GroupCoordinatorConfig, groups: Groups, classic: ClassicGroups, topics: ClusterView
    ) -> None:
        self._config = config
        self._groups = groups
        self._classic = classic
        self._topics = topics
        self.offsets = CommittedOffsets()
        self.commit_count = 0
        self.expiration_count = 0
        self.deletion_count = 0

    # -- OffsetCommit

    def commit_offsets(
        self, context: GroupRequestContext, request: OffsetCommitRequest, now_ms: int
    ) -> CoordinatorResult[OffsetCommitResponse]:
        check = self._validate_commit(context, request)
        self._classic.extend_session(request.group_id, request.member_id, now_ms)
        if check is not None:
            for topic in request.topics:
                for partition in topic.partitions:
                    if not self._is_too_large(partition.committed_metadata):
                        check(topic.name, topic.topic_id, partition.partition_index)
        retention_ms = request.retention_time_ms
        expire_timestamp_ms = _NEVER if retention_ms == -1 else now_ms + retention_ms
        records: list[CoordinatorRecord] = []
        topics = [
            self._commit_topic(request.group_id, topic, now_ms, expire_timestamp_ms, records)
            for topic in request.topics
        ]
        return CoordinatorResult(records, OffsetCommitResponse(topics=topics))

    def _commit_topic(
        self,
        group_id: str,
        topic: OffsetCommitRequestTopic,
        now_ms: int,
        expire_timestamp_ms: int,
        records: list[CoordinatorRecord],
    ) -> OffsetCommitResponseTopic:
        if expire_timestamp_ms == _NEVER and not any(item.committed_metadata for item in topic.partitions):
            return self._commit_plain_topic(group_id, topic, now_ms, records)
        name, topic_id = topic.name, topic.topic_id
        outcomes: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or NO_METADATA
            if self._is_too_large(metadata):
                outcomes.append(
                    OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE)
                )
                continue
            value = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                now_ms,
                expire_timestamp_ms,
                topic_id,
            )
            records.append(OffsetCommitRecord(group_id, name, index, value))
            outcomes.append(_accepted(index))
        return OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=outcomes)

    def _commit_plain_topic(
        self, group_id: str, topic: OffsetCommitRequestTopic, now_ms: int, records: list[CoordinatorRecord]
    ) -> OffsetCommitResponseTopic:
        """The fast path: none of these offsets can be refused, and the cost of each partition is minimal."""
        topic_id = topic.topic_id
        new, cls = tuple.__new__, OffsetAndMetadata
        offsets: dict[int, OffsetAndMetadata] = {}
        outcomes: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            offsets[index] = new(
                cls,
                (partition.committed_offset, partition.committed_leader_epoch, NO_METADATA, now_ms, _NEVER, topic_id),
            )
            outcomes.append(_accepted(index))
        if offsets:
            records.append(TopicOffsetsRecord(group_id, topic.name, topic_id, now_ms, offsets))
        return OffsetCommitResponseTopic(name=topic.name, topic_id=topic_id, partitions=outcomes)

    def _validate_commit(self, context: GroupRequestContext, request: OffsetCommitRequest) -> CheckPartition | None:
        """Raise ApiException if the commit is not allowed; return a check for its partitions, if one is needed."""
        generation_id = request.generation_id_or_member_epoch
        group = self._groups.find(request.group_id)
        if group is None:
            if generation_id < 0:
                return None
            if context.api_version >= _GROUP_NOT_FOUND_SINCE:
                raise ApiException(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiException(ErrorCode.ILLEGAL_GENERATION)
        return group.validate_offset_commit(
            OffsetCommitter(
                request.member_id,
                request.group_instance_id,
                generation_id,
                is_transactional=False,
                api_version=context.api_version,
            )
        )

    # -- TxnOffsetCommit

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, now_ms: int
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Write offsets that take effect with the transaction of their producer (KIP-447)."""
        self._validate_transactional_commit(request)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            outcomes = []
            for partition in topic.partitions:
                metadata = partition.committed_metadata or NO_METADATA
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE if self._is_too_large(metadata) else ErrorCode.NONE
                outcomes.append(
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
                if code is ErrorCode.NONE:
                    value = OffsetAndMetadata(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        metadata,
                        now_ms,
                        _NEVER,
                        Uuid.ZERO,
                    )
                    records.append(OffsetCommitRecord(request.group_id, topic.name, partition.partition_index, value))
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=outcomes))
        return CoordinatorResult(records, TxnOffsetCommitResponse(topics=topics))

    def _validate_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Raise ApiException for a producer whose consumer is not a member of this generation any more. Producers
        before KIP-447 name no member: their transactional id fences them."""
        group = self._groups.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise ApiException(ErrorCode.ILLEGAL_GENERATION)
            return
        try:
            check = group.validate_offset_commit(
                OffsetCommitter(
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    is_transactional=True,
                    api_version=-1,
                )
            )
            if check is not None:
                for topic in request.topics:
                    topic_id = self._topics.id_of(topic.name)
                    if topic_id is None:
                        raise ApiException(ErrorCode.ILLEGAL_GENERATION)
                    for partition in topic.partitions:
                        if not self._is_too_large(partition.committed_metadata):
                            check(topic.name, topic_id, partition.partition_index)
        except ApiException as error:
            if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                raise
            raise ApiException(ErrorCode.ILLEGAL_GENERATION) from error  # Clients of transactions know no other error.

    def _is_too_large(self, metadata: str | None) -> bool:
        return metadata is not None and _java_length(metadata) > self._config.offset_metadata_max_bytes

    # -- OffsetFetch

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return the offsets of the requested partitions, or of all when ``topics`` is null."""
        group_id = request.group_id
        group = self._groups.find(group_id)
        if group is not None:
            group.validate_offset_fetch(request.member_id, request.member_epoch)
        if request.topics is None:
            return self._fetch_all(group_id, require_stable)
        topics: list[OffsetFetchResponseTopics] = []
        for topic in request.topics:
            name = topic.name
            offsets = self.offsets.of_group(group_id).get(name) or {}
            partitions = [
                self._fetched(group_id, name, index, offsets.get(index), topic.topic_id, require_stable)
                for index in topic.partition_indexes
            ]
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions))
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def _fetch_all(self, group_id: str, require_stable: bool) -> OffsetFetchResponseGroup:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    self._fetched(group_id, name, index, value, Uuid.ZERO, require_stable)
                    for index, value in partitions.items()
                ],
            )
            for name, partitions in self.offsets.of_group(group_id).items()
        ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def _fetched(
        self,
        group_id: str,
        topic: str,
        partition: int,
        value: OffsetAndMetadata | None,
        topic_id: Uuid,
        require_stable: bool,
    ) -> OffsetFetchResponsePartitions:
        code = ErrorCode.NONE
        if require_stable and self.offsets.is_pending(group_id, topic, partition):
            value, code = None, ErrorCode.UNSTABLE_OFFSET_COMMIT
        if value is None or _belongs_to_another_topic(value.topic_id, topic_id):
            return OffsetFetchResponsePartitions(
                partition_index=partition,
                committed_offset=INVALID_OFFSET,
                committed_leader_epoch=NO_LEADER_EPOCH,
                metadata=NO_METADATA,
                error_code=code,
            )
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=value.committed_offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
        )

    # -- OffsetDelete and removal

    def delete_offsets(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Remove offsets of topics that no member subscribes to."""
        group_id = request.group_id
        group = self._groups.require(group_id)
        group.validate_offset_delete()
        records: list[CoordinatorRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            partitions = []
            for partition in topic.partitions:
                index = partition.partition_index
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not subscribed and self._has_offset(group_id, topic.name, index):
                    records.append(OffsetCommitRecord(group_id, topic.name, index, None))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics))

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Remove all committed and pending offsets of a group."""
        return [
            OffsetCommitRecord(group_id, topic, partition, None)
            for topic, partition in self.offsets.known_partitions(group_id)
        ]

    def tombstones_of_partitions(self, partitions: Iterable[tuple[str, int]]) -> list[CoordinatorRecord]:
        """Remove the offsets of deleted topics from all groups."""
        gone = set(partitions)
        return [
            OffsetCommitRecord(group_id, topic, partition, None)
            for group_id in list(self.offsets.groups())
            for topic, partition in self.offsets.known_partitions(group_id)
            if (topic, partition) in gone
        ]

    def _has_offset(self, group_id: str, topic: str, partition: int) -> bool:
        offsets = self.offsets
        return offsets.get(group_id, topic, partition) is not None or offsets.is_pending(group_id, topic, partition)

    # -- expiry

    def expire(self, group: Group, now_ms: int, records: list[CoordinatorRecord]) -> bool:
        """Add tombstones for expired offsets; return True if the group has no committed or pending offsets left."""
        group_id = group.group_id
        topics = self.offsets.of_group(group_id)
        has_open_transaction = self.offsets.has_open_transaction(group_id)
        if not topics:
            return not has_open_transaction
        expiry = group.offset_expiry()
        if expiry is None:
            return False
        all_expired = True
        for topic, partitions in topics.items():
            if group.is_subscribed_to(topic):
                all_expired = False
                continue
            for partition, value in partitions.items():
                if self._is_expired(value, expiry.since_ms, now_ms) and not self.offsets.is_pending(
                    group_id, topic, partition
                ):
                    records.append(OffsetCommitRecord(group_id, topic, partition, None))
                    self.expiration_count += 1
                else:
                    all_expired = False
        return all_expired and not has_open_transaction

    def _is_expired(self, value: OffsetAndMetadata, since_ms: int | None, now_ms: int) -> bool:
        """Retention counts from ``since_ms``, when the group became empty, or else from the commit."""
        if value.expire_timestamp_ms != _NEVER:
            return now_ms >= value.expire_timestamp_ms
        base_ms = value.commit_timestamp_ms if since_ms is None else since_ms
        return now_ms - base_ms >= self._config.offsets_retention_ms

    # -- replay

    def replay_topic(self, record: TopicOffsetsRecord, record_offset: int, now_ms: int) -> None:
        self._classic.ensure_group(record.group_id, now_ms)
        self.offsets.put_topic(record.group_id, record.topic, record.offsets, record_offset)
        self.commit_count += len(record.offsets)

    def replay(self, record: OffsetCommitRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        value = record.value
        if value is None:
            self.offsets.remove(record.group_id, record.topic, record.partition)
            self.deletion_count += 1
            return
        self._classic.ensure_group(record.group_id, now_ms)
        if producer_id == _NO_PRODUCER_ID:
            self.offsets.put(record.group_id, record.topic, record.partition, value, record_offset)
            self.commit_count += 1
        else:
            self.offsets.put_pending(producer_id, record.group_id, record.topic, record.partition, value, record_offset)


@lru_cache(maxsize=4_096)
def _accepted(index: int) -> OffsetCommitResponsePartition:
    """Shared by all answers; the entry of a partition is never changed."""
    return OffsetCommitResponsePartition(partition_index=index)


def _java_length(text: str) -> int:
    """Return ``String.length``: UTF-16 code units, the unit of the limit."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def _belongs_to_another_topic(recorded: Uuid, requested: Uuid) -> bool:
    """Return whether the topic was deleted and created again since this offset was committed."""
    return recorded != requested and recorded != Uuid.ZERO and requested != Uuid.ZERO
