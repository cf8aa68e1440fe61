"""Sources that end their transactions themselves (``transaction.boundary=connector``), read by Java's consumer."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import pytest

import tests.peers
from barnabas.connect.decide.backing_stores.offset_records import offset_record
from barnabas.connect.decide.tasks.task_runtime import TaskPaused, TaskRunning, TaskStart, TopicRecord
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.api import Config, Connector, SourceConnector, SourceOffset, SourceTask
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask
from barnabas.testing import Node
from tests.peers import require_peer
from tests.peers.connect_worker import ConnectWorker, worker_settings
from tests.spark.connect_stage import MemoryOffsets, Stage, running_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN = "ab|C|d|A|efcg|x|hcC|ixxC|jAc|k"
"""Batches of letters, as in ``Letters.java``. The last transaction stays open."""
COMMITTED = "abCefchcCCjAc"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

POSITIONS = "positions"
WORK = {"numbers": "all"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        started.create_topic(POSITIONS)
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.fixture
def out(node: Node) -> str:
    """A topic, and the name of the connector that writes to it."""
    name = f"out-{uuid4().hex[:8]}"
    node.create_topic(name)
    return name


class TopicOffsets(MemoryOffsets):
    """Positions in a topic, of which a task sees the committed ones."""

    def __init__(self, node: Node, spark: SparkSession) -> None:
        super().__init__()
        self._node = node
        self._spark = spark

    async def offset_records(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> list[TopicRecord]:
        records = [offset_record(connector, partition, offset) for partition, offset in offsets]
        return [TopicRecord(POSITIONS, record.key, record.value) for record in records]

    async def read_offsets_to_end(self, connector: str) -> None:
        for row in await asyncio.to_thread(read, self._spark, self._node, POSITIONS):
            name, partition = json.loads(row.key)
            if name == connector:
                await self.write_source_offsets(connector, [(partition, json.loads(row.value))])


def read(spark: SparkSession, node: Node, topic: str, isolation: str = "read_committed") -> list[Any]:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
    records = records.option("subscribe", topic).option("kafka.isolation.level", isolation)
    return records.load().orderBy("partition", "offset").collect()


def values(stage: Stage, topic: str, isolation: str = "read_committed") -> list[str]:
    return [bytes(row.value).decode() for row in read(stage.spark, stage.node, topic, isolation)]


async def start(stage: Stage, name: str, config: Mapping[str, str] | None = None) -> ConnectorTaskId:
    async def confirm() -> None:
        return

    task = ConnectorTaskId(name, 0)
    settings = {"name": name, "barnabas.trigger.interval.ms": "100", "transaction.boundary": "connector"}
    settings |= {"producer.override.linger.ms": "0", **(config or {})}
    described = TaskStart(
        task, settings, settings, TargetState.STARTED, 1, transactional_id=f"workers-{task}", confirm=confirm
    )
    stage.events.clear()
    await stage.runtime.start_task(described, stage.events.append)
    return task


async def pause(stage: Stage, task: ConnectorTaskId) -> None:
    await stage.runtime.pause_task(task)
    await stage.until(lambda: TaskPaused(task) in stage.events)


def stage_of(spark: SparkSession, node: Node, folder: Path, connector: type[Connector]) -> Any:
    return running_stage(spark, node, folder, connector, offsets=TopicOffsets(node, spark))


# ---- ended by records


class MarkedTask(SourceTask):
    """Numbers, seven in a transaction. Every third one is aborted."""

    def read(self, spark: SparkSession) -> DataFrame:
        found = self.context.source_offset(WORK)
        first = 0 if found is None else found["next"]
        ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1)
        return (
            ticks.load()
            .selectExpr(f"value + {first} AS number")
            .selectExpr(
                f"'{self.context.connector}' AS topic",
                "CAST(number AS STRING) AS value",
                "named_struct('numbers', 'all') AS source_partition",
                "named_struct('next', number + 1) AS source_offset",
                "CASE WHEN number % 21 = 20 THEN 'abort' WHEN number % 7 = 6 THEN 'commit' END AS transaction",
            )
        )


class Marked(SourceConnector):
    version = "1.0"
    task_class = MarkedTask


def expected(count: int) -> list[str]:
    """Return the committed numbers of this many records."""
    return [str(number) for number in range(count) if number % 21 < 14]


def assert_whole(found: list[str]) -> int:
    """Check that the records are those of whole transactions. Return their number."""
    assert len(found) % 7 == 0, found
    assert found == expected(len(found) * 2 + 21)[: len(found)]
    return len(found)


@pytest.mark.long  # test_transactions_end_as_in_kafkas_worker has marked records, too.
def test_transactions_end_after_marked_records(spark: SparkSession, node: Node, tmp_path: Path, out: str) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Marked) as stage:
            task = await start(stage, out)
            await stage.until(lambda: assert_whole(values(stage, out)) >= 28)
            figures = {name: value for name, _, value in stage.runtime.figures(task).metrics()}
            size = "kafka_connect_source_task_metrics_transaction_size_"
            assert (figures[f"{size}min"], figures[f"{size}max"]) == (0, 7)
            await pause(stage, task)  # In a transaction, at almost any time.
            before = assert_whole(values(stage, out))
            await stage.runtime.resume_task(task)
            await stage.until(lambda: assert_whole(values(stage, out)) >= before + 28)
            await stage.stop(task)
            before = assert_whole(values(stage, out))
            task = await start(stage, out)
            await stage.until(lambda: assert_whole(values(stage, out)) >= before + 28)
            await stage.stop(task)
            assert len(values(stage, out, "read_uncommitted")) > assert_whole(values(stage, out))

    asyncio.run(scenario())


def test_marks_are_ignored_without_connector_boundaries(
    spark: SparkSession, node: Node, tmp_path: Path, out: str
) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Marked) as stage:
            task = await start(stage, out, {"transaction.boundary": "poll"})
            await stage.until(lambda: len(values(stage, out)) >= 30)
            await stage.stop(task)
            first = values(stage, out)
            task = await start(stage, out, {"transaction.boundary": "poll"})
            await stage.until(lambda: len(values(stage, out)) > len(first))
            await stage.stop(task)
            found = values(stage, out)
            assert found == [str(number) for number in range(len(found))]

    asyncio.run(scenario())


# ---- ended by requests


class BatchesTask(PolledSourceTask):
    """Polls letters, one in a batch. A capital letter requests an end of the transaction: C a commit, A an abort."""

    letters: ClassVar[str] = ""
    position = 0

    def start(self, spark: SparkSession) -> None:
        found = self.context.source_offset(WORK)
        self.position = 0 if found is None else found["next"]

    def poll(self, spark: SparkSession) -> Polled | None:
        letter = self.letters[self.position : self.position + 1]
        if not letter:
            return None
        requests = self.context.transactions
        assert requests is not None
        if letter in "CX":
            requests.commit_transaction()
        if letter in "AX":
            requests.abort_transaction()
        self.position += 1
        records = spark.createDataFrame([(self.context.connector, letter)], "topic string, value string")
        return Polled(records, [SourceOffset(WORK, {"next": self.position})])


class Batches(SourceConnector):
    version = "1.0"
    task_class = BatchesTask

    @classmethod
    def can_define_transaction_boundaries(cls, config: Config) -> bool:
        return True


def letters(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(BatchesTask, "letters", text)


def test_transactions_end_after_batches(
    spark: SparkSession, node: Node, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Batches) as stage:
            letters(monkeypatch, "abCdAe")
            task = await start(stage, out)
            await stage.until(lambda: len(values(stage, out, "read_uncommitted")) == 6)
            assert values(stage, out) == ["a", "b", "C"]
            offsets = await asyncio.to_thread(read, spark, node, POSITIONS)
            assert [json.loads(row.value) for row in offsets if out in str(bytes(row.key))] == [
                {"next": 3},
                {"next": 5},
            ]

            await pause(stage, task)
            stage.events.clear()
            letters(monkeypatch, "abCdAefC")
            await stage.runtime.resume_task(task)
            await stage.until(lambda: TaskRunning(task) in stage.events)
            await stage.until(lambda: len(values(stage, out)) == 6)
            assert values(stage, out) == ["a", "b", "C", "e", "f", "C"]
            await stage.stop(task)

    asyncio.run(scenario())


def test_a_stopped_task_aborts_its_open_transaction(
    spark: SparkSession, node: Node, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Batches) as stage:
            letters(monkeypatch, "Cab")
            task = await start(stage, out)
            await stage.until(lambda: len(values(stage, out, "read_uncommitted")) == 3)
            await stage.stop(task)
            async with node.async_admin() as admin:
                found = (await admin.list_transactions()).transactions
            (state,) = [listed.state for listed in found if listed.transactional_id == f"workers-{task}"]
            assert state == "CompleteAbort"

    asyncio.run(scenario())


def test_a_task_fails_that_requests_both_ends(
    spark: SparkSession, node: Node, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Batches) as stage:
            letters(monkeypatch, "aX")
            await start(stage, out)
            failed = await stage.failure()
            assert "Connector requested both commit and abort of same transaction" in failed.trace
            assert values(stage, out) == []

    asyncio.run(scenario())


def test_a_task_fails_that_writes_to_its_own_offset_topic(
    spark: SparkSession, node: Node, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Batches) as stage:
            letters(monkeypatch, "C")
            await start(stage, out, {"offsets.storage.topic": out})
            failed = await stage.failure()
            assert "Source tasks may not produce to their own offsets topics" in failed.trace

    asyncio.run(scenario())


# ---- as Kafka's worker does


class PlannedTask(PolledSourceTask):
    """The task of ``Letters.java``."""

    def start(self, spark: SparkSession) -> None:
        self.batches = PLAN.split("|")
        self.position = 0

    def poll(self, spark: SparkSession) -> Polled | None:
        requests = self.context.transactions
        assert requests is not None
        if not self.batches:
            return None
        batch = self.batches.pop(0)
        if "C" in batch:
            requests.commit_transaction()
        if "A" in batch:
            requests.abort_transaction()
        rows = [
            (self.context.connector, letter, WORK, {"next": self.position + number}, ENDS.get(letter))
            for number, letter in enumerate(batch, 1)
        ]
        self.position += len(batch)
        return Polled(spark.createDataFrame(rows, PLANNED_SCHEMA).coalesce(1), [])


ENDS = {"c": "commit", "x": "abort"}
PLANNED_SCHEMA = (
    "topic string, value string, source_partition map<string, string>, source_offset map<string, int>, "
    "transaction string"
)


class Planned(SourceConnector):
    version = "1.0"
    task_class = PlannedTask


@contextmanager
def java_worker(node: Node, folder: Path) -> Iterator[ConnectWorker]:
    """Run a worker of Kafka with the connector ``Letters``."""
    plugin = folder / "plugins" / "letters"
    plugin.mkdir(parents=True)
    source = Path(tests.peers.__file__).parent / "java" / "Letters.java"
    libraries = f"{require_peer()}/*"
    subprocess.run(["javac", "-cp", libraries, "-d", str(plugin), str(source)], check=True, timeout=120)
    settings = {**worker_settings(node.bootstrap_servers, "java"), "exactly.once.source.support": "enabled"}
    worker = ConnectWorker(folder / "java", {**settings, "plugin.path": str(plugin.parent)})
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()


@pytest.mark.long  # It starts Kafka's worker.
def test_transactions_end_as_in_kafkas_worker(
    spark: SparkSession, node: Node, tmp_path: Path, out: str, kafka_peer: Path
) -> None:
    """The same requests lead to the same committed records, and to the same positions."""
    in_java = f"{out}-java"
    node.create_topic(in_java)

    def positions(topic: str, connector: str) -> list[int]:
        rows = read(spark, node, topic)
        return [json.loads(row.value)["next"] for row in rows if json.loads(row.key)[0] == connector]

    async def scenario() -> None:
        async with stage_of(spark, node, tmp_path, Planned) as stage:
            with java_worker(node, tmp_path) as worker:
                config = {"connector.class": "Letters", "letters": PLAN, "topic": in_java}
                config |= {"tasks.max": "1", "transaction.boundary": "connector", "exactly.once.support": "required"}
                body = {"name": in_java, "config": config}
                await asyncio.to_thread(worker.request, "POST", "/connectors", body)
                task = await start(stage, out)
                for topic in (out, in_java):
                    await stage.until(lambda: len(values(stage, topic)) >= len(COMMITTED))  # noqa: B023
                await stage.stop(task)
        assert values(stage, out) == values(stage, in_java) == [*COMMITTED]
        ours, theirs = positions(POSITIONS, out), positions("java-offsets", in_java)
        assert ours == theirs == [3, 5, 8, 10, 12, 13, 15, 16, 17, 20]

    asyncio.run(scenario())
