"""The place where a session works: in the worker, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_remote", "works_here"]


def is_remote(spark: SparkSession) -> bool:
    """Return whether it is on a Spark Connect server: the worker has no JVM, and no JVM can call it."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def works_here(spark: SparkSession) -> bool:
    """Return whether all work is done on this machine, so that the session reads this machine's files."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")
