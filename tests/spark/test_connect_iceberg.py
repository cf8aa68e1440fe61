"""Topics to Iceberg tables: rows with their positions, whichever task writes them, and however often."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import SinkTask, TerminalError, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog
from barnabas.connect_spark.connectors.iceberg.iceberg_table import IcebergTable, IcebergTransaction, TableOwner
from barnabas.connect_spark.connectors.iceberg.table_upkeep import UpkeepRules, keep_up
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg
from barnabas.connect_spark.connectors.tables.sink_table import TableConflict
from tests.spark.rest_catalog import running_rest_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

P0, P1 = TopicPartition("topic", 0), TopicPartition("topic", 1)
PERSON = "struct<id: bigint, name: string>"
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}


def records(*values: Any, key: bool = False, partition: int = 0, offset: int = 0) -> list[SinkRecord]:
    return [
        SinkRecord(value, key=value[0] if key and value else None, partition=partition, offset=offset + at)
        for at, value in enumerate(values)
    ]


def kit(folder: Path, table: str = "lake.people", **settings: str) -> ConnectorKit:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    catalog = {"catalog.type": "hadoop", "catalog.warehouse": str(folder)}
    return ConnectorKit(TopicToIceberg, {**catalog, "table": table, **given})


def table_of(spark: SparkSession, people: ConnectorKit, name: str = "`lake`.`people`") -> IcebergTable:
    owner = TableOwner("barnabas-connect:test", "test", 0)
    return IcebergTable(spark, IcebergCatalog.of(people.config), name, owner)


def rows(spark: SparkSession, people: ConnectorKit, name: str = "`lake`.`people`") -> list[Row]:
    return sorted(spark.table(table_of(spark, people, name).full_name).collect(), key=str)


def task_of(spark: SparkSession, people: ConnectorKit) -> SinkTask:
    task = people.task()
    assert isinstance(task, SinkTask)
    task.start(spark)
    return task


def test_a_catalog_opens_on_a_thread_that_has_not_started_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A task of another connector may have started it."""
    people, failures = kit(tmp_path), []

    def open_catalog() -> None:
        try:
            IcebergCatalog.of(people.config).open(spark)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=open_catalog)
    thread.start()
    thread.join()
    assert failures == []


def test_a_batch_is_one_snapshot_with_its_positions_whichever_task_writes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    people = kit(tmp_path, record_columns="offset", partition_by="bucket(4, id)")
    batch = [SinkRecord((1, "Ada"), "k"), SinkRecord((2, None), offset=1)]
    first = people.write(spark, batch, value_type=PERSON)
    assert isinstance(first, SinkTask)
    assert first.positions([P0, P1]) == {P0: 2}
    people.write(spark, batch, value_type=PERSON, batch_id=7)  # Another worker, with its own batch numbers.
    assert [(row.id, row.name, row._offset) for row in rows(spark, people)] == [(1, "Ada", 0), (2, None, 1)]
    loaded = table_of(spark, people).load()
    summary = dict(loaded.currentSnapshot().summary())
    assert summary["barnabas.connector"] == "test"
    assert summary["barnabas.task"] == "0"
    assert json.loads(summary["barnabas.offsets"]) == {"topic": {"0": 2}}
    with pytest.raises(TerminalError, match="all offsets before 2 already: another task writes the same partition"):
        people.write(spark, records((9, "late"), (9, "late"), offset=1), value_type=PERSON)
    people.write(spark, records((3, "Cy"), partition=1), value_type=PERSON)
    assert first.positions([P0, P1]) == {P0: 2, P1: 1}
    assert TopicToIceberg.alter_offsets(people.config, {P0: 1, P1: None})
    assert first.positions([P0, P1]) == {P0: 1}


def test_rows_follow_the_last_record_of_their_key(spark: SparkSession, tmp_path: Path) -> None:
    people = kit(tmp_path, **UPSERT)

    def write(given: list[SinkRecord]) -> None:
        people.write(spark, given, key_type="bigint", value_type=PERSON)

    write(records((1, "Ada"), (2, "Bo"), (1, "A/d a%20"), key=True))
    write([SinkRecord((3, "Cy"), key=3, offset=3), SinkRecord(None, key=2, offset=4)])
    assert [(row.id, row.name) for row in rows(spark, people)] == [(1, "A/d a%20"), (3, "Cy")]


