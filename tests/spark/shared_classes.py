"""The archive of Spark's classes for all JVMs of the tests, also for those that Spark's own scripts start."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping

from barnabas.spark.class_archive import archive_options, class_archive
from barnabas.spark.class_archive_writer import write_class_archive
from barnabas.spark.java_runtime import JavaRuntime

__all__ = ["shared_classes"]


def shared_classes(java: JavaRuntime, environment: Mapping[str, str]) -> str:
    """Return the JVM options that use the archive, which is written first if necessary. Raise SparkUnavailable."""
    lock_file = class_archive(java, environment).with_suffix(".lock")
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive_options(java, environment):
            write_class_archive(java, environment)
    return archive_options(java, environment)
