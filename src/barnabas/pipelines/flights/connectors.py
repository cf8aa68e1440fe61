"""FlightDelays: a sink connector that keeps delays per carrier and hour current while flights stream in.

An example of a custom connector: the worker delivers the records, and the upsert makes a repeated batch harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import ConfigDef, ConfigKey, NonEmptyString, SinkBatch, SinkConnector, SinkTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FlightDelays"]

_DIRECTORY = "directory"


class FlightDelaysTask(SinkTask):
    def start(self, spark: SparkSession) -> None:
        from barnabas.pipelines.flights.flight_tables import FlightTables

        self._tables = FlightTables(Path(str(self.settings[_DIRECTORY])))

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        self._tables.upsert(df)


class FlightDelays(SinkConnector):
    """Departure delays per carrier and hour, as tables of Parquet."""

    version = "1.0.0"
    task_class = FlightDelaysTask
    config_def = ConfigDef(
        [ConfigKey(_DIRECTORY, documentation="Folder of the tables. An absolute path.", validator=NonEmptyString())]
    )

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return one task, whatever ``max_tasks`` is: two tasks would replace each other's months."""
        return [dict(self.config)]

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        directory = settings.get(_DIRECTORY)
        if directory and not Path(str(directory)).is_absolute():
            return {_DIRECTORY: [f"{directory} is not an absolute path."]}
        return {}
