"""The jars that Spark needs to read Kafka and other systems, kept in a cache of our own.

On first use Spark's own resolver (Ivy) fetches them, so that this module needs neither Maven nor a URL. Each file is
checked against the hash pinned below before it enters the cache, and again at every start: a start with a full cache
needs no network, and a damaged or swapped file is never loaded. The connector stays at 4.0.0 while PySpark is 4.0.5:
later sets can't be resolved, because their token provider was never published.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import JavaRuntime

__all__ = [
    "AVRO_JARS",
    "CONNECTOR_JARS",
    "DELTA_JARS",
    "DUCKDB_JARS",
    "MARIADB_JARS",
    "POSTGRESQL_JARS",
    "SQLSERVER_JARS",
    "ConnectorJar",
    "avro_jars",
    "cache_directory",
    "connector_jars",
    "delta_jars",
    "duckdb_jars",
    "mariadb_jars",
    "postgresql_jars",
    "sqlserver_jars",
]


@dataclass(frozen=True, slots=True)
class ConnectorJar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


CONNECTOR_JARS = (
    ConnectorJar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.0.0",
        "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
    ),
    ConnectorJar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    ConnectorJar(
        "org.apache.kafka", "kafka-clients", "3.9.0", "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18"
    ),
    ConnectorJar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.0",
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    ),
)

AVRO_JARS = (
    ConnectorJar(
        "org.apache.spark",
        "spark-avro_2.13",
        "4.0.0",
        "083fb13d7a1091025b135eff216e2009b42c9724bb8bc597d2f28b1207ef4709",
    ),
)
"""Jars to read and write Avro: only for workers with an Avro converter or format."""

DELTA_JARS = (
    ConnectorJar(
        "io.delta",
        "delta-spark_2.13",
        "4.0.0",
        "538511702aae0ef6973a6a70af3d4543c9009f8edbed786a00737e2d3cd7f04e",
    ),
    ConnectorJar(
        "io.delta", "delta-storage", "4.0.0", "9bdb9fb450f1e119eba53feb427f331b0d09072d26485b8273883ad72c9a2e1d"
    ),
)
"""Delta Lake, for sessions that write its tables. The code that calls its classes (``delta_log``) fits this version."""

POSTGRESQL_JARS = (
    ConnectorJar(
        "org.postgresql",
        "postgresql",
        "42.7.4",
        "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e",
    ),
)
DUCKDB_JARS = (
    ConnectorJar(
        "org.duckdb", "duckdb_jdbc", "1.1.3", "7bdfe781bb101e2e807397c460c1840955b40aecbaacf2a5e6fc490d80e4f7cd"
    ),
)
MARIADB_JARS = (
    ConnectorJar(
        "org.mariadb.jdbc",
        "mariadb-java-client",
        "3.5.1",
        "50a50c4a3c13c30dfbd40587f7ad9a496197d285ede0948641d9eee68fdf2106",
    ),
)
"""It is MySQL's driver as well."""
SQLSERVER_JARS = (
    ConnectorJar(
        "com.microsoft.sqlserver",
        "mssql-jdbc",
        "12.8.1.jre11",
        "e6933c0711e598a224060e52ed31392f720a4a7664e85d8ae37c52a85b67ebb0",
    ),
)
"""JDBC drivers, for connectors that are given the URL of such a database. SQLite needs none: Python includes it."""

# Jars that PySpark includes already, or that Spark does not need. Otherwise the resolver would fetch second copies, or
# fail on one that it can't find.
_SHIPPED_WITH_SPARK = (
    "com.google.code.findbugs:jsr305",
    "org.checkerframework:checker-qual",  # Annotations that are not used at run time.
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.antlr:antlr4-runtime",
    "org.slf4j:slf4j-api",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "org.apache.spark:spark-tags_2.13",
    "org.scala-lang:scala-library",
    # Of MariaDB's driver: only for logins with Windows's own accounts.
    "com.github.waffle:waffle-jna",
)
_RESOLVE_TIMEOUT_SECONDS = 600


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the folder for downloads: BARNABAS_CACHE, else the user's cache folder, else one in the current folder."""
    chosen = environment.get("BARNABAS_CACHE")
    if chosen:
        return Path(chosen).absolute()
    home = environment.get("HOME")
    base = Path(environment.get("XDG_CACHE_HOME") or (Path(home) / ".cache" if home else ".cache"))
    candidate = (base / "barnabas").absolute()
    return candidate if _is_writable(candidate) else Path(".cache/barnabas").absolute()


