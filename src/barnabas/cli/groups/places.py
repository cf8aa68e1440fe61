"""The position of a group in each partition, its lag, and the member that reads the partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, GroupDescription, MemberDescription, OffsetAndMetadata

__all__ = ["Place", "places_document", "places_of", "places_sheet"]

_NONE = "-"
_SHARE = "share"


@dataclass(frozen=True, slots=True)
class Place:
    """``offset`` is the committed offset, or the start offset of a share group. Unknown values are None.

    ``member`` reads the partition. In a share group several members may do so; it is None there.
    """

    partition: TopicPartition
    offset: int | None
    end: int | None
    lag: int | None
    member: MemberDescription | None = None


async def places_of(admin: AdminClient, groups: Sequence[GroupDescription]) -> dict[str, list[Place]]:
    """Return the positions in all partitions that a group reads or has offsets for."""
    share = [group.group_id for group in groups if group.type == _SHARE]
    others = [group for group in groups if group.type != _SHARE]
    return (await _share_places(admin, share) if share else {}) | (await _places(admin, others) if others else {})


async def _share_places(admin: AdminClient, groups: Sequence[str]) -> dict[str, list[Place]]:
    found = await admin.list_share_group_offsets(groups)
    return {
        name: [
            Place(partition, offset.start_offset, None, offset.lag)
            for partition, offset in sorted(found.values[name].values.items())
        ]
        if name in found.values
        else []
        for name in groups
    }


async def _places(admin: AdminClient, groups: Sequence[GroupDescription]) -> dict[str, list[Place]]:
    from barnabas.clients.admin import OffsetSpec

    found = await admin.list_group_offsets([group.group_id for group in groups])
    committed: dict[str, Mapping[TopicPartition, OffsetAndMetadata]] = {
        group.group_id: found.values[group.group_id].values if group.group_id in found.values else {}
        for group in groups
    }
    readers = {group.group_id: _readers(group, committed[group.group_id]) for group in groups}
    wanted = {partition for offsets in (*readers.values(), *committed.values()) for partition in offsets}
    ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest())) if wanted else None
    latest = {} if ends is None else {partition: listed.offset for partition, listed in ends.values.items()}
    return {
        name: [
            _place(partition, at[partition].offset if partition in at else None, latest.get(partition), reader)
            for partition, reader in sorted({**dict.fromkeys(at), **readers[name]}.items(), key=lambda pair: pair[0])
        ]
        for name, at in committed.items()
    }


def _place(partition: TopicPartition, offset: int | None, end: int | None, member: MemberDescription | None) -> Place:
    lag = None if offset is None or end is None else max(0, end - offset)
    return Place(partition, offset, end, lag, member)


def _readers(
    group: GroupDescription, committed: Mapping[TopicPartition, object]
) -> dict[TopicPartition, MemberDescription]:
    """Return the reader of each partition: of a streams group, the member with its active task."""
    if group.topology is None:
        return {partition: member for member in group.members for partition in member.assignment or ()}
    tasks = {task: member for member in group.members if member.tasks for task in member.tasks.active}
    sources = {
        topic: part.subtopology_id
        for part in group.topology.subtopologies
        for topic in (*part.source_topics, *part.repartition_source_topics)
    }
    return {
        partition: tasks[task]
        for partition in committed
        if (task := (sources.get(partition.topic, ""), partition.partition)) in tasks
    }


def places_sheet(group: GroupDescription, places: Sequence[Place]) -> Sheet:
    if group.type == _SHARE:
        sheet = Sheet(_title(group), ("topic", "partition", "start offset", "lag"), keep=4)
        for place in places:
            sheet.add(*_cells(place.partition), _number(place.offset), _number(place.lag))
        return sheet
    columns = ("topic", "partition", "offset", "log end", "lag", "member", "host", "client")
    sheet = Sheet(_title(group), columns, keep=5, drop_first=("client", "host"))
    for place in places:
        member = place.member
        numbers = (_number(place.offset), _number(place.end), _number(place.lag))
        reader = (member.member_id, member.host, member.client_id) if member else (_NONE, _NONE, _NONE)
        sheet.add(*_cells(place.partition), *numbers, *reader)
    return sheet


def _cells(partition: TopicPartition) -> tuple[str, str]:
    return partition.topic, str(partition.partition)


def places_document(group: GroupDescription, places: Sequence[Place]) -> list[dict[str, object]]:
    if group.type == _SHARE:
        return [
            {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "start_offset": place.offset,
                "lag": place.lag,
            }
            for place in places
        ]
    return [
        {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "offset": place.offset,
            "log_end_offset": place.end,
            "lag": place.lag,
            "member_id": place.member.member_id if place.member else None,
        }
        for place in places
    ]


def _title(group: GroupDescription) -> str:
    if group.group_epoch is None:
        return f"group {group.group_id} ({group.state})"
    return f"group {group.group_id} ({group.state}, {group.type}, epoch {group.group_epoch})"


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)
