"""Serves share groups: lets the persister do what the group coordinator has decided, and reports what became of it.

The state of a group's share-partitions is kept by the share coordinators, which may be other brokers. So requests that
change it wait for them; a heartbeat does not, because the next one can receive the partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from barnabas.common.error_code import error_of
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.share.share_group_offsets import DecidedAlteration, DecidedDeletion
from barnabas.coordinator.group.share.state_calls import DecidedHeartbeat, DeleteStates, InitializeStates
from barnabas.coordinator.share.persister import (
    NO_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_OFFSET,
    SharePartitionSummary,
    StateOutcome,
)
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.group_service import GroupService
    from barnabas.broker.latest_offsets import LatestOffset, LatestOffsets
    from barnabas.coordinator.deferred import Deferred
    from barnabas.coordinator.group.group_request_context import GroupRequestContext
    from barnabas.coordinator.group.modern_group import Partitions
    from barnabas.coordinator.share.persister import Persister

__all__ = ["ShareGroupService"]

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

_CALLS_AT_A_TIME = 100
"""They begin in one turn of the loop, which takes some milliseconds."""
_SUMMARY_LEADER_EPOCH = 0
"""Coordinators do not look at it."""


class ShareGroupService:
    def __init__(self, groups: GroupService, persister: Persister, latest_offsets: LatestOffsets) -> None:
        self._groups = groups
        self._requests = groups.coordinator.share
        self._persister = persister
        self._latest_offsets = latest_offsets

    # -- ShareGroupHeartbeat

    def heartbeat(
        self, context: GroupRequestContext, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
        decided = self._requests.heartbeat(context, request, self._groups.now_ms())
        return self._groups.answer(decided.map(self._begun))

    def _begun(self, decided: DecidedHeartbeat) -> ShareGroupHeartbeatResponse:
        if decided.initialize is not None:
            self._groups.start_task(self._initialize_for_members(decided.initialize))
        return decided.response

    async def _initialize_for_members(self, wanted: InitializeStates) -> None:
        outcomes = await self._initialize(wanted)
        failed = _first_error(outcomes)
        if failed is None:
            await self._record_initialized(wanted)
        else:
            await self._record_failed(wanted, failed)

    async def _initialize(self, wanted: InitializeStates) -> dict[Uuid, dict[int, StateOutcome]]:
        async def initialize(topic_id: Uuid, partition: int) -> StateOutcome:
            start_offset = wanted.start_offsets[topic_id][partition]
            return StateOutcome(
                *await self._persister.initialize_state(
                    wanted.group_id, topic_id, partition, wanted.state_epoch, start_offset
                )
            )

        return await _for_each(wanted.partitions, initialize)

    async def _record_initialized(self, wanted: InitializeStates) -> None:
        code = await self._answered(
            self._requests.states_initialized(wanted.group_id, wanted.partitions, self._groups.now_ms())
        )
        if code is not ErrorCode.NONE:
            await self._record_failed(wanted, StateOutcome(code, None))

    async def _record_failed(self, wanted: InitializeStates, failed: StateOutcome) -> None:
        log.warning(
            "The share-partitions of group %s could not be initialized: %s",
            wanted.group_id,
            failed.error_message or error_of(failed.error_code).name,
        )
        await self._answered(
            self._requests.initialization_failed(wanted.group_id, wanted.partitions, self._groups.now_ms())
        )

    # -- AlterShareGroupOffsets

    async def alter_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        decided: DecidedAlteration = await self._answered(self._requests.alter_offsets(request, self._groups.now_ms()))
        response, wanted = decided.response, decided.initialize
        if response.error_code or not wanted.start_offsets:
            return response
        outcomes = await self._initialize(wanted)
        if _first_error(outcomes) is None:
            await self._record_initialized(wanted)
            return response
        # The record still says that they are being initialized: a member that joins tries again.
        for topic in response.responses:
            for partition in topic.partitions:
                outcome = outcomes.get(topic.topic_id, {}).get(partition.partition_index)
                if outcome is not None:
                    partition.error_code, partition.error_message = outcome
        return response

    # -- DeleteShareGroupOffsets

    async def delete_offsets(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        decided: DecidedDeletion = await self._answered(self._requests.delete_offsets(request, self._groups.now_ms()))
        if decided.error_code is not ErrorCode.NONE:
            return DeleteShareGroupOffsetsResponse(error_code=decided.error_code, error_message=decided.error_message)
        failed, deleted = decided.failed, {}
        outcomes = await self._delete(decided.delete)
        for topic_id, of_topic in outcomes.items():
            name = self._groups.coordinator.view.name_of(topic_id) or ""
            error = next((outcome for outcome in of_topic.values() if outcome.error_code), None)
            if error is None:
                deleted[topic_id] = name
            else:
                failed.append(
                    DeleteShareGroupOffsetsResponseTopic(
                        topic_name=name,
                        topic_id=topic_id,
                        error_code=error.error_code,
                        error_message=error.error_message,
                    )
                )
        if not deleted:
            return DeleteShareGroupOffsetsResponse(responses=failed)
        recorded = await self._answered(
            self._requests.offsets_deleted(request.group_id, deleted, self._groups.now_ms())
        )
        if isinstance(recorded, ErrorCode):
            return DeleteShareGroupOffsetsResponse(error_code=recorded)
        return DeleteShareGroupOffsetsResponse(responses=recorded + failed)

    async def _delete(self, wanted: DeleteStates) -> dict[Uuid, dict[int, StateOutcome]]:
        async def delete(topic_id: Uuid, partition: int) -> StateOutcome:
            return StateOutcome(*await self._persister.delete_state(wanted.group_id, topic_id, partition))

        return await _for_each(wanted.partitions, delete)

    # -- DeleteGroups

    async def delete_groups(self, group_ids: list[str]) -> list[list[DeletableGroupResult]]:
        """Delete groups of any kind: the states of share groups first."""
        decided = await self._answered(self._requests.delete_states(group_ids, self._groups.now_ms()))
        errors: dict[str, int] = {}
        for group_id, wanted in ((key, value) for part in decided for key, value in part.items()):
            if isinstance(wanted, ErrorCode):
                errors[group_id] = wanted
            elif (error := _first_error(await self._delete(wanted))) is not None:
                errors[group_id] = error.error_code
        rest = [group_id for group_id in group_ids if group_id not in errors]
        failed = [DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in errors.items()]
        deletions = self._groups.coordinator.delete_groups(rest, self._groups.now_ms())
        return [failed, *await self._answered(deletions)]

    # -- DescribeShareGroupOffsets

    def known_partitions(self, group_id: str) -> Partitions:
        """Return the partitions that have start offsets, of topics that exist; raises ApiException."""
        view = self._groups.coordinator.view
        partitions = self._requests.partitions(group_id)
        return {topic_id: of_topic for topic_id, of_topic in partitions.items() if view.topic_of(topic_id) is not None}

    async def describe_offsets(
        self, group_id: str, partitions: Mapping[Uuid, Iterable[int]]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        async def read(topic_id: Uuid, partition: int) -> SharePartitionSummary:
            return await self._persister.read_summary(group_id, topic_id, partition, _SUMMARY_LEADER_EPOCH)

        names = {topic_id: self._groups.coordinator.view.name_of(topic_id) or "" for topic_id in partitions}
        summaries = await _for_each(partitions, read)
        ends = await self._latest_offsets.of(
            TopicPartition(names[topic_id], partition)
            for topic_id, of_topic in summaries.items()
            for partition, summary in of_topic.items()
            if _has_lag(summary)
        )
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_id=topic_id,
                topic_name=names[topic_id],
                partitions=[
                    _described(partition, summary, ends.get(TopicPartition(names[topic_id], partition)))
                    for partition, summary in of_topic.items()
                ],
            )
            for topic_id, of_topic in summaries.items()
        ]

    async def _answered(self, deferred: Deferred[T]) -> T:
        answer = self._groups.answer(deferred)
        return await answer if isinstance(answer, Awaitable) else answer


async def _for_each(
    partitions: Mapping[Uuid, Iterable[int]], call: Callable[[Uuid, int], Awaitable[R]]
) -> dict[Uuid, dict[int, R]]:
    results: dict[Uuid, dict[int, R]] = {}
    keys = [(topic_id, partition) for topic_id, of_topic in partitions.items() for partition in sorted(of_topic)]
    for first in range(0, len(keys), _CALLS_AT_A_TIME):
        step = keys[first : first + _CALLS_AT_A_TIME]
        for (topic_id, partition), result in zip(
            step, await asyncio.gather(*(call(*key) for key in step)), strict=True
        ):
            results.setdefault(topic_id, {})[partition] = result
    return results


def _first_error(outcomes: Mapping[Uuid, Mapping[int, StateOutcome]]) -> StateOutcome | None:
    return next(
        (outcome for of_topic in outcomes.values() for outcome in of_topic.values() if outcome.error_code), None
    )


def _has_lag(summary: SharePartitionSummary) -> bool:
    return (
        not summary.error_code
        and summary.start_offset != UNINITIALIZED_OFFSET
        and summary.delivery_complete_count != NO_DELIVERY_COMPLETE_COUNT
    )


def _described(
    partition: int, summary: SharePartitionSummary, end: LatestOffset | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a state that cannot be read as one without a start offset, as Kafka does."""
    described = DescribeShareGroupOffsetsResponsePartition(partition_index=partition, start_offset=UNINITIALIZED_OFFSET)
    if summary.error_code:
        return described
    if end is not None and end.error is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=partition,
            error_code=end.error,
            error_message=f"The end of the partition is unknown: {end.error.name}.",
        )
    described.start_offset, described.leader_epoch = summary.start_offset, summary.leader_epoch
    if end is not None:
        described.lag = end.offset - summary.start_offset - summary.delivery_complete_count
    return described