def test_columns_are_added_types_are_widened_and_the_partition_spec_follows_its_setting(
    spark: SparkSession, tmp_path: Path
) -> None:
    strict = kit(tmp_path, partition_by="name")
    evolving = kit(tmp_path, partition_by="bucket(4, id), truncate(2, name)", auto_evolve="true")
    strict.write(spark, records((1, "Ada", 1.5)), value_type="struct<id: int, name: string, size: float>")
    wider = "struct<id: bigint, name: string, size: double, part: struct<a: int>>"
    given = records((2**40, "Bo", 0.1, (7,)), offset=1)
    with pytest.raises(TerminalError, match=r"has no column part, which records have: set auto\.evolve=true"):
        strict.write(spark, given, value_type=wider)
    evolving.write(spark, given, value_type=wider)
    found = rows(spark, strict)
    assert [(row.id, row.name, row.size, row.part) for row in found] == [
        (1, "Ada", 1.5, None),
        (2**40, "Bo", 0.1, (7,)),
    ]
    fields = list(table_of(spark, strict).load().spec().fields())
    assert [str(field.transform().toString()) for field in fields] == ["bucket[4]", "truncate[2]"]
    task = task_of(spark, evolving)
    frame = spark.createDataFrame([(("x",),), (("3",),)], "value struct<id: string>")
    why = task.refused(frame)
    assert why is not None
    assert [row[0] for row in frame.select(why).collect()] == [
        "id is not of type bigint, as the column of `lake`.`people` is",
        None,
    ]


def test_upkeep_changes_no_row_and_no_position(spark: SparkSession, tmp_path: Path) -> None:
    people = kit(tmp_path)
    for at in range(3):
        people.write(spark, records((at, "x"), offset=at), value_type=PERSON)
    table = table_of(spark, people)
    rules = UpkeepRules(interval_ms=1, files_min=2, file_bytes=1 << 20, age_max_ms=1, kept_min=1)
    before, after = keep_up(table, rules, now_ms=time.time_ns() // 1_000_000 + 60_000)
    assert (before, after) == (3, 1)
    assert len(list(table.load().snapshots())) == 1  # The connector's own have expired.
    assert task_of(spark, people).positions([P0]) == {P0: 3}
    people.write(spark, records((2, "x"), offset=2), value_type=PERSON)  # Was written.
    people.write(spark, records((3, "x"), offset=3), value_type=PERSON)
    assert [row.id for row in rows(spark, people)] == [0, 1, 2, 3]


@pytest.mark.long
def test_after_a_rollback_positions_are_those_of_the_rows_that_are_left(spark: SparkSession, tmp_path: Path) -> None:
    people = kit(tmp_path)
    people.write(spark, records((1, "x")), value_type=PERSON)
    loaded = table_of(spark, people).load()
    kept = loaded.currentSnapshot().snapshotId()
    people.write(spark, records((2, "x"), offset=1), value_type=PERSON)
    loaded.refresh()
    loaded.manageSnapshots().rollbackTo(kept).commit()
    assert task_of(spark, people).positions([P0]) == {P0: 1}


@pytest.mark.long
def test_a_presumed_dead_task_is_refused_in_the_middle_of_its_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = kit(tmp_path)
    people.write(spark, records((1, "x")), value_type=PERSON)
    add = IcebergTransaction.add

    def overtaken(transaction: IcebergTransaction, frame: DataFrame, **settings: Any) -> None:
        add(transaction, frame, **settings)
        monkeypatch.setattr(IcebergTransaction, "add", add)
        people.write(spark, records((2, "other"), (3, "other"), offset=1), value_type=PERSON)

    monkeypatch.setattr(IcebergTransaction, "add", overtaken)
    with pytest.raises(TerminalError, match="all offsets before 3 already: another task writes the same partition"):
        people.write(spark, records((2, "late"), offset=1), value_type=PERSON)
    assert sorted(row.name for row in rows(spark, people)) == ["other", "other", "x"]
    files = {path.name for path in tmp_path.rglob("data/*.parquet")}
    used = {str(row.file_path).rpartition("/")[2] for row in _files(spark, people)}
    assert files == used  # Those of the refused batch were deleted.


def _files(spark: SparkSession, people: ConnectorKit) -> list[Row]:
    return spark.table(f"{table_of(spark, people).full_name}.files").collect()


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, UPSERT])
def test_two_tasks_write_one_table_while_its_files_are_rewritten(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str]
) -> None:
    people = kit(tmp_path, **settings)
    people.write(spark, records((1000, "x"), key=True, partition=2), key_type="bigint", value_type=PERSON)
    failures: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            for at in range(4):
                given = records((100 * partition + at, "x"), key=True, partition=partition, offset=at)
                people.write(spark, given, key_type="bigint", value_type=PERSON)
        except BaseException as error:
            failures.append(error)

    def rewrite() -> None:
        table = table_of(spark, people)
        rules = UpkeepRules(interval_ms=1, files_min=2, file_bytes=1 << 20, age_max_ms=1, kept_min=1)
        for _ in range(3):
            try:
                keep_up(table, rules, now_ms=time.time_ns() // 1_000_000)
            except Exception:  # The rows were replaced meanwhile: it is tried again at its next time.
                continue

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(2)]
    threads.append(threading.Thread(target=rewrite))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(row.id for row in rows(spark, people)) == [*range(4), *range(100, 104), 1000]