def connector_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    """Return the verified jars. Fetch them first if the cache lacks one or holds a damaged one."""
    return _verified(cache, java, notify, CONNECTOR_JARS, "Spark's Kafka connector", "9.9 MB")


def avro_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    """Return the jars for Avro. A session must be started with them: they can't be added later."""
    return _verified(cache, java, notify, AVRO_JARS, "Spark's Avro package", "0.1 MB")


def delta_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    """Return the jars of Delta Lake. Like Avro's, they must be loaded when the session starts."""
    return _verified(cache, java, notify, DELTA_JARS, "Delta Lake", "7.8 MB")


def postgresql_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, POSTGRESQL_JARS, "the driver of PostgreSQL", "1.1 MB")


def duckdb_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, DUCKDB_JARS, "DuckDB", "73 MB")


def mariadb_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, MARIADB_JARS, "the driver of MariaDB and MySQL", "0.7 MB")


def sqlserver_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, SQLSERVER_JARS, "the driver of SQL Server", "1.5 MB")


def _verified(
    cache: Path, java: JavaRuntime, notify: Callable[[str], None], jars: Sequence[ConnectorJar], what: str, size: str
) -> list[Path]:
    folder = cache / "spark-connector"
    paths = [folder / jar.file_name for jar in jars]
    damaged = [path for path, jar in zip(paths, jars, strict=True) if path.exists() and not _is(path, jar)]
    for path in damaged:
        notify(f"{path} is damaged (its SHA-256 is not the pinned one): fetching it again")
    if damaged or not all(path.exists() for path in paths):
        notify(f"fetching {what} into {folder} ({size}, once)")
        _fetch(folder, java, jars, what)
    return paths


def _fetch(folder: Path, java: JavaRuntime, jars: Sequence[ConnectorJar], what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="resolve-", dir=folder) as scratch:
            _resolve(Path(scratch), java, jars[0].coordinate, what)
            for jar in jars:
                _move_into_cache(Path(scratch) / "ivy" / "jars" / f"{jar.group}_{jar.file_name}", folder, jar)
    except OSError as error:
        raise SparkUnavailable(
            f"can't keep {what} in {folder}: {error.strerror or error}. "
            "Free some space there, or set BARNABAS_CACHE to a writable folder."
        ) from error


def _move_into_cache(fetched: Path, folder: Path, jar: ConnectorJar) -> None:
    if not fetched.exists():
        raise SparkUnavailable(f"Spark's resolver did not fetch {jar.coordinate}. Start again to retry.")
    if not _is(fetched, jar):
        raise SparkUnavailable(
            f"the file fetched as {jar.coordinate} is not the expected one: its SHA-256 is {_sha256(fetched)} "
            f"instead of {jar.sha256}. It was deleted. Check your proxy or mirror for Java packages."
        )
    os.replace(fetched, folder / jar.file_name)


def _resolve(scratch: Path, java: JavaRuntime, coordinate: str, what: str) -> None:
    """Resolve the package with spark-submit, for an application that does nothing.

    The scratch folder is the home folder of that JVM: a half-filled ~/.m2 or ~/.ivy2 can't change or break the outcome.
    """
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    application = scratch / "nothing.py"
    application.write_text("")
    command = [str(spark_home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", f"spark.jars.ivy={scratch / 'ivy'}"]
    command += ["--packages", coordinate, "--exclude-packages", ",".join(_SHIPPED_WITH_SPARK)]
    command += [str(application)]
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        "JAVA_HOME": str(java.home),
        "SPARK_SUBMIT_OPTS": f"-Duser.home={scratch / 'home'}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    try:
        answer = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_RESOLVE_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SparkUnavailable(f"fetching {what} took over {_RESOLVE_TIMEOUT_SECONDS} s. Try again.") from error
    if answer.returncode != 0:
        raise SparkUnavailable(
            f"{what} can't be fetched. This needs the network once. Spark's resolver says: {_reason(answer.stderr)}"
        )


def _reason(text: str) -> str:
    reasons = [
        line.strip() for line in text.splitlines() if "not found" in line or "Exception" in line or "error" in line
    ]
    return "; ".join(dict.fromkeys(reasons[:3] + reasons[-1:]))[:600] or text.strip()[-600:]


def _is(path: Path, jar: ConnectorJar) -> bool:
    return _sha256(path) == jar.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free > 0
