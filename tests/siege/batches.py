"""Record batches that take much work, from a user who may write to a topic."""

from __future__ import annotations

__all__ = ["BATCHES"]

BATCHES = ()
