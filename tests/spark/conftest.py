"""One Spark session for all tests of the run: starting it takes most of their time."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.spark.shared_classes import shared_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["PYARROW_IGNORE_TIMEZONE"] = "1"  # assertDataFrameEqual loads pandas-on-Spark, which warns without it.

SETTINGS = {
    "spark.scheduler.mode": "FAIR",  # As in a worker's session.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # As in a worker's session.
    "spark.sql.legacy.codingErrorAction": "true",  # As well.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "1g",
    # Nothing here runs long enough to repay the optimizing compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def py4j_sockets_collected() -> Iterator[None]:
    """Py4J leaves sockets to the garbage collector. Collected here, they don't cause warnings in another test."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _quick_start() -> Iterator[None]:
    """Every JVM that a test starts with Spark's scripts, in any process, loads its classes from an archive. Not in CI:
    there each run would create its own, which costs more than the starts of one run save."""
    from barnabas.spark.errors import SparkUnavailable
    from barnabas.spark.java_runtime import find_java

    if os.environ.get("CI"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("SPARK_SUBMIT_OPTS", shared_classes(find_java(os.environ), os.environ))
        except SparkUnavailable:  # A test that needs Java declares that itself.
            pass
        yield


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from barnabas.spark import connector_jars as jars_of
    from barnabas.spark.java_runtime import find_java
    from barnabas.spark.spark_session import spark_session

    work = tmp_path_factory.mktemp("spark")
    runtime = find_java(os.environ)
    cache = jars_of.cache_directory(os.environ)
    sets = (jars_of.connector_jars, jars_of.avro_jars, jars_of.delta_jars, jars_of.iceberg_jars, jars_of.s3_jars)
    jars = [jar for provide in sets for jar in provide(cache, runtime, print)]
    with (
        py4j_sockets_collected(),
        spark_session("tests", master="local[2]", jars=jars, java=runtime, work=work, settings=SETTINGS) as session,
    ):
        gc.collect()
        gc.freeze()  # A collection follows each test, and leaves out what Spark imported.
        yield session


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    with py4j_sockets_collected():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The collector may run at any time during a test, so sockets that Py4J leaves are not failures here."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
