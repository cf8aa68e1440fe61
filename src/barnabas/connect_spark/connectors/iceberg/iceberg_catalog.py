"""The catalog of an Iceberg table: a Hadoop folder, a REST server or a database.

Each set of settings is a catalog of Spark's session with a name of its own, so connectors with several catalogs share a
session. Tables are never cached: a commit of another worker must be seen at once.

REST and JDBC catalogs compare and swap the pointer to a table's metadata, so they are safe for any number of writers on
any storage. A Hadoop catalog swaps it by renaming a file. HDFS refuses to rename onto an existing file. A local file
system replaces the file instead, so writers of this project hold a lock of the file system while they commit.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.spark_packages import ICEBERG, require_package
from barnabas.spark.connector_jars import cache_directory, postgresql_jars
from barnabas.spark.java_runtime import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CATALOG_TYPES", "IcebergCatalog", "catalog_errors", "require_iceberg"]

log = logging.getLogger(__name__)

CATALOG_TYPES = ("hadoop", "rest", "jdbc")

_PREFIX = "catalog."
_LOCK = ".barnabas-commits.lock"
_RENAMING = ("", "file", "hdfs")
"""File systems in which a rename is atomic."""
_POSTGRESQL = "jdbc:postgresql:"

_driver_lock = threading.Lock()
_with_driver: WeakSet[Any] = WeakSet()
"""The JVMs that have PostgreSQL's driver, by their gateways."""


def require_iceberg(spark: SparkSession) -> None:
    """Raise TerminalError for a session without Iceberg."""
    require_package(spark, ICEBERG, "TopicToIceberg")


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def catalog_errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the errors of the catalog's settings, for ``Connector.validate``."""
    kind, uri = config.get("catalog.type", ""), config.get("catalog.uri", "")
    warehouse = config.get("catalog.warehouse", "")
    errors: dict[str, list[str]] = {}
    if kind in ("hadoop", "jdbc") and not warehouse:
        errors["catalog.warehouse"] = [f"catalog.type={kind} needs the folder or URL below which tables are stored."]
    if kind == "hadoop" and urlsplit(warehouse).scheme not in _RENAMING:
        errors["catalog.warehouse"] = [
            f"{warehouse}: a Hadoop catalog commits by renaming a file, which {urlsplit(warehouse).scheme}: does not "
            "do atomically, so commits would be lost. Use catalog.type=rest or jdbc, which are safe there."
        ]
    if kind == "hadoop" and warehouse and not urlsplit(warehouse).scheme and not warehouse.startswith("/"):
        errors["catalog.warehouse"] = [f"{warehouse} is not an absolute path: workers may run in different folders."]
    if kind == "rest" and urlsplit(uri).scheme not in ("http", "https"):
        errors["catalog.uri"] = ["catalog.type=rest needs the URL of the REST catalog, such as https://host:8181."]
    if kind == "jdbc" and not uri.startswith(_POSTGRESQL):
        errors["catalog.uri"] = [
            f"catalog.type=jdbc needs the URL of a database: {_POSTGRESQL}//host:port/database. The driver of "
            "PostgreSQL is the one that the worker provides."
        ]
    if kind == "hadoop" and uri:
        errors["catalog.uri"] = ["A Hadoop catalog is a folder: omit catalog.uri, and set catalog.warehouse."]
    return errors


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    properties: Mapping[str, str]
    """Iceberg's own catalog properties: type, uri, warehouse, and those that the connector's settings add."""

    @classmethod
    def of(cls, config: Mapping[str, str]) -> IcebergCatalog:
        given = {name.removeprefix(_PREFIX): text for name, text in config.items() if name.startswith(_PREFIX) and text}
        return cls({"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO", **given, "cache-enabled": "false"})

    @property
    def name(self) -> str:
        """Return the name in Spark's session: it depends on the settings alone, and does not reveal them."""
        text = json.dumps(sorted(self.properties.items()))
        return f"barnabas_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def open(self, spark: SparkSession) -> Any:
        """Return Iceberg's catalog. The session of a batch is a copy of the one that the task was started with."""
        if self.properties["type"] == "jdbc":
            _provide_postgresql(spark)
        key = f"spark.sql.catalog.{self.name}"
        if spark.conf.get(key, None) is None:
            for name, value in self.properties.items():
                spark.conf.set(f"{key}.{name}", value)
            spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
        # Spark looks for the catalog's settings in the session of the thread, which only the thread has that made it.
        _jvm(spark).org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        return _jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, self.name)

    @contextmanager
    def commit_lock(self) -> Iterator[None]:
        """Exclude other commits of this project, where the catalog does not. Tables' folders are below the lock's."""
        folder = self._local_folder
        if folder is None:
            yield
            return
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def refuse_unwritable(self) -> None:
        """Check a local warehouse; for others Spark reports the error. Raise TerminalError."""
        folder = self._local_folder
        while folder is not None and not folder.exists():
            folder = folder.parent
        if folder is not None and (not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK)):
            raise TerminalError(
                f"catalog.warehouse: {self.properties['warehouse']} can't be written: {folder} is not a folder, or the "
                "worker may not write to it."
            )

    @property
    def _local_folder(self) -> Path | None:
        warehouse = self.properties.get("warehouse", "")
        parts = urlsplit(warehouse)
        if self.properties["type"] != "hadoop" or parts.scheme not in ("", "file"):
            return None
        return Path(unquote(parts.path) if parts.scheme else warehouse)


def _provide_postgresql(spark: SparkSession) -> None:
    """Add PostgreSQL's driver to the class loader that has Iceberg, where its catalog looks for drivers."""
    jvm, gateway = _jvm(spark), spark.sparkContext._gateway
    with _driver_lock:
        if gateway in _with_driver:
            return
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for path in postgresql_jars(cache_directory(os.environ), find_java(os.environ), log.info):
            loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
        jvm.java.lang.Class.forName("org.postgresql.Driver", True, loader)
        _with_driver.add(gateway)
