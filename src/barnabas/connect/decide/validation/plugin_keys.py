"""Settings whose value is a plugin, and their dependent settings: version, and those of transforms and predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from barnabas.connect.decide.registry.plugin import PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.plugin_validators import ALIASES_MAX, VersionRequirement
from barnabas.connect.errors import BadRequest
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
)

__all__ = ["PluginKey", "Versions", "alias_keys", "plugin_keys"]

_ALIAS_KINDS = (
    ("transforms", PluginType.TRANSFORMATION, "Transforms", "Transformation"),
    ("predicates", PluginType.PREDICATE, "Predicates", "Predicate"),
)
_CONDITION = ConfigDef(
    [
        ConfigKey(
            "predicate",
            ConfigType.STRING,
            None,
            "The alias of the predicate that decides whether the transform applies to a record.",
        ),
        ConfigKey(
            "negate", ConfigType.BOOLEAN, "false", "Whether the transform applies where the predicate does not hold."
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PluginKey(ConfigKey):
    """A setting whose value is a plugin; parsed, it is the plugin's full name."""

    registry: PluginRegistry | None = None
    plugin_types: tuple[PluginType, ...] = ()

    def parse_type(self, value: object) -> ConfigValue:
        if value is None or self.registry is None:
            return value
        text = str(value).strip()
        for types in (self.plugin_types, tuple(PluginType)):
            try:
                return self.registry.find(text, *types).name
            except BadRequest:
                continue
        raise ConfigException(self.name, text, self.registry.refusal(text) or f"Class {text} could not be found.")

    def check(self, value: ConfigValue) -> None:
        if value is None or self.registry is None:
            return
        if value not in [plugin.name for plugin in self.registry.of_type(*self.plugin_types)]:
            noun = self.plugin_types[0].noun
            raise ConfigException(self.name, f"class {value}", f"Not a {noun}")


@dataclass(frozen=True, slots=True)
class _Plugins:
    """Recommends the plugins of a type."""

    names: tuple[str, ...]

    def valid_values(self, name: str, settings: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self.names

    def visible(self, name: str, settings: Mapping[str, ConfigValue]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Versions:
    """Recommends the versions of the plugin that another setting names."""

    of: str
    versions: Callable[[str], Sequence[str]]
    is_always_visible: bool = True

    def valid_values(self, name: str, settings: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        named = settings.get(self.of)
        return [] if named is None else list(self.versions(str(named)))

    def visible(self, name: str, settings: Mapping[str, ConfigValue]) -> bool:
        return self.is_always_visible or settings.get(self.of) is not None


def plugin_keys(
    registry: PluginRegistry,
    types: tuple[PluginType, ...],
    keys: tuple[ConfigKey, ConfigKey],
    given: str | None,
    *,
    is_version_always_visible: bool,
) -> list[ConfigKey]:
    """Return a setting for a plugin and one for its version, with the installed plugins and versions. ``given`` is the
    plugin's name if it was set; otherwise the default applies."""
    plugin_key, version_key = keys
    fields = {field: getattr(plugin_key, field) for field in ConfigKey.__dataclass_fields__}
    fields["recommender"] = _Plugins(tuple(plugin.name for plugin in registry.of_type(*types)))
    named = (given if given is not None else plugin_key.default_text) or ""
    versions = registry.versions(named.strip(), *types)
    offered = Versions(plugin_key.name, lambda alias: registry.versions(alias, *types), is_version_always_visible)
    return [
        PluginKey(**fields, registry=registry, plugin_types=types),
        replace(version_key, default=versions[-1] if versions else None, recommender=offered),
    ]


def alias_keys(registry: PluginRegistry, config: Mapping[str, str | None]) -> list[ConfigKey]:
    """Return the settings of each transform and predicate that the aliases name.

    Raise BadRequest for two aliases that share a setting.
    """
    keys: list[ConfigKey] = []
    aliases: dict[str, str] = {}
    for setting, type_, group, kind in _ALIAS_KINDS:
        listed = dict.fromkeys(alias.strip() for alias in (config.get(setting) or "").split(",") if alias.strip())
        for alias in list(listed)[:ALIASES_MAX]:  # More are refused as a whole.
            prefix = f"{setting}.{alias}."
            kind_lower, in_group = kind.lower(), f"{group}: {alias}"
            pair = (
                ConfigKey(
                    f"{prefix}type",
                    ConfigType.CLASS,
                    REQUIRED,
                    f"The class of the {kind_lower} {alias}.",
                    None,
                    Importance.HIGH,
                    in_group,
                    0,
                    Width.LONG,
                    f"{kind} type for {alias}",
                ),
                ConfigKey(
                    f"{prefix}plugin.version",
                    ConfigType.STRING,
                    None,
                    f"The version of the {kind_lower} {alias}, or a range of them.",
                    VersionRequirement(),
                    Importance.HIGH,
                    in_group,
                    1,
                    Width.LONG,
                    f"{kind} version for {alias}",
                ),
            )
            named = config.get(f"{prefix}type")
            of_alias = plugin_keys(registry, (type_,), pair, named, is_version_always_visible=True)
            own = _own_config(registry, type_, config.get(f"{prefix}type"))
            if own is not None:
                of_alias += (own + _CONDITION if setting == "transforms" else own).embedded(prefix, in_group, 2)
            for key in of_alias:
                _claim(key.name, setting, alias, aliases)
            keys += of_alias
    return keys


def _claim(name: str, setting: str, alias: str, aliases: dict[str, str]) -> None:
    """Note that the setting belongs to the alias. Raise BadRequest if it belongs to another one."""
    other = aliases.setdefault(name, alias)
    if other != alias:
        raise BadRequest(f"{name} is a setting of both {setting} aliases {other} and {alias}; rename one of them.")


def _own_config(registry: PluginRegistry, type_: PluginType, name: str | None) -> ConfigDef | None:
    try:
        return registry.find((name or "").strip(), type_).config_def
    except BadRequest:
        return None
