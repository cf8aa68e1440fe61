"""Subscriptions by regular expression: which topics each stands for, as last resolved."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ResolvedRegularExpression"]


class ResolvedRegularExpression(NamedTuple):
    topics: frozenset[str]
    version: int
    """The offset of the metadata image whose topics were matched."""
    timestamp_ms: int
