"""``barnabas registry schema-registry.properties [--override key=value ...]``: run a schema registry until SIGTERM.

The file and its names are those of Confluent's registry, as far as it has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.configured_process import ConfiguredProcess

if TYPE_CHECKING:
    from barnabas.registry.settings.registry_config import RegistryConfig

__all__ = ["HELP", "main"]

HELP = """\
usage: barnabas registry schema-registry.properties [--override key=value ...]

Run a schema registry for Avro, JSON Schema and Protobuf, until SIGTERM or Ctrl-C. It speaks the REST API
of Confluent's registry, and keeps its schemas in a compacted topic in the same format.

  schema-registry.properties  the configuration file of the registry. It needs at least
                              kafkastore.bootstrap.servers.
  --override key=value        a setting that overrides the file; may be repeated.

Before it starts, the registry reports every invalid or unknown setting.
Registries with the same schema.registry.group.id and topic elect a leader, which writes for all.
A worker or a node runs a registry beside it with barnabas.registry.config.file=FILE.
"""


_PROCESS = ConfiguredProcess("registry", "schema-registry.properties", HELP)


def main(arguments: Sequence[str]) -> int:
    """Return 0 after a clean stop, 1 if the registry can't start, 2 for invalid arguments."""

    def load(path: str, overrides: Sequence[str]) -> RegistryConfig:
        from barnabas.registry.settings.registry_config import load_registry_config

        return load_registry_config(path, overrides)

    return _PROCESS.run(arguments, load, _run)


def _run(config: RegistryConfig) -> int:
    import asyncio
    import logging

    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError
    from barnabas.connect.errors import ConnectError
    from barnabas.connect.rest.rest_settings import UnusableRestSetting
    from barnabas.registry.registry import RegistryFailed, run_registry
    from barnabas.server.process.logging_setup import configure_logging

    configure_logging(config)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for warning in config.warnings:
        logging.getLogger(__name__).warning("%s", warning)
    try:
        asyncio.run(run_registry(config))
    except (RegistryFailed, UnusableRestSetting, ConnectError, ClientError, AdminError) as error:
        return _PROCESS.say(str(error), 1)
    except (OSError, TimeoutError) as error:
        return _PROCESS.say(f"can't start: {error}", 1)
    except Exception:
        logging.getLogger(__name__).exception("the registry failed because of a bug in barnabas")
        return 1
    return 0
