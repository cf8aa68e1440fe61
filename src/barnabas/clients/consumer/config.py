"""The consumer's part of Kafka's client properties, with Kafka's names, defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.setting import BOOLEAN, INT, LONG, STRING, Setting

__all__ = ["CONSUMER_PROPERTIES", "ConsumerConfig", "consumer_config"]


_ROWS: tuple[Setting, ...] = (
    Setting("fetch.min.bytes", INT, "1", "0.."),
    Setting("fetch.max.bytes", INT, "52428800", "0.."),
    Setting("fetch.max.wait.ms", INT, "500", "0.."),
    Setting("max.partition.fetch.bytes", INT, "1048576", "0.."),
    Setting("isolation.level", STRING, "read_uncommitted", "i:read_uncommitted|read_committed"),
    Setting("check.crcs", BOOLEAN, "true"),
    Setting("retry.backoff.ms", LONG, "100", "0.."),
    Setting("retry.backoff.max.ms", LONG, "1000", "0.."),
)

CONSUMER_PROPERTIES = frozenset(row.name for row in _ROWS)


@cache
def _definition() -> ConfigDef:
    return ConfigDef(_ROWS)


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    read_committed: bool = False
    check_crcs: bool = True
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0


def consumer_config(properties: Mapping[str, str], *, source: str = "consumer settings") -> ConsumerConfig:
    """Names that are not a consumer's are left alone. Raises InvalidClientConfig with everything that is wrong."""
    definition = _definition()
    values, wrong = definition.parse_given(properties)
    problems = [f"{source}: {error}" for error in wrong]
    if properties.get("client.rack", "").strip():
        problems.append(f"{source}: client.rack can't be used: everything is fetched from leaders")
    if problems:
        raise InvalidClientConfig(problems)
    given: dict[str, Any] = {name: values.get(name, definition[name].default) for name in definition}
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
