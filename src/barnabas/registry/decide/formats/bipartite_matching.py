"""The largest number of pairs in which each writer's alternative has a reader's of its own."""

from __future__ import annotations

from collections.abc import Sequence, Set

__all__ = ["matching_size"]


def matching_size(edges: Sequence[Set[int]]) -> int:
    """Return the size of a maximum matching. ``edges`` are the right nodes that each left node may have."""
    taken: dict[int, int] = {}

    def place(left: int, seen: set[int]) -> bool:
        for right in edges[left]:
            if right not in seen:
                seen.add(right)
                if right not in taken or place(taken[right], seen):
                    taken[right] = left
                    return True
        return False

    return sum(place(left, set()) for left in range(len(edges)))
