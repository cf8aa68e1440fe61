"""Explain the source of a setting's value for a topic, a group or a broker, and the value that each node returns.

A node uses its own file, so nodes with different files return different values for the same topic (KAFKA-16211). The
levels of a node are reconstructed from the synonyms of its own settings; then the resolution of every describe call
applies (``metadata.config_resolution``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.common.broker_config import broker_synonyms
from barnabas.common.group_config import group_synonym
from barnabas.common.topic_config import TOPIC_SYNONYMS
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    describe_group_configs,
    describe_topic_configs,
)

__all__ = [
    "ConfigExplanation",
    "NodeAnswer",
    "broker_settings_behind",
    "explain_broker_setting",
    "explain_group_setting",
    "explain_topic_setting",
    "levels_of",
    "reason",
]

_REASONS = {
    ConfigSource.TOPIC_CONFIG: "set on the topic",
    ConfigSource.GROUP_CONFIG: "set on the group",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "set for this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "set for all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "in the node's file",
    ConfigSource.DEFAULT_CONFIG: "the default",
}


class NodeAnswer(NamedTuple):
    """The value that a node returns. ``chain`` lists the sources in order of precedence, and is empty for a default."""

    node_id: int
    value: str | None
    source: ConfigSource
    sensitive: bool
    chain: Sequence[ConfigSynonym]

    @property
    def because(self) -> str:
        return reason(self.chain[0]) if self.chain else _REASONS[ConfigSource.DEFAULT_CONFIG]


class ConfigExplanation(NamedTuple):
    setting: str
    answers: Sequence[NodeAnswer]

    @property
    def nodes_agree(self) -> bool:
        return len({answer.value for answer in self.answers}) <= 1


def reason(synonym: ConfigSynonym) -> str:
    """Format the name and the source of a setting: ``log.retention.ms, set for all brokers``."""
    return f"{synonym.name}, {_REASONS.get(synonym.source, synonym.source.name.lower())}"


def broker_settings_behind(setting: str) -> list[str]:
    """Return the broker settings that explain a setting of a topic or group, or an empty list if none applies."""
    names = [name for name, _ in TOPIC_SYNONYMS.get(setting, ())]
    behind = group_synonym(setting)
    if behind is not None:
        names.append(behind)
    return list(dict.fromkeys(synonym for name in names for synonym in broker_synonyms(name)))


def levels_of(synonyms: Iterable[ConfigSynonym]) -> BrokerLevels:
    """Reconstruct a node's levels from the synonyms of its own settings."""
    by_source: dict[ConfigSource, dict[str, str]] = {}
    for synonym in synonyms:
        if synonym.value is not None:
            by_source.setdefault(synonym.source, {})[synonym.name] = synonym.value
    return BrokerLevels(
        by_source.get(ConfigSource.STATIC_BROKER_CONFIG, {}),
        by_source.get(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {}),
        by_source.get(ConfigSource.DYNAMIC_BROKER_CONFIG, {}),
    )


def explain_topic_setting(
    setting: str, overrides: Mapping[str, str], nodes: Mapping[int, BrokerLevels]
) -> ConfigExplanation | None:
    """Explain a setting of a topic. Return None for a setting that topics don't have."""
    answers = []
    for node_id, levels in sorted(nodes.items()):
        answers += _answers(node_id, describe_topic_configs(overrides, levels, names=[setting]))
    return ConfigExplanation(setting, answers) if answers else None


def explain_group_setting(
    setting: str, overrides: Mapping[str, str], nodes: Mapping[int, BrokerLevels]
) -> ConfigExplanation | None:
    """Explain a setting of a group. Return None for a setting that groups don't have."""
    answers = []
    for node_id, levels in sorted(nodes.items()):
        answers += _answers(node_id, describe_group_configs(overrides, levels, names=[setting]))
    return ConfigExplanation(setting, answers) if answers else None


def explain_broker_setting(node_id: int, entry: ConfigEntry) -> ConfigExplanation:
    """Explain a node's own setting from the node's description of it."""
    return ConfigExplanation(entry.name, _answers(node_id, [entry]))


def _answers(node_id: int, entries: Iterable[ConfigEntry]) -> list[NodeAnswer]:
    return [NodeAnswer(node_id, entry.value, entry.source, entry.sensitive, entry.synonyms) for entry in entries]
