"""Settings as values: their resources, their values, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas.clients.admin.protocol_codes import known
from barnabas.common.config_codes import AlterConfigOpType, ConfigResourceType, ConfigSource
from barnabas.common.config_value import ConfigType

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_configs import DescribeConfigsResourceResult

__all__ = [
    "AlterConfigOp",
    "AlterConfigOpType",
    "Config",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "config_entry",
    "config_resource",
    "is_shown",
]


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource with settings. The broker with the empty name is the default of all brokers."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None = None) -> ConfigResource:
        """Return one broker; without an id the default of all brokers."""
        return cls(ConfigResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def broker_logger(cls, broker_id: int) -> ConfigResource:
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.CLIENT_METRICS, name)

    @property
    def answers_itself(self) -> bool:
        """Whether only the broker of this name can answer requests about it."""
        return self.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and self.name != ""

    def __str__(self) -> str:
        return f"{self.type.name} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. Nodes never return the value of a sensitive one: it is None. ``type`` is None if unknown."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType | None = None
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a resource by name."""

    resource: ConfigResource
    entries: Mapping[str, ConfigEntry]

    def __getitem__(self, name: str) -> ConfigEntry:
        return self.entries[name]

    def get(self, name: str) -> str | None:
        """Return the value, None without one."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One change. APPEND and SUBTRACT are for lists, separated by commas. No message contains the value."""

    name: str
    value: str | None = None
    op: AlterConfigOpType = AlterConfigOpType.SET

    @classmethod
    def set(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value)

    @classmethod
    def delete(cls, name: str) -> AlterConfigOp:
        return cls(name, None, AlterConfigOpType.DELETE)

    @classmethod
    def append(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, AlterConfigOpType.APPEND)

    @classmethod
    def subtract(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, AlterConfigOpType.SUBTRACT)

    def __repr__(self) -> str:
        return f"AlterConfigOp({self.op.name} {self.name})"


_OWN_SOURCE = {
    ConfigResourceType.TOPIC: ConfigSource.TOPIC_CONFIG,
    ConfigResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}


def is_shown(op: AlterConfigOp, config: Config) -> bool:
    """Return whether the described settings are those after the change. A secret shows only its source."""
    entry = config.entries.get(op.name)
    own = _OWN_SOURCE.get(config.resource.type)
    if own is None:
        is_one = config.resource.name != ""
        own = ConfigSource.DYNAMIC_BROKER_CONFIG if is_one else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if op.op == AlterConfigOpType.DELETE:
        return entry is None or entry.source != own
    if entry is None or (op.op == AlterConfigOpType.SET and entry.source != own):
        return False
    if entry.is_sensitive:
        return True
    if op.op == AlterConfigOpType.SET:
        return _same(entry.value, op.value)
    held, meant = _words(entry.value), _words(op.value)
    return meant <= held if op.op == AlterConfigOpType.APPEND else not meant & held


def _same(returned: str | None, given: str | None) -> bool:
    """Return whether values are equal; nodes may return 0100 as 100, TRUE as true, lists without blanks."""
    if returned is None or given is None or returned == given:
        return returned == given
    try:
        return float(returned) == float(given)
    except ValueError:
        return [item.strip().lower() for item in returned.split(",")] == [
            item.strip().lower() for item in given.split(",")
        ]


def _words(value: str | None) -> set[str]:
    return {word.strip() for word in (value or "").split(",") if word.strip()}


class _NamesResource(Protocol):
    """A part of a response that belongs to one resource."""

    resource_type: int
    resource_name: str


def config_resource(part: _NamesResource) -> ConfigResource:
    return ConfigResource(known(ConfigResourceType, part.resource_type, ConfigResourceType.UNKNOWN), part.resource_name)


def config_entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        known(ConfigSource, entry.config_source, ConfigSource.UNKNOWN),
        entry.is_sensitive,
        entry.read_only,
        tuple(
            ConfigSynonym(synonym.name, synonym.value, known(ConfigSource, synonym.source, ConfigSource.UNKNOWN))
            for synonym in entry.synonyms
        ),
        ConfigType(entry.config_type) if entry.config_type in ConfigType._value2member_map_ else None,
        entry.documentation,
    )
