"""Subscriptions by regular expression: which topics each stands for, as last resolved."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

__all__ = ["ResolvedRegularExpression", "subscribed_topics"]


class ResolvedRegularExpression(NamedTuple):
    topics: frozenset[str]
    version: int
    """The offset of the metadata image whose topics were matched."""
    timestamp_ms: int


def subscribed_topics(
    names: frozenset[str], pattern: str | None, resolved: Mapping[str, ResolvedRegularExpression]
) -> Set[str]:
    """Return the topics that a member subscribes to, by name and by its regular expression."""
    found = resolved.get(pattern) if pattern else None
    if found is None or not found.topics:
        return names
    return found.topics if not names else names | found.topics
