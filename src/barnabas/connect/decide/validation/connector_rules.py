"""Rules between several settings of a connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from barnabas.connect.settings.plugin_config_def import ConfigValue
from barnabas.security.java_regex import UnsupportedExpression, compile_java

__all__ = ["AddError", "check_aliases", "check_sink", "check_source", "consumer_group", "consumer_group_of"]


class AddError(Protocol):
    def __call__(self, name: str, error: str, value: ConfigValue = None) -> None:
        """``value`` is shown if the setting has no definition."""


_Config = Mapping[str, str | None]
_GROUP_OVERRIDE = "consumer.override.group.id"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def consumer_group(connector: str) -> str:
    """Return the default consumer group of a sink."""
    return f"connect-{connector}"


def consumer_group_of(connector: str, config: _Config) -> str:
    """Return the consumer group of a sink, which shows its progress."""
    return config.get(_GROUP_OVERRIDE) or consumer_group(connector)


def check_sink(config: _Config, values: Mapping[str, ConfigValue], worker_group: str, add: AddError) -> None:
    """Check topics, the dead-letter topic, and the consumer group. ``values`` are those of settings without errors."""
    _check_topics(config, values, add)
    group = config.get(_GROUP_OVERRIDE)
    if group is not None:
        if group == worker_group:
            add(_GROUP_OVERRIDE, f"Consumer group {group} conflicts with Connect worker group {worker_group}", group)
        return
    name = values.get("name")
    if name is not None and consumer_group(str(name)) == worker_group:
        add(
            "name", f"Consumer group for sink connector named {name} conflicts with Connect worker group {worker_group}"
        )


def _check_topics(config: _Config, values: Mapping[str, ConfigValue], add: AddError) -> None:
    has_topics = bool((config.get("topics") or "").strip())
    has_regex = bool((config.get("topics.regex") or "").strip())
    if has_topics == has_regex:
        for name in ("topics", "topics.regex"):
            if has_topics:
                add(name, "topics and topics.regex are mutually exclusive options, but both are set.")
            else:
                add(name, "Must configure one of topics or topics.regex")
    dead_letters = (config.get(_DEAD_LETTERS) or "").strip()
    if not dead_letters:
        return
    topics = values.get("topics")
    if has_topics and isinstance(topics, list) and dead_letters in topics:
        add(
            "topics",
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics "
            f"('topics=[{', '.join(topics)}]') consumed by the connector",
        )
    if has_regex and _matches(str(values.get("topics.regex") or ""), dead_letters):
        add(
            "topics.regex",
            f"The DLQ topic '{dead_letters}' may not be included in the regex matching the topics "
            f"('topics.regex={values['topics.regex']}') consumed by the connector",
        )


def _matches(expression: str, topic: str) -> bool:
    try:
        return compile_java(expression).fullmatch(topic) is not None
    except UnsupportedExpression:
        return False


_NO_EXACTLY_ONCE = "This worker does not have exactly-once source support enabled."


def check_source(values: Mapping[str, ConfigValue], add: AddError) -> None:
    """Reject exactly-once: Spark's writer has no transactions."""
    if str(values.get("exactly.once.support")).lower() == "required":
        add("exactly.once.support", f'{_NO_EXACTLY_ONCE} Use the value "requested", or omit the property.')
    if str(values.get("transaction.boundary")).lower() == "connector":
        add("transaction.boundary", f"{_NO_EXACTLY_ONCE} Omit the property.")


def check_aliases(config: _Config, values: Mapping[str, ConfigValue], add: AddError) -> None:
    """Check the predicates that transforms name. Kafka detects errors when the task starts."""
    predicates = values.get("predicates")
    known = predicates if isinstance(predicates, list) else []
    transforms = values.get("transforms")
    for alias in transforms if isinstance(transforms, list) else []:
        name, negate = f"transforms.{alias}.predicate", f"transforms.{alias}.negate"
        predicate = config.get(name)
        if predicate is not None and predicate.strip() not in known:
            add(name, f"Invalid value {predicate} for configuration {name}: predicates has no such alias", predicate)
        if negate in config and predicate is None:
            add(
                negate,
                f"Config '{negate}' was provided but there is no config '{name}' defining a predicate to be negated.",
                config[negate],
            )
