"""The examples in docs/connect/converters.md and docs/connect/transforms.md print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.transforms.transform_chain import TransformChain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = Path(__file__).resolve().parents[2] / "docs" / "connect"

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", ["converters.md", "transforms.md"])
def test_an_example_prints_the_documented_output(
    page: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert examples
    for code, printed in examples:
        capsys.readouterr()
        exec(code, {"__name__": "example"})
        assert capsys.readouterr().out.strip() == printed.strip()


def _settings(page: str, containing: str) -> dict[str, str]:
    blocks: list[str] = re.findall(r"```properties\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    pairs = (line.partition("=") for line in found.splitlines())
    return {name: value for name, _, value in pairs}


def test_the_settings_of_the_pages_are_valid(spark: SparkSession) -> None:
    chain = TransformChain.of(_settings("transforms.md", "predicates=tombstone"))
    assert [step.java_class.rpartition(".")[2] for step in chain.steps] == [
        "Filter",
        "InsertField$Value",
        "MaskField$Value",
    ]
    converter = RecordConverter.of(
        {"key.converter": "StringConverter", **_settings("converters.md", "barnabas.schema=")}, {}
    )
    assert converter.value.java_class == "org.apache.kafka.connect.json.JsonConverter"
