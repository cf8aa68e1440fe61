"""Find the plugins that a worker may load: barnabas's own, those that other packages announce by entry points, and
those that ``barnabas.connect.plugins`` lists.

The groups of the entry points are ``barnabas.connectors``, ``barnabas.transforms``, ``barnabas.predicates`` and
``barnabas.converters``. All plugins are imported here, when a worker starts: a request that names a class never causes
an import, because an import runs code. A plugin that can't be imported, or does not fit its group, is reported and
skipped: the worker starts without it, and the answer to a request that configures it has the reason.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from barnabas import __version__
from barnabas.connect.decide.registry.plugin import Plugin, PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.converters_config import CONVERTERS, HEADER_CONVERTERS
from barnabas.connect.decide.validation.transforms_config import (
    PREDICATES,
    PREDICATES_PACKAGE,
    TRANSFORMS,
    TRANSFORMS_PACKAGE,
)
from barnabas.connect.plugins.api import Connector, SinkConnector, SourceConnector
from barnabas.connect.plugins.record_plugins import Converter, Predicate, RecordPlugin, Transform
from barnabas.connect.settings.plugin_config_def import ConfigDef

__all__ = [
    "ALLOWED_SETTING",
    "GROUP",
    "OWN_CONNECTORS",
    "RECORD_GROUPS",
    "built_in_plugins",
    "connector_plugin",
    "discover",
    "record_plugin",
]

GROUP = "barnabas.connectors"

RECORD_GROUPS: Mapping[str, tuple[PluginType, type[RecordPlugin]]] = {
    "barnabas.transforms": (PluginType.TRANSFORMATION, Transform),
    "barnabas.predicates": (PluginType.PREDICATE, Predicate),
    "barnabas.converters": (PluginType.CONVERTER, Converter),
}
"""Groups of plugins between Kafka and a connector, with the class from which those of a group are derived."""

_ONLY_FULL = ("io.confluent.connect.avro.AvroConverter", "io.confluent.connect.protobuf.ProtobufConverter")
"""The short names are those of the converters that have their schema from a setting."""

# Barnabas's own connectors. They are listed here and not among the entry points, so that a checkout without a new
# installation has them all.
OWN_CONNECTORS = (
    "barnabas.connect.plugins.mock_connectors:MockSinkConnector",
    "barnabas.connect.plugins.mock_connectors:MockSourceConnector",
    "barnabas.connect_spark.connectors.files.file_stream:FileStreamSink",
    "barnabas.connect_spark.connectors.files.file_stream:FileStreamSource",
    "barnabas.connect_spark.connectors.files.files_to_topic:FilesToTopic",
    "barnabas.connect_spark.connectors.generator:Generator",
    "barnabas.connect_spark.connectors.http.topic_to_http:TopicToHttp",
    "barnabas.connect_spark.connectors.jdbc.jdbc_sink:JdbcSink",
    "barnabas.connect_spark.connectors.jdbc.jdbc_source:JdbcSource",
    "barnabas.connect_spark.connectors.delta.topic_to_delta:TopicToDelta",
    "barnabas.connect_spark.connectors.iceberg.topic_to_iceberg:TopicToIceberg",
    "barnabas.connect_spark.connectors.files.topic_to_files:TopicToFiles",
    "barnabas.connect_spark.connectors.topic_to_topic:TopicToTopic",
    "barnabas.connect_spark.connectors.postgresql.postgres_changes:PostgresChanges",
    "barnabas.connect_spark.sql.sql_pipeline:SqlPipeline",
)

_MOCKS = "barnabas.connect.plugins.mock_connectors:"

_FORMER_MODULES = {
    "barnabas.connect_spark.connectors.files.file_stream": "barnabas.connect.spark.connectors.file_stream",
    "barnabas.connect_spark.connectors.files.files_to_topic": "barnabas.connect.spark.connectors.files_to_topic",
    "barnabas.connect_spark.connectors.generator": "barnabas.connect.spark.connectors.generator",
    "barnabas.connect_spark.connectors.jdbc.jdbc_sink": "barnabas.connect.spark.connectors.jdbc_sink",
    "barnabas.connect_spark.connectors.jdbc.jdbc_source": "barnabas.connect.spark.connectors.jdbc_source",
    "barnabas.connect_spark.connectors.delta.topic_to_delta": "barnabas.connect.spark.connectors.topic_to_delta",
    "barnabas.connect_spark.connectors.files.topic_to_files": "barnabas.connect.spark.connectors.topic_to_files",
    "barnabas.connect_spark.connectors.topic_to_topic": "barnabas.connect.spark.connectors.topic_to_topic",
}
"""Earlier modules of connectors. Config topics hold these names in ``connector.class``, and they stay valid."""

ALLOWED_SETTING = "barnabas.connect.plugins"

_METHODS: Mapping[type[RecordPlugin], tuple[str, ...]] = {
    Transform: ("apply",),
    Predicate: ("test",),
    Converter: ("data_type", "decode", "encode"),
}

_MODULE_AND_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class UnusablePlugin(Exception):
    """The object of an entry point does not fit its group."""


def discover(entries: Iterable[EntryPoint] | None = None, *, allowed: Iterable[str] = ()) -> PluginRegistry:
    """Import every plugin. ``entries`` are those of all installed packages unless given.

    ``allowed`` are plugins without an entry point, as ``module:Class``.
    """
    found = (
        list(entries)
        if entries is not None
        else [entry_point for group in (GROUP, *RECORD_GROUPS) for entry_point in entry_points(group=group)]
    )
    plugins = built_in_plugins()
    problems: list[str] = []
    refused: dict[str, str] = {}
    for name in OWN_CONNECTORS:
        _collect(name, partial(_own_connector, name), plugins, problems)
    for entry in found:
        where = f"the entry point {entry.name} = {entry.value} of {_distribution(entry)}"
        problem = _collect(where, partial(_plugins_of, entry), plugins, problems)
        if problem is not None:
            refused |= dict.fromkeys(_names_of(entry), problem)
    for name in allowed:
        problem = _collect(f"{name} of {ALLOWED_SETTING}", partial(_allowed_plugin, name), plugins, problems)
        if problem is not None:
            refused |= dict.fromkeys(_names(name), problem)
    return PluginRegistry(plugins, problems=problems, refused=refused)


def _names_of(entry: EntryPoint) -> list[str]:
    """Return the names without importing anything."""
    return [entry.name, *_names(entry.value.partition("[")[0].strip())]


def _names(module_and_class: str) -> list[str]:
    full_name = module_and_class.replace(":", ".")
    return [module_and_class, full_name, full_name.rpartition(".")[2]]


def _collect(where: str, make: Callable[[], list[Plugin]], plugins: list[Plugin], problems: list[str]) -> str | None:
    """Add a new plugin, or record and return why it can't be used."""
    try:
        made = make()
    except Exception as error:  # A plugin's module may raise anything, and must not stop the worker.
        problems.append(f"{where} can't be used: {type(error).__name__}: {error}")
        return problems[-1]
    known = {(plugin.type, plugin.name) for plugin in plugins}
    plugins += [plugin for plugin in made if (plugin.type, plugin.name) not in known]
    return None


