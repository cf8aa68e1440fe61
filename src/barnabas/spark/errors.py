"""What is told to a person when Spark can't be had."""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["JavaUnusable", "SparkUnavailable"]


class SparkUnavailable(Exception, Terminal):
    """Java, a jar or the session is missing. The text says what is wrong and what to do next."""


class JavaUnusable(SparkUnavailable):
    """There is no Java on this machine that Spark could run on, and trying again won't bring one."""
