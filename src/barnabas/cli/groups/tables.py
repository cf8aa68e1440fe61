"""``barnabas groups describe``: show offsets, members and assignments of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.authorized_operations import add_operations
from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, GroupDescription, MemberDescription

__all__ = ["STOP", "chosen_groups", "described_answer", "group_names"]

STOP = "stop the members of the group first; 'barnabas groups describe --members' shows them"
_NONE = "-"


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a group in a partition. Unknown values are None."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def chosen_groups(group: Sequence[str] | None, *, all_groups: bool = False) -> list[str] | None:
    """Return the group ids, or None for all groups. Raise UsageError."""
    if all_groups and group:
        raise UsageError("--all-groups includes every group: omit --group")
    if not group and not all_groups:
        raise UsageError("no group given: pass its id as an argument or with --group")
    return None if all_groups else list(dict.fromkeys(group or ()))


async def group_names(admin: AdminClient) -> list[str]:
    return [listing.group_id for listing in (await admin.list_groups()).groups]


async def described_answer(
    admin: AdminClient, names: Sequence[str], *, members: bool, state: bool, with_operations: bool = False
) -> Answer:
    results = await admin.describe_groups(names, include_authorized_operations=with_operations)
    known = await group_names(admin) if results.errors else []
    problems = problems_of(results.errors, right="DESCRIBE on Group:{item}", names=known)
    groups = [results.values[name] for name in names if name in results.values]
    places = await _places(admin, groups)
    documents = [_document(group, places[group.group_id]) for group in groups]
    if members:
        sheets = [_members(groups)]
    elif state:
        sheets = [_states(groups, places)]
    else:
        sheets = [_offsets(group, places[group.group_id]) for group in groups if places[group.group_id]]
    notes = []
    for group in groups:
        if not group.members:
            notes.append(f"group {group.group_id} has no members")
        if not places[group.group_id] and not members and not state:
            notes.append(f"group {group.group_id} has no offsets")
    answer = Answer({"groups": documents}, [sheet for sheet in sheets if sheet.rows], notes, problems)
    if with_operations:
        rows = [(f"Group:{group.group_id}", group.authorized_operations) for group in groups]
        return add_operations(answer, documents, rows)
    return answer


async def _places(admin: AdminClient, groups: Sequence[GroupDescription]) -> dict[str, list[_Place]]:
    """Return the positions in all partitions that a group reads or has offsets for."""
    from barnabas.clients.admin import OffsetSpec

    if not groups:
        return {}
    found = await admin.list_group_offsets([group.group_id for group in groups])
    readers: dict[str, dict[TopicPartition, Any]] = {
        group.group_id: {tp: member for member in group.members for tp in member.assignment or ()} for group in groups
    }
    committed: dict[str, Mapping[TopicPartition, Any]] = {
        group.group_id: found.values[group.group_id].values if group.group_id in found.values else {}
        for group in groups
    }
    wanted = {tp for partitions in (*readers.values(), *committed.values()) for tp in partitions}
    ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest())) if wanted else None
    latest = {} if ends is None else {tp: listed.offset for tp, listed in ends.values.items()}
    return {
        name: [
            _Place(tp, at[tp].offset if tp in at else None, latest.get(tp), readers[name].get(tp))
            for tp in sorted({*at, *readers[name]})
        ]
        for name, at in committed.items()
    }


def _offsets(group: GroupDescription, places: Sequence[_Place]) -> Sheet:
    sheet = Sheet(
        f"group {group.group_id} ({group.state})",
        ("topic", "partition", "offset", "log end", "lag", "member", "host", "client"),
        keep=5,
        drop_first=("client", "host"),
    )
    for place in places:
        member = place.member
        sheet.add(
            place.partition.topic, str(place.partition.partition), _number(place.committed), _number(place.end),
            _number(place.lag), member.member_id if member else _NONE, member.host if member else _NONE,
            member.client_id if member else _NONE,
        )  # fmt: skip
    return sheet


def _members(groups: Sequence[GroupDescription]) -> Sheet:
    sheet = Sheet(
        columns=("group", "member", "instance", "host", "client", "partitions"),
        drop_first=("instance", "client", "host"),
    )
    for group in groups:
        for member in group.members:
            assigned = _NONE if member.assignment is None else ", ".join(map(str, member.assignment))
            sheet.add(
                group.group_id,
                member.member_id,
                member.group_instance_id or _NONE,
                member.host,
                member.client_id,
                assigned,
            )
    return sheet


def _states(groups: Sequence[GroupDescription], places: Mapping[str, Sequence[_Place]]) -> Sheet:
    sheet = Sheet(columns=("group", "state", "type", "assignor", "members", "lag"))
    for group in groups:
        lags = [place.lag for place in places[group.group_id] if place.lag is not None]
        lag = str(sum(lags)) if lags else _NONE
        sheet.add(group.group_id, group.state, group.type, group.assignor or _NONE, str(len(group.members)), lag)
    return sheet


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)


def _document(group: GroupDescription, places: Sequence[_Place]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": None
                if member.assignment is None
                else [{"topic": tp.topic, "partition": tp.partition} for tp in member.assignment],
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "offset": place.committed,
                "log_end_offset": place.end,
                "lag": place.lag,
                "member_id": place.member.member_id if place.member else None,
            }
            for place in places
        ],
    }
