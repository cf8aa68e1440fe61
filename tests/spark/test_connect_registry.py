"""Converters with a schema registry, against Confluent's own serializers and deserializers, and a registry's answers.

The bytes of theirs are read by ours, and ours by theirs.
"""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.clients.schema_registry.errors import RegistryUnreachable
from barnabas.clients.schema_registry.protobuf_files import protobuf_files
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.queries.record_path import ConverterPath
from barnabas.testing import Node
from tests.interop.schema_registry import RegistryDouble, running_registry
from tests.spark.connect_answers import raw_frame
from tests.spark.connect_stage import running_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
VALUE = SerializationContext("orders", MessageField.VALUE)
ORDER_1 = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}  # fmt: skip
ORDER_2 = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "double", "default": 0}],
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    with running_registry() as double:
        yield double


@pytest.fixture
def client(registry: RegistryDouble) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def converter(registry: RegistryDouble, java_class: str = AVRO, **own: str) -> RecordConverter:
    given = {"schema.registry.url": registry.url, "max.retries": "0", **own}
    config = {f"value.converter.{name}": value for name, value in given.items()}
    return RecordConverter.of({"key.converter": "ByteArrayConverter", "value.converter": java_class, **config}, {})


def read(spark: SparkSession, with_registry: RecordConverter, values: Sequence[bytes | None]) -> list[Any]:
    """Return the value of each record, or its error."""
    raw = raw_frame(spark, [{"topic": "orders", "offset": at, "value": value} for at, value in enumerate(values)])
    rows = [
        row
        for batch in with_registry.to_connect(raw)
        for row in batch.frame.select("offset", "value", "failure").collect()
    ]
    rows.sort(key=lambda row: int(row["offset"]))
    return [row["failure"]["message"] if row["failure"] else row["value"] for row in rows]


def written(
    spark: SparkSession, with_registry: RecordConverter, ddl: str, rows: Sequence[Any], topic: str = "orders"
) -> list[Any]:
    """Return the bytes of each record, or its error."""
    frame = spark.createDataFrame([(topic, row) for row in rows], f"topic string, value {ddl}").coalesce(1)
    found = with_registry.from_connect([with_registry.from_source(frame)]).collect()
    return [
        row["failure"]["message"] if row["failure"] else None if row["value"] is None else bytes(row["value"])
        for row in found
    ]


# ---- Avro


