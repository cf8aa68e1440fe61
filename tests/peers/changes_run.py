"""Run the task of PostgresChanges without Spark and without a cluster: frames are Arrow tables, Kafka is a list.

What is committed, records and positions together, survives the task; all else is lost with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from barnabas.connect.plugins.api import SourceOffset
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.postgresql.postgres_changes import PostgresChanges, PostgresChangesTask
from barnabas.connect_spark.queries.polled_source import Polled
from tests.peers.postgresql_server import PostgresqlServer

__all__ = ["ChangesRun", "Frame", "replay", "source_settings"]


class Frame:
    """The calls of a DataFrame that the connector makes."""

    def __init__(self, read: Callable[[], pa.Table], schema: Any = None) -> None:
        self._read = read
        self.schema = schema

    def coalesce(self, count: int) -> Frame:
        return self

    def mapInArrow(self, function: Any, schema: Any) -> Frame:
        def read() -> pa.Table:
            batches = [*function(iter(self._read().to_batches()))]
            return pa.Table.from_batches(batches) if batches else pa.table({})

        return Frame(read, schema)

    def table(self) -> pa.Table:
        return self._read()


class _Frames:
    """The calls of a SparkSession in this process that the connector makes."""

    sparkContext = SimpleNamespace(master="local[1]")

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        return Frame(lambda: pa.table({"id": [*range(start, end, step)]}))

    def createDataFrame(self, table: pa.Table, schema: Any) -> Frame:
        return Frame(lambda: table, schema)


def source_settings(database: PostgresqlServer, prefix: str, tables: str = "", **more: str) -> dict[str, str]:
    """Return the settings of a connector. Underscores in ``more`` are dots."""
    return {
        "connector.class": "PostgresChanges",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": database.password,
        "database.dbname": "postgres",
        "topic.prefix": prefix,
        "table.include.list": tables,
        "slot.name": prefix,
        "publication.name": prefix,
        "heartbeat.interval.ms": "100",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@dataclass
class ChangesRun:
    settings: Mapping[str, str]
    records: list[dict[str, Any]] = field(default_factory=list)
    """Committed, in order: topic, key, value."""
    offsets: dict[str, SourceOffset] = field(default_factory=dict)
    task: PostgresChangesTask | None = None

    def start(self) -> PostgresChangesTask:
        if self.task is None:
            kit = ConnectorKit(PostgresChanges, dict(self.settings))
            assert kit.errors == {}
            task = kit.task(offsets=[*self.offsets.values()])
            assert isinstance(task, PostgresChangesTask)
            task.start(_Frames())  # type: ignore[arg-type]
            self.task = task
        return self.task

    def poll(self) -> Polled | None:
        """Poll once. A task that fails is lost, as in a worker."""
        try:
            return self.start().poll(_Frames())  # type: ignore[arg-type]
        except Exception:
            self.die()
            raise

    def step(self) -> bool:
        """Poll once, and commit what was found. Return whether there was something."""
        polled = self.poll()
        if polled is None:
            return False
        self.commit(self.read(polled), polled)
        return True

    def read(self, polled: Polled) -> list[dict[str, Any]]:
        return [row for frame in polled.frames for row in frame.table().to_pylist()]  # type: ignore[operator]

    def commit(self, rows: list[dict[str, Any]], polled: Polled) -> None:
        self.records += rows
        self.offsets |= {json.dumps(dict(offset.partition)): offset for offset in polled.offsets}

    def until(self, condition: Callable[[], bool], timeout_s: float = 90) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, (
                f"not reached with {len(self.records)} records: {str(self.records[-3:])[:2000]}"
            )
            self.step()

    def until_records(self, count: int) -> list[dict[str, Any]]:
        self.until(lambda: len(self.records) >= count)
        assert len(self.records) == count, self.records[count:]
        return self.records

    def until_streaming(self) -> None:
        self.until(lambda: not self.step() and self.start().is_streaming)

    def die(self) -> None:
        """Lose the task, as if its process were killed."""
        task, self.task = self.task, None
        if task is not None:
            task.stop()

    def replayed(self, key: str = "id") -> dict[Any, dict[str, Any]]:
        return replay(self.records, key)


def replay(records: Sequence[Mapping[str, Any]], key: str = "id") -> dict[Any, dict[str, Any]]:
    """Return the rows that a consumer has after all records. Fail for records that contradict each other."""
    rows: dict[Any, dict[str, Any]] = {}
    for record in records:
        value = record["value"]
        if value is None:
            continue
        operation = value["op"]
        if operation == "t":
            rows.clear()
            continue
        at = record["key"][key]
        is_new = operation in ("c", "r")
        assert (at in rows) is not is_new, f"{at} was {'created twice' if is_new else 'changed, and did not exist'}"
        if operation == "d":
            del rows[at]
        else:
            rows[at] = value["after"]
    return rows
