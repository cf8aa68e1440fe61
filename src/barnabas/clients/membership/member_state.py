"""The states of a member, and the legal moves between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from barnabas.common.errors import invariant

__all__ = ["MemberState", "checked_move"]


class MemberState(Enum):
    JOINING = "joining"
    """The next heartbeat joins with epoch 0, and has all fields."""
    RECONCILING = "reconciling"
    """The coordinator has assigned other partitions than the caller has."""
    ACKNOWLEDGING = "acknowledging"
    """The caller has what was assigned. The next heartbeat, sent at once, reports it."""
    STABLE = "stable"
    FENCED = "fenced"
    """The coordinator has removed the member. It joins again when the caller has dropped its partitions."""
    LEFT = "left"
    FATAL = "fatal"
    """The coordinator refused the member for good."""


_OUT = frozenset({MemberState.FENCED, MemberState.LEFT, MemberState.FATAL})
_NEXT: Mapping[MemberState, frozenset[MemberState]] = {
    MemberState.JOINING: _OUT | {MemberState.RECONCILING, MemberState.STABLE},
    MemberState.RECONCILING: _OUT | {MemberState.ACKNOWLEDGING, MemberState.STABLE},
    MemberState.ACKNOWLEDGING: _OUT | {MemberState.RECONCILING, MemberState.STABLE},
    MemberState.STABLE: _OUT | {MemberState.RECONCILING},
    MemberState.FENCED: frozenset({MemberState.JOINING, MemberState.LEFT}),
    MemberState.LEFT: frozenset(),
    MemberState.FATAL: frozenset({MemberState.LEFT}),
}


def checked_move(state: MemberState, to: MemberState) -> MemberState:
    """Return the new state. Raise InvariantViolated for a move that is not legal."""
    invariant(to is state or to in _NEXT[state], f"a member that is {state.value} can't become {to.value}")
    return to
