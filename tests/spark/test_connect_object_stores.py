"""Files and tables in an object store: each record once, without locks and renames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from barnabas.connect.plugins.api import OffsetRange, SinkBatch, SinkTask, TerminalError, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.delta.topic_to_delta import TopicToDelta
from barnabas.connect_spark.connectors.files.s3_store import S3Store
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg
from tests.peers.postgresql_server import postgresql_programs, running_postgresql
from tests.peers.s3_server import S3Server, running_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

P0 = TopicPartition("topic", 0)
PERSON = "struct<id: bigint, name: string>"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, spark: SparkSession) -> str:
    name = f"lake-{uuid4().hex[:12]}"
    server.provide(spark, name)
    return name


def people(start: int, end: int) -> list[SinkRecord]:
    return [SinkRecord((at, f"name {at}"), offset=at) for at in range(start, end)]


def test_files_appear_once_and_a_task_that_was_cut_off_commits_nothing(spark: SparkSession, bucket: str) -> None:
    url = f"s3a://{bucket}/some/folder"
    files = ConnectorKit(TopicToFiles, {"directory": url, "record.columns": "offset", "partition.by": "partition"})
    cut_off = files.write(spark, people(0, 3), value_type=PERSON)
    assert isinstance(cut_off, SinkTask)
    files.write(spark, people(0, 3), value_type=PERSON, batch_id=7)  # Another worker, with its own batch numbers.
    successor = files.write(spark, people(3, 5), value_type=PERSON)
    assert isinstance(successor, SinkTask)
    assert successor.positions([P0]) == {P0: 5}
    rows = spark.read.parquet(url).orderBy("_offset").collect()
    assert [(row.id, row.name, row.partition) for row in rows] == [(at, f"name {at}", 0) for at in range(5)]
    assert not [path for path in S3Store(spark, url).files("_barnabas") if "staging" in path]
    frame = spark.sql("SELECT 0 AS partition, 5L AS offset, named_struct('id', 5L, 'name', 'late') AS value")
    with pytest.raises(TerminalError, match="task 0 of this connector was started elsewhere"):
        cut_off.write(frame, SinkBatch(9, {P0: OffsetRange(5, 6)}))
    assert TopicToFiles.alter_offsets(files.config, {P0: 3})
    assert successor.positions([P0]) == {P0: 3}


def test_what_an_object_store_can_not_keep_is_refused_by_name(spark: SparkSession, bucket: str) -> None:
    delta = ConnectorKit(TopicToDelta, {"path": f"s3a://{bucket}/table"})
    with pytest.raises(TerminalError, match="safe for one process only.*Use the connector TopicToIceberg"):
        delta.write(spark, people(0, 1), value_type=PERSON)
    missing = ConnectorKit(TopicToFiles, {"directory": f"s3a://{bucket}-missing/x"})
    with pytest.raises(TerminalError, match="can't be used|can't be written"):
        missing.write(spark, people(0, 1), value_type=PERSON)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_iceberg_tables_in_a_store_with_a_database_as_their_catalog(spark: SparkSession, bucket: str) -> None:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs) as database:
        catalog = {
            "catalog.type": "jdbc",
            "catalog.uri": database.url,
            "catalog.jdbc.user": database.user,
            "catalog.jdbc.password": database.password,
            "catalog.warehouse": f"s3a://{bucket}/lake",
            "table": "people.all",
        }
        sink = ConnectorKit(TopicToIceberg, {**catalog, "partition.by": "bucket(2, id)"})
        task = sink.write(spark, people(0, 3), value_type=PERSON)
        assert isinstance(task, SinkTask)
        sink.write(spark, people(0, 3), value_type=PERSON, batch_id=7)
        sink.write(spark, people(3, 5), value_type=PERSON)
        assert task.positions([P0]) == {P0: 5}
        rows = spark.table(f"{IcebergCatalog.of(catalog).name}.people.all").orderBy("id").collect()
        assert [row.id for row in rows] == [0, 1, 2, 3, 4]
