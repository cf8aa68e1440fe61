"""Topics of connectors: those that a sink reads, and those that are created for a source or for dead letters.

KIP-158: a source's new topics are created as ``topic.creation.*`` of the connector says. The groups are tried in the
listed order, then ``default``; a name belongs to a group if it matches one of ``include`` and none of
``exclude``. Without these settings, or with ``topic.creation.enable=false`` on the worker, the brokers create topics
(``auto.create.topics.enable``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import (
    AdminError,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.config_value import ConfigType, parse_value
from barnabas.connect.settings.plugin_config_def import ConfigException

if TYPE_CHECKING:
    from barnabas.clients.admin.sync_client import SyncAdminClient

__all__ = ["TopicRules", "create_missing", "dead_letter_rule", "partition_counts", "subscribed"]

_PREFIX = "topic.creation."
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class TopicRule:
    """How a topic is created; None leaves it to the brokers."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)
    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()

    def matches(self, topic: str) -> bool:
        if any(pattern.fullmatch(topic) for pattern in self.exclude):
            return False
        return any(pattern.fullmatch(topic) for pattern in self.include)


@dataclass(frozen=True, slots=True)
class TopicRules:
    groups: tuple[TopicRule, ...]
    default: TopicRule

    @classmethod
    def of(cls, connector_config: Mapping[str, str], *, is_enabled: bool) -> TopicRules | None:
        """Parse the settings. Return None if barnabas creates no topics. Raise ConfigException."""
        if not is_enabled or not any(name.startswith(_PREFIX) for name in connector_config):
            return None
        names = [part.strip() for part in connector_config.get(f"{_PREFIX}groups", "").split(",") if part.strip()]
        default = _rule(connector_config, _DEFAULT, None)
        return cls(tuple(_rule(connector_config, name, default) for name in names if name != _DEFAULT), default)

    def rule_for(self, topic: str) -> TopicRule:
        return next((rule for rule in self.groups if rule.matches(topic)), self.default)


def _rule(config: Mapping[str, str], group: str, default: TopicRule | None) -> TopicRule:
    prefix = f"{_PREFIX}{group}."
    settings = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    numbers: dict[str, int | None] = {}
    for name, inherited in (
        ("partitions", default.partitions if default else None),
        ("replication.factor", default.replication_factor if default else None),
    ):
        text = settings.pop(name, None)
        if text is None:
            if default is None:
                raise ConfigException(prefix + name, None, "It is required where topics are created for a source")
            numbers[name] = inherited
            continue
        number = parse_value(ConfigType.INT, text, prefix + name)
        if not isinstance(number, int) or (number < 1 and number != -1):
            raise ConfigException(prefix + name, text, "Write a number from 1, or -1 for the brokers' default")
        numbers[name] = None if number == -1 else number
    include = _patterns(prefix + "include", settings.pop("include", ""))
    exclude = _patterns(prefix + "exclude", settings.pop("exclude", ""))
    if default is not None and not include:
        raise ConfigException(prefix + "include", None, "A group of topics needs their names, or patterns of names")
    return TopicRule(numbers["partitions"], numbers["replication.factor"], settings, include, exclude)


def _patterns(name: str, text: str) -> tuple[re.Pattern[str], ...]:
    found: list[re.Pattern[str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(re.compile(part))
        except re.error as error:
            raise ConfigException(name, part, f"It is not a regular expression: {error}") from None
    return tuple(found)


def dead_letter_rule(replication_factor: int) -> TopicRule:
    """Return the rule for a dead-letter topic: one partition, as Kafka's workers create it."""
    return TopicRule(1, None if replication_factor == -1 else replication_factor)


def create_missing(admin: SyncAdminClient, wanted: Mapping[str, TopicRule]) -> list[str]:
    """Create the topics that do not exist. Return the names of the new ones. Another creator being faster is not an
    error.

    Raise AdminError or ClientError.
    """
    found = admin.describe_topics(list(wanted))
    missing = [str(name) for name, error in found.errors.items() if isinstance(error, UnknownTopicOrPartition)]
    if not missing:
        return []
    topics = [
        NewTopic(name, wanted[name].partitions, wanted[name].replication_factor, dict(wanted[name].configs))
        for name in missing
    ]
    results = admin.create_topics(topics, wait=True)
    for error in results.errors.values():
        if not isinstance(error, TopicAlreadyExists):
            raise error
    return [str(name) for name in results.values]


def subscribed(names: Iterable[str], topics: Sequence[str], pattern: str | None) -> list[str]:
    """Return those of ``names`` that a sink with these settings reads. Raise ConfigException for a bad pattern."""
    if pattern is None:
        wanted = set(topics)
        return sorted(name for name in names if name in wanted)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigException("topics.regex", pattern, f"It is not a regular expression: {error}") from None
    return sorted(name for name in names if compiled.fullmatch(name))


def partition_counts(
    admin: SyncAdminClient, topics: Sequence[str] | None = None, *, pattern: str | None = None
) -> dict[str, int]:
    """Return the partition counts of topics: the named ones, the matching ones, or all. Unknown ones are omitted.

    No pattern matches internal topics. Raise AdminError or ClientError.
    """
    names = list(topics) if topics is not None else [topic.name for topic in admin.list_topics()]
    if pattern is not None:
        names = subscribed(names, (), pattern)
    if not names:
        return {}
    found = admin.describe_topics(names)
    refused: list[AdminError] = [
        error
        for error in found.errors.values()
        if not isinstance(error, UnknownTopicOrPartition | TopicAuthorizationFailed)
    ]
    if refused:
        raise refused[0]
    return {str(name): len(description.partitions) for name, description in found.values.items()}
