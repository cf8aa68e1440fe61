"""The assignment by the leader of the group: the leader reads the metadata of all members and assigns the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.connect.decide.group.assignor import AssignmentRound, Assignor, ConfigSnapshot, config_mismatch
from barnabas.connect.decide.group.client_ids import is_ours
from barnabas.connect.decide.group.connect_protocol import (
    Assignment,
    ProtocolVersion,
    WorkerMetadata,
    decode_metadata,
    encode_assignment,
)
from barnabas.connect.decide.group.cooperative_assignor import CooperativeAssignor
from barnabas.connect.decide.group.eager_assignor import EagerAssignor
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership_events import (
    MembershipEvent,
    WorkerGone,
    WorkersChanged,
)
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.join_group import JoinGroupResponse

__all__ = ["Leadership"]


class Leadership:
    """``report_problem`` receives a line for the log, ``notify`` the changes of the members."""

    def __init__(
        self,
        settings: GroupSettings,
        snapshot: Callable[[], ConfigSnapshot],
        report_problem: Callable[[str], None],
        notify: Callable[[MembershipEvent], None],
    ) -> None:
        self.owners: dict[str | ConnectorTaskId, str] = {}
        """The URL of the worker of each connector and task, after the last round that this member led."""
        self.member_urls: frozenset[str] = frozenset()
        self.are_all_members_ours = False
        """Whether every member of that round is a worker of this project, judged by their ids."""
        self._snapshot = snapshot
        self._report_problem = report_problem
        self._notify = notify
        self._urls: dict[str, str] = {}
        """The URL of each member, by id, in the last round that this member led."""
        self._led_generation = -1
        self._eager: Assignor = EagerAssignor()
        self._cooperative: Assignor = CooperativeAssignor(
            max_delay_ms=settings.scheduled_rebalance_max_delay_ms,
            reassign_immediately=settings.reassign_immediately,
        )

    def assign(
        self, response: JoinGroupResponse, agreed: ProtocolVersion, last_completed_generation: int, now_ms: float
    ) -> list[tuple[str, bytes]]:
        """Return the assignments for SyncGroup, one for each member."""
        members = self._read(response, agreed)
        config = self._snapshot()
        round_ = AssignmentRound(
            response.member_id, agreed, response.generation_id, last_completed_generation, members, config, now_ms
        )
        read_by_some = max(member.config_offset for member in members.values())
        if config.offset < read_by_some:
            self._report_problem(
                f"this worker leads the group but has read the config topic up to offset {config.offset} only, "
                f"but another member up to {read_by_some}: it assigns nothing before it has caught up"
            )
            assignments = config_mismatch(round_, read_by_some)
        else:
            assignor = self._cooperative if agreed.is_cooperative else self._eager
            assignments = assignor.assign(round_)
        before = self._urls, self.owners
        self._remember(members, assignments, agreed)
        if before[0] and last_completed_generation <= self._led_generation:  # Otherwise another member has led since.
            self._report_changes(*before, max((given.delay_ms for given in assignments.values()), default=0))
        self._led_generation = response.generation_id
        self.are_all_members_ours = all(is_ours(member.member_id) for member in response.members)
        nothing = Assignment(agreed, 0, round_.leader_id, round_.leader_url, config.offset)
        return [
            (member.member_id, encode_assignment(assignments.get(member.member_id, nothing)))
            for member in response.members
        ]

    def _remember(
        self, members: Mapping[str, WorkerMetadata], assignments: Mapping[str, Assignment], agreed: ProtocolVersion
    ) -> None:
        self._urls = {member_id: member.url for member_id, member in members.items()}
        self.member_urls = frozenset(self._urls.values())
        self.owners = {}
        for member_id, member in members.items():
            has = assignments.get(member_id, Assignment())
            if agreed.is_cooperative and member.allocation is not None:
                has = member.allocation.followed_by(has)
            self.owners |= dict.fromkeys((*has.connectors, *has.tasks), member.url)

    def _report_changes(
        self, urls_before: Mapping[str, str], owners_before: Mapping[str | ConnectorTaskId, str], delay_ms: int
    ) -> None:
        joined = tuple(sorted(url for member, url in self._urls.items() if member not in urls_before))
        gone = tuple(
            WorkerGone(url, {unit: self.owners.get(unit) for unit, owner in owners_before.items() if owner == url})
            for url in sorted(url for member, url in urls_before.items() if member not in self._urls)
        )
        if joined or gone:
            self._notify(WorkersChanged(joined, gone, delay_ms))

    def _read(self, response: JoinGroupResponse, agreed: ProtocolVersion) -> dict[str, WorkerMetadata]:
        """Read the metadata. A member with unreadable metadata is omitted, so that the others are not affected."""
        members: dict[str, WorkerMetadata] = {}
        for member in response.members:
            try:
                members[member.member_id] = decode_metadata(bytes(member.metadata), agreed)
            except DecodeError as error:
                self._report_problem(
                    f"the metadata of member {member.member_id} can't be read, so it gets no work: {error}"
                )
        return members