def test_records_of_several_schemas_are_read_as_one_table(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    first, second = (AvroSerializer(client, json.dumps(schema)) for schema in (ORDER_1, ORDER_2))
    good = [first({"id": 1, "note": "a"}, VALUE), second({"id": 2**40, "price": 1.5}, VALUE)]
    bad = [b"junk", b"\0\0\0\0\x63x", good[0][:6]]
    with_registry = converter(registry)
    one, two, tombstone, junk, unknown, cut = read(spark, with_registry, [*good, None, *bad])
    assert one.asDict() == {"id": 1, "note": "a", "price": None}
    assert two.asDict() == {"id": 2**40, "note": None, "price": 1.5}
    assert tombstone is None
    assert "the bytes begin with 0x6A756E6B, not with the byte 0 and the id of a schema" in junk
    assert unknown.startswith(
        f"schema 99 can't be used: the schema registry {registry.url} refused GET /schemas/ids/99"
    )
    assert "Schema not found (40403): check that the records were written with this schema registry" in unknown
    assert cut == "the bytes are not Avro of schema 1"
    asked = len(registry.paths)
    assert read(spark, with_registry, good)[0].asDict() == {"id": 1, "note": "a", "price": None}
    assert len(registry.paths) == asked  # Schemas are kept.


def test_a_stream_reads_the_versions_of_its_subject_and_stops_at_a_later_one(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    first, second = (AvroSerializer(client, json.dumps(schema)) for schema in (ORDER_1, ORDER_2))
    values = [first({"id": 1, "note": "a"}, VALUE), second({"id": 2**40, "price": 1.5}, VALUE)]
    of_stream = converter(registry).for_stream("orders")
    assert of_stream.knows_schemas
    assert [row.asDict() for row in read(spark, of_stream, values)] == [
        {"id": 1, "note": "a", "price": None},
        {"id": 2**40, "note": None, "price": 1.5},
    ]
    later = AvroSerializer(client, json.dumps({**ORDER_1, "name": "Later"}))({"id": 1}, VALUE)
    with pytest.raises(Exception, match=r"a record has schema 3, which the subject orders-value did not have"):
        read(spark, of_stream, [later])


def test_a_stream_needs_a_subject_whose_versions_fit_together(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    with pytest.raises(TerminalError, match=r"orders-value.*not found"):
        converter(registry).for_stream("orders")
    with pytest.raises(TerminalError, match="RecordNameStrategy names subjects by records"):
        converter(registry, **{"value.subject.name.strategy": "RecordNameStrategy"}).for_stream("orders")
    text = {**ORDER_1, "fields": [{"name": "id", "type": "string"}]}
    for schema in (ORDER_1, text):
        client.register_schema("orders-value", Schema(json.dumps(schema), "AVRO"))
    with pytest.raises(TerminalError, match="versions of the subject orders-value have fields whose types"):
        converter(registry).for_stream("orders")


def test_schemas_that_do_not_fit_are_batches_of_their_own(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    text = {**ORDER_1, "fields": [{"name": "id", "type": "string"}]}
    values = [
        AvroSerializer(client, json.dumps(ORDER_1))({"id": 1}, VALUE),
        AvroSerializer(client, json.dumps(text))({"id": "x"}, VALUE),
    ]
    raw = raw_frame(spark, [{"offset": at, "value": value} for at, value in enumerate([*values, b"junk"])])
    batches = converter(registry).to_connect(raw)
    assert [batch.frame.count() for batch in batches] == [2, 1]
    merged = RecordConverter.to_frame(batches, ["offset", "value"]).orderBy("offset")
    kind: Any = merged.schema["value"].dataType
    assert kind["id"].dataType.simpleString() == "variant"
    assert [json.loads(row[0]) for row in merged.selectExpr("to_json(value.id)").collect()] == [1, "x"]


def test_references_unions_and_logical_types_are_read(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    item = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
    client.register_schema("item", Schema(json.dumps(item), "AVRO"))
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "item", "type": "Item"}, {"name": "other", "type": ["null", "Item"]},
        {"name": "either", "type": ["string", "long"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ]}  # fmt: skip
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("shop.Item", "item", 1)])
    value = {"item": {"sku": "s"}, "other": None, "either": 5, "day": datetime.date(2020, 1, 2), "kind": "B"}
    (found,) = read(spark, converter(registry), [AvroSerializer(client, schema)(value, VALUE)])
    assert (found["item"].sku, found.other, found.day, found.kind) == ("s", None, datetime.date(2020, 1, 2), "B")
    assert (found.either.member_string, found.either.member_long) == (None, 5)


def test_a_schema_that_spark_lacks_a_type_for_is_named(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"], "default": None}]}
    values = [
        AvroSerializer(client, json.dumps(tree))({"next": None}, VALUE),
        AvroSerializer(client, json.dumps(ORDER_1))({"id": 1}, VALUE),
        JSONSerializer('{"type": "object"}', client)({"id": 1}, VALUE),
    ]
    recursive, good, other = read(spark, converter(registry), values)
    assert recursive.startswith("schema 1 can't be used: Spark can't read it")
    assert good.id == 1
    assert "schema 3 can't be used: it is of the kind JSON, and ConfluentAvroConverter reads AVRO" in other


def test_a_source_registers_its_schema_and_confluents_deserializer_reads_it(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    ddl = (
        "struct<id: bigint not null, note: string, at: timestamp, inner: struct<x: array<int>>, m: map<string,double>>"
    )
    at = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    rows = [(1, "a", at, ([1, 2],), {"k": 1.5}), (2, None, None, None, None), None]
    data = written(spark, converter(registry), ddl, rows)
    reads = AvroDeserializer(client)
    assert reads(data[0], VALUE) == {"id": 1, "note": "a", "at": at, "inner": {"x": [1, 2]}, "m": {"k": 1.5}}
    assert reads(data[1], VALUE) == {"id": 2, "note": None, "at": None, "inner": None, "m": None}
    assert data[2] is None
    assert registry.subjects == {"orders-value": [1]}
    assert json.loads(registry.schemas[1]["schema"])["namespace"] == "io.confluent.connect.avro"
    (back, *_) = read(spark, converter(registry), data)
    assert (back.id, back.inner.x, back.m) == (1, [1, 2], {"k": 1.5})


@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
def test_subjects_have_the_names_of_the_strategy(spark: SparkSession, registry: RegistryDouble, strategy: str) -> None:
    with_registry = converter(registry, **{"value.subject.name.strategy": strategy})
    data = written(spark, with_registry, "struct<id: int>", [(1,)])
    record = "io.confluent.connect.avro.ConnectDefault"
    assert registry.subjects == {record if strategy == "RecordNameStrategy" else f"orders-{record}": [1]}
    assert data[0][:5] == b"\0\0\0\0\1"


def test_without_registration_the_subject_must_have_the_schema(spark: SparkSession, registry: RegistryDouble) -> None:
    with_registry = converter(registry, **{"auto.register.schemas": "false"})
    (refused, tombstone) = written(spark, with_registry, "struct<id: int>", [(1,), None])
    assert refused.startswith("the subject orders-value does not have the schema of the records")
    assert "Subject 'orders-value' not found. (40401): set auto.register.schemas=true" in refused
    assert tombstone is None
    data = written(spark, converter(registry), "struct<id: int>", [(1,)])
    assert written(spark, with_registry, "struct<id: int>", [(1,)]) == data


def test_an_incompatible_schema_makes_bad_records_of_its_topic(spark: SparkSession, registry: RegistryDouble) -> None:
    registry.incompatible.add("orders-value")
    frame = spark.createDataFrame([("orders", (1,)), ("others", (2,))], "topic string, value struct<id: int>")
    with_registry = converter(registry)
    rows = with_registry.from_connect([with_registry.from_source(frame)]).orderBy("topic").collect()
    assert "the subject orders-value does not take the schema of the records" in rows[0]["failure"]["message"]
    assert "incompatible with an earlier schema (409)" in rows[0]["failure"]["message"]
    assert (rows[1]["failure"], bytes(rows[1]["value"])) == (None, b"\0\0\0\0\1\2\4")


def test_the_latest_schema_is_written_and_what_does_not_fit_is_named(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    latest = {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"},
        {"name": "kind", "type": ["null", kind]},
    ]}  # fmt: skip
    registry.register("orders-value", {"schema": json.dumps(latest)})
    own = {"auto.register.schemas": "false", "use.latest.version": "true"}
    ddl = "struct<id: int, kind: string>"
    good, null, odd = written(spark, converter(registry, **own), ddl, [(1, "A"), (None, "A"), (2, "C")])
    assert AvroDeserializer(client)(good, VALUE) == {"id": 1, "note": "none", "kind": "A"}
    assert '"id": Conversion error: null value' in null
    assert odd == '"kind" is one of A, and not C'
    (refused,) = written(spark, converter(registry, **own), "struct<id: int, more: int>", [(1, 2)])
    assert "don't fit schema 1, the latest of their subject: it does not have value.more" in refused
    lax = converter(registry, **own, **{"latest.compatibility.strict": "false"})
    (data,) = written(spark, lax, "struct<id: int, more: int>", [(1, 2)])
    assert AvroDeserializer(client)(data, VALUE) == {"id": 1, "note": "none", "kind": None}


# ---- JSON Schema


def test_json_schema_is_read_and_written_as_confluents(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    schema = {"title": "Order", "type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "any": {},
        "item": {"$ref": "#/definitions/Item"},
    }, "definitions": {"Item": {"type": "object", "properties": {"sku": {"type": "string"}}}}}  # fmt: skip
    serializer = JSONSerializer(json.dumps(schema), client)
    good = serializer({"id": 1, "note": "a", "any": {"x": [1]}, "item": {"sku": "s"}, "more": 1}, VALUE)
    bad = good[:5] + b'{"note": "x"}'
    with_registry = converter(registry, JSON)
    first, missing, cut = read(spark, with_registry, [good, bad, good[:9]])
    assert (first.id, first.note, first.any, first.item.sku) == (1, "a", '{"x":[1]}', "s")
    assert missing == '"id": Invalid null value for required INT64 field'
    assert "it is not JSON" in cut
    (strict,) = read(spark, converter(registry, JSON, **{"barnabas.schema.unknown.fields": "error"}), [good])
    assert "more" in strict
    ddl = "struct<id: bigint not null, note: string, b: binary, d: decimal(10,2), tags: array<string>>"
    data = written(spark, with_registry, ddl, [(1, None, bytearray(b"x"), None, ["t"])])
    validating = JSONDeserializer(None, schema_registry_client=client)
    assert validating(data[0], VALUE) == {"id": 1, "note": None, "b": "eA==", "d": None, "tags": ["t"]}
    (back,) = read(spark, with_registry, data)
    assert (back.id, bytes(back.b), back.tags) == (1, b"x", ["t"])


# ---- Protobuf


def order_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="note", number=2, type=9, label=1)
    inner = file.message_type.add(name="Second").nested_type.add(name="Inner")
    inner.field.add(name="id", number=1, type=3, label=1)
    inner.field.add(name="price", number=2, type=1, label=1)
    return file


def message_class(files: Sequence[FileDescriptorProto], name: str) -> Any:
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_is_read_by_the_message_that_each_record_names(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    values = []
    for name, fields in (("shop.Order", {"id": 1, "note": "a"}), ("shop.Second.Inner", {"id": 2, "price": 1.5})):
        made = message_class([order_file()], name)
        values.append(ProtobufSerializer(made, client, {"use.deprecated.format": False})(made(**fields), VALUE))
    assert values[1][5:8] == b"\4\2\0"
    bad = [values[0][:6] + b"\xff", b"\0\0\0\0\1", b"\0\0\0\0\1\2\x7f"]
    first, second, broken, cut, odd = read(spark, converter(registry, PROTOBUF), [*values, *bad])
    assert first.asDict() == {"id": 1, "note": "a", "price": None}
    assert second.asDict() == {"id": 2, "note": None, "price": 1.5}
    assert "the bytes are not a shop.Order" in broken
    assert "not with the byte 0 and the id of a schema" in cut
    assert "the schema has no message with the indexes [-64]" in odd


def test_protobuf_is_written_for_confluents_deserializer(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient
) -> None:
    ddl = "struct<id: bigint not null, n: bigint, note: string, at: timestamp, tags: array<string>>"
    at = datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)
    rows = [(1, 2**60 + 1, None, at, ["t"]), (2, None, "", None, None), None]
    data = written(spark, converter(registry, PROTOBUF), ddl, rows)
    made = message_class(protobuf_files(registry.schemas[1]["schema"], {}), "ConnectDefault1")
    reads = ProtobufDeserializer(made, {"use.deprecated.format": False}, client)
    first, second = reads(data[0], VALUE), reads(data[1], VALUE)
    assert (first.id, first.n, first.HasField("note"), first.at.seconds, list(first.tags)) == (
        1, 2**60 + 1, False, int(at.timestamp()), ["t"],
    )  # fmt: skip
    assert (second.HasField("n"), second.HasField("note"), second.HasField("at")) == (False, True, False)
    assert data[2] is None
    back = read(spark, converter(registry, PROTOBUF), data)
    assert (back[0].n, back[0].note, back[1].note) == (2**60 + 1, None, "")


# ---- any schema

AVRO_SCALARS = st.sampled_from(
    [("int", 7), ("long", 2**40), ("string", "ä"), ("double", 1.5), ("boolean", True), ("bytes", b"\0x")]
)


def _array(of: Any) -> Any:
    return {"type": "array", "items": of[0]}, [of[1], of[1]]


def _map(of: Any) -> Any:
    return {"type": "map", "values": of[0]}, {"k": of[1]}


def _nullable(of: Any) -> Any:
    return ["null", of[0]], of[1]


AVRO_TYPES = st.one_of(
    AVRO_SCALARS,
    AVRO_SCALARS.map(_nullable),
    AVRO_SCALARS.map(_array),
    AVRO_SCALARS.map(_map),
    AVRO_SCALARS.map(_nullable).map(_array).map(_map).map(_nullable),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(AVRO_TYPES, min_size=1, max_size=5))
def test_any_avro_record_survives_both_ways(
    spark: SparkSession, registry: RegistryDouble, client: SchemaRegistryClient, fields: list[Any]
) -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(fields)
    ]}  # fmt: skip
    value = {f"f{number}": example for number, (_, example) in enumerate(fields)}
    registry.subjects.clear()  # So that the schema becomes the latest one.
    data = AvroSerializer(client, json.dumps(schema), conf={"auto.register.schemas": False, "use.schema.id": (
        registry.register("orders-value", {"schema": json.dumps(schema)})
    )})(value, VALUE)  # fmt: skip
    own = converter(registry, **{"auto.register.schemas": "false", "use.latest.version": "true"})
    (batch,) = own.to_connect(raw_frame(spark, [{"topic": "orders", "offset": 0, "value": data}]))
    (row,) = own.from_connect([batch]).collect()
    assert (row["failure"], bytes(row["value"])) == (None, data)


# ---- the registry's errors


def test_a_registry_that_refuses_or_does_not_answer_fails_the_batch(
    spark: SparkSession, client: SchemaRegistryClient, registry: RegistryDouble
) -> None:
    data = AvroSerializer(client, json.dumps(ORDER_1))({"id": 1}, VALUE)
    registry.user_info = "bob:secret"
    with pytest.raises(TerminalError, match=r"Unauthorized \(401\): set basic\.auth\.credentials\.source=USER_INFO"):
        read(spark, converter(registry), [data])
    own = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "bob:secret"}
    assert read(spark, converter(registry, **own), [data])[0].id == 1
    in_url = {"schema.registry.url": f"http://127.0.0.1:1,{registry.url.replace('//', '//bob:secret@')}"}
    assert read(spark, converter(registry, **in_url), [data])[0].id == 1
    registry.user_info, registry.authorization = "", "Bearer token"
    bearer = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "token"}
    assert read(spark, converter(registry, **bearer), [data])[0].id == 1
    registry.status = 503
    with pytest.raises(RegistryUnreachable, match=r"has an error \(503\): check that it runs at the URL"):
        read(spark, converter(registry, **bearer), [data])


