"""Connectors that do only what their settings say, like those of Kafka's own tests.

``mock_mode`` says what fails, and ``delay_ms`` when: ``connector-failure`` the connector, ``task-failure`` the tasks.
Without it both run and do nothing. They show how a worker, its clients and its alerts treat a failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas import __version__
from barnabas.common.config_validators import Range, ValidString
from barnabas.connect.plugins.api import (
    Config,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Connector,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    Task,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MockSinkConnector", "MockSourceConnector"]

_PACKAGE = "org.apache.kafka.connect.tools"
_CONNECTOR_FAILURE, _TASK_FAILURE = "connector-failure", "task-failure"

# Kafka's mock connectors define no settings, so validation shows none; these are read nevertheless.
_SETTINGS = ConfigDef(
    [
        ConfigKey("mock_mode", default="", validator=ValidString(["", _CONNECTOR_FAILURE, _TASK_FAILURE])),
        ConfigKey("delay_ms", ConfigType.LONG, "15000", validator=Range(0)),
    ]
)


class _MockConnector(Connector):
    _timer: threading.Timer | None = None

    def start(self) -> None:
        settings = _SETTINGS.parse(self.config)
        if settings["mock_mode"] == _CONNECTOR_FAILURE:
            delay_s = float(str(settings["delay_ms"])) / 1000
            self._timer = threading.Timer(delay_s, self.context.raise_error, [RuntimeError("mock_mode requests it")])
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @classmethod
    def validate(cls, config: Config, settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        for key in _SETTINGS:
            try:
                key.parse(config.get(key.name, key.default))
            except ValueError as error:
                errors[key.name] = [str(error)]
        return errors


def _fails_after_s(task: Task) -> float | None:
    settings = _SETTINGS.parse(task.config)
    return float(str(settings["delay_ms"])) / 1000 if settings["mock_mode"] == _TASK_FAILURE else None


class MockSourceTask(SourceTask):
    """A stream without records, which may end with a failure."""

    def read(self, spark: SparkSession) -> DataFrame:
        delay_s = _fails_after_s(self)
        ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        if delay_s is None:
            ticks = ticks.where("value < 0")
        else:
            ticks = ticks.where(f"if(value >= {int(delay_s)}, raise_error('mock_mode requests it'), false)")
        return ticks.selectExpr("'mock' AS topic", "CAST(value AS STRING) AS value")


class MockSinkTask(SinkTask):
    """Accepts and discards records, or fails with the first batch after the delay."""

    _failing_at: float | None = None

    def start(self, spark: SparkSession) -> None:
        delay_s = _fails_after_s(self)
        self._failing_at = None if delay_s is None else time.monotonic() + delay_s

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        if self._failing_at is not None and time.monotonic() >= self._failing_at:
            raise RuntimeError("mock_mode requests it")


class MockSourceConnector(_MockConnector, SourceConnector):
    """A source without records."""

    version = __version__
    task_class = MockSourceTask
    aliases = (f"{_PACKAGE}.MockSourceConnector",)

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config) for _ in range(max_tasks)]


class MockSinkConnector(_MockConnector, SinkConnector):
    """A sink that discards its records."""

    version = __version__
    task_class = MockSinkTask
    aliases = (f"{_PACKAGE}.MockSinkConnector",)
