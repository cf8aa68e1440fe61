"""Assemble the program of a pipeline's task from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.sql.declarations import InvalidDeclaration, parse_inputs, parse_output
from barnabas.connect_spark.sql.pipeline_delivery import PipelineDelivery, TableDelivery, TopicDelivery
from barnabas.connect_spark.sql.pipeline_program import PipelineProgram, PipelineSettings

if TYPE_CHECKING:
    from barnabas.connect.plugins.api import TaskContext
    from barnabas.connect_spark.queries.record_path import RecordPath
    from barnabas.connect_spark.queries.source_delivery import TransactionCalls
    from barnabas.connect_spark.queries.task_spec import OffsetWriter, TaskSpec, WorkerTaskContext
    from barnabas.connect_spark.sql.pipeline_task import PipelineTask

__all__ = ["pipeline_program", "pipeline_settings"]


def pipeline_settings(config: Mapping[str, str], values: Mapping[str, object]) -> PipelineSettings:
    """Return the settings. ``values`` are those of the connector's definition. Raise ConfigException."""
    try:
        inputs, output = parse_inputs(config), parse_output(config)
    except InvalidDeclaration as error:
        name = next(iter(error.problems))
        raise ConfigException(name, config.get(name), str(error)) from None
    partitions, most = values.get("shuffle.partitions"), values.get("batch.records.max")
    return PipelineSettings(
        inputs,
        output,
        str(values.get("state.location") or ""),
        None if partitions is None else int(str(partitions)),
        None if most is None else int(str(most)),
    )


def pipeline_program(
    spec: TaskSpec,
    context: WorkerTaskContext,
    task: PipelineTask,
    record_path: Callable[[Mapping[str, str], Mapping[str, str]], RecordPath],
    write_offsets: OffsetWriter,
    uses_topics: Callable[[frozenset[str]], None],
    transactions: TransactionCalls | None,
) -> PipelineProgram:
    """Raise ConfigException for settings that can't be used."""
    settings = pipeline_settings({**spec.connector_config, **spec.task_config}, context.settings)
    output = settings.output
    delivery: PipelineDelivery
    if output.table is not None:

        def of_sink(config: Mapping[str, str], values: Mapping[str, object]) -> TaskContext:
            return replace(context, config=config, settings=values)

        delivery = TableDelivery(spec, output, write_offsets, of_sink, transactions)
    else:
        path = record_path({**spec.connector_config, **output.converters}, spec.worker_config)
        delivery = TopicDelivery(spec, output, settings.inputs, path, write_offsets, uses_topics, transactions)
    return PipelineProgram(
        spec,
        context,
        task.query(),
        settings,
        delivery,
        context.source_offset,
        has_transactions=transactions is not None and output.table is None,
    )
