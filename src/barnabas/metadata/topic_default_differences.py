"""Finds differences between brokers' default settings of topics, because their files differ.

A topic without its own settings behaves by those of its leader, and is described by the broker that answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.broker_config import BROKER_CONFIG_DEF, topic_default_texts
from barnabas.common.topic_config import TOPIC_SYNONYMS
from barnabas.metadata.config_resolution import BrokerLevels, ConfigSource, effective_broker_values

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_configs import DescribeConfigsResourceResult

__all__ = ["SETTINGS_OF_TOPIC_DEFAULTS", "TopicDefaultDifference", "static_settings", "topic_default_differences"]

SETTINGS_OF_TOPIC_DEFAULTS: Sequence[str] = tuple(
    dict.fromkeys(name for synonyms in TOPIC_SYNONYMS.values() for name, _ in synonyms if name in BROKER_CONFIG_DEF)
)
"""A broker's settings that topics inherit."""


class TopicDefaultDifference(NamedTuple):
    topic_setting: str
    broker_settings: tuple[str, ...]
    own: str
    other: str


def static_settings(described: Sequence[DescribeConfigsResourceResult]) -> dict[str, str]:
    """Return the settings of a broker's file, from a DescribeConfigs response with synonyms."""
    return {
        synonym.name: synonym.value
        for config in described
        for synonym in config.synonyms
        if synonym.source == ConfigSource.STATIC_BROKER_CONFIG and synonym.value is not None
    }


def topic_default_differences(own: Mapping[str, str], other: Mapping[str, str]) -> list[TopicDefaultDifference]:
    """Return the differences between the settings of two files."""
    ours, theirs = _texts(own), _texts(other)
    return [
        TopicDefaultDifference(name, tuple(word for word, _ in TOPIC_SYNONYMS[name]), ours[name], theirs[name])
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]


def _texts(static: Mapping[str, str]) -> dict[str, str]:
    return topic_default_texts(effective_broker_values(BrokerLevels(static)))
