"""A group, of any kind, with its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.group_member import (
    MemberDescription,
    classic_member,
    consumer_member,
    share_member,
    streams_member,
)
from barnabas.clients.admin.protocol_codes import authorized_operations
from barnabas.common.acl import AclOperation
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
    from barnabas.protocol.messages.describe_groups import DescribedGroup

__all__ = [
    "GroupDescription",
    "StreamsTopology",
    "Subtopology",
    "classic_group",
    "consumer_group",
    "share_group",
    "streams_group",
]

_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a streams application whose tasks are run together. ``changelog_topics`` store its states."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """``type`` is ``classic``, ``consumer``, ``share`` or ``streams``. Classic groups have no epochs.

    ``topology`` is that of a streams group, if its coordinator knows one.
    """

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    topology: StreamsTopology | None = None


def classic_group(group: DescribedGroup, with_operations: bool) -> GroupDescription | AdminError:
    if group.error_code:
        return admin_error(group.error_code, group.error_message, group.group_id)
    if group.group_state == _DEAD and not group.members:
        return admin_error(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist", group.group_id)
    return GroupDescription(
        group.group_id,
        "classic",
        group.protocol_type,
        group.group_state,
        group.protocol_data,
        tuple(classic_member(member, group.protocol_type) for member in group.members),
        authorized_operations(group.authorized_operations) if with_operations else None,
    )


def consumer_group(
    group: consumer_group_describe.DescribedGroup, with_operations: bool
) -> GroupDescription | AdminError:
    if group.error_code:
        return admin_error(group.error_code, group.error_message, group.group_id)
    return GroupDescription(
        group.group_id,
        "consumer",
        "consumer",
        group.group_state,
        group.assignor_name,
        tuple(consumer_member(member) for member in group.members),
        authorized_operations(group.authorized_operations) if with_operations else None,
        group.group_epoch,
        group.assignment_epoch,
    )


def share_group(group: share_group_describe.DescribedGroup, with_operations: bool) -> GroupDescription | AdminError:
    if group.error_code:
        return admin_error(group.error_code, group.error_message, group.group_id)
    return GroupDescription(
        group.group_id,
        "share",
        "share",
        group.group_state,
        group.assignor_name,
        tuple(share_member(member) for member in group.members),
        authorized_operations(group.authorized_operations) if with_operations else None,
        group.group_epoch,
        group.assignment_epoch,
    )


def streams_group(group: streams_group_describe.DescribedGroup, with_operations: bool) -> GroupDescription | AdminError:
    if group.error_code:
        return admin_error(group.error_code, group.error_message, group.group_id)
    return GroupDescription(
        group.group_id,
        "streams",
        "streams",
        group.group_state,
        "",
        tuple(streams_member(member) for member in group.members),
        authorized_operations(group.authorized_operations) if with_operations else None,
        group.group_epoch,
        group.assignment_epoch,
        None if group.topology is None else _topology(group.topology),
    )


def _topology(topology: streams_group_describe.Topology) -> StreamsTopology:
    return StreamsTopology(
        topology.epoch,
        tuple(
            Subtopology(
                part.subtopology_id,
                tuple(part.source_topics),
                tuple(topic.name for topic in part.repartition_source_topics),
                tuple(part.repartition_sink_topics),
                tuple(topic.name for topic in part.state_changelog_topics),
            )
            for part in topology.subtopologies or ()
        ),
    )
