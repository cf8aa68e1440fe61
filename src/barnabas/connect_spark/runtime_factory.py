"""Create the Spark side of a worker. The command line passes it to the worker, which knows no Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from barnabas.network.daemon_call import daemon_call

if TYPE_CHECKING:
    from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
    from barnabas.connect.decide.tasks.task_runtime import OffsetStore, TaskRuntime
    from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["make_spark_runtime"]


async def make_spark_runtime(
    *, config: WorkerConfig, offsets: OffsetStore, registry: PluginRegistry, worker_id: str
) -> TaskRuntime:
    """Create it on a thread, because importing its modules takes a while and the REST API listens already."""
    module = await daemon_call(lambda: import_module("barnabas.connect_spark.spark_runtime"))
    runtime: TaskRuntime = module.SparkTaskRuntime(
        registry.with_full_names(config.texts),
        offsets,
        registry.connector_class,
        worker_id=worker_id,
        client_properties=config.client_properties,
        record_plugins=registry.record_plugins(),
    )
    return runtime
