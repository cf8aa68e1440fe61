"""The committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.groups import GroupOperations
from barnabas.clients.admin.operations import refuse_unless
from barnabas.clients.admin.partitions import by_topic
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.routing import Target
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import offset_commit as committing
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

__all__ = ["GroupOffsetOperations", "OffsetAndMetadata"]

_BY_NAME = 9
"""The last version of OffsetFetch and OffsetCommit with topic names; later ones use ids."""


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class GroupOffsetOperations(GroupOperations):
    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, Results[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets of groups, or those of some partitions of each. Partitions without an offset are omitted.

        ``require_stable`` waits for transactions that commit offsets.
        """
        wanted = {
            name: None if (some := groups[name] if isinstance(groups, Mapping) else None) is None else list(some)
            for name in groups
        }
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, Results[TopicPartition, OffsetAndMetadata]]:
            return await self._groups(
                part,
                lambda left: OffsetFetchRequest(
                    groups=[_fetched(name, wanted[name]) for name in left], require_stable=require_stable
                ),
                lambda response: ((group.group_id, _offsets(group)) for group in response.groups),
                target,
                deadline,
                api=ApiKey.OFFSET_FETCH,
                at_least=8,
                at_most=_BY_NAME,
            )

        return await self._at_coordinators(wanted, ask, deadline)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, None]:
        """Set offsets of a group without members (of a classic group: without live ones)."""
        wanted = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        for partition, offset in wanted.items():
            refuse_unless(offset.offset >= 0, f"{partition}: {offset.offset} is not an offset")
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> committing.OffsetCommitRequest:
            return committing.OffsetCommitRequest(
                group_id=group,
                topics=[
                    committing.OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[_committed(partition.partition, wanted[partition]) for partition in part],
                    )
                    for topic, part in by_topic(left)
                ],
            )

        async def ask(part: Sequence[TopicPartition], target: Target) -> Results[TopicPartition, None]:
            return await self._groups(
                part, build, _outcomes, target, deadline, api=ApiKey.OFFSET_COMMIT, at_most=_BY_NAME
            )

        return await self._at_coordinator(group, wanted, ask, deadline)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, None]:
        """Delete offsets of topics that no member of the group reads."""
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> OffsetDeleteRequest:
            return OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=partition.partition) for partition in part
                        ],
                    )
                    for topic, part in by_topic(left)
                ],
            )

        async def ask(part: Sequence[TopicPartition], target: Target) -> Results[TopicPartition, None]:
            return await self._groups(part, build, _outcomes, target, deadline, api=ApiKey.OFFSET_DELETE)

        return await self._at_coordinator(group, partitions, ask, deadline)


def _fetched(group: str, partitions: list[TopicPartition] | None) -> OffsetFetchRequestGroup:
    topics = (
        None
        if partitions is None
        else [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[partition.partition for partition in part])
            for topic, part in by_topic(partitions)
        ]
    )
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


def _offsets(group: OffsetFetchResponseGroup) -> Results[TopicPartition, OffsetAndMetadata] | AdminError:
    if group.error_code:
        return admin_error(group.error_code, None, group.group_id)
    values: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, AdminError] = {}
    for topic in group.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.name, result.partition_index)
            if result.error_code:
                errors[partition] = admin_error(result.error_code, None, partition)
            elif result.committed_offset >= 0:
                epoch = result.committed_leader_epoch if result.committed_leader_epoch >= 0 else None
                values[partition] = OffsetAndMetadata(result.committed_offset, epoch, result.metadata or "")
    return Results(values, errors)


def _committed(partition: int, offset: OffsetAndMetadata) -> committing.OffsetCommitRequestPartition:
    return committing.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _outcomes(
    response: committing.OffsetCommitResponse | OffsetDeleteResponse,
) -> Iterable[tuple[TopicPartition, AdminError | None]]:
    for topic in response.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.name, result.partition_index)
            yield partition, admin_error(result.error_code, None, partition) if result.error_code else None
