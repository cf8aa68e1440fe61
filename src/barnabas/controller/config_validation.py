"""Validates a complete set of configs of a resource: names, types, ranges, rules between settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from barnabas.common.broker_config import broker_config_key
from barnabas.common.config_def import READ_ONLY, ConfigException
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, validate_group_config
from barnabas.common.topic_config import validate_topic_config
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.topic_name_validation import validate_topic_name
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType

if TYPE_CHECKING:
    from barnabas.controller.topic_config_resolver import TopicConfigResolver

__all__ = ["UNKNOWN_BROKER_CONFIGS_MAX", "validate_configs"]

UNKNOWN_BROKER_CONFIGS_MAX: Final = 100
"""How many unknown settings are stored for a broker, or for all brokers. A plug-in may use them."""
_NAMED_MAX = 10
"""How many unknown settings an error names: finding a similar name takes milliseconds for each."""
_METRICS_INTERVAL_MS_MIN = 100
_METRICS_INTERVAL_MS_MAX = 3_600_000
_METRICS_MATCH_KEYS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_configs(
    resource: ConfigResource,
    configs: Mapping[str, str],
    existing: Mapping[str, str],
    config: ControllerConfig,
    resolver: TopicConfigResolver,
) -> None:
    if resource.type == ConfigResourceType.TOPIC:
        _validate_topic(resource, configs, existing, config, resolver)
    elif resource.type == ConfigResourceType.BROKER:
        _validate_broker(resource, configs, existing)
    elif resource.type == ConfigResourceType.CLIENT_METRICS:
        _validate_client_metrics(resource, configs)
    elif resource.type == ConfigResourceType.GROUP:
        _validate_group(resource, configs, resolver)
    else:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.type}.")


def _validate_topic(
    resource: ConfigResource,
    configs: Mapping[str, str],
    existing: Mapping[str, str],
    config: ControllerConfig,
    resolver: TopicConfigResolver,
) -> None:
    if not resource.name:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(resource.name)
    try:
        validate_topic_config(
            configs,
            previous=existing,
            defaults=resolver.default_texts(),
            remote_storage_system_enabled=config.remote_storage_system_enable,
        )
    except ConfigException as error:
        raise ApiException(ErrorCode.INVALID_CONFIG, str(error)) from error


def _validate_broker(resource: ConfigResource, configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
    """Check types and ranges too: a broker has not checked a request sent directly to the controller.

    An existing value may be invalid (Kafka accepts it), and does not prevent other changes.
    """
    if resource.name:
        try:
            broker_id = int(resource.name)
        except ValueError as error:
            raise ApiException(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.") from error
        if broker_id < 0:
            raise ApiException(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    _limit_unknown(configs, existing)
    fixed = [name for name, value in configs.items() if existing.get(name) != value and _needs_restart(name)]
    if fixed:
        raise ApiException(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]; they need a restart of the node",
        )
    problems = []
    for name, value in configs.items():
        key = broker_config_key(name)
        try:
            if key is not None and existing.get(name) != value:
                key.parse(value)
        except ConfigException as error:
            problems.append(str(error))
    if problems:
        raise ApiException(ErrorCode.INVALID_REQUEST, "; ".join(problems))


def _limit_unknown(configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
    """Raise POLICY_VIOLATION, as Kafka does for excessive requests, if the unknown settings exceed the limit."""
    unknown = [name for name in configs if broker_config_key(name) is None]
    if len(unknown) > UNKNOWN_BROKER_CONFIGS_MAX and any(name not in existing for name in unknown):
        raise ApiException(
            ErrorCode.POLICY_VIOLATION,
            f"{len(unknown)} unknown settings in one request; at most {UNKNOWN_BROKER_CONFIGS_MAX} are "
            "stored. Delete those that are not needed.",
        )


def _needs_restart(name: str) -> bool:
    key = broker_config_key(name)
    return key is not None and key.update_mode == READ_ONLY


def _validate_client_metrics(resource: ConfigResource, configs: Mapping[str, str]) -> None:
    if not resource.name:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    unknown = [
        f"Unknown client metrics configuration: {name}{CLIENT_METRICS_CONFIG_DEF.hint(name)}"
        for name in islice((name for name in configs if name not in CLIENT_METRICS_CONFIG_DEF), _NAMED_MAX)
    ]
    bad = [str(problem) for problem in CLIENT_METRICS_CONFIG_DEF.parse_given(configs)[1]]
    if unknown or bad:
        code = ErrorCode.INVALID_REQUEST if unknown else ErrorCode.INVALID_CONFIG
        raise ApiException(code, "; ".join(unknown + bad))
    values = CLIENT_METRICS_CONFIG_DEF.parse(configs)
    interval = values["interval.ms"]
    if isinstance(interval, int) and not _METRICS_INTERVAL_MS_MIN <= interval <= _METRICS_INTERVAL_MS_MAX:
        raise ApiException(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between {_METRICS_INTERVAL_MS_MIN} and "
            f"{_METRICS_INTERVAL_MS_MAX} (1 hour)",
        )
    patterns = values["match"]
    for pattern in patterns if isinstance(patterns, list) else []:
        _validate_match_pattern(pattern)


def _validate_match_pattern(pattern: str) -> None:
    """Check ``key=expression``, split as Java's ``String.split`` does: an expression can't have an equals sign."""
    key, *expressions = (part.strip() for part in pattern.rstrip("=").split("="))
    if len(expressions) != 1 or not expressions[0] or key not in _METRICS_MATCH_KEYS:
        raise ApiException(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
    from barnabas.security.java_regex import UnsupportedExpression, compile_java  # Few clusters have a subscription.

    try:
        compile_java(expressions[0])
    except UnsupportedExpression as error:
        # Kafka's text for patterns that Java refuses, too; others need a reason.
        reason = f": {error}" if "not supported" in str(error) else ""
        raise ApiException(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}{reason}") from error


def _validate_group(resource: ConfigResource, configs: Mapping[str, str], resolver: TopicConfigResolver) -> None:
    if not resource.name:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    try:
        validate_group_config(configs, resolver.broker_values())
    except ConfigException as error:
        raise ApiException(ErrorCode.INVALID_CONFIG, str(error)) from error
