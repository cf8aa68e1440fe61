"""Three connectors of one worker, each starting where the previous one ends: a folder, two topics, a file of lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.testing import Node
from tests.spark.connect_worker_stage import running_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
BYTES = {f"{part}.converter": "ByteArrayConverter" for part in ("key", "value", "header")}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


def test_rows_pass_through_two_topics_into_lines_and_a_restart_repeats_none(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    incoming, lines = tmp_path / "incoming", tmp_path / "lines.txt"
    incoming.mkdir()
    connectors = {
        "files": {
            "connector.class": "FilesToTopic",
            "directory": str(incoming),
            "format": "csv",
            "schema": "id INT, name STRING",
            "topic": "people",
            **JSON,
            "transforms": "key,mask",
            "transforms.key.type": "ValueToKey",
            "transforms.key.fields": "id",
            "transforms.mask.type": "MaskField$Value",
            "transforms.mask.fields": "name",
            "transforms.mask.replacement": "***",
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "false",
        },
        "mirror": {
            "connector.class": "TopicToTopic",
            "source.bootstrap.servers": node.bootstrap_servers,
            "source.topics": "people",
            "topic.format": "copy-${topic}",
            **BYTES,
        },
        "lines": {"connector.class": "FileStreamSink", "topics": "copy-people", "file": str(lines)},
    }

    def found() -> list[dict[str, object]]:
        text = lines.read_text() if lines.exists() else ""
        return sorted((json.loads(line) for line in text.splitlines()), key=lambda row: int(row["id"]))

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "chain", tmp_path) as worker:
            with AdminClient.sync(node.bootstrap_servers) as admin:
                topics = [NewTopic("people", 2, 1), NewTopic("copy-people", 2, 1)]
                admin.create_topics(topics, wait=True).raise_for_errors()
            (incoming / "one.csv").write_text("id,name\n1,Ada\n2,Grace\n")
            for name, config in connectors.items():
                await worker.create(name, config)
            await worker.eventually(lambda: len(found()) == 2)
            for name in connectors:
                assert (await worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")).is_success
            for name in connectors:
                await worker.states(name, "RUNNING")
            (incoming / "two.tmp").write_text("id,name\n3,Edsger\n")
            (incoming / "two.tmp").rename(incoming / "two.csv")
            await worker.eventually(lambda: len(found()) >= 3)
            assert found() == [{"id": at, "name": "***"} for at in (1, 2, 3)]
            offsets = (await worker.request("GET", "/connectors/files/offsets")).json()["offsets"]
            assert sorted(position["partition"]["file"] for position in offsets) == ["one.csv", "two.csv"]

    asyncio.run(scenario())
