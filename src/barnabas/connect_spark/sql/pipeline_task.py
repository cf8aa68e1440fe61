"""The task of a pipeline: its settings, and its query. ``PipelineProgram`` does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import SourceTask
from barnabas.connect_spark.sql.query import Query, SqlQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PipelineTask", "SqlPipelineTask"]


class PipelineTask(SourceTask):
    def query(self) -> Query:
        """Return the query, from one DataFrame for each input to the rows of the output."""
        raise NotImplementedError

    def read(self, spark: SparkSession) -> DataFrame:
        raise TypeError("a pipeline is read by its query")


class SqlPipelineTask(PipelineTask):
    def query(self) -> Query:
        return SqlQuery(str(self.settings["query"]))
