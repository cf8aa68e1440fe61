"""A plugin as the worker knows it: its names, version, settings, and location."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas.connect.decide.registry.plugin_versions import PluginVersion
from barnabas.connect.settings.plugin_config_def import ConfigDef

__all__ = ["CONNECTORS", "Plugin", "PluginType"]


class PluginType(Enum):
    """The value is the one in the REST API, ``noun`` is Kafka's name of the class, and listings have this order."""

    SINK = ("sink", "SinkConnector", "Connector")
    SOURCE = ("source", "SourceConnector", "Connector")
    TRANSFORMATION = ("transformation", "Transformation", "Transformation")
    PREDICATE = ("predicate", "Predicate", "Predicate")
    CONVERTER = ("converter", "Converter", "Converter")
    HEADER_CONVERTER = ("header_converter", "HeaderConverter", "Converter")

    def __init__(self, text: str, noun: str, suffix: str) -> None:
        self.text = text
        self.noun = noun
        self.suffix = suffix
        """The suffix that a simple name may omit."""


CONNECTORS = (PluginType.SINK, PluginType.SOURCE)


@dataclass(frozen=True, slots=True)
class Plugin:
    """``name`` is the full name that listings show: Kafka's name if Kafka has the plugin, else module and class.

    ``target`` is the object that is loaded: for connectors the class itself, for others the object that the task
    runtime knows under this name.
    """

    type: PluginType
    name: str
    version: str | None
    config_def: ConfigDef
    target: Any = None
    aliases: tuple[str, ...] = ()
    """Additional full names."""
    location: str = "barnabas"
    """The distribution that contains it."""
    is_for_tests: bool = False
    """Whether it moves no data. Listings have such plugins last."""
    has_short_names: bool = True
    """False for a plugin whose class name another one had first."""

    @property
    def full_names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def short_names(self) -> frozenset[str]:
        """The class, and the class without its suffix. They are valid unless another plugin has the same."""
        names: set[str] = set()
        for full_name in self.full_names if self.has_short_names else ():
            simple = full_name.replace(":", ".").rpartition(".")[2]
            names.add(simple)
            if simple.endswith(self.type.suffix) and simple != self.type.suffix:
                names.add(simple.removesuffix(self.type.suffix))
        return frozenset(names)

    @property
    def order(self) -> tuple[bool, str, PluginVersion]:
        return (self.is_for_tests, self.name, PluginVersion(self.version or ""))

    def __str__(self) -> str:
        return f"{self.name}" + (f" {self.version}" if self.version else "") + f" ({self.type.text})"
