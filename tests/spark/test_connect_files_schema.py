"""JSON without schemas in files of one schema: many batches of changing shapes are read back by plain Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import OffsetRange, SinkBatch, TerminalError, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.columns.variant_fitting import fitted_variant
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.testing import Node
from tests.spark.connect_stage import Stage, running_json_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


def read(spark: SparkSession, folder: Path, file_format: str = "parquet") -> DataFrame:
    """Read as a plain Spark session does."""
    before = spark.conf.get("spark.sql.caseSensitive")
    spark.conf.set("spark.sql.caseSensitive", "false")
    try:
        frame = spark.read.option("mergeSchema", "true").option("header", "true").format(file_format).load(str(folder))
        return spark.createDataFrame(frame.collect(), frame.schema)
    finally:
        spark.conf.set("spark.sql.caseSensitive", str(before))


def read_plainly(spark: SparkSession, folder: Path) -> int:
    """Read without any option: the columns are those of one of the files, and they fit all files."""
    return len(spark.read.parquet(str(folder)).collect())


async def batch(stage: Stage, topic: str, values: Sequence[Any], group: str, until: int) -> None:
    """Write a batch of the sink with these values."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    await asyncio.to_thread(stage.produce, topic, texts)
    await stage.until(lambda: sum(stage.committed(group).values()) == until)


async def letters(stage: Stage, topic: str) -> list[tuple[str, str]]:
    rows = await asyncio.to_thread(stage.read, topic)
    found = []
    for row in rows:
        headers = {header.key: bytes(header.value).decode() for header in row.headers}
        found.append((bytes(row.value).decode(), headers["__connect.errors.exception.message"]))
    return found


TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}

BATCHES: list[list[Any]] = [
    [{"id": 1, "price": 9.5, "name": "x", "n": None}, {"id": 2, "price": 3, "name": 5}],
    [{"id": 3, "price": 1e3}, {"id": 4, "extra": {"a": 1}}],
    [{"id": 5, "extra": {"a": 2, "b": ["p", "q"]}, "n": 7}, None],
    [{"id": "6", "name": {"first": "y"}, "price": "2.25"}, {"id": 7.0}],
    [{"id": 8.5}, {"id": "nine"}, {"id": 10, "price": True}, {"id": 11, "extra": 5}, 12, [13], {"ID": 14}],
    [{"id": 2**70}, {"id": 15, "extra": {"a": 1.5}}, {"id": 16, "extra": {"b": [1]}}, {"id": {}}],
]
GOOD = 8
"""The values of the first four batches, with the null."""


