"""What is told to a person when Spark can't be had."""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["SparkUnavailable"]


class SparkUnavailable(Exception, Terminal):
    """Java, a jar or the session is missing. The text says what is wrong and what to do next."""
