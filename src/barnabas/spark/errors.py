"""Errors that say why Spark is unavailable, and what to do."""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["JavaUnusable", "SparkUnavailable"]


class SparkUnavailable(Exception, Terminal):
    """Java, a jar or the session is missing. The text says what is wrong and what to do next."""


class JavaUnusable(SparkUnavailable):
    """This machine has no Java version that Spark supports; a retry does not help."""
