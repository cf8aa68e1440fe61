"""``barnabas connect`` against a worker of ours in which everything except Spark is real."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from barnabas.cli.connect.command import main
from barnabas.testing import Node
from tests.peers.in_process_workers import TaskLedger, in_process_worker

pytestmark = pytest.mark.interop


def test_a_connector_is_created_run_changed_and_deleted(
    barnabas_node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with in_process_worker(barnabas_node.bootstrap_servers, "command-line", TaskLedger()) as worker:

            async def run(*arguments: str, status: int = 0) -> Any:
                line = [*arguments, "--worker", worker.url, "-o", "json"]
                found = await asyncio.to_thread(main, line)
                captured = capsys.readouterr()
                assert found == status, captured
                return json.loads(captured.out)

            def states(answer: Any) -> list[str]:
                (found,) = answer["connectors"]
                return [found["state"], *(task["state"] for task in found["tasks"])]

            assert (await run("health"))["status"] == "healthy"
            assert (await run("list"))["connectors"] == []
            assert any(plugin["class"].endswith(".TopicToFiles") for plugin in (await run("plugins"))["plugins"])
            keys = {setting["name"] for setting in (await run("plugin-config", "TopicToFiles"))["settings"]}
            assert {"directory", "format"} <= keys

            wrong = ["--config", "connector.class=TopicToFiles", "--config", "format=paper", "--config", "topics=t"]
            errors = (await run("create", "files", *wrong, status=1))["errors"]
            assert [error["item"] for error in errors] == ["directory", "format"]

            source = ["--config", "connector.class=MockSource", "--config", "tasks.max=2"]
            await run("create", "mock", *source, "--wait")
            assert states(await run("status", "mock")) == ["RUNNING", "RUNNING", "RUNNING"]
            await run("create", "mock", *source, status=1)
            await run("pause", "mock", "--wait")
            assert states(await run("list")) == ["PAUSED", "PAUSED", "PAUSED"]
            await run("resume", "mock", "--wait")
            await run("restart", "mock", "--include-tasks", "--wait")
            await run("restart", "mock", "--task", "1", "--wait")
            await run("patch", "mock", "--config", "tasks.max=1", "--wait")
            assert (await run("config", "mock"))["config"]["tasks.max"] == "1"
            assert (await run("topics", "mock"))["connectors"] == [{"connector": "mock", "topics": []}]

            await run("reset-offsets", "mock", status=1)
            await run("stop", "mock", "--wait")
            assert (await run("offsets", "mock"))["offsets"] == []
            await run("set-logger", "barnabas.connect", "--level", "DEBUG")
            assert (await run("loggers", "barnabas.connect"))["loggers"]["barnabas.connect"]["level"] == "DEBUG"
            await run("set-logger", "barnabas.connect", "--level", "INFO")
            await run("delete", "mock")
            await run("status", "mock", status=1)

    asyncio.run(story())