def built_in_plugins() -> list[Plugin]:
    """Return Kafka's transforms, predicates and converters, by Kafka's names."""
    rows: list[tuple[PluginType, str, ConfigDef]] = [
        *(
            (PluginType.TRANSFORMATION, f"{TRANSFORMS_PACKAGE}.{name}", plugin_class)
            for name, plugin_class in TRANSFORMS.items()
        ),
        *(
            (PluginType.PREDICATE, f"{PREDICATES_PACKAGE}.{name}", plugin_class)
            for name, plugin_class in PREDICATES.items()
        ),
        *((PluginType.CONVERTER, name, plugin_class) for name, plugin_class in CONVERTERS.items()),
        *((PluginType.HEADER_CONVERTER, name, plugin_class) for name, plugin_class in HEADER_CONVERTERS.items()),
    ]
    return [
        Plugin(type_, name, __version__, config_def, has_short_names=name not in _ONLY_FULL)
        for type_, name, config_def in rows
    ]


def connector_plugin(connector: Any, location: str, *names: str) -> Plugin:
    """Return the plugin. Its names are its class, ``module:Class``, its aliases and ``names``.

    Raise UnusablePlugin for an object that is not a complete connector. The text names the type of a foreign object and
    never shows the object, which may be full of secrets (``os.environ``)."""
    if not isinstance(connector, type):
        raise UnusablePlugin(
            f"it is an object of the class {type(connector).__name__}, and not a class derived from SourceConnector or "
            "SinkConnector"
        )
    if not issubclass(connector, Connector):
        raise UnusablePlugin(f"{connector.__name__} is not derived from SourceConnector or SinkConnector")
    if issubclass(connector, SourceConnector):
        type_ = PluginType.SOURCE
    elif issubclass(connector, SinkConnector):
        type_ = PluginType.SINK
    else:
        raise UnusablePlugin(f"{connector.__name__} is derived from neither SourceConnector nor SinkConnector")
    if getattr(connector, "task_class", None) is None:
        raise UnusablePlugin(f"{connector.__name__} has no task_class")
    if not isinstance(connector.config_def, ConfigDef):
        raise UnusablePlugin(f"the config_def of {connector.__name__} is not a ConfigDef")
    return _named_plugin(type_, connector, location, *names)


