"""All plugins of a worker, by the names that users write for them.

A name is a full name, or a sufficient part of it: the class, with or without the suffix of its kind (FileStreamSource
for FileStreamSourceConnector). An ambiguous name identifies no plugin. ``module:Class`` is a full name as well. This
module imports nothing: a request can't use a class that is not registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.connect.decide.registry.plugin import CONNECTORS, Plugin, PluginType
from barnabas.connect.decide.registry.plugin_versions import (
    ANY_VERSION,
    InvalidVersionRange,
    VersionRange,
    parse_version_range,
)
from barnabas.connect.entities import PluginInfo
from barnabas.connect.errors import BadRequest, NotFound
from barnabas.connect.identifiers import ConnectorType

if TYPE_CHECKING:
    from barnabas.connect.plugins.api import Connector

__all__ = ["PluginRegistry", "UnknownPlugin", "VersionNotFound"]


_SHOWN_LENGTH_MAX = 200
"""The maximum length shown of a name from a request."""


class UnknownPlugin(BadRequest):
    """No plugin has the name, or more than one."""


class VersionNotFound(BadRequest):
    """The plugin is installed, but no version of it is in the range."""

    def __init__(self, name: str, wanted: VersionRange, versions: Sequence[str]) -> None:
        super().__init__(
            f"Plugin {name} not found that matches the version range {wanted}, "
            f"available versions: [{', '.join(versions)}]"
        )
        self.versions = tuple(versions)


class PluginRegistry:
    def __init__(
        self,
        plugins: Iterable[Plugin],
        *,
        problems: Sequence[str] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        order = list(PluginType)
        self._plugins = sorted(plugins, key=lambda plugin: (order.index(plugin.type), plugin.order))
        self.problems = tuple(problems)
        """One line for each plugin that could not be loaded, with the reason. The worker runs without it."""
        self._refused = dict(refused or {})

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._plugins)

    def of_type(self, *types: PluginType) -> list[Plugin]:
        return [plugin for plugin in self._plugins if plugin.type in types]

    def listing(self, *, connectors_only: bool = True) -> list[PluginInfo]:
        """Return sinks, sources, transformations, predicates, converters, header converters."""
        shown = self.of_type(*CONNECTORS) if connectors_only else self._plugins
        return [PluginInfo(plugin.name, plugin.type.text, plugin.version) for plugin in shown]

    def versions(self, name: str, *types: PluginType) -> list[str]:
        """Return the versions of a plugin, the oldest first. Empty if it is unknown, or has no version."""
        try:
            return [plugin.version for plugin in self._named(name, types) if plugin.version is not None]
        except UnknownPlugin:
            return []

    def find(self, name: str, *types: PluginType, version: str | None = None) -> Plugin:
        """Return the newest matching version. Raise UnknownPlugin, VersionNotFound, or BadRequest (invalid range)."""
        found = self._named(name, types)
        wanted = _range(version)
        matching = [plugin for plugin in found if plugin.version in wanted]
        if not matching:
            raise VersionNotFound(
                found[0].name, wanted, [plugin.version for plugin in found if plugin.version is not None]
            )
        return matching[-1]

    def record_plugins(self) -> dict[str, Any]:
        """Return the classes of transforms, predicates and converters from other packages, by their full names."""
        return {
            name: plugin.target
            for plugin in self._plugins
            if plugin.type not in CONNECTORS and plugin.target is not None
            for name in plugin.full_names
        }

    def refusal(self, name: str) -> str | None:
        """Return why an installed plugin of this name could not be loaded; None for an unknown name."""
        return self._refused.get(name)

    def connector(self, name: str, version: str | None = None) -> Plugin:
        """Return the connector. Raise UnknownPlugin, which lists all connectors, or VersionNotFound."""
        return self.find(name, *CONNECTORS, version=version)

    def connector_of(self, config: Mapping[str, str | None]) -> Plugin:
        """Return the plugin of ``connector.class`` and ``connector.plugin.version``. Raise as ``connector``."""
        return self.connector((config.get("connector.class") or "").strip(), config.get("connector.plugin.version"))

    def connector_class(self, config: Mapping[str, str | None]) -> type[Connector]:
        """Return the class. Raise as ``connector``."""
        found: type[Connector] = self.connector_of(config).target
        return found

    def with_full_names(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a connector with the full names of its converters, transforms and predicates.

        Tasks need these. An unknown or ambiguous name is unchanged.
        """
        full = dict(config)
        for name, text in config.items():
            types = _types_of(name)
            if types:
                try:
                    full[name] = self.find(text.strip(), *types).name
                except BadRequest:
                    continue
        return full

    def connector_type(self, config: Mapping[str, str | None]) -> ConnectorType:
        """Return the type; UNKNOWN for a class that this worker does not have."""
        try:
            return ConnectorType(self.connector_of(config).type.text)
        except BadRequest:
            return ConnectorType.UNKNOWN

    def connector_version(self, config: Mapping[str, str | None]) -> str | None:
        try:
            return self.connector_of(config).version
        except BadRequest:
            return None

    def for_listing(self, name: str, version: str | None) -> Plugin:
        """Return the plugin whose settings are requested. Raise NotFound, or VersionNotFound.

        As with Kafka a nested class (``MaskField$Key``) needs its full name.
        """
        wanted = _range(version)
        found = [plugin for plugin in self._plugins if name in plugin.full_names]
        found = found or ([plugin for plugin in self._plugins if name in plugin.short_names] if "$" not in name else [])
        if not found:
            raise NotFound(self._refused.get(name) or f"Unknown plugin {name[:_SHOWN_LENGTH_MAX]}.")
        same = [plugin for plugin in found if plugin.name == found[0].name and plugin.type is found[0].type]
        matching = [plugin for plugin in same if plugin.version in wanted]
        if not matching:
            raise VersionNotFound(
                same[0].name, wanted, [plugin.version for plugin in same if plugin.version is not None]
            )
        return matching[-1]

    def _named(self, name: str, types: Sequence[PluginType]) -> list[Plugin]:
        candidates = self.of_type(*types) if types else self._plugins
        found = [plugin for plugin in candidates if name in plugin.full_names]
        found = found or [plugin for plugin in candidates if name in plugin.short_names]
        names = sorted({plugin.name for plugin in found})
        if len(names) > 1:
            raise UnknownPlugin(
                f"More than one {self._noun(types)} matches {name}, please use a full name: {', '.join(names)}"
            )
        if not found and name in self._refused:
            raise UnknownPlugin(self._refused[name])
        if not found:
            available = ", ".join(str(plugin) for plugin in candidates)
            raise UnknownPlugin(
                f"Failed to find any class that implements {self._noun(types)} and which name matches "
                f"{name[:_SHOWN_LENGTH_MAX]}, available {types[0].suffix.lower() if types else 'plugin'}s are: "
                f"{available}{_how_to_allow(name, types)}"
            )
        return found

    @staticmethod
    def _noun(types: Sequence[PluginType]) -> str:
        if not types or len(types) > 1:
            return "Connector"
        return types[0].noun


