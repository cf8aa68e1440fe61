"""Packages of Spark that a worker adds to its own session only if a setting says so.

What uses one checks it twice: when a configuration is validated, by the worker's settings, and when a task starts, by
the session. A server's session (``sc://``) has what its operator gave it, and a task can't reach its JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect_spark.sessions.spark_settings import SparkSettings

__all__ = ["AVRO", "DELTA", "ICEBERG", "OWN_SPARK", "S3", "SparkPackage", "package_problem", "require_package"]

OWN_SPARK = "a worker with barnabas.connect.spark.master=local[*] or spark://host:port"


@dataclass(frozen=True, slots=True)
class SparkPackage:
    name: str
    setting: str
    """The worker's setting that adds it to the session."""
    java_class: str
    """A class that only this package has."""
    is_added: Callable[[SparkSettings], bool]
    is_of_server: bool = False
    """Whether a Spark Connect server can have it, which reports itself if it does not."""


AVRO = SparkPackage(
    "Spark's package for Avro",
    "barnabas.connect.spark.avro",
    "org.apache.spark.sql.avro.functions",
    lambda settings: settings.has_avro,
    is_of_server=True,
)
DELTA = SparkPackage(
    "Delta Lake", "barnabas.connect.spark.delta", "io.delta.tables.DeltaTable", lambda settings: settings.has_delta
)
ICEBERG = SparkPackage(
    "Iceberg",
    "barnabas.connect.spark.iceberg",
    "org.apache.iceberg.spark.SparkCatalog",
    lambda settings: settings.has_iceberg,
)
S3 = SparkPackage(
    "the client of object stores",
    "barnabas.connect.spark.s3",
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    lambda settings: settings.has_s3,
)


def package_problem(settings: SparkSettings, package: SparkPackage, user: str) -> str | None:
    """Return why ``user``, such as the name of a class, can't run with these settings of its worker."""
    if settings.is_connect:
        if package.is_of_server:
            return None
        return f"{user} does not run on a Spark Connect server (sc://). Use {OWN_SPARK}."
    if package.is_added(settings):
        return None
    return f"{user} needs {package.name}, and this worker's Spark starts without it: {_what_to_set(package)}."


def require_package(spark: SparkSession, package: SparkPackage, user: str) -> None:
    """Raise TerminalError if the session lacks the package that ``user`` needs."""
    if is_remote(spark):
        if package.is_of_server:
            return
        raise TerminalError(
            f"{user} needs {package.name} in a Spark of the worker's own, and this one is a Spark Connect server "
            f"(sc://). Use {OWN_SPARK}"
        )
    from py4j.java_gateway import JavaPackage

    if isinstance(reduce(getattr, package.java_class.split("."), spark._jvm), JavaPackage):
        raise TerminalError(
            f"{user} needs {package.name}, and this worker's session was started without it: {_what_to_set(package)}"
        )


def _what_to_set(package: SparkPackage) -> str:
    return f"set {package.setting}=true in the worker's settings, and restart the worker"