def record_plugin(plugin: Any, group: str, location: str, *names: str) -> Plugin:
    """Return the transform, predicate or converter. Its names are as for ``connector_plugin``. Raise UnusablePlugin."""
    type_, base = RECORD_GROUPS[group]
    if not isinstance(plugin, type):
        raise UnusablePlugin(
            f"it is an object of the class {type(plugin).__name__}, and not a class derived from {base.__name__}"
        )
    if not issubclass(plugin, base) or plugin is base:
        raise UnusablePlugin(f"{plugin.__name__} is not derived from {base.__name__}, as {group} needs it")
    missing = [name for name in _METHODS[base] if getattr(plugin, name) is getattr(base, name)]
    if missing:
        raise UnusablePlugin(f"{plugin.__name__} does not define {', '.join(missing)}")
    if not isinstance(plugin.config_def, ConfigDef):
        raise UnusablePlugin(f"the config_def of {plugin.__name__} is not a ConfigDef")
    return _named_plugin(type_, plugin, location, *names)


def _named_plugin(type_: PluginType, found: Any, location: str, *names: str) -> Plugin:
    name = f"{found.__module__}.{found.__qualname__}"
    others = (f"{found.__module__}:{found.__qualname__}", *names, *found.aliases)
    aliases = tuple(dict.fromkeys(other for other in others if other != name))
    return Plugin(type_, name, found.version, found.config_def, found, aliases, location)


def _allowed_plugin(name: str) -> list[Plugin]:
    if not _MODULE_AND_CLASS.fullmatch(name):
        raise UnusablePlugin(f"write {ALLOWED_SETTING} as module:Class, such as ticks.connectors:Ticks")
    found = _load(name)
    for group, (_, base) in RECORD_GROUPS.items():
        if isinstance(found, type) and issubclass(found, base):
            return [record_plugin(found, group, ALLOWED_SETTING, name)]
    return [connector_plugin(found, ALLOWED_SETTING, name)]


def _own_connector(name: str) -> list[Plugin]:
    plugin = connector_plugin(_load(name), "barnabas", *_former_names(name))
    return [replace(plugin, is_for_tests=name.startswith(_MOCKS))]


def _former_names(name: str) -> tuple[str, ...]:
    """Return the full names that a connector of barnabas had before its module moved, in both spellings."""
    module, _, class_name = name.partition(":")
    former = _FORMER_MODULES.get(module)
    return () if former is None else (f"{former}.{class_name}", f"{former}:{class_name}")


def _load(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


def _plugins_of(entry: EntryPoint) -> list[Plugin]:
    name, found = entry.value.partition("[")[0].strip(), entry.load()
    if entry.group in RECORD_GROUPS:
        return [record_plugin(found, entry.group, _distribution(entry), name)]
    return [connector_plugin(found, _distribution(entry), name)]


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown distribution"
