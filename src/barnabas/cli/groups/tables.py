"""``barnabas groups describe``: show offsets, members and states of groups of all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.groups.member_tables import (
    lagging,
    member_sheets,
    members_document,
    topology_document,
    topology_sheet,
)
from barnabas.cli.groups.places import Place, places_document, places_of, places_sheet
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.authorized_operations import add_operations
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, GroupDescription

__all__ = [
    "MEMBERS",
    "OFFSETS",
    "STATE",
    "STATES",
    "STOP",
    "TOPOLOGY",
    "TYPES",
    "chosen_groups",
    "described_answer",
    "group_names",
    "other_type",
]

STOP = "stop the members of the group first; 'barnabas groups describe --members' shows them"
OFFSETS, MEMBERS, STATE, TOPOLOGY = "offsets", "members", "state", "topology"
TYPES = ("classic", "consumer", "share", "streams")
STATES = (
    "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Stable", "Dead"
)  # fmt: skip
"""Of groups of all types."""
_NONE = "-"


def chosen_groups(group: Sequence[str] | None, *, all_groups: bool = False) -> list[str] | None:
    """Return the group ids, or None for all groups. Raise UsageError."""
    if all_groups and group:
        raise UsageError("--all-groups includes every group: omit --group")
    if not group and not all_groups:
        raise UsageError("no group given: pass its id as an argument or with --group")
    return None if all_groups else list(dict.fromkeys(group or ()))


async def group_names(admin: AdminClient, *types: str) -> list[str]:
    return [listing.group_id for listing in (await admin.list_groups(types=types)).groups]


async def described_answer(
    admin: AdminClient, names: Sequence[str], what: str, *, only_type: str | None = None, with_operations: bool = False
) -> Answer:
    """Describe groups; ``what`` is the table for people. With ``only_type``, a group of another one is a problem."""
    results = await admin.describe_groups(names, include_authorized_operations=with_operations)
    known = await group_names(admin) if results.errors else []
    problems = problems_of(results.errors, right="DESCRIBE on Group:{item}", names=known)
    found = [results.values[name] for name in names if name in results.values]
    groups = [group for group in found if only_type in (None, group.type)]
    problems += [other_type(group, only_type or "") for group in found if group not in groups]
    places = await places_of(admin, groups)
    documents = [_document(group, places[group.group_id]) for group in groups]
    if what == MEMBERS:
        sheets = member_sheets(groups)
    elif what == STATE:
        sheets = [_states(groups, places)]
    elif what == TOPOLOGY:
        sheets = [topology_sheet(group) for group in groups]
    else:
        sheets = [places_sheet(group, places[group.group_id]) for group in groups if places[group.group_id]]
    notes = [note for group in groups for note in _notes(group, places[group.group_id], what)]
    answer = Answer({"groups": documents}, [sheet for sheet in sheets if sheet.rows], notes, problems)
    if with_operations:
        rows = [(f"Group:{group.group_id}", group.authorized_operations) for group in groups]
        return add_operations(answer, documents, rows)
    return answer


def other_type(group: GroupDescription, wanted: str) -> Problem:
    """Return the problem of a group that is not of the wanted type."""
    text = f"the group is a {group.type} group, not a {wanted} group"
    return Problem(text, group.group_id, advice=f"'barnabas groups describe {group.group_id}' shows it")


def _notes(group: GroupDescription, places: Sequence[Place], what: str) -> list[str]:
    notes = []
    if not group.members:
        notes.append(f"group {group.group_id} has no members")
    if what == TOPOLOGY and (group.topology is None or not group.topology.subtopologies):
        notes.append(f"group {group.group_id} has no topology: only streams groups have one")
    if what == OFFSETS and not places:
        notes.append(f"group {group.group_id} has no offsets")
    late = lagging(group)
    if late and what != TOPOLOGY:
        are = "member has" if len(late) == 1 else "members have"
        notes.append(f"group {group.group_id}: {len(late)} {are} not reached the target assignment yet")
    epoch, target_epoch = group.group_epoch, group.assignment_epoch
    if group.members and epoch is not None and target_epoch is not None and target_epoch < epoch and what != TOPOLOGY:
        notes.append(
            f"group {group.group_id}: the target assignment of epoch {epoch} is not complete yet; the members follow "
            f"that of epoch {target_epoch}"
        )
    return notes


def _states(groups: Sequence[GroupDescription], places: Mapping[str, Sequence[Place]]) -> Sheet:
    columns = ("group", "state", "type", "assignor", "members", "reconciling", "epoch", "target epoch", "lag")
    sheet = Sheet(columns=columns, drop_first=("target epoch", "epoch"))
    for group in groups:
        lags = [place.lag for place in places[group.group_id] if place.lag is not None]
        has_epochs = group.group_epoch is not None
        sheet.add(
            group.group_id, group.state, group.type, group.assignor or _NONE, str(len(group.members)),
            str(len(lagging(group))) if has_epochs else _NONE,
            str(group.group_epoch) if has_epochs else _NONE,
            str(group.assignment_epoch) if has_epochs else _NONE,
            str(sum(lags)) if lags else _NONE,
        )  # fmt: skip
    return sheet


def _document(group: GroupDescription, places: Sequence[Place]) -> dict[str, object]:
    document: dict[str, object] = {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
    }
    if group.group_epoch is not None:
        document |= {"epoch": group.group_epoch, "target_epoch": group.assignment_epoch}
    if group.type == "streams":
        document["topology"] = topology_document(group)
    return document | {"members": members_document(group), "offsets": places_document(group, places)}
