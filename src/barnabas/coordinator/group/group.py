"""What the parts that all kinds of groups share need to know of a group: its offsets, lists, deletion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_state import GroupType

if TYPE_CHECKING:
    from barnabas.coordinator.coordinator_result import CoordinatorRecord

__all__ = ["CheckPartition", "Group", "OffsetCommitter", "OffsetExpiry"]

CheckPartition = Callable[[str, Uuid, int], None]
"""Checks that a member may commit an offset of this partition (topic, topic id, partition): raises ApiException."""


class OffsetCommitter(NamedTuple):
    """Who commits offsets, as the request says."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation of a classic member, the epoch of any other; negative without a member."""
    is_transactional: bool
    api_version: int


class OffsetExpiry(NamedTuple):
    """How the offsets of a group expire."""

    since_ms: int | None
    """The time from which retention counts; None: from each offset's commit."""


class Group(ABC):
    """A group of one kind. Each kind is a package beside this module."""

    __slots__ = ()

    group_id: str
    group_type: GroupType

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, as ListGroups shows and filters it."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The protocol type, as ListGroups shows it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def is_simple(self) -> bool:
        """Whether it never had members: a consumer that assigns partitions itself keeps offsets under this name."""
        return False

    @property
    def may_be_removed(self) -> bool:
        """Whether the group is removed when its last offset has expired."""
        return self.is_empty

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def validate_offset_commit(self, committer: OffsetCommitter) -> CheckPartition | None:
        """Raise ApiException if the committer may not commit. Return a check for each partition, if one is needed."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiException if the member may not read offsets."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Raise ApiException if offsets cannot be deleted in the present state."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Raise ApiException if the group cannot be deleted."""

    @abstractmethod
    def offset_expiry(self) -> OffsetExpiry | None:
        """None: offsets do not expire in the present state."""

    @abstractmethod
    def tombstones(self) -> Sequence[CoordinatorRecord]:
        """Return the records that remove the group, in an order that Kafka can replay."""

    def request_metadata_refresh(self) -> None:
        """Note that a topic of the group has changed: the next request of a member looks at it."""
        return
