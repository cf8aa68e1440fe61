"""The assignors by the names that groups and settings use."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.group.assignor.group_spec import PartitionAssignor
from barnabas.coordinator.group.assignor.range_assignor import RangeAssignor
from barnabas.coordinator.group.assignor.simple_assignor import SimpleAssignor
from barnabas.coordinator.group.assignor.uniform_assignor import UniformAssignor
from barnabas.coordinator.group.group_state import GroupType

__all__ = ["assignor_named"]

_ASSIGNORS: Mapping[GroupType, Mapping[str, PartitionAssignor]] = {
    GroupType.CONSUMER: {assignor.name: assignor for assignor in (UniformAssignor(), RangeAssignor())},
    GroupType.SHARE: {assignor.name: assignor for assignor in (SimpleAssignor(),)},
}


def assignor_named(name: str, group_type: GroupType = GroupType.CONSUMER) -> PartitionAssignor | None:
    """Return the assignor of a kind of group, or None if it has none of this name."""
    return _ASSIGNORS[group_type].get(name)
