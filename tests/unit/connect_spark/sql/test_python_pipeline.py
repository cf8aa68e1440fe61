"""The connector PythonPipeline: what its validation finds, and the query of its task."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.plugins.api import ConfigDef, ConfigKey, ConfigType, Range, TerminalError
from barnabas.connect.plugins.pipelines import InstalledPipelines, pipeline
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.sql import python_pipeline
from barnabas.connect_spark.sql.python_pipeline import PythonPipeline, PythonPipelineTask

CONFIG = {
    "pipeline": "large_orders",
    "inputs": "orders",
    "inputs.orders.topic": "orders",
    "inputs.orders.format": "string",
    "output.topic": "large-orders",
}
SPARK: Any = "spark"
FRAMES: Any = {"orders": "frame"}


class FakeFrame:
    isStreaming = True

    def __init__(self, limit: int) -> None:
        self.limit = limit


@pipeline(config_def=ConfigDef([ConfigKey("limit", ConfigType.LONG, 100, validator=Range(0))]))
def large_orders(orders: Any, settings: Any) -> Any:
    return FakeFrame(settings["limit"]) if orders else None


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> InstalledPipelines:
    fresh = InstalledPipelines()
    fresh.add(large_orders, "large_orders")
    monkeypatch.setattr(python_pipeline, "installed_pipelines", fresh)
    return fresh


def kit(**changes: str) -> ConnectorKit:
    config = CONFIG | {name.replace("__", "."): text for name, text in changes.items()}
    return ConnectorKit(PythonPipeline, config, topics={"orders": 1})


def test_a_complete_configuration_is_valid() -> None:
    assert kit().errors == {}
    assert kit(pipeline__limit="7", pipeline=large_orders.full_name).errors == {}


@pytest.mark.parametrize(
    ("changes", "setting", "message"),
    [
        (
            {"pipeline": "small_orders"},
            "pipeline",
            "small_orders is not a pipeline of this worker, which has large_orders",
        ),
        ({"inputs": "o", "inputs__o__topic": "t"}, "inputs", "has the inputs orders, and not o."),
        ({"pipeline__least": "7"}, "pipeline.least", "has no setting least. It has limit."),
        ({"pipeline__limit": "-1"}, "pipeline.limit", "-1"),
        ({"pipeline__limit": "many"}, "pipeline.limit", "many"),
        ({"output__topic": ""}, "output.topic", "Set either output.topic, or output.table."),
    ],
)
def test_a_mistake_is_named_with_its_setting(changes: dict[str, str], setting: str, message: str) -> None:
    assert message in " ".join(kit(**changes).errors[setting])


def test_the_task_calls_the_function_with_its_settings() -> None:
    task = kit(pipeline__limit="7").task()
    assert isinstance(task, PythonPipelineTask)
    found: Any = task.query()(SPARK, FRAMES)
    assert found.limit == 7
    with pytest.raises(TerminalError, match="large_orders returned NoneType, and not a DataFrame"):
        task.query()(SPARK, FRAMES | {"orders": ""})


def test_a_worker_without_the_pipeline_says_so(installed: InstalledPipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = kit().task()
    monkeypatch.setattr(python_pipeline, "installed_pipelines", InstalledPipelines())
    with pytest.raises(TerminalError, match="pipeline: large_orders is not a pipeline of this worker, which has none"):
        task.query()
