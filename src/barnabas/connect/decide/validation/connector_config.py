"""The settings that all connectors have: common ones, and a source's or a sink's.

Names, types, defaults, groups and their order are Kafka's. ``validation`` applies them, and adds settings that depend
on the connector's own values (``plugin_keys``, ``topic_creation_keys``); listings show them without the worker's
defaults.
"""
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

from barnabas.common.config_validators import (
    CaseInsensitiveString,
    NonEmptyString,
    NonEmptyWithoutControlCharacters,
    Range,
    ValidString,
)
from barnabas.connect.decide.autoscaling.autoscale_settings import AUTOSCALE_CONFIG
from barnabas.connect.decide.registry.plugin import Plugin, PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.plugin_validators import JavaRegex, UniqueAliases, VersionRequirement
from barnabas.connect.entities import ConfigKeyInfo
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Width,
)

__all__ = [
    "COMMON_CONFIG",
    "OWN_CONFIG",
    "SINK_CONFIG",
    "SOURCE_CONFIG",
    "connector_config_def",
    "key_info",
    "plugin_config",
]

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _CLASS = ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
_BOOLEAN, _INT, _LONG, _SHORT = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.SHORT

_COMMON, _ERRORS = "Common", "Error Handling"
_EXACTLY_ONCE = "Exactly Once Support"


class _AtLeastOrNull(Range):
    """A range that accepts null, the default."""

    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if value is not None:
            super().ensure_valid(name, value)


# A row: how the value is parsed, its description, and how a form shows it; each on one line of any length.
# fmt: off
COMMON_CONFIG = ConfigDef(
    [
        ConfigKey("name", _STRING, REQUIRED,
            "The name of the connector, unique in a group of workers.",
            NonEmptyWithoutControlCharacters(), _HIGH, _COMMON, 1, Width.MEDIUM, "Connector name"),
        ConfigKey("connector.class", _STRING, REQUIRED,
            "The connector: its full name, or its class, with or without Connector at the end.",
            None, _HIGH, _COMMON, 2, Width.LONG, "Connector class"),
        ConfigKey("connector.plugin.version", _STRING, None,
            "The version of the connector, or a range of them such as [1.0,2.0).",
            VersionRequirement(), _MEDIUM, _COMMON, 3, Width.MEDIUM, "Connector version"),
        ConfigKey("tasks.max", _INT, "1",
            "The maximum number of tasks of the connector.",
            Range(1), _HIGH, _COMMON, 4, Width.SHORT, "Tasks max"),
        ConfigKey("tasks.max.enforce", _BOOLEAN, "true",
            "Whether a connector that creates more tasks than tasks.max fails. Deprecated.",
            None, _LOW, _COMMON, 5, Width.SHORT, "Enforce tasks max"),
        *(
            key
            for order, (what, default) in enumerate((("key", 6), ("value", 8), ("header", 10)))
            for key in (
                ConfigKey(f"{what}.converter", _CLASS, None,
                    f"The converter of {what}s; by default the worker's. {what}.converter.<setting> configures the converter.",
                    None, _LOW, _COMMON, default, Width.SHORT, f"{what.capitalize()} converter class"),
                ConfigKey(f"{what}.converter.plugin.version", _STRING, None,
                    f"The version of the converter of {what}s, or a range of them.",
                    VersionRequirement(), _LOW, _COMMON, default + 1, Width.SHORT, f"{what.capitalize()} converter version"),
            )
        ),
        ConfigKey("transforms", _LIST, "",
            "Aliases of the transforms applied to each record, in this order. transforms.<alias>.type is the class of each.",
            UniqueAliases("transformation aliases"), _LOW, "Transforms", 12, Width.LONG, "Transforms"),
        ConfigKey("predicates", _LIST, "",
            "Aliases of the predicates that transforms may depend on. predicates.<alias>.type is the class of each.",
            UniqueAliases("predicate aliases"), _LOW, "Predicates", 13, Width.LONG, "Predicates"),
        ConfigKey("config.action.reload", _STRING, "restart",
            "The action when a config provider has a new value: restart, or none.",
            ValidString(["none", "restart"]), _LOW, _COMMON, 14, Width.MEDIUM, "Reload Action"),
        ConfigKey("errors.retry.timeout", _LONG, "0",
            "How long a failed operation is retried, in milliseconds; -1: forever.",
            None, _MEDIUM, _ERRORS, 1, Width.MEDIUM, "Retry Timeout for Errors"),
        ConfigKey("errors.retry.delay.max.ms", _LONG, "60000",
            "The longest pause between retries.",
            None, _MEDIUM, _ERRORS, 2, Width.MEDIUM, "Maximum Delay Between Retries for Errors"),
        ConfigKey("errors.tolerance", _STRING, "none",
            "none: a bad record fails the task. all: it is skipped.",
            ValidString(["none", "all"]), _MEDIUM, _ERRORS, 3, Width.SHORT, "Error Tolerance"),
        ConfigKey("errors.log.enable", _BOOLEAN, "false",
            "Whether skipped bad records are logged.",
            None, _MEDIUM, _ERRORS, 4, Width.SHORT, "Log Errors"),
        ConfigKey("errors.log.include.messages", _BOOLEAN, "false",
            "Whether the log includes the position of such a record.",
            None, _MEDIUM, _ERRORS, 5, Width.SHORT, "Log Error Details"),
    ]
)

