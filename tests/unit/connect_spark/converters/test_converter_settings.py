from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import types as t

from barnabas.common.config_value import ConfigException
from barnabas.connect.decide.validation.converters_config import CONVERTERS as DEFINED
from barnabas.connect_spark.converters.converter_registry import CONVERTERS, converter_of
from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.primitive_converters import ByteArrayConverter
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.converters.schema_merging import merged_type
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter
from barnabas.connect_spark.converters.string_converter import StringConverter

WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "key.converter.converter.encoding": "ISO-8859-1",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def test_the_connectors_converter_wins_with_its_own_settings_only() -> None:
    config = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    found = RecordConverter.of(config, WORKER)
    assert found.value == JsonConverter(schemas=True)
    assert found.key == StringConverter("ISO-8859-1")
    assert found.header == SimpleHeaderConverter()


def test_without_its_own_converter_a_connector_uses_the_workers_with_its_settings() -> None:
    found = RecordConverter.of({"value.converter.schemas.enable": "true"}, WORKER)
    assert found.value == JsonConverter(schemas=False)


def test_every_converter_that_validation_knows_exists_under_both_names() -> None:
    assert set(DEFINED) <= set(CONVERTERS)
    assert isinstance(converter_of("key.converter", "ByteArrayConverter", {}), ByteArrayConverter)


@pytest.mark.parametrize(
    ("setting", "name", "settings", "message"),
    [
        (
            "key.converter",
            "io.example.Odd",
            {},
            "key.converter: no such converter; available: AvroConverter",
        ),
        ("key.converter", "SimpleHeaderConverter", {}, "no such converter"),
        ("value.converter", "JsonConverter", {"decimal.format": "ODD"}, "value.converter.decimal.format"),
        ("value.converter", "JsonConverter", {"schema.content": "{"}, "value.converter.schema.content"),
        ("value.converter", "JsonConverter", {"barnabas.schema": "a INT"}, "set schemas.enable=false"),
        ("value.converter", "StringConverter", {"converter.encoding": "EBCDIC"}, "UTF-8, ISO-8859-1"),
        ("value.converter", "AvroConverter", {}, "value.converter.barnabas.avro.schema"),
        ("value.converter", "AvroConverter", {"barnabas.avro.schema": "{"}, "it is not JSON"),
        ("value.converter", "ProtobufConverter", {}, "value.converter.barnabas.protobuf.descriptor.file"),
    ],
)
def test_an_invalid_setting_is_reported_with_the_allowed_values(
    setting: str, name: str, settings: Mapping[str, str], message: str
) -> None:
    with pytest.raises(ConfigException) as error:
        converter_of(setting, name, settings)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("kinds", "merged"),
    [
        ([t.NullType(), t.StringType()], t.StringType()),
        ([t.IntegerType(), t.LongType(), t.ByteType()], t.LongType()),
        ([t.FloatType(), t.DoubleType()], t.DoubleType()),
        ([t.IntegerType(), t.StringType()], t.VariantType()),
        ([t.DecimalType(10, 2), t.DecimalType(12, 4)], t.DecimalType(12, 4)),
        ([t.DecimalType(38, 0), t.DecimalType(10, 5)], t.VariantType()),
        (
            [t.StructType().add("a", "integer"), t.StructType().add("b", "string").add("a", "long")],
            t.StructType().add("a", "long").add("b", "string"),
        ),
        ([t.ArrayType(t.IntegerType()), t.ArrayType(t.LongType())], t.ArrayType(t.LongType())),
    ],
)
def test_types_are_merged_without_loss(kinds: list[t.DataType], merged: t.DataType) -> None:
    assert merged_type(kinds) == merged