def test_a_sink_writes_good_records_and_sends_bad_ones_to_dead_letters(
    spark: SparkSession, client: SchemaRegistryClient, registry: RegistryDouble, tmp_path: Path
) -> None:
    values = [
        AvroSerializer(client, json.dumps(ORDER_1))({"id": 1, "note": "a"}, VALUE),
        b"\0\0\0\0\x63x",
        AvroSerializer(client, json.dumps(ORDER_2))({"id": 2, "price": 1.5}, VALUE),
    ]
    target = tmp_path / "files"
    config = {
        "directory": str(target),
        "format": "json",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": AVRO,
        "value.converter.schema.registry.url": registry.url,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }

    async def scenario(node: Node) -> None:
        async with running_stage(spark, node, tmp_path, TopicToFiles, record_path=ConverterPath) as stage:
            partitions = stage.create("orders")
            rows = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
            writer = rows.write.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
            writer.option("topic", "orders").save()
            await stage.start("files", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-files") == {partitions[0]: 3})
            written_rows = spark.read.json(str(target)).select("id", "note", "price").collect()
            assert sorted(map(tuple, written_rows)) == [(1, "a", None), (2, None, 1.5)]
            (dead,) = stage.read("dead")
            assert bytes(dead.value) == values[1]
            headers = {header.key: header.value.decode() for header in dead.headers if header.value}
            assert headers["__connect.errors.class.name"] == AVRO
            assert "schema 99 can't be used" in headers["__connect.errors.exception.message"]

    with Node() as node:
        asyncio.run(scenario(node))
