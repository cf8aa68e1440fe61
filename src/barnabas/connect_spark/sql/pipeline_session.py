"""The session of a pipeline: a worker's session with views, settings and catalogs of its own.

All of them share Spark's context, its cache and its jars.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.sql.query import forbid_unsafe_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["active", "pipeline_session"]

_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes the changes of its keys, and not all of RocksDB's files.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A window is complete when the watermark passes its end, whether or not further records arrive.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # All inputs of a query are declared.
    "spark.sql.runSQLOnFiles": "false",
}


def pipeline_session(spark: SparkSession, shuffle_partitions: int | None) -> SparkSession:
    """Create the session. Without a number, state has as many partitions as the worker's setting says."""
    session = spark.newSession()
    for name, text in _CONF.items():
        session.conf.set(name, text)
    if shuffle_partitions is not None:
        session.conf.set("spark.sql.shuffle.partitions", shuffle_partitions)
    forbid_unsafe_functions(session)
    return session


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the one of this thread, in which Spark looks up the settings of catalogs. A thread has none."""
    jvm: Any = session._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.clearActiveSession()
