"""Several tasks of a source with Spark's own positions: each resumes at its own position, and no row is skipped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import ConfigDef, ConfigKey, SourceConnector, SourceTask
from barnabas.testing import Node
from tests.spark.connect_worker_stage import SparkWorker, running_worker
from tests.spark.test_connect_whole_worker import TEXT, create, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

_SPEEDS = (1000, 30, 7)
"""Rows of a batch, by the part of the source: the tasks' positions soon differ."""


class PartTask(SourceTask):
    """Rows ``<part> <number>``, each part at its own speed."""

    def read(self, spark: SparkSession) -> DataFrame:
        part = int(self.settings["part"])  # type: ignore[call-overload]
        ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _SPEEDS[part]).load()
        return ticks.selectExpr(f"'{self.settings['topic']}' AS topic", f"concat({part}, ' ', value) AS value")


class Parts(SourceConnector):
    """One task for each part, up to ``tasks.max``. The source does not define positions."""

    task_class = PartTask
    config_def = ConfigDef([ConfigKey("topic"), ConfigKey("part", default="0")])

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config, "part": str(part)} for part in range(min(max_tasks, len(_SPEEDS)))]


class NamedParts(Parts):
    @classmethod
    def source_partition(cls, task_config: Mapping[str, str]) -> Mapping[str, Any]:
        return {"part": int(task_config["part"])}


class SharesTask(SourceTask):
    """Each n-th row of one source, where n is ``tasks.max``: the rows of a task depend on the number of tasks."""

    def read(self, spark: SparkSession) -> DataFrame:
        share, shares = int(self.config["share"]), int(self.config["tasks.max"])
        rows = _SPEEDS[share]
        ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
        return ticks.where(f"value % {shares} = {share}").selectExpr(
            f"'{self.settings['topic']}' AS topic", "concat('0 ', value) AS value"
        )


class Shares(SourceConnector):
    task_class = SharesTask
    config_def = ConfigDef([ConfigKey("topic")])

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config, "share": str(share)} for share in range(max_tasks)]


