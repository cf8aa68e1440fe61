"""A client that lets the coordinators describe groups again and again, and reports to an ``EpochsCheck``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.clients.admin import AdminError, GroupDescription, MemberDescription, SyncAdminClient
from barnabas.clients.errors import ClientError
from tests.history.clients import Client
from tests.history.epochs_check import Description, EpochsCheck

__all__ = ["GroupsWatch"]

_TIMEOUT_S = 10.0
_EVERY_S = 0.3


class GroupsWatch(Client):
    """``groups``: of consumers, shares or streams. A group that does not exist yet is not reported."""

    def __init__(self, bootstrap: str, groups: Sequence[str], check: EpochsCheck, *, name: str) -> None:
        super().__init__(name)
        self._bootstrap, self._groups, self._check = bootstrap, groups, check

    def _run(self) -> None:
        while not self._ends.wait(_EVERY_S):
            self.describe()

    def describe(self) -> None:
        """Describe each group once."""
        for group in self._groups:
            began_s = time.monotonic()
            try:
                with SyncAdminClient(self._bootstrap) as admin:
                    found = admin.describe_groups([group], timeout_s=_TIMEOUT_S)[group]
            except (AdminError, ClientError):
                self.counts["groups not described"] += 1
                continue
            if found.group_epoch is not None:
                self._check.described(_description(found, began_s, time.monotonic()))


def _description(group: GroupDescription, began_s: float, ended_s: float) -> Description:
    return Description(
        group.group_id,
        began_s,
        ended_s,
        group.group_epoch or 0,
        group.assignment_epoch or 0,
        {member.member_id: member.member_epoch or 0 for member in group.members},
        {} if group.type == "share" else {member.member_id: _owned(member) for member in group.members},
    )


def _owned(member: MemberDescription) -> frozenset[str]:
    """Return the partitions of a consumer, or the active tasks of a streams client."""
    owned = member.assignment if member.tasks is None else member.tasks.active
    return frozenset(map(str, owned or ()))
