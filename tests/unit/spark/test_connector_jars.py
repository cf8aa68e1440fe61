from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from barnabas.spark import connector_jars as module
from barnabas.spark.connector_jars import ConnectorJar, avro_jars, cache_directory, connector_jars, delta_jars, s3_jars
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import JavaRuntime

JAVA = JavaRuntime(home=Path("jdk"), major=17)
JARS = (
    ConnectorJar("org.one", "one", "1.0", hashlib.sha256(b"first").hexdigest()),
    ConnectorJar("org.two", "two", "2.0", hashlib.sha256(b"second").hexdigest()),
)


class Resolver:
    """Replaces Spark's resolver: writes its files to Ivy's location and counts its calls."""

    def __init__(self, **files: bytes) -> None:
        self.files = {"org.one_one-1.0.jar": b"first", "org.two_two-2.0.jar": b"second", **files}
        self.calls = 0
        self.requested: list[str] = []

    def __call__(self, scratch: Path, _java: JavaRuntime, coordinate: str, _what: str) -> None:
        self.calls += 1
        self.requested.append(coordinate)
        folder = scratch / "ivy" / "jars"
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(module, "CONNECTOR_JARS", JARS)
    monkeypatch.setattr(module, "_resolve", resolver)
    return resolver


def test_the_first_use_fills_the_cache_and_later_uses_need_no_resolver(resolver: Resolver, tmp_path: Path) -> None:
    messages: list[str] = []
    first = connector_jars(tmp_path, JAVA, messages.append)
    assert [path.read_bytes() for path in first] == [b"first", b"second"]
    assert connector_jars(tmp_path, JAVA, messages.append) == first
    assert (resolver.calls, len(messages)) == (1, 1)
    assert sorted(path.name for path in first[0].parent.iterdir()) == ["one-1.0.jar", "two-2.0.jar"]


def test_a_damaged_jar_is_detected_and_fetched_again(resolver: Resolver, tmp_path: Path) -> None:
    messages: list[str] = []
    paths = connector_jars(tmp_path, JAVA, messages.append)
    paths[1].write_bytes(b"secon")
    assert connector_jars(tmp_path, JAVA, messages.append)[1].read_bytes() == b"second"
    assert resolver.calls == 2
    assert any("two-2.0.jar is damaged" in text for text in messages)


def test_a_jar_with_another_hash_never_enters_the_cache(resolver: Resolver, tmp_path: Path) -> None:
    resolver.files["org.two_two-2.0.jar"] = b"evil"
    with pytest.raises(SparkUnavailable, match=r"org\.two:two:2\.0 is not the expected one.*deleted"):
        connector_jars(tmp_path, JAVA, lambda _: None)
    assert not (tmp_path / "spark-connector" / "two-2.0.jar").exists()


def test_a_jar_that_the_resolver_did_not_fetch_is_named(resolver: Resolver, tmp_path: Path) -> None:
    del resolver.files["org.one_one-1.0.jar"]
    with pytest.raises(SparkUnavailable, match=r"did not fetch org\.one:one:1\.0"):
        connector_jars(tmp_path, JAVA, lambda _: None)


def test_a_cache_that_cannot_be_written_is_named(resolver: Resolver, tmp_path: Path) -> None:
    (tmp_path / "spark-connector").write_text("a file where the folder should be")
    with pytest.raises(SparkUnavailable, match=r"can't keep .*set BARNABAS_CACHE"):
        connector_jars(tmp_path, JAVA, lambda _: None)


def test_the_cache_is_in_the_configured_directory_or_in_that_of_the_user(tmp_path: Path) -> None:
    home, xdg = tmp_path / "home", tmp_path / "xdg"
    home.mkdir()
    xdg.mkdir()
    assert cache_directory({"BARNABAS_CACHE": str(tmp_path), "HOME": str(home)}) == tmp_path
    assert cache_directory({"XDG_CACHE_HOME": str(xdg), "HOME": str(home)}) == xdg / "barnabas"
    assert cache_directory({"HOME": str(home)}) == home / ".cache" / "barnabas"
    assert cache_directory({}) == Path(".cache/barnabas").absolute()


def test_without_a_writable_home_the_cache_is_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cache_directory({"HOME": str(tmp_path)}) == Path(".cache/barnabas").absolute()


def test_four_jars_are_pinned() -> None:
    assert [jar.file_name for jar in module.CONNECTOR_JARS] == [
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
        "kafka-clients-3.9.0.jar",
        "commons-pool2-2.12.0.jar",
    ]


def test_avro_jars_are_a_separate_set_that_is_fetched_only_on_request(
    resolver: Resolver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AVRO_JARS", JARS[1:])
    assert [path.name for path in avro_jars(tmp_path, JAVA, print)] == ["two-2.0.jar"]
    assert resolver.requested == ["org.two:two:2.0"]


def test_the_delta_lake_set_has_two_jars(resolver: Resolver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [jar.coordinate for jar in module.DELTA_JARS] == [
        "io.delta:delta-spark_2.13:4.0.0",
        "io.delta:delta-storage:4.0.0",
    ]
    monkeypatch.setattr(module, "DELTA_JARS", JARS)
    assert [path.name for path in delta_jars(tmp_path, JAVA, print)] == ["one-1.0.jar", "two-2.0.jar"]
    assert resolver.requested == ["org.one:one:1.0"]


def test_the_client_of_object_stores_is_a_small_set_with_three_roots(
    resolver: Resolver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [jar.artifact for jar in module.S3_JARS]
    assert {"hadoop-aws", "s3", "s3-transfer-manager", "sts"} <= set(names)
    assert "bundle" not in names
    monkeypatch.setattr(module, "S3_JARS", JARS)
    monkeypatch.setattr(module, "_S3_ROOTS", ("one", "two"))
    s3_jars(tmp_path, JAVA, print)
    assert resolver.requested == ["org.one:one:1.0,org.two:two:2.0"]
