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
    "ICEBERG_JARS",
    "MARIADB_JARS",
    "POSTGRESQL_JARS",
    "S3_JARS",
    "SQLSERVER_JARS",
    "ConnectorJar",
    "avro_jars",
    "cache_directory",
    "connector_jars",
    "delta_jars",
    "duckdb_jars",
    "iceberg_jars",
    "mariadb_jars",
    "postgresql_jars",
    "s3_jars",
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

ICEBERG_JARS = (
    ConnectorJar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.0_2.13",
        "1.10.0",
        "0480f1248e0a8b50ae2a730d7ad3e1a727351c362ca63f4a0c35182087a49323",
    ),
)
"""Iceberg, for sessions that write its tables. The code that calls its classes (``iceberg_table``) fits this one."""

_AWS_SDK_VERSION = "2.29.52"
_AWS_SDK_GROUP = "software.amazon.awssdk"
_AWS_SDK = {
    "annotations": "8cd8bd8afd7eca5a367f69fd87427f6d9f3e7d359962122da24d71f1963f00cd",
    "apache-client": "c96494be30ecac6f0ab7a35fdd91a4c77ca8a5daf62f3d9d84644ef0f0524dc6",
    "arns": "f5a4d1d9b4e4fc63c9bda49bcf1c59d23fd876b276c6b43aaca12969337303a6",
    "auth": "4d8143b6198dc7a530c2ccdd813129c132b96736086c0d4fea85480b9bdbc5fe",
    "aws-core": "eb560c064fbaac7e2e7f4a77ac343d3083bea0d7f6e2c69ba022d3f3e859be90",
    "aws-query-protocol": "1b117672963ee5059c45f2aadb110f191b578d108d8f08d7c7a59e6c0b098a8e",
    "aws-xml-protocol": "daf87b429373ad586d165003b5b1d4fe498c6472eb65ec9a9e2aa7d56f3917dd",
    "checksums": "bca99ff25c9b917d6be03e5dce78ad5328e7dca485e96024fa8476e4192a800a",
    "checksums-spi": "21193b9b648843dcaff493f0dd80abab9ee6871b203b9218120554698d8f7b8a",
    "crt-core": "4e1f33de21b688695fec91b977ddfa99e9d376edcbad06a62b0c138c60b37de4",
    "endpoints-spi": "e54f246c668d70b55cffe0c8fad18d4465e74e22db75139918bd30610093d1e6",
    "http-auth": "d8aa3bd376aaec7196396e65fe8755f1fdd169e51357f8128ecdc7d23a687450",
    "http-auth-aws": "7ae124e81ac0c2860bb61fdde34a388dbe823fef8509dd46a6bec805ada90308",
    "http-auth-aws-eventstream": "565a4aacce955c5ffaed551f6faaaa958e9e92b2f8514c8482f664edb2bab576",
    "http-auth-spi": "7a2168c5a7baa856d7ae9f9c4f7522d2db9f1361108c38f5b6ece66f249e6a2d",
    "http-client-spi": "8ea61ce3b527779fbfe119e0775c4b7cfdf274a979b1e50596a634685a5b6542",
    "identity-spi": "85104635abf9e5c044aaf7f8951b63efc2ef82051b5ee303571ee2e1fd8b46d0",
    "json-utils": "2652cdb3668311bcff6e643c8612b9fea266423ae1ce33743c84dd7f77904311",
    "metrics-spi": "1db2e3da338148ee40a716e1733c9a5b99e9e6daa4db3aa8bd7e718adafa2510",
    "netty-nio-client": "07238668c9cf54531ee269fd6e2a1e2650fb75d6774d401f406c2a14f26af654",
    "profiles": "fef84619d101838ba45f48d0caddb09a85d9ed8bf869095bd7d2064796856cf7",
    "protocol-core": "7b32e41a3743b422d2edec1670f60b4c1e512fcd5ab7a53fef20742d6b9104d1",
    "regions": "5ee0e26277c679ffa70d83923b0d5f77a53066ecde8610f28be1856947d60eaf",
    "retries": "ca3752ba31399721980c6398992921ff5aa164e084b4c14484333df58c76a353",
    "retries-spi": "a4218ea742fc9e07a620629d7a258bfd92b8ea3ef75f1b99193d0898ca3efe99",
    "s3": "abaedea7e68063e9c4ab090f80d14b9884c57b50953bfe6e5acaa23025609efa",
    "s3-transfer-manager": "0c9e654637247187a7e2494eb7a8799477a772a7d554cd3ae787cd3e3bae3c55",
    "sdk-core": "ea8e9856569f85075a8a806d0481c4bd848c98b24fd6d706fc0b5883fc4604dc",
    "sts": "6495d0457f4e4c3724d8c9c5fe4f6f98c9530a22f92449c4cca5fd03622e4edb",
    "third-party-jackson-core": "eaece3eb60beb8ec09d8a4f48d5bff4110010b03cc23688bdcf2af2eb075cac6",
    "utils": "f150a38f2fec14ced2de6459bfe804f647c88baa573b218646ef89b436a29d42",
}
"""The parts of the AWS SDK that Hadoop's client uses, and their hashes: 8.7 MB. Hadoop itself names the bundle of all
services, 558 MB. This version, that of the next Hadoop, has all of them in the registry; Hadoop's own lacks one."""

