"""Where share groups begin to deliver records (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.group_offsets import GroupOffsetOperations
from barnabas.clients.admin.operations import refuse_unless
from barnabas.clients.admin.partitions import by_topic
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.routing import Target
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
)

__all__ = ["ShareGroupOffset", "ShareGroupOffsetOperations"]


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """``start_offset`` is the first offset that is not settled, ``lag`` the number of those up to the end.

    The start offset is None before the first delivery; the lag is None also on brokers that don't return it.
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


class ShareGroupOffsetOperations(GroupOffsetOperations):
    async def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout_s: float | None = None,
    ) -> Results[str, Results[TopicPartition, ShareGroupOffset]]:
        """Return the start offsets of share groups, in all partitions that they know or in some of each."""
        wanted = {
            name: None if (some := groups[name] if isinstance(groups, Mapping) else None) is None else list(some)
            for name in groups
        }
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, Results[TopicPartition, ShareGroupOffset]]:
            return await self._groups(
                part,
                lambda left: DescribeShareGroupOffsetsRequest(groups=[_described(name, wanted[name]) for name in left]),
                lambda response: ((group.group_id, _offsets(group)) for group in response.groups),
                target,
                deadline,
                api=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            )

        return await self._at_coordinators(wanted, ask, deadline)

    async def alter_share_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, None]:
        """Set the start offsets of a share group without members. What it has settled since is delivered again."""
        for partition, offset in offsets.items():
            refuse_unless(offset >= 0, f"{partition}: {offset} is not an offset")
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> AlterShareGroupOffsetsRequest:
            return AlterShareGroupOffsetsRequest(
                group_id=group,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareGroupOffsetsRequestPartition(
                                partition_index=partition.partition, start_offset=offsets[partition]
                            )
                            for partition in part
                        ],
                    )
                    for topic, part in by_topic(left)
                ],
            )

        async def ask(part: Sequence[TopicPartition], target: Target) -> Results[TopicPartition, None]:
            return await self._groups(part, build, _altered, target, deadline, api=ApiKey.ALTER_SHARE_GROUP_OFFSETS)

        return await self._at_coordinator(group, offsets, ask, deadline)

    async def delete_share_group_offsets(
        self, group: str, topics: Iterable[str], *, timeout_s: float | None = None
    ) -> Results[str, None]:
        """Delete topics, with their offsets, from a share group without members."""
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[str]) -> DeleteShareGroupOffsetsRequest:
            return DeleteShareGroupOffsetsRequest(
                group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in left]
            )

        async def ask(part: Sequence[str], target: Target) -> Results[str, None]:
            return await self._groups(part, build, _deleted, target, deadline, api=ApiKey.DELETE_SHARE_GROUP_OFFSETS)

        return await self._at_coordinator(group, topics, ask, deadline)


def _described(group: str, partitions: list[TopicPartition] | None) -> DescribeShareGroupOffsetsRequestGroup:
    topics = (
        None
        if partitions is None
        else [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=[partition.partition for partition in part]
            )
            for topic, part in by_topic(partitions)
        ]
    )
    return DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)


def _offsets(
    group: DescribeShareGroupOffsetsResponseGroup,
) -> Results[TopicPartition, ShareGroupOffset] | AdminError:
    if group.error_code:
        return admin_error(group.error_code, group.error_message, group.group_id)
    values: dict[TopicPartition, ShareGroupOffset] = {}
    errors: dict[TopicPartition, AdminError] = {}
    for topic in group.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.topic_name, result.partition_index)
            if result.error_code:
                errors[partition] = admin_error(result.error_code, result.error_message, partition)
                continue
            known = [
                None if number < 0 else number for number in (result.start_offset, result.leader_epoch, result.lag)
            ]
            values[partition] = ShareGroupOffset(*known)
    return Results(values, errors)


def _altered(response: AlterShareGroupOffsetsResponse) -> Iterable[tuple[TopicPartition, AdminError | None]]:
    for topic in response.responses:
        for result in topic.partitions:
            partition = TopicPartition(topic.topic_name, result.partition_index)
            error = admin_error(result.error_code, result.error_message, partition) if result.error_code else None
            yield partition, error


def _deleted(response: DeleteShareGroupOffsetsResponse) -> Iterable[tuple[str, AdminError | None]]:
    for topic in response.responses:
        error = admin_error(topic.error_code, topic.error_message, topic.topic_name) if topic.error_code else None
        yield topic.topic_name, error