@pytest.mark.parametrize("file_format", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_batches_of_changing_shapes_are_read_back_and_misfits_are_bad_records(
    spark: SparkSession, node: Node, tmp_path: Path, file_format: str
) -> None:
    folder, name = tmp_path / "data", f"shapes-{file_format}"
    config = {
        "directory": str(folder),
        "format": file_format,
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        **TOLERANT,
    }

    async def scenario() -> list[tuple[str, str]]:
        async with running_json_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create(name)
            task = await stage.start(name, config, partitions=partitions)
            count = 0
            for number, values in enumerate(BATCHES):
                count += len(values)
                await batch(stage, name, values, f"connect-{name}", count)
                if number == 2:  # A restart knows the schema.
                    await stage.stop(task)
                    stage.events.clear()
                    task = await stage.start(name, config, partitions=partitions)
            await stage.stop(task)
            return await letters(stage, f"{name}-dead")

    dead = asyncio.run(scenario())
    found = read(spark, folder, file_format)
    assert found.schema.simpleString() == (
        "struct<id:bigint,name:string,price:double,extra:struct<a:bigint,b:array<string>>,n:bigint>"
    )
    rows = {row.id: row for row in found.collect()}
    assert found.count() == GOOD + 1
    assert sorted(rows, key=lambda id: id or 0) == [None, 1, 2, 3, 4, 5, 6, 7, 16]
    assert (rows[2].name, rows[2].price, rows[6].name, rows[6].price) == ("5", 3.0, '{"first":"y"}', 2.25)
    assert (rows[5].extra.b, rows[5].n, rows[16].extra.b) == (["p", "q"], 7, ["1"])
    if file_format == "parquet":
        assert read_plainly(spark, folder) == GOOD + 1
    reasons = dict(dead)
    assert len(reasons) == 10
    assert reasons['{"id": 8.5}'] == (
        f"id is 8.5, which does not fit the type BIGINT that the column has in all files of {folder}"
    )
    assert "the value is 12, and the files of" in reasons["12"]
    assert "the fields ID differ from columns of" in reasons['{"ID": 14}']
    assert 'extra is {"a":1.5}' in reasons['{"id": 15, "extra": {"a": 1.5}}']


def test_without_tolerance_the_task_fails_and_names_the_record_and_the_column(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    async def scenario() -> str:
        async with running_json_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create("strict-files")
            await stage.start("strict", {"directory": str(tmp_path / "data")}, partitions=partitions)
            await batch(stage, "strict-files", [{"id": 1}], "connect-strict", 1)
            await asyncio.to_thread(stage.produce, "strict-files", ['{"id": "x"}'])
            return (await stage.failure()).trace

    first = asyncio.run(scenario()).splitlines()[0]
    assert "TASK_PUT of the record at strict-files-0, offset 1 failed in" in first
    assert 'id is "x", which does not fit the type BIGINT' in first


def test_csv_keeps_the_columns_of_its_first_file_in_front(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def scenario() -> None:
        async with running_json_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create("csv-files")
            task = await stage.start("csv", {"directory": str(folder), "format": "csv"}, partitions=partitions)
            await batch(stage, "csv-files", [{"b": 1}], "connect-csv", 1)
            await batch(stage, "csv-files", [{"a": "x", "b": 2.5}], "connect-csv", 2)
            await batch(stage, "csv-files", [{"b": {"c": 1}}], "connect-csv", 3)
            await stage.stop(task)

    asyncio.run(scenario())
    headers = {path.read_text().splitlines()[0] for path in folder.glob("*.csv")}
    assert headers == {"b", "b,a"}
    rows = spark.read.option("header", "true").schema("b string, a string").csv(str(folder)).collect()
    assert sorted((row.b, row.a) for row in rows) == [("1", None), ("2.5", "x"), ('{"c":1}', None)] or {
        row.b.replace('\\"', '"') for row in rows
    } == {"1", "2.5", '{"c":1}'}


# ---- without a worker


def files_task(spark: SparkSession, folder: Path, **settings: str) -> Any:
    task: Any = ConnectorKit(TopicToFiles, {"directory": str(folder), **settings}, topics={"t": 1}).task()
    task.start(spark)
    return task


def write(spark: SparkSession, task: Any, values: Sequence[Any], at: int) -> list[str]:
    """Process one batch as a worker does. Return why records were refused."""
    from pyspark.sql import functions as F

    rows = [(None if value is None else json.dumps(value),) for value in values]
    frame = spark.createDataFrame(rows, "text string").select(F.parse_json("text").alias("value"))
    frame = frame.withColumn("value", F.when(~F.is_variant_null("value"), F.col("value")))
    reason = task.refused(frame)
    refused: list[str] = []
    if reason is not None:
        checked = frame.withColumn("reason", reason).localCheckpoint()
        refused = [row.reason for row in checked.where("reason IS NOT NULL").select("reason").collect()]
        frame = checked.where("reason IS NULL").drop("reason")
    task.write(frame, SinkBatch(at, {TopicPartition("t", 0): OffsetRange(at, at + len(values))}))
    return refused


def test_given_columns_have_their_types_before_the_first_record(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    task = files_task(spark, folder, schema="price DOUBLE, at TIMESTAMP")
    values: list[Mapping[str, Any]] = [{"price": 1, "id": 1}, {"price": 1.5, "at": "2026-01-02T03:04:05Z"}]
    assert write(spark, task, values, 0) == []
    assert read(spark, folder).schema.simpleString() == "struct<price:double,at:timestamp,id:bigint>"
    with pytest.raises(TerminalError, match="price is BIGINT, but in the files of .* it is DOUBLE"):
        files_task(spark, folder, schema="price BIGINT")
    with pytest.raises(TerminalError, match="write it as in CREATE TABLE"):
        files_task(spark, tmp_path / "other", schema="price NONSENSE")


def test_two_tasks_agree_on_a_schema_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first, second = files_task(spark, folder), files_task(spark, folder)
    assert write(spark, first, [{"a": 1}], 0) == []
    assert write(spark, second, [{"a": 2.5}, {"a": 3, "b": True}], 10) == [
        f"a is 2.5, which does not fit the type BIGINT that the column has in all files of {folder}"
    ]
    assert write(spark, first, [{"b": "true"}, {"b": 1}], 20) == [
        f"b is 1, which does not fit the type BOOLEAN that the column has in all files of {folder}"
    ]
    assert read(spark, folder).schema.simpleString() == "struct<a:bigint,b:boolean>"
    assert read(spark, folder).count() == 3


def test_the_schema_is_read_from_files_of_an_earlier_release(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(spark, files_task(spark, folder), [{"a": 1.5}], 0)
    (schema,) = folder.rglob("schema.json")
    schema.unlink()
    task = files_task(spark, folder)
    assert len(write(spark, task, [{"a": "x"}], 10)) == 1
    schema.unlink()
    file = min(folder.glob("*.parquet"))
    spark.range(1).selectExpr("'text' AS a").coalesce(1).write.parquet(str(tmp_path / "stranger"))
    (strange,) = (tmp_path / "stranger").glob("*.parquet")
    strange.rename(folder / file.name.replace("0000-", "9999-", 1))
    with pytest.raises(TerminalError, match="have no schema in common"):
        files_task(spark, folder)


def test_values_that_are_not_objects_have_one_column(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    task = files_task(spark, folder)
    assert write(spark, task, [None], 0) == []
    assert not list(folder.glob("*.parquet"))
    assert write(spark, task, [1, 2], 10) == []
    refused = write(spark, task, [3, "4", {"a": 1}, "x", None], 20)
    assert len(refused) == 2
    assert sorted(row.value or 0 for row in read(spark, folder).collect()) == [0, 1, 2, 3, 4]


def test_typed_values_keep_their_types_and_misfits_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    task = files_task(spark, folder)

    def batch_of(at: int, ddl: str, rows: list[Any]) -> int:
        frame = spark.createDataFrame([(row,) for row in rows], f"value {ddl}")
        reason = task.refused(frame)
        if reason is not None:
            frame = frame.withColumn("reason", reason).where("reason IS NULL").drop("reason")
        count: int = frame.count()
        task.write(frame, SinkBatch(at, {TopicPartition("t", 0): OffsetRange(at, at + len(rows))}))
        return count

    assert batch_of(0, "struct<a: int>", [(1,)]) == 1
    assert batch_of(10, "struct<a: bigint, b: string>", [(2, "x"), (2**40, "y")]) == 1
    assert read(spark, folder).schema.simpleString() == "struct<a:int,b:string>"
    with pytest.raises(TerminalError, match="the fields A differ from columns of"):
        batch_of(20, "struct<A: int>", [(3,)])


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ("bigint", {"1": 1, "1.0": 1, '"7"': 7, "null": None}, ["1.5", "true", '"x"', "1e30", "{}", "[1]"]),
        ("int", {"2147483647": 2147483647}, ["2147483648", "0.5"]),
        ("double", {"1": 1.0, "1.5": 1.5, '"2.5"': 2.5}, ["true", '"x"', "9007199254740993", "[]"]),
        ("decimal(4,2)", {"1.5": "1.50", "12": "12.00"}, ["123", "1.555", "false"]),
        ("boolean", {"true": True, '"false"': False}, ["1", '"x"', "{}"]),
        ("string", {'"x"': "x", "1.50": "1.5", "true": "true", '{"a": [1]}': '{"a":[1]}', "null": None}, []),
        ("date", {'"2026-01-02"': "2026-01-02"}, ["5", '"x"', "true"]),
        ("struct<a: bigint>", {'{"a": 1}': "Row(a=1)", "{}": "Row(a=None)", '{"a": null}': "Row(a=None)"},
         ["5", "[]", '{"a": "x"}', '{"a": {}}']),
        ("array<bigint>", {"[1, null]": "[1, None]", "[]": "[]"}, ["5", "{}", '[1, "x"]', "[1.5]"]),
        ("map<string, bigint>", {'{"a": 1}': "{'a': 1}"}, ["5", '{"a": "x"}']),
    ],
)  # fmt: skip
def test_a_schemaless_value_fits_a_column_that_holds_it_without_loss(
    spark: SparkSession, wanted: str, good: Mapping[str, Any], bad: Sequence[str]
) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql import types as t

    frame = spark.createDataFrame([(text,) for text in (*good, *bad)], "text string")
    value, misfit = fitted_variant(F.parse_json("text"), t.DataType.fromDDL(wanted))
    checked = frame.select("text", value.alias("value"), (F.lit(False) if misfit is None else misfit).alias("misfit"))
    found = {row.text: row for row in checked.collect()}
    assert {text for text, row in found.items() if row.misfit} == set(bad)
    for text, expected in good.items():
        assert found[text].value == expected or str(found[text].value) == str(expected), text
