"""What groups of the newer kinds have in common (KIP-848): a coordinator computes their assignments, counted by epochs.

The group epoch counts changes of members, subscriptions and topics. The assignment epoch is the group epoch for which
the target assignment was computed, and a member's epoch the one that it has reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group import Group

__all__ = ["NO_PARTITIONS", "ModernGroup", "Partitions"]

M = TypeVar("M")
T = TypeVar("T")

Partitions = Mapping[Uuid, frozenset[int]]
NO_PARTITIONS: Partitions = {}

_FIRST_EPOCH = 1
_KEPT_SUBSCRIPTIONS = 100
_NO_DEADLINE = (0, 0)


class ModernGroup(Group, Generic[M, T]):
    """``M`` is the type of a member, ``T`` that of a member's target assignment."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = _FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, M] = {}
        self.target: dict[str, T] = {}
        self._names: dict[frozenset[str], frozenset[str]] = {}
        self._metadata_deadline = _NO_DEADLINE
        """When subscribed topics are looked at again, and the group epoch at which that was decided."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_delete(self) -> None:
        if self.members:
            raise ApiException(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def member(self, member_id: str) -> M:
        """Return the member; raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiException(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def shared_names(self, names: Iterable[str]) -> frozenset[str]:
        """Return the one object that stands for a subscription in this group: most members have the same."""
        if len(self._names) > _KEPT_SUBSCRIPTIONS:
            self._names.clear()
        found = frozenset(names)
        return self._names.setdefault(found, found)

    # -- changes of topics

    def request_metadata_refresh(self) -> None:
        self._metadata_deadline = _NO_DEADLINE

    def set_metadata_deadline(self, deadline_ms: int, epoch: int) -> None:
        self._metadata_deadline = (deadline_ms, epoch)

    def has_metadata_expired(self, now_ms: int) -> bool:
        """Whether subscribed topics must be looked at: a topic has changed, or the group was loaded since."""
        deadline_ms, epoch = self._metadata_deadline
        return now_ms >= deadline_ms or self.epoch < epoch
