"""Inputs that a session can't read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sql.declarations import parse_input
from barnabas.connect_spark.sql.input_frames import input_frame


@pytest.mark.parametrize("table", ["parquet:s3a://lake/shops", "delta:s3a://lake/shops"])
def test_a_table_in_an_object_store_needs_its_client(table: str) -> None:
    package = pytest.importorskip("py4j.java_gateway").JavaPackage
    missing = SimpleNamespace(S3AFileSystem=package("org.apache.hadoop.fs.s3a.S3AFileSystem", None))
    hadoop = SimpleNamespace(fs=SimpleNamespace(s3a=missing))
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop))))
    shops = parse_input("shops", {"table": table})
    with pytest.raises(TerminalError, match=r"inputs\.shops\.table: s3a://lake/shops needs .*connect\.spark\.s3=true"):
        input_frame(spark, shops, {}, streaming=True)
