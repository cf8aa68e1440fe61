"""The requests about share groups: passes each to the shard of its group's partition.

Some are decided in two steps, between which the caller lets the persister create or delete states: a decision returns
what the persister shall do, and the caller reports its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.coordinator.group.share.heartbeat import validate_heartbeat
from barnabas.coordinator.group.share.share_group_offsets import DecidedAlteration, DecidedDeletion
from barnabas.coordinator.group.share.state_calls import DecidedHeartbeat, DeleteStates, InitializeStates
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.share_group_describe import DescribedGroup
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator
    from barnabas.coordinator.group.group_coordinator_shard import GroupCoordinatorShard

__all__ = ["ShareGroupRequests"]


class ShareGroupRequests:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def heartbeat(
        self, context: GroupRequestContext, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> Deferred[DecidedHeartbeat]:
        """The caller lets the persister do what the decision says, and reports the result."""
        try:
            if self._coordinator.is_active:
                validate_heartbeat(request)
        except ApiException as error:
            return Deferred.completed(_heartbeat_error(error.code, error.message))
        return self._coordinator.write_explained(
            request.group_id,
            lambda shard: shard.share.heartbeat(context, request, now_ms),
            _heartbeat_error,
            now_ms,
        )

    def states_initialized(self, group_id: str, partitions: Partitions, now_ms: int) -> Deferred[ErrorCode]:
        """Record that the persister has initialized the state of these partitions."""
        return self._record_states(group_id, lambda shard: shard.share.initialized(group_id, partitions), now_ms)

    def initialization_failed(self, group_id: str, partitions: Partitions, now_ms: int) -> Deferred[ErrorCode]:
        return self._record_states(
            group_id, lambda shard: shard.share.initialization_failed(group_id, partitions), now_ms
        )

    def _record_states(
        self, group_id: str, decide: Callable[[GroupCoordinatorShard], CoordinatorResult[None]], now_ms: int
    ) -> Deferred[ErrorCode]:
        return self._coordinator.write(
            group_id, lambda shard: decide(shard).with_response(ErrorCode.NONE), lambda code: code, now_ms
        )

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Describe a group, in steps if it is large."""
        return self._coordinator.describe(
            group_id, lambda shard: shard.share.describe_in_steps(group_id), DescribedGroup
        )

    def partitions(self, group_id: str) -> Partitions:
        """Return the partitions of a group that have start offsets; or raise ApiException."""
        if not self._coordinator.is_active:
            raise ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._coordinator.runtime.shard(self._coordinator.partition_for(group_id)).share_offsets.initialized(
            group_id
        )

    def alter_offsets(self, request: AlterShareGroupOffsetsRequest, now_ms: int) -> Deferred[DecidedAlteration]:
        def failed(code: ErrorCode, message: str | None) -> DecidedAlteration:
            response = AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
            return DecidedAlteration(response, InitializeStates(request.group_id, 0, {}))

        return self._coordinator.write_explained(
            request.group_id, lambda shard: shard.share_offsets.alter(request), failed, now_ms
        )

    def delete_offsets(self, request: DeleteShareGroupOffsetsRequest, now_ms: int) -> Deferred[DecidedDeletion]:
        """The caller lets the persister delete states, and calls ``offsets_deleted``."""

        def failed(code: ErrorCode, message: str | None) -> DecidedDeletion:
            return DecidedDeletion([], DeleteStates(request.group_id, {}), code, message)

        return self._coordinator.write_explained(
            request.group_id, lambda shard: shard.share_offsets.delete(request), failed, now_ms
        )

    def offsets_deleted(
        self, group_id: str, topics: Mapping[Uuid, str], now_ms: int
    ) -> Deferred[list[DeleteShareGroupOffsetsResponseTopic] | ErrorCode]:
        def decide(
            shard: GroupCoordinatorShard,
        ) -> CoordinatorResult[list[DeleteShareGroupOffsetsResponseTopic] | ErrorCode]:
            result = shard.share_offsets.deleted(group_id, topics)
            return result.with_response(result.response or [])

        return self._coordinator.write(group_id, decide, lambda code: code, now_ms)

    def delete_states(
        self, group_ids: Iterable[str], now_ms: int
    ) -> Deferred[list[dict[str, DeleteStates | ErrorCode]]]:
        """Begin to delete share groups: return what the persister must delete first, or errors, by group.

        There is one result for each affected partition. Groups of other kinds are in none of them.
        """
        return gather(
            [
                self._delete_states(same_partition, now_ms)
                for same_partition in self._coordinator.by_partition(group_ids)
            ]
        )

    def has_any(self, group_ids: Iterable[str]) -> bool:
        """Whether one of these is a share group that is coordinated here."""
        shards = dict(self._coordinator.runtime.active_shards())
        found = ((group_id, shards.get(self._coordinator.partition_for(group_id))) for group_id in group_ids)
        return any(shard is not None and shard.share.find(group_id) is not None for group_id, shard in found)

    def _delete_states(self, group_ids: list[str], now_ms: int) -> Deferred[dict[str, DeleteStates | ErrorCode]]:
        return self._coordinator.write(
            group_ids[0],
            lambda shard: shard.share_offsets.delete_with_groups(group_ids),
            lambda code: dict.fromkeys(group_ids, code),
            now_ms,
            takes_empty_id=True,
        )

    def on_topics_deleted(self, topic_ids: Set[Uuid], now_ms: int) -> None:
        """Remove deleted topics from the share-partitions of all groups."""
        for partition, _ in list(self._coordinator.runtime.active_shards()):
            self._coordinator.runtime.write_quietly(
                partition, lambda shard: shard.share.topics_deleted(topic_ids), now_ms=now_ms
            )


def _heartbeat_error(code: ErrorCode, message: str | None) -> DecidedHeartbeat:
    return DecidedHeartbeat(ShareGroupHeartbeatResponse(error_code=code, error_message=message), None)