S3_JARS = (
    ConnectorJar(
        "org.apache.hadoop", "hadoop-aws", "3.4.1", "01334a07e179cae2b7e251f24857f11e3759108c9d6a79dcbe362a4295227da2"
    ),
    *(ConnectorJar(_AWS_SDK_GROUP, artifact, _AWS_SDK_VERSION, sha256) for artifact, sha256 in _AWS_SDK.items()),
    ConnectorJar(
        "software.amazon.eventstream",
        "eventstream",
        "1.0.1",
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
    ),
    ConnectorJar(
        "org.reactivestreams",
        "reactive-streams",
        "1.0.4",
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
)
"""Object stores (``s3a://``): the client of the Hadoop that PySpark includes."""
_S3_ROOTS = ("hadoop-aws", "s3-transfer-manager", "sts")

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
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",  # Spark has its replacement of slf4j.
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    *(
        f"io.netty:netty-{part}"
        for part in (
            *("buffer", "codec", "codec-http", "codec-http2", "common", "handler", "resolver", "transport"),
            *("transport-classes-epoll", "transport-native-unix-common"),
        )
    ),
    "software.amazon.awssdk:bundle",  # Its parts that are needed are in S3_JARS.
    "org.wildfly.openssl:wildfly-openssl",
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


def iceberg_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    """Return the jar of Iceberg. Like Avro's, it must be loaded when the session starts."""
    return _verified(cache, java, notify, ICEBERG_JARS, "Iceberg", "47 MB")


def s3_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    """Return the jars for object stores. Like Avro's, they must be loaded when the session starts."""
    return _verified(cache, java, notify, S3_JARS, "the client of object stores", "9.6 MB", _S3_ROOTS)


def postgresql_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, POSTGRESQL_JARS, "the driver of PostgreSQL", "1.1 MB")


def duckdb_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, DUCKDB_JARS, "DuckDB", "73 MB")


def mariadb_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, MARIADB_JARS, "the driver of MariaDB and MySQL", "0.7 MB")


def sqlserver_jars(cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Path]:
    return _verified(cache, java, notify, SQLSERVER_JARS, "the driver of SQL Server", "1.5 MB")


def _verified(
    cache: Path,
    java: JavaRuntime,
    notify: Callable[[str], None],
    jars: Sequence[ConnectorJar],
    what: str,
    size: str,
    roots: Sequence[str] = (),
) -> list[Path]:
    """``roots`` are the artifacts that depend on all others; the first jar by default."""
    folder = cache / "spark-connector"
    paths = [folder / jar.file_name for jar in jars]
    damaged = [path for path, jar in zip(paths, jars, strict=True) if path.exists() and not _is(path, jar)]
    for path in damaged:
        notify(f"{path} is damaged (its SHA-256 is not the pinned one): fetching it again")
    if damaged or not all(path.exists() for path in paths):
        notify(f"fetching {what} into {folder} ({size}, once)")
        _fetch(folder, java, jars, what, roots or (jars[0].artifact,))
    return paths


def _fetch(folder: Path, java: JavaRuntime, jars: Sequence[ConnectorJar], what: str, roots: Sequence[str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="resolve-", dir=folder) as scratch:
            coordinates = [jar.coordinate for jar in jars if jar.artifact in roots]
            _resolve(Path(scratch), java, ",".join(coordinates), what)
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


def _resolve(scratch: Path, java: JavaRuntime, coordinates: str, what: str) -> None:
    """Resolve the packages with spark-submit, for an application that does nothing.

    The scratch folder is the home folder of that JVM: a half-filled ~/.m2 or ~/.ivy2 can't change or break the outcome.
    """
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    application = scratch / "nothing.py"
    application.write_text("")
    command = [str(spark_home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", f"spark.jars.ivy={scratch / 'ivy'}"]
    command += ["--packages", coordinates, "--exclude-packages", ",".join(_SHIPPED_WITH_SPARK)]
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