@pytest.mark.long
def test_a_rest_catalog_has_the_tables_and_orders_their_commits(spark: SparkSession, tmp_path: Path) -> None:
    with running_rest_catalog(spark, tmp_path) as url:
        settings = {"catalog.type": "rest", "catalog.uri": url, "table": "a.b.people", "partition.by": "bucket(2, id)"}
        people = ConnectorKit(TopicToIceberg, {**settings, "auto.evolve": "true"})
        task = people.write(spark, records((1, "Ada")), value_type=PERSON)
        assert isinstance(task, SinkTask)
        people.write(spark, records((1, "Ada")), value_type=PERSON, batch_id=7)
        people.write(spark, records((2, "Bo", 7), offset=1), value_type="struct<id: bigint, name: string, age: int>")
        assert [(row.id, row.age) for row in rows(spark, people, "`a`.`b`.`people`")] == [(1, None), (2, 7)]
        late, early = (table_of(spark, people, "`a`.`b`.`people`").begin() for _ in range(2))
        early.set_positions({P1: 3})
        with pytest.raises(TableConflict, match="another task has committed positions of the same partitions"):
            late.set_positions({P1: 5})
        assert task.positions([P0, P1]) == {P0: 2, P1: 3}


@pytest.mark.long
def test_each_topic_has_its_table(spark: SparkSession, tmp_path: Path) -> None:
    both = kit(tmp_path, "lake.${topic}", topics="a.x,b")
    given = [SinkRecord("x", topic="a.x"), SinkRecord("y", topic="b")]
    both.write(spark, given[:1])
    both.write(spark, given)
    assert [row.value for name in ("a.x", "b") for row in rows(spark, both, f"`lake`.`{name}`")] == ["x", "y"]


@pytest.mark.long
def test_errors_of_a_user_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="does not exist, and auto.create is false"):
        kit(tmp_path, auto_create="false").write(spark, records("x"))
    with pytest.raises(TerminalError, match=r"partition.by has day, but records have value"):
        kit(tmp_path, partition_by="days(day)").write(spark, records("x"))
    with pytest.raises(TerminalError, match=r"the table .* rejects the records: .*day"):
        kit(tmp_path, partition_by="days(value)").write(spark, records("x"))
    (tmp_path / "file").touch()
    with pytest.raises(TerminalError, match="is not a folder, or the worker may not write to it"):
        kit(tmp_path / "file" / "t").write(spark, records("x"))
