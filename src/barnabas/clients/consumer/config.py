"""The client properties of consumers, with Kafka's names, defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.client_settings import ConsumerSettings, working_rows

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "CONSUMER_PROPERTIES",
    "ConsumerConfig",
    "GroupConfig",
    "consumer_config",
    "consumer_values",
    "group_config",
]

_DEFINITION = ConfigDef(working_rows(ConsumerSettings))
_DEFAULTS: dict[str, Any] = {name: _DEFINITION[name].default for name in _DEFINITION}

CONSUMER_PROPERTIES = frozenset(_DEFINITION)

CLASSIC = "classic"
CONSUMER = "consumer"
_GROUP_PROTOCOL = "group.protocol"
_ONLY_WITH = {
    CLASSIC: ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"),
    CONSUMER: ("group.remote.assignor",),
}
"""Kafka's consumer refuses these properties with the other protocol."""


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    min_bytes: int = _DEFAULTS["fetch.min.bytes"]
    max_bytes: int = _DEFAULTS["fetch.max.bytes"]
    max_wait_ms: int = _DEFAULTS["fetch.max.wait.ms"]
    partition_max_bytes: int = _DEFAULTS["max.partition.fetch.bytes"]
    read_committed: bool = False
    check_crcs: bool = _DEFAULTS["check.crcs"]
    retry_backoff_s: float = _DEFAULTS["retry.backoff.ms"] / 1000
    retry_backoff_max_s: float = _DEFAULTS["retry.backoff.max.ms"] / 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """How a member takes part in its group. Without a protocol it speaks that of the group."""

    protocol: str | None = None
    instance_id: str | None = None
    remote_assignor: str | None = None
    session_timeout_ms: int = _DEFAULTS["session.timeout.ms"]
    heartbeat_interval_ms: int = _DEFAULTS["heartbeat.interval.ms"]
    max_poll_interval_ms: int = _DEFAULTS["max.poll.interval.ms"]


def consumer_config(properties: Mapping[str, str], *, source: str = "consumer settings") -> ConsumerConfig:
    """Parse a consumer's properties and ignore others. Raise InvalidClientConfig with all problems."""
    values, wrong = _DEFINITION.parse_given(properties)
    problems = [f"{source}: {error}" for error in wrong]
    if properties.get("client.rack", "").strip():
        problems.append(f"{source}: client.rack can't be used: this consumer fetches only from leaders")
    if problems:
        raise InvalidClientConfig(problems)
    given = _DEFAULTS | values
    return ConsumerConfig(
        min_bytes=given["fetch.min.bytes"],
        max_bytes=given["fetch.max.bytes"],
        max_wait_ms=given["fetch.max.wait.ms"],
        partition_max_bytes=given["max.partition.fetch.bytes"],
        read_committed=given["isolation.level"].lower() == "read_committed",
        check_crcs=given["check.crcs"],
        retry_backoff_s=given["retry.backoff.ms"] / 1000,
        retry_backoff_max_s=given["retry.backoff.max.ms"] / 1000,
    )


def consumer_values(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all consumer properties, the defaults where none is given or it is invalid."""
    return _DEFAULTS | _DEFINITION.parse_given(properties)[0]


def group_config(properties: Mapping[str, str], *, source: str = "consumer settings") -> GroupConfig:
    """Parse the properties of a member and ignore others. Raise InvalidClientConfig with all problems."""
    values, wrong = _DEFINITION.parse_given(properties)
    problems = [f"{source}: {error}" for error in wrong]
    protocol = str(values[_GROUP_PROTOCOL]).lower() if _GROUP_PROTOCOL in values else None
    problems += [
        f"{source}: {name} can't be set with {_GROUP_PROTOCOL}={protocol}"
        for other, names in _ONLY_WITH.items()
        for name in names
        if protocol not in (None, other) and name in properties
    ]
    given = _DEFAULTS | values
    if given["heartbeat.interval.ms"] >= given["session.timeout.ms"]:
        problems.append(f"{source}: heartbeat.interval.ms must be less than session.timeout.ms")
    if problems:
        raise InvalidClientConfig(problems)
    return GroupConfig(
        protocol,
        given["group.instance.id"],
        given["group.remote.assignor"],
        given["session.timeout.ms"],
        given["heartbeat.interval.ms"],
        given["max.poll.interval.ms"],
    )
