"""Errors of test nodes. Their messages say what to do."""

from __future__ import annotations

__all__ = ["NodeFailed", "NotPossible"]


class NodeFailed(RuntimeError):
    """A node did not start, or ended. The message has the reason and the last lines of its log."""


class NotPossible(ValueError):
    """An option or a fault can't be used here. The message names it, and what can be used instead."""
