"""The offsets of a group, whatever its kind: those of share groups have requests of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, GroupDescription, Results

__all__ = ["SHARE", "alter_offsets", "committed_offsets", "forget_offsets", "known_group"]

SHARE = "share"


async def known_group(admin: AdminClient, name: str) -> GroupDescription | None:
    """Return the group; None for one that does not exist, for which offsets can be set. Raise AdminError."""
    found = await admin.describe_groups([name])
    error = found.errors.get(name)
    if error is not None and error.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise error
    return found.values.get(name)


async def committed_offsets(admin: AdminClient, name: str, group: GroupDescription | None) -> dict[TopicPartition, int]:
    """Return the committed offsets, or the start offsets of a share group. Raise AdminError."""
    if group is not None and group.type == SHARE:
        of_partitions = (await admin.list_share_group_offsets([name]))[name].values
        return {tp: found.start_offset for tp, found in of_partitions.items() if found.start_offset is not None}
    return {tp: found.offset for tp, found in (await admin.list_group_offsets([name]))[name].values.items()}


async def alter_offsets(
    admin: AdminClient, name: str, group: GroupDescription | None, offsets: Mapping[TopicPartition, int]
) -> Results[TopicPartition, None]:
    if group is not None and group.type == SHARE:
        return await admin.alter_share_group_offsets(name, offsets)
    return await admin.alter_group_offsets(name, offsets)


async def forget_offsets(
    admin: AdminClient, name: str, group: GroupDescription | None, partitions: Sequence[TopicPartition]
) -> Mapping[Any, Any]:
    """Delete the offsets of partitions, or of their topics in a share group. Return the errors, by either."""
    if group is not None and group.type == SHARE:
        topics = sorted({partition.topic for partition in partitions})
        return (await admin.delete_share_group_offsets(name, topics)).errors
    return (await admin.delete_group_offsets(name, partitions)).errors
