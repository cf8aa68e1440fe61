"""PythonPipeline: a pipeline whose query is a function of another package (``connect.plugins.pipelines``).

Everything else is as for SqlPipeline: inputs, outputs, positions, state, and what may change while the state is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    SourceTask,
    TerminalError,
)
from barnabas.connect.plugins.pipelines import Pipeline, installed_pipelines
from barnabas.connect_spark.sql.declarations import listed
from barnabas.connect_spark.sql.pipeline_task import PipelineTask
from barnabas.connect_spark.sql.query import Query
from barnabas.connect_spark.sql.sql_pipeline import SqlPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PythonPipeline", "PythonPipelineTask"]

_PIPELINE, _PREFIX, _INPUTS = "pipeline", "pipeline.", "inputs"


class PythonPipelineTask(PipelineTask):
    def query(self) -> Query:
        """Raise TerminalError for a pipeline that this worker does not have."""
        try:
            found = installed_pipelines.find(str(self.settings[_PIPELINE]))
        except LookupError as error:
            raise TerminalError(f"{_PIPELINE}: {error.args[0]}") from error
        settings = found.config_def.parse(_own_settings(self.config))

        def rows(spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
            try:
                return found.rows(spark, inputs, settings)
            except TypeError as error:
                if found.full_name in str(error):
                    raise TerminalError(str(error)) from error
                raise

        return rows


class PythonPipeline(SqlPipeline):
    """A function of Python over topics and tables, to a topic or a table."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                _PIPELINE,
                ConfigType.STRING,
                REQUIRED,
                "The pipeline: the name of an entry point of barnabas.pipelines, or module:function. Its own settings "
                "begin with pipeline.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            *(key for key in SqlPipeline.config_def if key.name != "query"),
        ]
    )
    task_class: ClassVar[type[SourceTask]] = PythonPipelineTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors = {name: list(texts) for name, texts in super().validate(config, settings).items()}
        name = str(settings.get(_PIPELINE) or "")
        if not name:
            return errors
        try:
            found = installed_pipelines.find(name)
        except LookupError as error:
            errors[_PIPELINE] = [str(error.args[0])]
            return errors
        for setting, text in _problems(found, config):
            errors.setdefault(setting, []).append(text)
        return errors


def _own_settings(config: Mapping[str, str]) -> dict[str, str | None]:
    return {name.removeprefix(_PREFIX): text for name, text in config.items() if name.startswith(_PREFIX)}


def _problems(found: Pipeline, config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what does not fit the pipeline, each with its setting."""
    problems = []
    inputs, wanted = listed(config.get(_INPUTS, "")), found.inputs
    if inputs and sorted(inputs) != sorted(wanted):
        problems.append(
            (_INPUTS, f"{found.full_name} has the inputs {', '.join(wanted)}, and not {', '.join(inputs)}.")
        )
    own = _own_settings(config)
    known = ", ".join(key.name for key in found.config_def)
    for name in sorted(own.keys() - {key.name for key in found.config_def}):
        there = f"It has {known}." if known else "It has none."
        problems.append((f"{_PREFIX}{name}", f"{found.full_name} has no setting {name}. {there}"))
    return [*problems, *_wrong_values(found.config_def, own)]


def _wrong_values(definition: ConfigDef, own: Mapping[str, str | None]) -> list[tuple[str, str]]:
    problems = []
    for key in definition:
        try:
            ConfigDef([key]).parse(own)
        except ConfigException as error:
            problems.append((f"{_PREFIX}{key.name}", str(error)))
    return problems
