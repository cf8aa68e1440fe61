"""Topics to tables of Delta Lake: rows with their positions, whichever task writes them, and however often."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import SinkTask, TerminalError, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.delta.topic_to_delta import TopicToDelta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

P0, P1 = TopicPartition("topic", 0), TopicPartition("topic", 1)
PERSON = "struct<id: bigint, name: string>"


def records(*values: Any, key: bool = False, partition: int = 0, offset: int = 0) -> list[SinkRecord]:
    return [
        SinkRecord(value, key=value[0] if key and value else None, partition=partition, offset=offset + at)
        for at, value in enumerate(values)
    ]


def kit(path: Path, **settings: str) -> ConnectorKit:
    return ConnectorKit(
        TopicToDelta, {"path": str(path), **{name.replace("_", "."): value for name, value in settings.items()}}
    )


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return sorted(spark.read.format("delta").load(str(path)).collect(), key=str)


def test_a_batch_is_stored_once_with_its_positions_whichever_task_writes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "people"
    people = kit(path, record_columns="topic,partition,offset,timestamp,key,headers,date,hour", partition_by="_date")
    at = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    batch = [SinkRecord((1, "Ada"), "k", timestamp=at, headers=[("h", "v")]), SinkRecord((2, None), offset=1)]
    first = people.write(spark, batch, value_type=PERSON)
    assert isinstance(first, SinkTask)
    assert first.positions([P0, P1]) == {P0: 2}
    people.write(spark, batch, value_type=PERSON, batch_id=7)  # Another worker, with its own batch numbers.
    assert [(row.id, row.name, row._offset) for row in rows(spark, path)] == [(1, "Ada", 0), (2, None, 1)]
    row = rows(spark, path)[0]
    assert (row._topic, row._partition, row._key, row._headers) == ("topic", 0, "k", [("h", "v")])
    assert (row._timestamp.astimezone(datetime.UTC), str(row._date), row._hour) == (at, "2024-02-29", 12)
    with pytest.raises(TerminalError, match="all offsets before 2 already: another task writes the same partition"):
        people.write(spark, records((9, "late"), offset=1) + records((9, "late"), offset=2), value_type=PERSON)
    people.write(spark, records((3, "Cy"), partition=1), value_type=PERSON)
    assert first.positions([P0, P1]) == {P0: 2, P1: 1}
    assert TopicToDelta.alter_offsets({"name": "test", "path": str(path), "topics": "topic"}, {P0: 1, P1: None})
    assert first.positions([P0, P1]) == {P0: 1}


def test_rows_follow_the_last_record_of_their_key(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "people"
    upsert = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    people = kit(path, **upsert, partition_by="name")
    write: Callable[..., Any] = lambda *given: people.write(spark, *given, key_type="bigint", value_type=PERSON)  # noqa: E731
    write(records((1, "Ada"), (2, "Bo"), (1, "A/d a%20"), key=True))
    write([SinkRecord((3, "Cy"), key=3, offset=3), SinkRecord(None, key=2, offset=4)])
    assert [(row.id, row.name) for row in rows(spark, path)] == [(1, "A/d a%20"), (3, "Cy")]
    write(
        [
            SinkRecord((2, "again"), key=2, offset=5),
            SinkRecord(None, key=3, offset=6),
            SinkRecord(None, key=9, offset=7),
        ]
    )
    assert [(row.id, row.name) for row in rows(spark, path)] == [(1, "A/d a%20"), (2, "again")]


@pytest.mark.long
def test_the_types_of_a_table_stay_and_new_columns_are_added_if_allowed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "things"
    strict, evolving = kit(path), kit(path, auto_evolve="true")
    nested = "struct<id: {id}, part: struct<a: {a}{more}>, tags: array<string>, nothing: void>"
    evolving.write(spark, records((1, (1,), ["x"], None)), value_type=nested.format(id="bigint", a="bigint", more=""))
    changed = nested.format(id="double", a="string", more=", b: string")
    given = records((2.0, ("7", "new"), None, None), offset=1)
    with pytest.raises(TerminalError, match=r"has no column part\.b, which records have: set auto\.evolve=true"):
        strict.write(spark, given, value_type=changed)
    evolving.write(spark, given, value_type=changed)
    assert [(row.id, row.part.a, row.part.b, row.tags) for row in rows(spark, path)] == [
        (1, 1, None, ["x"]),
        (2, 7, "new", None),
    ]
    task = strict.task()
    assert isinstance(task, SinkTask)
    task.start(spark)
    frame = spark.createDataFrame([((2.5,),), ((3.0,),)], "value struct<id: double>")
    why = task.refused(frame)
    assert why is not None
    assert [row[0] for row in frame.select(why).collect()] == [
        f"id is not of type bigint, as the column of {path} is",
        None,
    ]


@pytest.mark.long
def test_without_a_schema_the_fields_are_inferred_from_the_whole_batch(spark: SparkSession, tmp_path: Path) -> None:
    people = kit(tmp_path / "people", insert_mode="upsert", pk_mode="record_value", pk_fields="id")
    people.write(spark, records((1, "Ada")), value_type=PERSON)
    task = people.task()
    assert isinstance(task, SinkTask)
    task.start(spark)
    frame = spark.sql("""SELECT parse_json('{"id": 2}') AS value, 'k' AS key""")
    why = task.refused(frame)
    assert why is not None
    assert frame.select(why).collect()[0][0] is None
    with pytest.raises(Exception, match="id is null, but it identifies the row"):
        people.write(spark, records((None, "Bo"), offset=1), value_type=PERSON)


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}])
def test_two_tasks_write_one_table_concurrently(spark: SparkSession, tmp_path: Path, settings: dict[str, str]) -> None:
    path = tmp_path / "shared"
    people = kit(path, **settings)
    failures: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            for at in range(3):
                given = records((100 * partition + at, "x"), partition=partition, offset=at)
                people.write(spark, given, value_type=PERSON)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(row.id for row in rows(spark, path)) == [0, 1, 2, 100, 101, 102]


@pytest.mark.long
def test_a_presumed_dead_task_is_refused_in_the_middle_of_its_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.connect_spark.connectors.delta.delta_log import DeltaTransaction

    path = tmp_path / "shared"
    people = kit(path)
    people.write(spark, records((1, "x")), value_type=PERSON)
    add = DeltaTransaction.add

    def overtaken(transaction: DeltaTransaction, frame: DataFrame, **settings: Any) -> None:
        monkeypatch.setattr(DeltaTransaction, "add", add)
        people.write(spark, records((2, "other"), (3, "other"), offset=1), value_type=PERSON)
        add(transaction, frame, **settings)

    monkeypatch.setattr(DeltaTransaction, "add", overtaken)
    with pytest.raises(TerminalError, match="all offsets before 3 already: another task writes the same partition"):
        people.write(spark, records((2, "late"), offset=1), value_type=PERSON)
    assert [row.name for row in rows(spark, path)] == ["x", "other", "other"]


@pytest.mark.long
def test_each_topic_has_its_table_and_an_existing_batch_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = kit(tmp_path / "${topic}", topics="a,b")
    given = [SinkRecord("x", topic="a"), SinkRecord("y", topic="b")]
    both.write(spark, given[:1])
    both.write(spark, given)
    assert [row.value for name in "ab" for row in rows(spark, tmp_path / name)] == ["x", "y"]


@pytest.mark.long
def test_errors_of_a_user_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="is not a Delta table, and auto.create is false"):
        kit(tmp_path / "t", auto_create="false").write(spark, records("x"))
    with pytest.raises(TerminalError, match=r"partition.by has day, but records have value"):
        kit(tmp_path / "t", partition_by="day").write(spark, records("x"))
    (tmp_path / "file").touch()
    with pytest.raises(TerminalError, match="is not a folder, or the worker may not write to it"):
        kit(tmp_path / "file" / "t").write(spark, records("x"))
    with pytest.raises(TerminalError, match="a table's names are case-insensitive"):
        kit(tmp_path / "t").write(spark, records((1, 2)), value_type="struct<id: int, ID: int>")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/c` (id BIGINT NOT NULL, name STRING) USING delta")
    with pytest.raises(TerminalError, match="rejects the records: .*id"):
        kit(tmp_path / "c").write(spark, records((None, "x")), value_type=PERSON)
    task = kit(tmp_path / "c").task()
    assert isinstance(task, SinkTask)
    task.start(spark)
    frame = spark.createDataFrame([((None, "x"),)], f"value {PERSON}")
    why = task.refused(frame)
    assert why is not None
    assert frame.select(why).collect()[0][0] == f"id is null, but the column of {tmp_path}/c is NOT NULL"
