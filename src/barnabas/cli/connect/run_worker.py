"""``barnabas worker connect-distributed.properties [--override key=value ...]``: run a Connect worker until SIGTERM.

The file and its names are Kafka's (connect-distributed).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from barnabas.cli.arguments.configured_process import ConfiguredProcess
from barnabas.cli.arguments.configured_registry import UnusableRegistryFile, configured_registry

if TYPE_CHECKING:
    from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["main"]

HELP = """\
usage: barnabas worker connect-distributed.properties [--override key=value ...]

Run a Kafka Connect worker, whose tasks are Spark streaming queries, until SIGTERM or Ctrl-C.

  connect-distributed.properties   Kafka's configuration file of a worker.
  --override key=value             a setting that overrides the file; may be repeated.

Before it starts, the worker reports every invalid, unknown or unsupported setting.
Workers with the same group.id share their connectors; Kafka's own workers can be among them.
"""

_UMASK = 0o027
"""Only the worker's user and group may read checkpoints, logs and output of tasks. A stricter umask is kept."""


_PROCESS = ConfiguredProcess("worker", "connect-distributed.properties", HELP)


def main(arguments: Sequence[str]) -> int:
    """Return 0 after a clean stop, 1 if the worker can't start or continue, 2 for invalid arguments."""

    def load(path: str, overrides: Sequence[str]) -> WorkerConfig:
        from barnabas.connect.settings.worker_config import load_worker_config

        return load_worker_config(path, overrides)

    return _PROCESS.run(arguments, load, _run)


def _run(config: WorkerConfig) -> int:
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("no pyspark", name="pyspark")  # Now, not when the first task starts.
    import asyncio
    import logging

    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError
    from barnabas.common.switch_interval import shorten_switch_interval
    from barnabas.connect.errors import ConnectError
    from barnabas.connect.rest.rest_settings import UnusableRestSetting
    from barnabas.connect.run.worker import WorkerFailed, run_worker
    from barnabas.connect.settings.plugin_config_def import ConfigException
    from barnabas.connect.settings.worker_config import InvalidWorkerConfig
    from barnabas.connect_spark.runtime_factory import make_spark_runtime
    from barnabas.server.process.logging_setup import configure_logging

    os.umask(os.umask(_UMASK) | _UMASK)
    configure_logging(config)
    for chatty in ("httpx", "py4j"):  # The worker's own log lines cover requests and Spark.
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for warning in config.warnings:
        logging.getLogger(__name__).warning("%s", warning)
    try:
        registry = configured_registry(config.barnabas_registry_config_file)
    except UnusableRegistryFile as error:
        return _PROCESS.say(str(error), 1)
    try:
        shorten_switch_interval()
        with registry:
            asyncio.run(run_worker(config, make_spark_runtime))
    except (
        *(InvalidWorkerConfig, UnusableRestSetting, ConfigException),
        *(WorkerFailed, ConnectError, ClientError, AdminError),
    ) as error:
        return _PROCESS.say(str(error), 1)
    except (OSError, TimeoutError) as error:
        return _PROCESS.say(f"can't start: {error}", 1)
    except Exception:
        logging.getLogger(__name__).exception("the worker failed because of a bug in barnabas")
        return 1
    return 0
