"""The producer's part of Kafka's client properties, with Kafka's names, defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.setting import BOOLEAN, INT, LONG, STRING, Setting
from barnabas.protocol.compression import Compression

__all__ = ["PRODUCER_PROPERTIES", "ProducerConfig", "producer_config"]

_MAX_IN_FLIGHT = "max.in.flight.requests.per.connection"
_IDEMPOTENT_IN_FLIGHT = 5


_ROWS: tuple[Setting, ...] = (
    Setting("acks", STRING, "all", "all|-1|0|1"),
    Setting("batch.size", INT, "16384", "0.."),
    Setting("linger.ms", LONG, "5", "0.."),
    Setting("compression.type", STRING, "none", "none|gzip|snappy|lz4|zstd"),
    Setting("compression.gzip.level", INT, "-1", "gzip-level"),
    Setting("compression.lz4.level", INT, "9", "1..17"),
    Setting("compression.zstd.level", INT, "3", "-131072..22"),
    Setting("buffer.memory", LONG, "33554432", "0.."),
    Setting("max.request.size", INT, "1048576", "0.."),
    Setting(_MAX_IN_FLIGHT, INT, "5", "1.."),
    Setting("enable.idempotence", BOOLEAN, "true"),
    Setting("request.timeout.ms", INT, "30000", "0.."),
    Setting("delivery.timeout.ms", INT, "120000", "0.."),
    Setting("retries", INT, "2147483647", "0.."),
    Setting("retry.backoff.ms", LONG, "100", "0.."),
    Setting("retry.backoff.max.ms", LONG, "1000", "0.."),
)

PRODUCER_PROPERTIES = frozenset(row.name for row in _ROWS)

_REFUSED = {
    "transactional.id": "this producer has no transactions",
    "partitioner.class": "a batch goes to the partition that has the least to send",
    "interceptor.classes": "Java classes can't be used",
}


@cache
def _definition() -> ConfigDef:
    return ConfigDef(_ROWS)


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """``idempotence`` is None when not configured: then it is used where the cluster supports it."""

    acks: int = -1
    batch_size: int = 16384
    linger_s: float = 0.005
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_in_flight: int = 5
    idempotence: bool | None = None
    request_timeout_ms: int = 30_000
    delivery_timeout_s: float = 120.0
    retries: int = 2**31 - 1
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0


def producer_config(properties: Mapping[str, str], *, source: str = "producer settings") -> ProducerConfig:
    """Names that are not a producer's are left alone. Raises InvalidClientConfig with everything that is wrong."""
    definition = _definition()
    values, wrong = definition.parse_given(properties)
    problems = [f"{source}: {error}" for error in wrong]
    problems += [
        f"{source}: {name} can't be used: {why}" for name, why in _REFUSED.items() if properties.get(name, "").strip()
    ]
    given = {name: values.get(name, definition[name].default) for name in definition}
    if not problems:
        problems += [f"{source}: {problem}" for problem in _contradictions(given, values)]
    if problems:
        raise InvalidClientConfig(problems)
    return _config(given, values)


def _config(given: Mapping[str, Any], said: Mapping[str, Any]) -> ProducerConfig:
    compression = Compression[given["compression.type"].upper()]
    level = given.get(f"compression.{given['compression.type']}.level")
    acks = _acks(given)
    idempotence = said.get("enable.idempotence")
    if idempotence is None and (acks != -1 or given["retries"] == 0 or given[_MAX_IN_FLIGHT] > _IDEMPOTENT_IN_FLIGHT):
        idempotence = False
    return ProducerConfig(
        acks=acks,
        batch_size=given["batch.size"],
        linger_s=given["linger.ms"] / 1000,
        compression=compression,
        compression_level=level,
        buffer_memory=given["buffer.memory"],
        max_request_size=given["max.request.size"],
        max_in_flight=given[_MAX_IN_FLIGHT],
        idempotence=idempotence,
        request_timeout_ms=given["request.timeout.ms"],
        delivery_timeout_s=given["delivery.timeout.ms"] / 1000,
        retries=given["retries"],
        retry_backoff_s=given["retry.backoff.ms"] / 1000,
        retry_backoff_max_s=given["retry.backoff.max.ms"] / 1000,
    )


def _acks(given: Mapping[str, Any]) -> int:
    return -1 if given["acks"] == "all" else int(given["acks"])


def _contradictions(given: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    if said.get("enable.idempotence"):
        if _acks(given) != -1:
            problems.append(f"enable.idempotence=true needs acks=all, and it is {given['acks']}")
        if given["retries"] == 0:
            problems.append("enable.idempotence=true needs retries, and it is 0")
        if given[_MAX_IN_FLIGHT] > _IDEMPOTENT_IN_FLIGHT:
            problems.append(
                f"enable.idempotence=true needs {_MAX_IN_FLIGHT} of at most {_IDEMPOTENT_IN_FLIGHT}, "
                f"and it is {given[_MAX_IN_FLIGHT]}"
            )
    needed = given["linger.ms"] + given["request.timeout.ms"]
    if given["delivery.timeout.ms"] < needed and "delivery.timeout.ms" in said:
        problems.append(
            f"delivery.timeout.ms={given['delivery.timeout.ms']} must be at least linger.ms and request.timeout.ms "
            f"together, which are {needed}"
        )
    return problems
