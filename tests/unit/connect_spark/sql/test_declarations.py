"""Inputs and outputs as settings declare them, and what is wrong with them."""

from __future__ import annotations

import pytest

from barnabas.connect_spark.sql.declarations import (
    InvalidDeclaration,
    OutputMode,
    StartKind,
    StartPoint,
    TableKind,
    TableLocation,
    parse_input,
    parse_inputs,
    parse_output,
)

ORDERS = {"inputs": "orders", "inputs.orders.topic": "shop-orders", "inputs.orders.format": "json"}


def input_problems(**settings: str) -> dict[str, list[str]]:
    config = ORDERS | {name.replace("_", "."): text for name, text in settings.items()}
    with pytest.raises(InvalidDeclaration) as raised:
        parse_inputs(config)
    return {name: list(texts) for name, texts in raised.value.problems.items()}


def output_problems(settings: dict[str, str]) -> dict[str, list[str]]:
    with pytest.raises(InvalidDeclaration) as raised:
        parse_output(settings)
    return {name: list(texts) for name, texts in raised.value.problems.items()}


def test_a_topic_of_json_has_a_schema_an_event_time_and_a_watermark() -> None:
    own = {"schema": "id BIGINT, at TIMESTAMP", "event.time": "at", "watermark": "10 Minutes", "start": "latest"}
    (orders,) = parse_inputs(ORDERS | {f"inputs.orders.{name}": text for name, text in own.items()})
    assert (orders.name, orders.topic, orders.event_time, orders.watermark) == (
        "orders",
        "shop-orders",
        "at",
        "10 minutes",
    )
    assert orders.start == StartPoint(StartKind.LATEST)
    assert orders.converters == {
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.barnabas.schema.unknown.fields": "ignore",
        "value.converter.barnabas.schema": "id BIGINT, at TIMESTAMP",
    }


def test_a_shell_writes_the_same_settings_without_a_prefix() -> None:
    settings = {name.removeprefix("inputs.orders."): text for name, text in ORDERS.items() if name != "inputs"}
    assert parse_input("orders", settings) == parse_inputs(ORDERS)[0]


def test_connects_converters_take_the_place_of_a_format() -> None:
    settings = {"topic": "t", "value.converter": "ProtobufConverter", "value.converter.barnabas.x": "1"}
    assert parse_input("t", settings).converters == {
        "key.converter": "StringConverter",
        "value.converter": "ProtobufConverter",
        "value.converter.barnabas.x": "1",
    }


def test_a_registry_is_named_beside_its_format() -> None:
    settings = {"topic": "t", "format": "registry-avro", "schema.registry.url": "http://localhost:8081"}
    found = parse_input("t", settings).value
    assert found.class_name == "io.confluent.connect.avro.AvroConverter"
    assert found.settings == {"schema.registry.url": "http://localhost:8081"}


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-02", 86_400_000)],
)
def test_a_start_may_be_a_time(text: str, time_ms: int) -> None:
    start = parse_input("t", {"topic": "t", "format": "bytes", "start": text}).start
    assert start == StartPoint(StartKind.TIME, time_ms)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("parquet:/lake/a", TableLocation(TableKind.PARQUET, "/lake/a")),
        ("delta:s3a://lake/a", TableLocation(TableKind.DELTA, "s3a://lake/a")),
    ],
)
def test_a_table_is_an_input(text: str, location: TableLocation) -> None:
    assert parse_input("t", {"table": text}).table == location
    assert str(location) == text


def test_a_table_of_a_catalog_needs_the_catalog() -> None:
    catalog = {"table": "iceberg:shop.customers", "catalog.type": "hadoop", "catalog.warehouse": "/lake"}
    assert parse_input("t", catalog).options == {"catalog.type": "hadoop", "catalog.warehouse": "/lake"}
    with pytest.raises(InvalidDeclaration, match=r"catalog\.type: Set it"):
        parse_input("t", {"table": "iceberg:a.b"})


def test_a_table_of_a_database_is_no_input() -> None:
    with pytest.raises(InvalidDeclaration, match="JdbcSource or PostgresChanges"):
        parse_input("t", {"table": "jdbc:sqlite:/a"})


def test_problems_of_inputs_name_their_settings() -> None:
    assert list(input_problems(inputs="")) == ["inputs", "inputs.orders.format", "inputs.orders.topic"]
    assert list(input_problems(inputs="orders,2x", inputs_2x_topic="t", inputs_2x_format="json")) == ["inputs.2x"]
    assert list(input_problems(inputs="orders,Orders", inputs_Orders_topic="t", inputs_Orders_format="json")) == [
        "inputs"
    ]
    assert list(input_problems(inputs_orders_table="delta:/a")) == ["inputs.orders.topic"]
    assert list(input_problems(inputs_orders_format="jsno")) == ["inputs.orders.format"]
    assert list(input_problems(inputs_orders_format="avro")) == ["inputs.orders.schema"]
    assert list(input_problems(inputs_orders_format="registry-avro")) == ["inputs.orders.schema.registry.url"]
    assert list(input_problems(inputs_orders_format="string", inputs_orders_schema="a INT")) == ["inputs.orders.schema"]
    assert list(input_problems(inputs_orders_value_converter="JsonConverter")) == ["inputs.orders.format"]
    assert list(input_problems(inputs_orders_event_time="at")) == ["inputs.orders.watermark"]
    assert list(input_problems(inputs_orders_watermark="soon")) == ["inputs.orders.watermark"]
    assert list(input_problems(inputs_orders_start="yesterday")) == ["inputs.orders.start"]
    assert list(input_problems(inputs_orders_watermrak="1 day")) == ["inputs.orders.watermrak"]
    assert list(input_problems(inputs_customers_topic="c")) == ["inputs.customers.topic"]


@pytest.mark.parametrize("text", ["lake/a", "delta:", "delta:lake/a", "mongo:/a"])
def test_places_of_tables_are_absolute(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="table"):
        parse_input("t", {"table": text})


def test_a_topic_takes_rows_of_keys_with_tombstones() -> None:
    settings = {"topic": "totals", "mode": "upsert", "key": "id, day", "delete.when": "total = 0", "format": "json"}
    output = parse_output({f"output.{name}": text for name, text in settings.items()})
    assert (output.topic, output.mode, output.key, output.delete_when) == (
        "totals",
        OutputMode.UPSERT,
        ("id", "day"),
        "total = 0",
    )
    assert output.converters["value.converter"] == "JsonConverter"
    assert "key.converter" not in output.converters


def test_a_table_takes_the_settings_of_its_connector() -> None:
    output = parse_output({"output.table": "delta:/lake/t", "output.auto.evolve": "true", "topics": "other"})
    assert output.options == {"auto.evolve": "true"}
    assert output.mode is OutputMode.APPEND


def test_problems_of_an_output_name_their_settings() -> None:
    assert list(output_problems({})) == ["output.topic"]
    assert list(output_problems({"output.topic": "t", "output.table": "delta:/a"})) == ["output.topic"]
    assert list(output_problems({"output.topic": "t", "output.mode": "upsert"})) == ["output.key"]
    assert list(output_problems({"output.topic": "t", "output.mode": "merge"})) == ["output.mode"]
    assert list(output_problems({"output.topic": "t", "output.delete.when": "x"})) == ["output.delete.when"]
    assert list(output_problems({"output.topic": "t", "output.kye": "id"})) == ["output.kye"]
    files = {"output.table": "parquet:/a", "output.mode": "upsert", "output.key": "id"}
    assert list(output_problems(files)) == ["output.mode"]
