"""Groups of all kinds: list, describe and delete them, and remove members of classic ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.group_description import (
    GroupDescription,
    classic_group,
    consumer_group,
    share_group,
    streams_group,
)
from barnabas.clients.admin.operations import Operations, RequestFor, refuse_unless
from barnabas.clients.admin.results import Listings, Results
from barnabas.clients.admin.retry import COORDINATOR_MOVED, RETRIED, Deadline
from barnabas.clients.admin.routing import Target
from barnabas.clients.errors import UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.protocol.schema import Message

__all__ = ["GROUP", "GroupListing", "GroupListings", "GroupOperations", "MemberToRemove"]

GROUP = 0
"""The kind of coordinator."""
_NO_SUCH_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_HAS_OPERATIONS = 3
"""Older versions of DescribeGroups have no authorized operations: callers receive None."""
K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Message)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class GroupListing:
    """State and type (``classic``, ``consumer``, ``share``, ``streams``) are None on nodes that don't return them."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


class GroupListings(Listings[GroupListing]):
    """The groups by id."""

    __slots__ = ()

    @property
    def groups(self) -> tuple[GroupListing, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class MemberToRemove:
    """A static member by its instance, or any member by its id."""

    group_instance_id: str | None = None
    member_id: str | None = None

    def __str__(self) -> str:
        return (
            f"instance {self.group_instance_id}" if self.group_instance_id is not None else f"member {self.member_id}"
        )


class GroupOperations(Operations):
    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_s: float | None = None
    ) -> GroupListings:
        """List the groups of every broker, or those in these states or of these types."""
        deadline = self._deadline(timeout_s)
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def ask(part: Sequence[int], target: Target) -> Results[int, list[GroupListing]]:
            response = await self._call(request, deadline, api=ApiKey.LIST_GROUPS, target=target)
            return Results({part[0]: [_listing(group) for group in response.groups]}, {})

        found = await self._from_each(await self._live_brokers(deadline), ask)
        groups = {group.group_id: group for listed in found.values.values() for group in listed}
        return GroupListings(tuple(groups[name] for name in sorted(groups)), found.errors)

    async def describe_groups(
        self, groups: Iterable[str], *, include_authorized_operations: bool = False, timeout_s: float | None = None
    ) -> Results[str, GroupDescription]:
        """Describe groups of any kind by id. One kind after the other is requested: an id does not tell its kind."""
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, GroupDescription]:
            found: Results[str, GroupDescription] = Results({}, {})
            left = part
            for describe in (self._consumer_groups, self._classic_groups, self._share_groups, self._streams_groups):
                if not left:
                    break
                try:
                    of_kind = await describe(left, target, include_authorized_operations, deadline)
                except UnsupportedVersion:
                    continue
                left = [name for name, error in of_kind.errors.items() if error.code in _NO_SUCH_GROUP]
                found.values |= of_kind.values
                found.errors |= {name: error for name, error in of_kind.errors.items() if name not in left}
            for name in left:
                found.errors[name] = admin_error(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist", name)
            return found

        return await self._at_coordinators(groups, ask, deadline)

    async def delete_groups(self, groups: Iterable[str], *, timeout_s: float | None = None) -> Results[str, None]:
        """Delete groups that have no members, and their offsets."""
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[str], target: Target) -> Results[str, None]:
            return await self._groups(
                part,
                lambda left: DeleteGroupsRequest(groups_names=list(left)),
                lambda response: ((result.group_id, _done(result)) for result in response.results),
                target,
                deadline,
                api=ApiKey.DELETE_GROUPS,
            )

        return await self._at_coordinators(groups, ask, deadline)

    async def remove_members(
        self,
        group: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Results[MemberToRemove, None]:
        """Remove members from a classic group; without a list, all of them."""
        deadline = self._deadline(timeout_s)
        if members is None:
            described = (await self.describe_groups([group], timeout_s=deadline.remaining_s))[group]
            wanted = [MemberToRemove(member.group_instance_id, member.member_id) for member in described.members]
        else:
            wanted = list(dict.fromkeys(members))
        for member in wanted:
            refuse_unless(
                member.group_instance_id is not None or member.member_id,
                f"{group}: a member needs an instance or an id",
            )

        async def ask(part: Sequence[MemberToRemove], target: Target) -> Results[MemberToRemove, None]:
            return await self._groups(
                part,
                lambda left: LeaveGroupRequest(group_id=group, members=[_identity(member, reason) for member in left]),
                lambda response: (
                    (member, admin_error(result.error_code, None, member) if result.error_code else None)
                    for result in response.members
                    for member in _meant(result, part)
                ),
                target,
                deadline,
                api=ApiKey.LEAVE_GROUP,
                at_least=3,
            )

        return await self._at_coordinator(group, wanted, ask, deadline)

    async def _consumer_groups(
        self, part: Sequence[str], target: Target, with_operations: bool, deadline: Deadline
    ) -> Results[str, GroupDescription]:
        return await self._groups(
            part,
            lambda left: ConsumerGroupDescribeRequest(
                group_ids=list(left), include_authorized_operations=with_operations
            ),
            lambda response: ((group.group_id, consumer_group(group, with_operations)) for group in response.groups),
            target,
            deadline,
            api=ApiKey.CONSUMER_GROUP_DESCRIBE,
        )

    async def _classic_groups(
        self, part: Sequence[str], target: Target, with_operations: bool, deadline: Deadline
    ) -> Results[str, GroupDescription]:
        return await self._groups(
            part,
            lambda left: (
                lambda version: DescribeGroupsRequest(
                    groups=list(left), include_authorized_operations=with_operations and version >= _HAS_OPERATIONS
                )
            ),
            lambda response: ((group.group_id, classic_group(group, with_operations)) for group in response.groups),
            target,
            deadline,
            api=ApiKey.DESCRIBE_GROUPS,
        )

    async def _share_groups(
        self, part: Sequence[str], target: Target, with_operations: bool, deadline: Deadline
    ) -> Results[str, GroupDescription]:
        return await self._groups(
            part,
            lambda left: ShareGroupDescribeRequest(group_ids=list(left), include_authorized_operations=with_operations),
            lambda response: ((group.group_id, share_group(group, with_operations)) for group in response.groups),
            target,
            deadline,
            api=ApiKey.SHARE_GROUP_DESCRIBE,
        )

    async def _streams_groups(
        self, part: Sequence[str], target: Target, with_operations: bool, deadline: Deadline
    ) -> Results[str, GroupDescription]:
        return await self._groups(
            part,
            lambda left: StreamsGroupDescribeRequest(
                group_ids=list(left), include_authorized_operations=with_operations
            ),
            lambda response: ((group.group_id, streams_group(group, with_operations)) for group in response.groups),
            target,
            deadline,
            api=ApiKey.STREAMS_GROUP_DESCRIBE,
        )

    async def _groups(
        self,
        part: Sequence[K],
        build: Callable[[Sequence[K]], RequestFor[R]],
        read: Callable[[R], Iterable[tuple[K, V | AdminError]]],
        target: Target,
        deadline: Deadline,
        *,
        api: ApiKey,
        at_least: int = 0,
        at_most: int = 32767,
    ) -> Results[K, V]:
        """Send a request to a coordinator. The caller handles a coordinator that has moved."""
        return await self._items(
            part, build, read, deadline, api=api, target=target, at_least=at_least, at_most=at_most,
            retried=RETRIED - COORDINATOR_MOVED,
        )  # fmt: skip

    async def _at_coordinators(
        self,
        groups: Iterable[str],
        ask: Callable[[Sequence[str], Target], Awaitable[Results[str, V]]],
        deadline: Deadline,
    ) -> Results[str, V]:
        """Send each group's request to its coordinator."""
        wanted = list(dict.fromkeys(groups))
        refuse_unless(all(wanted), "a group's id must not be empty")
        return await self._placed(
            wanted,
            lambda left: self._router.coordinators(GROUP, left),
            ask,
            deadline,
            moved=COORDINATOR_MOVED,
            forget=lambda left: self._router.forget_coordinators(GROUP, left),
        )

    async def _at_coordinator(
        self,
        group: str,
        items: Iterable[K],
        ask: Callable[[Sequence[K], Target], Awaitable[Results[K, V]]],
        deadline: Deadline,
    ) -> Results[K, V]:
        """Send items of one group to its coordinator."""
        refuse_unless(group, "a group's id must not be empty")

        async def place(left: list[K]) -> tuple[dict[K, int], dict[K, AdminError]]:
            found, errors = await self._router.coordinators(GROUP, [group])
            if group in errors:
                return {}, dict.fromkeys(left, errors[group])
            return dict.fromkeys(left, found[group]), {}

        return await self._placed(
            items,
            place,
            ask,
            deadline,
            moved=COORDINATOR_MOVED,
            forget=lambda left: self._router.forget_coordinators(GROUP, [group]),
        )


def _listing(group: ListedGroup) -> GroupListing:
    return GroupListing(
        group.group_id,
        group.protocol_type,
        group.group_state or None,
        group.group_type.lower() if group.group_type else None,
    )


def _identity(member: MemberToRemove, reason: str | None) -> MemberIdentity:
    """Identify a static member by its instance, whatever its present id is."""
    by_instance = member.group_instance_id is not None
    return MemberIdentity(
        member_id="" if by_instance else member.member_id or "",
        group_instance_id=member.group_instance_id,
        reason=reason or "removed by an operator",
    )


def _meant(response: MemberResponse, members: Sequence[MemberToRemove]) -> list[MemberToRemove]:
    return [
        member
        for member in members
        if (member.group_instance_id is not None and member.group_instance_id == response.group_instance_id)
        or (member.group_instance_id is None and member.member_id == response.member_id)
    ]


def _done(result: DeletableGroupResult) -> AdminError | None:
    return admin_error(result.error_code, None, result.group_id) if result.error_code else None
