"""How many groups of each kind are in which state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroupState
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_state import GroupState, GroupType
from barnabas.coordinator.group.share.share_group import ShareGroupState
from barnabas.coordinator.group.streams.streams_group import StreamsGroupState

__all__ = ["counted_by_state"]

_STATES: Mapping[GroupType, type[Enum]] = {
    GroupType.CLASSIC: GroupState,
    GroupType.CONSUMER: ConsumerGroupState,
    GroupType.SHARE: ShareGroupState,
    GroupType.STREAMS: StreamsGroupState,
}


def counted_by_state(groups: Iterable[Group]) -> dict[tuple[str, str], int]:
    """Return the counts by kind and state, also those that are 0."""
    counts = {(kind.value, state.value): 0 for kind, states in _STATES.items() for state in states}
    for group in groups:
        counts[group.group_type.value, group.state_name] += 1
    return counts
