"""The session that this worker has started, for calls outside of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import TerminalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["running_session"]


def running_session(target: str) -> SparkSession:
    """Return the session. A worker that changes offsets may have no task, and then no session. Raise TerminalError."""
    try:
        from pyspark.sql import SparkSession

        spark: Any = SparkSession._instantiatedSession
    except ImportError:
        spark = None
    if spark is None or spark.sparkContext._jsc is None:
        raise TerminalError(
            f"positions are in {target}, and this worker has not started Spark yet: resume any connector on it, "
            "then try again."
        )
    session: SparkSession = spark
    return session
