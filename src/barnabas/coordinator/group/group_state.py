"""The states of a classic group and every legal move between them.

::

    Empty <---------+
      |             |
      v             |  (the last member left, or none rejoined)
    PreparingRebalance <------+-------------+
      |                       |             |
      v                       |             |
    CompletingRebalance ------+             |
      |        (member change, sync time-out)
      v                                     |
    Stable ---------------------------------+

    any -> Dead  (deleted, or moved to another coordinator)
"""

from __future__ import annotations

from enum import Enum

__all__ = ["PREVIOUS_STATES", "GroupState", "GroupType"]


class GroupState(Enum):
    """The value is the name that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupType(Enum):
    """The value is the name that ListGroups shows and filters by."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""The states from which each state may be entered; any other transition is a bug."""
