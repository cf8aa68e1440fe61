"""Rules between several settings of a connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.connect.settings.plugin_config_def import ConfigValue
from barnabas.security.java_regex import UnsupportedExpression, compile_java

if TYPE_CHECKING:
    from barnabas.connect.plugins.api import SourceConnector

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


_EXACTLY_ONCE = "exactly.once.support"
_BOUNDARY = "transaction.boundary"
_NOT_ENABLED = "This worker does not have exactly-once source support enabled."
_NOT_SUPPORTED = "The connector does not support exactly-once semantics with the provided configuration."
_NOT_DECLARED = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then "
    'consider reconfiguring the connector to use the value "requested" for this property (which will disable this '
    "preflight check and allow the connector to be created)."
)
_NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
    "reconfigure it to use a different transaction boundary definition."
)
_NULL_BOUNDARIES = (
    "This connector has returned a null value from its canDefineTransactionBoundaries method, which is not permitted. "
    "The connector will be treated as if it cannot define its own transaction boundaries, and cannot be configured "
    "with 'transaction.boundary' set to 'connector'."
)
_OTHER_CLUSTER = "producer.override.bootstrap.servers"


def check_source(
    config: _Config,
    values: Mapping[str, ConfigValue],
    connector: type[SourceConnector],
    add: AddError,
    *,
    is_exactly_once_enabled: bool,
) -> None:
    """Check exactly-once delivery and the boundaries of transactions (KIP-618)."""
    if str(values.get(_EXACTLY_ONCE)).lower() == "required":
        if not is_exactly_once_enabled:
            add(_EXACTLY_ONCE, _NOT_ENABLED)
        error = _exactly_once_error(config, connector)
        if error is not None:
            add(_EXACTLY_ONCE, error)
    if str(values.get(_BOUNDARY)).lower() == "connector":
        error = _boundary_error(config, connector)
        if error is not None:
            add(_BOUNDARY, error)
    if is_exactly_once_enabled and config.get(_OTHER_CLUSTER):
        add(
            _OTHER_CLUSTER,
            f"Invalid value {config[_OTHER_CLUSTER]} for configuration {_OTHER_CLUSTER}: with "
            "exactly.once.source.support=enabled records and offsets are one transaction, so a source writes to the "
            "cluster of the worker. Remove it, or run the connector in another group of workers",
            config[_OTHER_CLUSTER],
        )


def _exactly_once_error(config: _Config, connector: type[SourceConnector]) -> str | None:
    try:
        is_supported = connector.exactly_once_support(_given(config))
    except Exception as error:  # A plugin may raise anything.
        return _unexpected(error)
    if is_supported is None:
        return _NOT_DECLARED
    return None if is_supported else _NOT_SUPPORTED


def _boundary_error(config: _Config, connector: type[SourceConnector]) -> str | None:
    try:
        is_supported: bool | None = connector.can_define_transaction_boundaries(_given(config))
    except Exception as error:  # A plugin may raise anything.
        return _unexpected(error)
    if is_supported is None:
        return _NULL_BOUNDARIES
    return None if is_supported else _NO_BOUNDARIES


def _given(config: _Config) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}


def _unexpected(error: Exception) -> str:
    text = str(error).strip()
    return "An unexpected error occurred during validation" + (
        f": {text}" if text else "; please see the worker logs for more details."
    )


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
