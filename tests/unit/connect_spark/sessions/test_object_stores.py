from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.object_stores import is_object_store, require_s3, s3_conf
from barnabas.connect_spark.sessions.spark_settings import SparkSettings


def test_only_urls_of_object_stores_need_their_client() -> None:
    assert is_object_store("s3a://bucket/folder")
    assert not is_object_store("/folder")
    assert not is_object_store("hdfs://host/folder")
    nothing: Any = None
    require_s3(nothing, "/folder", "directory")


def test_a_session_without_the_client_is_refused_with_the_setting_it_needs() -> None:
    package = pytest.importorskip("py4j.java_gateway").JavaPackage
    missing = SimpleNamespace(S3AFileSystem=package("org.apache.hadoop.fs.s3a.S3AFileSystem", None))
    hadoop = SimpleNamespace(fs=SimpleNamespace(s3a=missing))
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop))))
    with pytest.raises(TerminalError, match=r"directory: s3a://b needs .* set barnabas\.connect\.spark\.s3=true"):
        require_s3(spark, "s3a://b", "directory")


def test_a_spark_connect_server_is_refused_by_name() -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(TerminalError, match=r"this one is a Spark Connect server \(sc://\)"):
        require_s3(remote, "s3a://b", "directory")


@pytest.mark.parametrize("name", ["default", "environment", "profile", "web-identity", "instance", "settings"])
def test_every_source_of_credentials_has_its_provider(name: str) -> None:
    assert s3_conf(name)["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith("CredentialsProvider")


def test_the_folder_of_checkpoints_is_a_path() -> None:
    with pytest.raises(ConfigException, match="Write a path: the folder is on the worker's machine"):
        SparkSettings.of({"barnabas.connect.spark.directory": "s3a://bucket/checkpoints"}, worker_id="h:8083")
