"""Members of groups: what they have, what they shall have, and whether they are about to reach it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import GroupDescription, MemberDescription, StreamsTasks, TaskId, TopicPartition

__all__ = ["lagging", "member_sheets", "members_document", "topology_document", "topology_sheet"]

_NONE = "-"
_PLACE = ("group", "member", "instance", "host", "client")
_DROP_FIRST = ("instance", "client", "host")


def lagging(group: GroupDescription) -> list[MemberDescription]:
    """Return the members that do not have yet what the group last assigned to them."""
    return [member for member in group.members if not member.is_reconciled(group.assignment_epoch)]


def member_sheets(groups: Sequence[GroupDescription]) -> list[Sheet]:
    """Return a table for each kind of group."""
    return [
        sheet(of_kind)
        for kind, sheet in (("classic", _classic), ("consumer", _consumer), ("share", _share), ("streams", _streams))
        if (of_kind := [group for group in groups if group.type == kind])
    ]


def _classic(groups: Sequence[GroupDescription]) -> Sheet:
    sheet = Sheet(columns=(*_PLACE, "partitions"), drop_first=_DROP_FIRST)
    for group in groups:
        for member in group.members:
            sheet.add(*_place(group, member), _joined(member.assignment))
    return sheet


def _consumer(groups: Sequence[GroupDescription]) -> Sheet:
    columns = (*_PLACE, "protocol", "epoch", "reconciled", "partitions", "target")
    sheet = Sheet(columns=columns, drop_first=(*_DROP_FIRST, "protocol"))
    for group in groups:
        for member in group.members:
            sheet.add(
                *_place(group, member), member.protocol or _NONE, *_progress(group, member),
                _joined(member.assignment), _target(member.target_assignment, member.assignment),
            )  # fmt: skip
    return sheet


def _share(groups: Sequence[GroupDescription]) -> Sheet:
    sheet = Sheet(columns=("group", "member", "host", "client", "epoch", "partitions"), drop_first=("client", "host"))
    for group in groups:
        for member in group.members:
            place = (group.group_id, member.member_id, member.host, member.client_id)
            sheet.add(*place, _number(member.member_epoch), _joined(member.assignment))
    return sheet


def _streams(groups: Sequence[GroupDescription]) -> Sheet:
    columns = (*_PLACE, "process", "protocol", "epoch", "reconciled", "active", "standby", "warm-up", "target")
    sheet = Sheet(columns=columns, drop_first=(*_DROP_FIRST, "process", "protocol"))
    for group in groups:
        for member in group.members:
            target = "" if member.target_tasks == member.tasks else _tasks_text(member.target_tasks)
            sheet.add(
                *_place(group, member), member.process_id or _NONE, member.protocol or _NONE, *_progress(group, member),
                *_task_cells(member.tasks), target or _NONE,
            )  # fmt: skip
    return sheet


def topology_sheet(group: GroupDescription) -> Sheet:
    """Return the parts of a streams application, with the topics that they read and write."""
    columns = ("subtopology", "sources", "repartition sources", "repartition sinks", "changelogs")
    topology = group.topology
    epoch = "" if topology is None else f", epoch {topology.epoch}"
    sheet = Sheet(f"topology of group {group.group_id}{epoch}", columns)
    for part in () if topology is None else topology.subtopologies:
        topics = (
            part.source_topics,
            part.repartition_source_topics,
            part.repartition_sink_topics,
            part.changelog_topics,
        )
        sheet.add(part.subtopology_id, *(", ".join(names) or _NONE for names in topics))
    return sheet


def _place(group: GroupDescription, member: MemberDescription) -> tuple[str, ...]:
    return group.group_id, member.member_id, member.group_instance_id or _NONE, member.host, member.client_id


def _progress(group: GroupDescription, member: MemberDescription) -> tuple[str, str]:
    return _number(member.member_epoch), "yes" if member.is_reconciled(group.assignment_epoch) else "no"


def _target(target: Iterable[TopicPartition] | None, assignment: Iterable[TopicPartition] | None) -> str:
    return _NONE if target == assignment else _joined(target)


def _joined(items: Iterable[object] | None) -> str:
    return _NONE if items is None else ", ".join(map(str, items))


def _task_cells(tasks: StreamsTasks | None) -> tuple[str, str, str]:
    if tasks is None:
        return _NONE, _NONE, _NONE
    return _joined(tasks.active), _joined(tasks.standby), _joined(tasks.warmup)


def _tasks_text(tasks: StreamsTasks | None) -> str:
    if tasks is None:
        return ""
    kinds = (("active", tasks.active), ("standby", tasks.standby), ("warm-up", tasks.warmup))
    return "; ".join(f"{kind} {_joined(ids)}" for kind, ids in kinds if ids)


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)


# --- documents


def members_document(group: GroupDescription) -> list[dict[str, object]]:
    return [
        {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.host,
            **_of_kind(group, member),
        }
        for member in group.members
    ]


def _of_kind(group: GroupDescription, member: MemberDescription) -> dict[str, object]:
    assigned: dict[str, object] = {"partitions": _partitions_document(member.assignment)}
    if group.type == "classic":
        return assigned
    epoch: dict[str, object] = {
        "epoch": member.member_epoch,
        "rack": member.rack_id,
        "is_reconciled": member.is_reconciled(group.assignment_epoch),
    }
    if group.type == "streams":
        return epoch | {
            "protocol": member.protocol,
            "process_id": member.process_id,
            "topology_epoch": member.topology_epoch,
            "tasks": _tasks_document(member.tasks),
            "target_tasks": _tasks_document(member.target_tasks),
        }
    subscribed = {"subscribed_topics": list(member.subscribed_topics or ())}
    if group.type == "share":
        return epoch | subscribed | assigned
    return {
        **epoch,
        "protocol": member.protocol,
        **subscribed,
        "subscribed_pattern": member.subscribed_pattern,
        **assigned,
        "target_partitions": _partitions_document(member.target_assignment),
    }


def topology_document(group: GroupDescription) -> dict[str, object] | None:
    topology = group.topology
    if topology is None:
        return None
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology": part.subtopology_id,
                "source_topics": list(part.source_topics),
                "repartition_source_topics": list(part.repartition_source_topics),
                "repartition_sink_topics": list(part.repartition_sink_topics),
                "changelog_topics": list(part.changelog_topics),
            }
            for part in topology.subtopologies
        ],
    }


def _partitions_document(partitions: Iterable[TopicPartition] | None) -> list[dict[str, object]] | None:
    if partitions is None:
        return None
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


def _tasks_document(tasks: StreamsTasks | None) -> dict[str, list[str]] | None:
    if tasks is None:
        return None
    return {"active": _ids(tasks.active), "standby": _ids(tasks.standby), "warmup": _ids(tasks.warmup)}


def _ids(tasks: Sequence[TaskId]) -> list[str]:
    return [str(task) for task in tasks]