SINK_CONFIG = ConfigDef(
    [
        ConfigKey("topics", _LIST, "",
            "The topics to read, separated by commas. Either this or topics.regex is required.",
            None, _HIGH, _COMMON, 4, Width.LONG, "Topics"),
        ConfigKey("topics.regex", _STRING, "",
            "A Java regular expression for whole names of topics to read; new matching topics are read, too.",
            JavaRegex(), _HIGH, _COMMON, 4, Width.LONG, "Topics regex"),
        ConfigKey("errors.deadletterqueue.topic.name", _STRING, "",
            "The topic for skipped records; empty for none.",
            None, _MEDIUM, _ERRORS, 6, Width.MEDIUM, "Dead Letter Queue Topic Name"),
        ConfigKey("errors.deadletterqueue.topic.replication.factor", _SHORT, "3",
            "Its replication factor if it must be created.",
            None, _MEDIUM, _ERRORS, 7, Width.MEDIUM, "Dead Letter Queue Topic Replication Factor"),
        ConfigKey("errors.deadletterqueue.context.headers.enable", _BOOLEAN, "false",
            "Whether headers describe the error of a record. Their names begin with __connect.errors.",
            None, _MEDIUM, _ERRORS, 8, Width.MEDIUM, "Enable Error Context Headers"),
    ]
)

SOURCE_CONFIG = ConfigDef(
    [
        ConfigKey("topic.creation.groups", _LIST, "",
            "Groups of topics, with settings of their own under topic.creation.<group>.",
            UniqueAliases("topic creation groups"), _LOW, "Topic Creation", 1, Width.LONG, "Topic Creation Groups"),
        ConfigKey("exactly.once.support", _STRING, "requested",
            "required: the connector is refused where exactly-once delivery is not possible.",
            CaseInsensitiveString(["REQUIRED", "REQUESTED"]), _MEDIUM, _EXACTLY_ONCE, 2, Width.SHORT, "Exactly once support"),
        ConfigKey("transaction.boundary", _STRING, "poll",
            "When a transaction ends, with exactly-once delivery. poll: after each batch. interval: a task reads one batch in each transaction.boundary.interval.ms. connector: where the connector's tasks end it, if its class supports that.",
            CaseInsensitiveString(["INTERVAL", "POLL", "CONNECTOR"]), _MEDIUM, _EXACTLY_ONCE, 3, Width.SHORT, "Transaction Boundary"),
        ConfigKey("transaction.boundary.interval.ms", _LONG, None,
            "The interval of transactions with transaction.boundary=interval; by default the worker's offset.flush.interval.ms.",
            _AtLeastOrNull(0), _LOW, _EXACTLY_ONCE, 4, Width.SHORT, "Transaction boundary interval"),
        ConfigKey("offsets.storage.topic", _STRING, None,
            "The topic of the connector's positions; by default the worker's.",
            NonEmptyString(), _LOW, "offsets.topic", 1, Width.LONG, "Offsets topic"),
    ]
)

# Barnabas's own settings for connectors. They are shown only where they are set.
OWN_CONFIG = ConfigDef(
    [
        ConfigKey("barnabas.trigger.interval.ms", _LONG, "500",
            "How often a task looks for new records. A batch that takes longer is followed by the next one immediately.",
            Range(0)),
        ConfigKey("barnabas.batch.records.max", _LONG, "500000",
            "The maximum number of records that a sink reads in one batch.",
            Range(1)),
    ]
) + AUTOSCALE_CONFIG
# fmt: on


def connector_config_def(plugin: Plugin) -> ConfigDef:
    """Return the settings of a connector of this class, without transforms and the worker's additions."""
    of_type = SINK_CONFIG if plugin.type is PluginType.SINK else SOURCE_CONFIG
    version = replace(COMMON_CONFIG["connector.plugin.version"], default=plugin.version)
    return COMMON_CONFIG + ConfigDef([version]) + of_type


def plugin_config(registry: PluginRegistry, name: str, version: str | None) -> list[ConfigKeyInfo]:
    """Return the settings of a plugin, as ``GET /connector-plugins/{name}/config`` shows them: its own, then common
    ones.

    Raise NotFound, or BadRequest for an invalid or missing version.
    """
    plugin = registry.for_listing(name, version)
    keys = list(plugin.config_def)
    if plugin.type in (PluginType.SINK, PluginType.SOURCE):
        own = {key.name for key in keys}
        keys += [key for key in connector_config_def(plugin) if key.name not in own]
    return [key_info(key) for key in keys if not key.internal]


def key_info(key: ConfigKey) -> ConfigKeyInfo:
    return ConfigKeyInfo(
        key.name,
        key.type.name,
        key.required,
        key.default_text,
        key.importance.name,
        key.documentation,
        key.group,
        key.order_in_group,
        key.width.value,
        key.display_name,
        list(key.dependents),
    )
