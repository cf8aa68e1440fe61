"""Resolves the effective configs of a topic, as the controller sees them.

An override of the topic, else a dynamic setting of this node as a broker, else one of all brokers, else
this node's file, else the built-in default. Brokers resolve with their own files, so a broker whose file
differs may answer differently (KAFKA-16211).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.common.broker_config import BROKER_CONFIG_DEF, topic_defaults
from barnabas.common.config_def import ConfigValue
from barnabas.common.topic_config import TOPIC_SYNONYMS, TopicConfig
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigSource,
    describe_topic_configs,
    effective_broker_values,
)
from barnabas.protocol.messages.create_topics import CreatableTopicConfigs

__all__ = ["ElectionSettings", "TopicConfigResolver"]


_MIN_ISR = "min.insync.replicas"
_UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ElectionSettings(NamedTuple):
    min_isr: int
    is_unclean_enabled: bool


class TopicConfigResolver:
    """The inherited configs are computed once per state of the brokers' configs, not once per topic."""

    def __init__(self, state: ControllerState, config: ControllerConfig) -> None:
        self._state = state
        self._config = config
        self._for: BrokerLevels | None = None
        self._broker_values: dict[str, ConfigValue] = {}
        self._texts: dict[str, str] = {}
        self._described: list[CreatableTopicConfigs] = []
        self._inherited = TopicConfig()
        self._inherited_election = ElectionSettings(1, False)

    def default_texts(self) -> Mapping[str, str]:
        """Return the configs of a topic without overrides, by name."""
        self._refresh()
        return self._texts

    def broker_values(self) -> Mapping[str, ConfigValue]:
        """Return the typed broker settings in force at this node; missing ones have the built-in default."""
        self._refresh()
        return self._broker_values

    def election_settings(self, overrides: Mapping[str, str]) -> ElectionSettings:
        self._refresh()
        if _MIN_ISR not in overrides and _UNCLEAN_ELECTION not in overrides:
            return self._inherited_election
        config = self._inherited.with_overrides(overrides)
        return ElectionSettings(config.min_insync_replicas, config.unclean_leader_election_enable)

    def described(self, overrides: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
        """Return every setting in the form of a CreateTopics answer, sorted by name; don't change the result."""
        self._refresh()
        if not overrides:
            return self._described
        own = int(ConfigSource.TOPIC_CONFIG)
        return [
            inherited
            if (value := overrides.get(inherited.name)) is None
            else CreatableTopicConfigs(name=inherited.name, value=value, config_source=own)
            for inherited in self._described
        ]

    def _refresh(self) -> None:
        configs = self._state.image.configs
        cluster, broker = configs.of_all_brokers(), configs.of_broker(self._config.node_id)
        known = self._for
        if known is not None and known.cluster is cluster and known.broker is broker:
            return
        levels = self._for = BrokerLevels(self._config.static_configs, cluster, broker)
        self._broker_values = effective_broker_values(levels)
        for name in _GROUP_BOUNDS:
            key = BROKER_CONFIG_DEF[name]
            self._broker_values.setdefault(name, key.default)
        self._inherited = topic_defaults(self._broker_values)
        self._inherited_election = ElectionSettings(
            self._inherited.min_insync_replicas, self._inherited.unclean_leader_election_enable
        )
        entries = describe_topic_configs({}, levels)
        self._texts = {entry.name: entry.value for entry in entries if entry.value is not None}
        self._described = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=int(_source(entry.name, levels)),
                is_sensitive=entry.sensitive,
            )
            for entry in entries
        ]


_GROUP_BOUNDS = [
    name for name in BROKER_CONFIG_DEF if name.startswith("group.") and (".min." in name or ".max." in name)
]


def _source(name: str, levels: BrokerLevels) -> ConfigSource:
    """Return the strongest level that sets a topic setting's broker setting, under any of its names.

    DescribeConfigs is stricter: there a level only counts from the setting's first name on.
    """
    names = [synonym for synonym, _ in TOPIC_SYNONYMS.get(name, ())]
    for level, source in (
        (levels.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (levels.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (levels.static, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        if any(synonym in level for synonym in names):
            return source
    return ConfigSource.DEFAULT_CONFIG