_GROUPS = {PluginType.TRANSFORMATION: "transforms", PluginType.PREDICATE: "predicates"}


def _how_to_allow(name: str, types: Sequence[PluginType]) -> str:
    """Return how to make a worker load a class that may be installed."""
    if ":" not in name:
        return ""
    is_connector = not types or set(types) & set(CONNECTORS)
    group = "barnabas.connectors" if is_connector else f"barnabas.{_GROUPS.get(types[0], 'converters')}"
    return (
        f". A worker loads plugins of other packages only if an entry point of {group} announces them, "
        "or barnabas.connect.plugins of the worker's settings lists them"
    )


def _types_of(setting: str) -> tuple[PluginType, ...]:
    """Return the types of plugins that a connector's setting may name; none for most settings."""
    if setting in ("key.converter", "value.converter"):
        return (PluginType.CONVERTER,)
    if setting == "header.converter":
        return (PluginType.HEADER_CONVERTER,)
    parts = setting.split(".")
    if len(parts) == 3 and parts[2] == "type":
        return {"transforms": (PluginType.TRANSFORMATION,), "predicates": (PluginType.PREDICATE,)}.get(parts[0], ())
    return ()


def _range(version: str | None) -> VersionRange:
    try:
        return ANY_VERSION if version is None else parse_version_range(version)
    except InvalidVersionRange as error:
        raise BadRequest(str(error)) from None
