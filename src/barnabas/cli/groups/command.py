"""``barnabas groups list|describe|delete|reset-offsets|delete-offsets|remove-members``: manage groups of all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.groups.offsets import delete_offsets, reset_offsets
from barnabas.cli.groups.tables import (
    MEMBERS,
    OFFSETS,
    STATE,
    STATES,
    STOP,
    TOPOLOGY,
    TYPES,
    chosen_groups,
    described_answer,
    group_names,
)
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app(
    "groups",
    "List, describe and delete groups, and reset their offsets.\n\n"
    "A group is of one type: classic or consumer (two protocols of consumers), share (a queue, see 'barnabas queue') "
    "or streams (a Kafka Streams application).",
)
main = main_of(app)
app.command(reset_offsets, name="reset-offsets")
app.command(delete_offsets, name="delete-offsets")


@app.command(name="list")
def list_(
    *,
    state: list[str] | None = None,
    type: list[str] | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """List the groups that you may see.

    For example:

        barnabas groups list
        barnabas groups list --state Empty --output json

    Parameters
    ----------
    state
        Only groups in this state, for example Stable or Empty, in capital or small letters. May be repeated.
    type
        Only groups of this type: classic, consumer, share or streams. May be repeated.
    """

    states = _chosen("--state", state, STATES)
    types = _chosen("--type", type, TYPES)

    async def work(admin: AdminClient) -> Answer:
        found = await admin.list_groups(states=states, types=types)
        sheet = Sheet(columns=("group", "state", "type", "protocol"))
        for listing in found.groups:
            sheet.add(listing.group_id, listing.state or "", listing.type or "", listing.protocol_type)
        document = {
            "groups": [
                {
                    "group": listing.group_id,
                    "state": listing.state,
                    "type": listing.type,
                    "protocol_type": listing.protocol_type,
                }
                for listing in found.groups
            ]
        }
        notes = [] if found.groups or found.errors else ["no such groups exist, or you may not see them"]
        problems = problems_of(found.errors, right="DESCRIBE on the groups or on Cluster")
        return Answer(document, [sheet] if found.groups else [], notes, problems)

    return (options or ClusterOptions()).run(work)


@app.command
def describe(
    group: list[str] | None = None,
    *,
    all_groups: Flag = False,
    offsets: Flag = False,
    members: Flag = False,
    state: Flag = False,
    topology: Flag = False,
    authorized_operations: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show the offsets of groups in their topics, and their lag.

    The coordinator assigns the partitions or tasks of consumer, share and streams groups. A member is reconciled when
    it has what was last assigned to it; until then --members also shows this target.

    For example:

        barnabas groups describe billing
        barnabas groups describe billing --members
        barnabas groups describe word-count --topology
        barnabas groups describe --all-groups --state --output yaml

    Parameters
    ----------
    group
        The id of a group. May be repeated.
    all_groups
        All groups that you may see.
    offsets
        Show offsets and lags. This is the default.
    members
        Show members and their partitions instead.
    state
        Show the state, number of members, epochs and lag of each group instead.
    topology
        Show the subtopologies of streams groups and their topics instead.
    authorized_operations
        Also show the operations that you may perform on each group.
    """
    chosen = [what for what, is_chosen in ((MEMBERS, members), (STATE, state), (TOPOLOGY, topology)) if is_chosen]
    if offsets + len(chosen) > 1:
        raise UsageError("--offsets, --members, --state and --topology can't be used together")
    what = chosen[0] if chosen else OFFSETS
    names = chosen_groups(group, all_groups=all_groups)

    async def work(admin: AdminClient) -> Answer:
        wanted = await group_names(admin) if names is None else names
        return await described_answer(admin, wanted, what, with_operations=authorized_operations)

    return (options or ClusterOptions()).run(work)


@app.command
def delete(group: list[str] | None = None, *, all_groups: Flag = False, options: ChangeOptions | None = None) -> int:
    """Delete groups without members, and their offsets.

    For example:

        barnabas groups delete billing --dry-run
        barnabas groups delete --all-groups --dry-run

    Parameters
    ----------
    group
        The id of a group. May be repeated.
    all_groups
        All groups that you may see.
    """
    chosen = chosen_groups(group, all_groups=all_groups)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        names = await group_names(admin) if chosen is None else chosen
        results: Any = await (admin.describe_groups(names) if dry_run else admin.delete_groups(names))
        known = await group_names(admin) if results.errors else []
        problems = problems_of(results.errors, right="DELETE on Group:{item}", names=_others(known, results.errors))
        busy = [name for name, found in results.values.items() if found is not None and found.members]
        problems += [Problem("the group has members", name, ErrorCode.NON_EMPTY_GROUP.name, STOP) for name in busy]
        changes = [Change("group", name, "deleted") for name in results.values if name not in busy]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work)


@app.command(name="remove-members")
def remove_members(
    group: str,
    *,
    member: list[str] | None = None,
    instance: list[str] | None = None,
    all_members: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Remove members from a classic or consumer group. A live member rejoins.

    For example:

        barnabas groups remove-members --group billing --instance worker-1
        barnabas groups remove-members --group billing --all-members --dry-run

    Parameters
    ----------
    group
        The id of the group.
    member
        The id of a member. May be repeated.
    instance
        The group.instance.id of a static member. May be repeated.
    all_members
        All members.
    """
    if bool(member or instance) == all_members:
        raise UsageError("no members given: use --member, --instance, or --all-members")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import MemberToRemove

        wanted = [MemberToRemove(None, member_id) for member_id in member or ()]
        wanted += [MemberToRemove(instance_id, None) for instance_id in instance or ()]
        described = (await admin.describe_groups([group]))[group]
        if described.type in ("share", "streams"):
            text = f"members of {described.type} groups can't be removed"
            return Answer({}, problems=[Problem(text, group, advice="stop them")])
        there = described.members
        if all_members:
            wanted = [MemberToRemove(listed.group_instance_id, listed.member_id) for listed in there]
        if dry_run:
            ids = {listed.member_id for listed in there} | {listed.group_instance_id for listed in there}
            missing = [removal for removal in wanted if (removal.group_instance_id or removal.member_id) not in ids]
            problems = [Problem("not a member of the group", str(removal)) for removal in missing]
            changes = [_put_out(group, removal) for removal in wanted if removal not in missing]
            return change_answer(changes, problems, dry_run=True)
        results = await admin.remove_members(group, wanted)
        problems = problems_of(results.errors, right=f"READ on Group:{group}")
        return change_answer([_put_out(group, removal) for removal in results.values], problems, dry_run=False)

    return options.run(work, right=f"READ on Group:{group}")


def _put_out(group: str, member: Any) -> Change:
    return Change("member", f"{member.group_instance_id or member.member_id} of group {group}", "removed")


def _others(known: Sequence[str], errors: Mapping[str, object]) -> list[str]:
    """Return names to suggest, but none for a group that exists but can't be deleted."""
    return [name for name in known if name not in errors] if not set(known) & set(errors) else []


def _chosen(option: str, texts: Sequence[str] | None, choices: Sequence[str]) -> list[str]:
    """Return the values of an option that may be repeated or listed with commas; raise UsageError."""
    values = [part.strip() for text in texts or () for part in text.split(",") if part.strip()]
    known = {choice.lower(): choice for choice in choices}
    for value in values:
        if value.lower() not in known:
            raise UsageError(f"{option} {value}: choose one of {', '.join(choices)}")
    return [known[value.lower()] for value in values]
