"""The archive of Spark's classes: used only if it is whole and belongs to this Java and this Spark."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from barnabas.spark.class_archive import archive_options, class_archive, remove_outdated
from barnabas.spark.java_runtime import JavaRuntime


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    home = tmp_path / "java"
    (home / "lib").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    (home / "lib" / "modules").write_bytes(b"modules")
    return JavaRuntime(home, 17)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"BARNABAS_CACHE": str(tmp_path / "cache")}


def written(java: JavaRuntime, environment: dict[str, str]) -> Path:
    archive = class_archive(java, environment)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"classes")
    archive.with_suffix(".sha256").write_text(hashlib.sha256(b"classes").hexdigest())
    return archive


def test_a_session_starts_without_an_archive_that_does_not_exist(
    java: JavaRuntime, environment: dict[str, str]
) -> None:
    assert archive_options(java, environment) == ""


def test_a_whole_archive_is_used(java: JavaRuntime, environment: dict[str, str]) -> None:
    archive = written(java, environment)
    assert archive_options(java, environment) == f"-XX:SharedArchiveFile={archive} -Xlog:cds=off"


@pytest.mark.parametrize("damaged", [b"classEs", b"class", b""])
def test_a_damaged_archive_is_ignored(java: JavaRuntime, environment: dict[str, str], damaged: bytes) -> None:
    written(java, environment).write_bytes(damaged)
    assert archive_options(java, environment) == ""


def test_an_archive_without_its_hash_is_ignored(java: JavaRuntime, environment: dict[str, str]) -> None:
    written(java, environment).with_suffix(".sha256").unlink()
    assert archive_options(java, environment) == ""


def test_an_updated_java_ignores_the_archive(java: JavaRuntime, environment: dict[str, str]) -> None:
    written(java, environment)
    (java.home / "lib" / "modules").write_bytes(b"other modules")
    assert archive_options(java, environment) == ""


def test_a_path_that_java_options_can_not_name_is_not_used(java: JavaRuntime, tmp_path: Path) -> None:
    environment = {"BARNABAS_CACHE": str(tmp_path / "my cache")}
    written(java, environment)
    assert archive_options(java, environment) == ""


def test_the_archive_of_before_an_update_is_removed(java: JavaRuntime, environment: dict[str, str]) -> None:
    before = written(java, environment)
    other = before.parent / "spark-java-0123456789abcdef-0123456789abcdef.jsa"
    other.write_bytes(b"of another Spark")
    (java.home / "lib" / "modules").write_bytes(b"other modules")
    now = class_archive(java, environment)
    now.write_bytes(b"classes")
    remove_outdated(now)
    assert sorted(now.parent.iterdir()) == sorted([now, other])