PLUGINS = {
    "barnabas.connect.plugins": ",".join(
        f"{__name__}:{connector.__name__}" for connector in (Parts, NamedParts, Shares)
    )
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


def settings(connector: type[SourceConnector], topic: str, tasks: int) -> dict[str, str]:
    return {
        "connector.class": f"{__name__}:{connector.__name__}",
        "tasks.max": str(tasks),
        "topic": topic,
        "value.converter": TEXT,
        "key.converter": TEXT,
    }


def rows(spark: SparkSession, node: Node, topic: str) -> dict[int, Counter[int]]:
    """Return how often each number of each part was received."""
    found: dict[int, Counter[int]] = {}
    for record in records(spark, node.bootstrap_servers, topic):
        part, number = map(int, bytes(record.value).decode().split())
        found.setdefault(part, Counter())[number] += 1
    return found


def assert_complete(found: dict[int, Counter[int]]) -> None:
    for part, numbers in found.items():
        missing = set(range(max(numbers) + 1)) - set(numbers)
        assert not missing, (
            f"part {part}: {len(missing)} of {max(numbers) + 1} rows were never read: {sorted(missing)[:5]}"
        )


async def stop(worker: SparkWorker, name: str) -> None:
    assert (await worker.request("PUT", f"/connectors/{name}/stop")).status_code == 204
    await worker.states(name)


async def resume(worker: SparkWorker, name: str, tasks: int) -> None:
    assert (await worker.request("PUT", f"/connectors/{name}/resume")).status_code == 202
    await worker.states(name, *["RUNNING"] * tasks)


async def offsets(worker: SparkWorker, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await worker.request("GET", f"/connectors/{name}/offsets")).json()["offsets"]
    return found


def test_tasks_of_different_speeds_resume_and_positions_are_shown_and_settable(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "parts", tmp_path, PLUGINS) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, parts=1)

            def reached(number: int) -> bool:
                found = rows(spark, node, "parts")
                return len(found) == 3 and max(found[2]) >= number

            await worker.create("parts", settings(Parts, "parts", 3))
            await worker.states("parts", *["RUNNING"] * 3)
            await worker.eventually(lambda: reached(20))
            await stop(worker, "parts")
            before = await asyncio.to_thread(rows, spark, node, "parts")
            shown = await offsets(worker, "parts")
            assert [set(position["partition"]) for position in shown] == [
                {"spark.source", "spark.task", "spark.tasks"}
            ] * 3
            assert len({position["partition"]["spark.task"] for position in shown}) == 3
            assert len({position["offset"]["offset"] for position in shown}) == 3, "each has its own"

            await resume(worker, "parts", 3)
            await worker.eventually(lambda: reached(max(before[2]) + 30))
            await stop(worker, "parts")
            found = await asyncio.to_thread(rows, spark, node, "parts")
            assert_complete(found)
            twice = {part: [number for number, count in found[part].items() if count > 1] for part in found}
            assert twice == {0: [], 1: [], 2: []}, "a connector that was stopped in order repeats nothing"

            # One position is reset manually, under the name that is shown.
            slow = next(
                offset for offset in await offsets(worker, "parts") if '"2"' in offset["partition"]["spark.task"]
            )
            back = {"partition": slow["partition"], "offset": {"offset": '{"offset":7,"timestamp":0}'}}
            answer = await worker.request("PATCH", "/connectors/parts/offsets", {"offsets": [back]})
            assert answer.status_code == 200, answer.text
            shared = {"partition": {"spark.source": 0}, "offset": back["offset"]}
            refused = await worker.request("PATCH", "/connectors/parts/offsets", {"offsets": [shared]})
            assert refused.status_code == 400
            assert "lacks a task" in refused.json()["message"]
            await resume(worker, "parts", 3)
            await worker.eventually(lambda: rows(spark, node, "parts")[2][8] == 2)
            await stop(worker, "parts")
            again = await asyncio.to_thread(rows, spark, node, "parts")
            assert again[2][6] == 1
            assert again[0][6] == 1

            assert (await worker.request("DELETE", "/connectors/parts/offsets")).status_code == 200
            assert await offsets(worker, "parts") == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("connector", "repeats"), [pytest.param(Shares, True, marks=pytest.mark.long), (NamedParts, False)]
)
def test_a_changed_number_of_tasks_skips_no_row(
    spark: SparkSession, node: Node, tmp_path: Path, connector: type[SourceConnector], repeats: bool
) -> None:
    topic = connector.__name__.lower()

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, topic, tmp_path, PLUGINS) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, **{topic: 1})
            await worker.create(topic, settings(connector, topic, 3))
            await worker.states(topic, *["RUNNING"] * 3)
            await worker.eventually(lambda: sum(map(len, rows(spark, node, topic).values())) > 1500)
            await stop(worker, topic)
            before = await asyncio.to_thread(rows, spark, node, topic)
            changed = await worker.request("PUT", f"/connectors/{topic}/config", settings(connector, topic, 2))
            assert changed.status_code == 200, changed.text
            await resume(worker, topic, 2)
            most = {part: max(numbers) for part, numbers in before.items()}
            await worker.eventually(lambda: max(rows(spark, node, topic)[0]) > most[0] + 1000)
            if connector is Shares:  # The slow task must complete a pass, because the fast one has half of the rows.
                await worker.eventually(lambda: 29 in rows(spark, node, topic)[0])
            await stop(worker, topic)
            found = await asyncio.to_thread(rows, spark, node, topic)
            if connector is Shares:
                slow = [number for number in found[0] if number % 2 == 1]
                assert set(range(1, 29, 2)) <= set(slow)
                assert set(range(0, most[0], 2)) <= set(found[0])
            else:
                assert_complete(found)
                assert all(count == 1 for part in found for count in found[part].values())

    asyncio.run(scenario())


def test_the_only_task_resumes_at_a_position_of_the_older_format(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "former", tmp_path, PLUGINS) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, former=1)
            await worker.create("former", {**settings(Parts, "former", 1)})
            await worker.states("former", "RUNNING")
            await stop(worker, "former")
            assert (await worker.request("DELETE", "/connectors/former/offsets")).status_code == 200
            former = {"partition": {"spark.source": 0}, "offset": {"offset": '{"offset":40000,"timestamp":0}'}}
            answer = await worker.request("PATCH", "/connectors/former/offsets", {"offsets": [former]})
            assert answer.status_code == 200, answer.text
            await resume(worker, "former", 1)
            await worker.eventually(lambda: 40001 in rows(spark, node, "former").get(0, {}))
            await stop(worker, "former")
            assert 39999 not in (await asyncio.to_thread(rows, spark, node, "former"))[0]
            (shown,) = await offsets(worker, "former")
            assert shown["partition"] == {"spark.source": 0, "spark.task": '{"part":"0"}', "spark.tasks": 1}

    asyncio.run(scenario())
