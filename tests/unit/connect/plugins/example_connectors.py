"""Connectors of Kafka's captures, with only their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from barnabas import __version__
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.client_overrides import ClientOverrides
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.plugins.api import (
    Config,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
)
from barnabas.connect.plugins.discovery import built_in_plugins, connector_plugin
from barnabas.connect.plugins.mock_connectors import MockSinkConnector, MockSourceConnector

KAFKA_VERSION = "4.3.1"
_FILE = ConfigKey("file", default=None, importance=Importance.HIGH)


class FileStreamSourceConnector(SourceConnector):
    version = __version__
    task_class = SourceTask
    aliases = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)
    config_def = ConfigDef(
        [
            _FILE,
            ConfigKey("topic", importance=Importance.HIGH),
            ConfigKey("batch.size", ConfigType.INT, "2000", importance=Importance.LOW),
        ]
    )


class FileStreamSinkConnector(SinkConnector):
    version = __version__
    task_class = SinkTask
    aliases = ("org.apache.kafka.connect.file.FileStreamSinkConnector",)
    config_def = ConfigDef([_FILE])


class PickyConnector(SourceConnector):
    """A connector that has a secret and validates it."""

    version = "2.1"
    task_class = SourceTask
    config_def = ConfigDef(
        [
            ConfigKey("password", ConfigType.PASSWORD),
            ConfigKey("url", default="db"),
            ConfigKey("hidden", default="x", internal=True),
        ]
    )

    @classmethod
    def exactly_once_support(cls, config: Config) -> bool | None:
        if config.get("once") == "broken":
            raise RuntimeError("no idea")
        return None if "once" not in config else config["once"] == "yes"

    @classmethod
    def can_define_transaction_boundaries(cls, config: Config) -> bool:
        if config.get("bounds") == "broken":
            raise RuntimeError("no idea")
        if config.get("bounds") == "none":
            return None
        return config.get("bounds") == "yes"

    @classmethod
    def validate(cls, config: Config, settings: Mapping[str, ConfigValue]) -> Mapping[str, Sequence[str]]:
        if config.get("url") == "explode":
            raise RuntimeError("no database")
        if config.get("url", "").startswith("bad"):
            return {"url": [f"can't connect to {config['url']}"], "elsewhere": ["is odd"]}
        return {}


@cache
def registry() -> PluginRegistry:
    connectors = (
        FileStreamSourceConnector,
        FileStreamSinkConnector,
        MockSourceConnector,
        MockSinkConnector,
        PickyConnector,
    )
    return PluginRegistry([*built_in_plugins(), *(connector_plugin(connector, "tests") for connector in connectors)])


def validation(policy: str = "All", allowlist: tuple[str, ...] = ()) -> ConnectorValidation:
    converters = {"key": "JsonConverter", "value": "JsonConverter", "header": "SimpleHeaderConverter"}
    return ConnectorValidation(
        registry(),
        ValidationDefaults("cc", converters, ClientOverrides(policy, allowlist), is_exactly_once_enabled=True),
    )
