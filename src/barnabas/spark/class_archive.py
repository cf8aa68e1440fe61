"""Spark's classes as a file that the JVM maps into its memory (class data sharing, JEP 350).

Without it a session spends most of its start on finding, parsing and verifying ten thousand classes. The file belongs
to one JVM and one set of Spark's jars, and its name says which: other ones ignore it. It is written only on request
(``barnabas connect prepare``), because this takes longer than a start. A start compares its hash first: the JVM itself
trusts the file, and a flipped bit would end it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.spark.connector_jars import cache_directory
from barnabas.spark.java_runtime import JavaRuntime

__all__ = ["archive_options", "class_archive", "hash_file", "hash_of", "remove_outdated"]


def class_archive(java: JavaRuntime, environment: Mapping[str, str]) -> Path:
    """Return where the file for this Java and the installed Spark is, or would be."""
    place = f"spark-java-{_digest([str(java.home), str(_spark_home())])}"
    return cache_directory(environment) / "classes" / f"{place}-{_digest(_states(java))}.jsa"


def archive_options(java: JavaRuntime, environment: Mapping[str, str]) -> str:
    """Return the JVM's options to use the file; none if it does not exist or is damaged."""
    archive = class_archive(java, environment)
    try:
        is_whole = hash_file(archive).read_text() == hash_of(archive)
    except OSError:
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off" if is_whole and " " not in str(archive) else ""


def remove_outdated(archive: Path) -> None:
    """Remove the files of the same Java and the same Spark from before their last update: each has 170 MB."""
    place = archive.name.rpartition("-")[0]
    for file in archive.parent.glob(f"{place}-*"):
        if file.stem != archive.stem and file.suffix in (".jsa", ".sha256"):
            file.unlink(missing_ok=True)


def hash_file(archive: Path) -> Path:
    """Return where the SHA-256 of the file is. Without it the file is ignored."""
    return archive.with_suffix(".sha256")


def hash_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _states(java: JavaRuntime) -> list[str]:
    """Return texts that differ after an update of Java or Spark."""
    files = [java.home / "release", *java.home.glob("lib/server/libjvm.*"), *java.home.glob("lib/modules")]
    files += sorted((_spark_home() / "jars").glob("*.jar"))
    states = [(file, file.stat()) for file in files if file.exists()]
    return [f"{file} {state.st_size} {state.st_mtime_ns}" for file, state in states]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
