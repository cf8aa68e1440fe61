"""The place where a session works: in the worker, on a cluster, or on a Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_remote", "use_pool", "works_here"]

_POOL = "spark.scheduler.pool"


def is_remote(spark: SparkSession) -> bool:
    """Return whether it is on a Spark Connect server: the worker has no JVM, and no JVM can call it."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def works_here(spark: SparkSession) -> bool:
    """Return whether all work is done on this machine, so that the session reads this machine's files."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")


def use_pool(spark: SparkSession, connector: str) -> None:
    """Have jobs that this thread starts, and queries that it starts, share the session fairly with other connectors.

    Each connector has a pool of its own. A task on a Spark Connect server has a session of its own instead.
    """
    if not is_remote(spark):
        spark.sparkContext.setLocalProperty(_POOL, connector)
