"""Where a session does its work: in the worker, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_remote", "works_here"]


def is_remote(spark: SparkSession) -> bool:
    """Whether it is on a Spark Connect server: there is no JVM here, and none that could call us."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def works_here(spark: SparkSession) -> bool:
    """Whether all work is done on this machine, so that it reads this machine's files."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")
