"""The group coordinator of a broker: passes each request to the shard of its group's partition.

It makes the checks that do not depend on a group: ids, session timeouts, whether the coordinator runs. Requests
that are answered from state return their response. Requests that write or wait return a Deferred, which is already
complete unless it must wait for a rebalance or the high watermark.

``now_ms`` is the wall clock, corrected by the caller so that it never goes back: deadlines are computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime, PartitionWriter
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.classic.classic_group_rebalance import append_error
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.group_changes import MatchTopics
from barnabas.coordinator.group.consumer.heartbeat import validate_heartbeat
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from barnabas.coordinator.group.group_counts import counted_by_state
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.share.share_group_requests import ShareGroupRequests
from barnabas.coordinator.group.streams.streams_group_requests import StreamsGroupRequests
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.protocol.compression import Compression
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["GroupCoordinator", "GroupCoordinatorStats", "commit_error", "transactional_commit_error"]

T = TypeVar("T")

_LEAVE_BATCH_SINCE = 3


class GroupCoordinatorStats(NamedTuple):
    """Numbers of groups and offsets, and counters since the partitions were loaded."""

    groups: dict[tuple[str, str], int]
    """By kind and state."""
    offset_count: int
    offset_commit_count: int
    offset_expiration_count: int
    offset_deletion_count: int
    completed_rebalance_count: int
    """Of classic groups."""
    rebalance_counts: dict[str, int]
    """The bumps of group epochs by requests, by kind of group."""


class GroupCoordinator:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        *,
        writer: PartitionWriter,
        new_uuid: Callable[[], str],
        view: ClusterView,
    ) -> None:
        self.config = config
        self.view = view
        self.is_active = False
        self.runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            writer=writer,
            new_shard=lambda partition, leader_epoch: GroupCoordinatorShard(config, new_uuid, view),
            compression=Compression(config.offsets_topic_compression_codec),
            commit_timeout_ms=config.offsets_commit_timeout_ms,
        )
        self._partition_count = config.offsets_topic_num_partitions
        self.partition_for = lru_cache(maxsize=16_384)(self._partition_for)
        """Return the partition of ``__consumer_offsets`` of a group."""
        self.share = ShareGroupRequests(self)
        self.streams = StreamsGroupRequests(self)

    def start(self) -> None:
        """Answer requests from now on."""
        self.is_active = True

    def set_partition_count(self, partition_count: int) -> None:
        """Set the topic's actual number of partitions: the setting only applies when the topic is created."""
        if partition_count != self._partition_count:
            self._partition_count = partition_count
            self.partition_for.cache_clear()

    def stop(self, now_ms: int) -> None:
        """Refer all waiting callers to another coordinator; later requests are not answered."""
        self.is_active = False
        for partition in range(self._partition_count):
            self.runtime.unload(partition, now_ms)

    def _partition_for(self, group_id: str) -> int:
        return coordinator_partition(group_id, self._partition_count)

    def write(
        self,
        group_id: str,
        decide: Callable[[GroupCoordinatorShard], CoordinatorResult[T]],
        on_failure: Callable[[ErrorCode], T],
        now_ms: int,
        *,
        answer: Deferred[T] | None = None,
        takes_empty_id: bool = False,
        producer: ProducerIdAndEpoch | None = None,
    ) -> Deferred[T]:
        """Let the group's shard decide. ``on_failure`` builds the response from an error for the client."""
        if answer is None:
            answer = Deferred()
        if not self.is_active:
            answer.complete(on_failure(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif not group_id and not takes_empty_id:
            answer.complete(on_failure(ErrorCode.INVALID_GROUP_ID))
        else:
            self.runtime.write(
                self.partition_for(group_id),
                decide,
                now_ms=now_ms,
                answer=answer,
                on_failure=lambda code: on_failure(append_error(code)),
                producer=producer,
            )
        return answer

    def write_explained(
        self,
        group_id: str,
        decide: Callable[[GroupCoordinatorShard], CoordinatorResult[T]],
        on_failure: Callable[[ErrorCode, str | None], T],
        now_ms: int,
    ) -> Deferred[T]:
        """Do the same for a response with a field for the message of an error."""
        message: list[str | None] = [None]

        def explained(shard: GroupCoordinatorShard) -> CoordinatorResult[T]:
            try:
                return decide(shard)
            except ApiException as error:
                message[0] = error.message
                raise

        return self.write(group_id, explained, lambda code: on_failure(code, message[0]), now_ms)

    def describe(
        self,
        group_id: str,
        describe: Callable[[GroupCoordinatorShard], Steps[T]],
        new_description: Callable[..., T],
        *,
        takes_empty_id: bool = False,
    ) -> Steps[T]:
        """Let the group's shard describe it. ``new_description`` takes ``group_id`` and ``error_code``."""
        if not self.is_active:
            return new_description(group_id=group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group_id and not takes_empty_id:
            return new_description(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            shard = self.runtime.shard(self.partition_for(group_id))
        except ApiException as error:
            return new_description(group_id=group_id, error_code=error.code)
        return (yield from describe(shard))

    # -- membership

    def join_group(
        self, context: GroupRequestContext, request: JoinGroupRequest, now_ms: int
    ) -> Deferred[JoinGroupResponse]:
        answer: Deferred[JoinGroupResponse] = Deferred()
        config = self.config
        lowest_ms, highest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms

        def decide(shard: GroupCoordinatorShard) -> CoordinatorResult[JoinGroupResponse]:
            return shard.join_group(context, request, answer, now_ms)

        def failed(code: ErrorCode) -> JoinGroupResponse:
            return JoinGroupResponse(error_code=code, member_id=request.member_id)

        if self.is_active and request.group_id and not lowest_ms <= request.session_timeout_ms <= highest_ms:
            answer.complete(failed(ErrorCode.INVALID_SESSION_TIMEOUT))
            return answer
        return self.write(request.group_id, decide, failed, now_ms, answer=answer)

    def sync_group(self, request: SyncGroupRequest, now_ms: int) -> Deferred[SyncGroupResponse]:
        answer: Deferred[SyncGroupResponse] = Deferred()
        return self.write(
            request.group_id,
            lambda shard: shard.sync_group(request, answer, now_ms),
            lambda code: SyncGroupResponse(error_code=code),
            now_ms,
            answer=answer,
        )

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Deferred[HeartbeatResponse]:
        def failed(code: ErrorCode) -> HeartbeatResponse:
            # Sessions start when loading has finished, so a heartbeat before that is simply a good one.
            loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)

        return self.write(request.group_id, lambda shard: shard.heartbeat(request, now_ms), failed, now_ms)

    def leave_group(
        self, context: GroupRequestContext, request: LeaveGroupRequest, now_ms: int
    ) -> Deferred[LeaveGroupResponse]:
        is_batch = context.api_version >= _LEAVE_BATCH_SINCE
        members = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]

        def decide(shard: GroupCoordinatorShard) -> CoordinatorResult[LeaveGroupResponse]:
            result = shard.leave_group(request.group_id, members, now_ms)
            if is_batch or result.response is None or not result.response.members:
                return result
            # Before version 3 a request has one member, whose error is that of the whole response.
            return result.with_response(LeaveGroupResponse(error_code=result.response.members[0].error_code))

        return self.write(request.group_id, decide, lambda code: LeaveGroupResponse(error_code=code), now_ms)

    # -- members of the consumer protocol

    def consumer_group_heartbeat(
        self,
        context: GroupRequestContext,
        request: ConsumerGroupHeartbeatRequest,
        match_topics: MatchTopics,
        now_ms: int,
    ) -> Deferred[ConsumerGroupHeartbeatResponse]:
        """``match_topics`` starts to match regular expressions with the rights of the member."""
        try:
            if self.is_active:
                validate_heartbeat(request, context.api_version, self.config.group_consumer_assignors)
        except ApiException as error:
            return Deferred.completed(_heartbeat_error(error.code, error.message))
        return self.write_explained(
            request.group_id,
            lambda shard: shard.consumer.heartbeat(context, request, match_topics, now_ms),
            _heartbeat_error,
            now_ms,
        )

    def regular_expressions_matched(
        self, group_id: str, matched: Mapping[str, frozenset[str]] | None, version: int, now_ms: int
    ) -> None:
        """Store the topics that a group's regular expressions stand for; None if matching failed."""
        self.runtime.write_quietly(
            self.partition_for(group_id),
            lambda shard: shard.consumer.changes.regular_expressions_matched(group_id, matched, version, now_ms),
            now_ms=now_ms,
        )

    def describe_consumer_group(self, group_id: str) -> Steps[DescribedConsumerGroup]:
        """Describe a group, in steps if it is large."""
        return self.describe(group_id, lambda shard: shard.consumer.describe_in_steps(group_id), DescribedConsumerGroup)

    def follow_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Let the groups that depend on changed or deleted topics compute their assignments again."""
        view, topics = self.view, delta.topics
        if topics is None:
            view.update(image, (), has_new_topics=False)
            return
        changed = {topic.name for topic in topics.changed.values()} | {topic.name for topic in topics.deleted.values()}
        has_new_topics = any(name not in view.image.topics.by_name for name in changed)
        view.update(image, changed, has_new_topics=has_new_topics)
        for _, shard in self.runtime.active_shards():
            shard.groups.request_metadata_refresh(changed)

    # -- groups

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Return the groups of every partition that is led here; other brokers list those that they lead."""
        if not self.is_active:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.runtime.is_loading():
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states = frozenset(state.lower() for state in request.states_filter)
        types = frozenset(name.lower() for name in request.types_filter)
        response = ListGroupsResponse()
        for _, shard in self.runtime.active_shards():
            response.groups += shard.list_groups(states, types)
        return response

    def describe_group(self, context: GroupRequestContext, group_id: str) -> Steps[DescribedGroup]:
        """Describe a classic group, in steps if it is large."""
        return self.describe(
            group_id,
            lambda shard: shard.describe_group(group_id, context.api_version),
            DescribedGroup,
            takes_empty_id=True,
        )

    def delete_groups(self, group_ids: Iterable[str], now_ms: int) -> Deferred[list[list[DeletableGroupResult]]]:
        """Return the results, a list for each affected partition."""
        return gather([self._delete_groups(same_partition, now_ms) for same_partition in self.by_partition(group_ids)])

    def by_partition(self, group_ids: Iterable[str]) -> Iterable[list[str]]:
        by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        return by_partition.values()

    def _delete_groups(self, group_ids: list[str], now_ms: int) -> Deferred[list[DeletableGroupResult]]:
        return self.write(
            group_ids[0],
            lambda shard: shard.delete_groups(group_ids),
            lambda code: [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in group_ids],
            now_ms,
            takes_empty_id=True,
        )

    def stats(self) -> GroupCoordinatorStats:
        """May be called from another thread than the requests."""
        shards = [shard for _, shard in list(self.runtime.active_shards())]
        return GroupCoordinatorStats(
            counted_by_state(group for shard in shards for group in list(shard.groups)),
            offset_count=sum(shard.offsets.offsets.count for shard in shards),
            offset_commit_count=sum(shard.offsets.commit_count for shard in shards),
            offset_expiration_count=sum(shard.offsets.expiration_count for shard in shards),
            offset_deletion_count=sum(shard.offsets.deletion_count for shard in shards),
            completed_rebalance_count=sum(shard.classic.rebalance.completed_count for shard in shards),
            rebalance_counts={
                GroupType.CONSUMER.value: sum(shard.consumer.changes.rebalance_count for shard in shards),
                GroupType.SHARE.value: sum(shard.share.rebalance_count for shard in shards),
                GroupType.STREAMS.value: sum(shard.streams.changes.rebalance_count for shard in shards),
            },
        )

    # -- offsets

    def commit_offsets(
        self, context: GroupRequestContext, request: OffsetCommitRequest, now_ms: int
    ) -> Deferred[OffsetCommitResponse]:
        """Accept the empty group id too: old clients commit under it.

        Commits that arrive together are appended together: none depends on the offset that another one commits.
        """
        answer: Deferred[OffsetCommitResponse] = Deferred()
        if not self.is_active:
            answer.complete(commit_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return answer
        self.runtime.write_together(
            self.partition_for(request.group_id),
            lambda shard: shard.offsets.commit_offsets(context, request, now_ms),
            now_ms=now_ms,
            answer=answer,
            on_failure=lambda code: commit_error(request, append_error(code)),
        )
        return answer

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, now_ms: int
    ) -> Deferred[TxnOffsetCommitResponse]:
        """The caller has verified that the group's partition belongs to the producer's transaction."""
        return self.write(
            request.group_id,
            lambda shard: shard.offsets.commit_transactional_offsets(request, now_ms),
            lambda code: transactional_commit_error(request, code),
            now_ms,
            takes_empty_id=True,
            producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        )

    def end_transaction(self, partition: int, marker: TransactionMarker, now_ms: int) -> Deferred[ErrorCode]:
        """Write the marker that lets a producer's offsets in this partition take effect, or drops them."""
        answer: Deferred[ErrorCode] = Deferred()
        if not self.is_active:
            return Deferred.completed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.runtime.end_transaction(partition, marker, now_ms=now_ms, answer=answer)
        return answer

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        if not self.is_active:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            shard = self.runtime.shard(self.partition_for(request.group_id))
            return shard.offsets.fetch_offsets(request, require_stable=require_stable)
        except ApiException as error:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)

    def delete_offsets(self, request: OffsetDeleteRequest, now_ms: int) -> Deferred[OffsetDeleteResponse]:
        return self.write(
            request.group_id,
            lambda shard: shard.offsets.delete_offsets(request),
            lambda code: OffsetDeleteResponse(error_code=code),
            now_ms,
        )

    def on_partitions_deleted(self, partitions: Collection[tuple[str, int]], now_ms: int) -> None:
        """Remove the offsets of deleted topics, so that a topic of the same name starts without them."""
        for partition, _ in list(self.runtime.active_shards()):
            self.runtime.write_quietly(partition, lambda shard: shard.delete_partitions(partitions), now_ms=now_ms)


def _heartbeat_error(code: ErrorCode, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return the same error for every partition: OffsetCommit has no top-level error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_error(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the same error for every partition: TxnOffsetCommit has no top-level error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
