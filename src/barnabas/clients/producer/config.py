"""The client properties of producers, with Kafka's names, defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.client_settings import ProducerSettings, working_rows
from barnabas.protocol.compression import Compression

__all__ = ["PRODUCER_PROPERTIES", "ProducerConfig", "producer_config"]

_MAX_IN_FLIGHT = ProducerSettings.max_in_flight_requests_per_connection.name
_IDEMPOTENT_IN_FLIGHT = 5

_DEFINITION = ConfigDef(working_rows(ProducerSettings))
_DEFAULTS: dict[str, Any] = {name: _DEFINITION[name].default for name in _DEFINITION}

PRODUCER_PROPERTIES = frozenset(_DEFINITION)

_REFUSED = {
    "partitioner.class": "this producer sends a batch to the partition with the fewest unsent bytes",
    "interceptor.classes": "Java classes can't be used",
}


def _acks(given: Mapping[str, Any]) -> int:
    return -1 if given["acks"] == "all" else int(given["acks"])


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Settings of a producer. If ``idempotence`` is None, it is used if the cluster supports it.

    ``transactional_id`` is for ``TransactionalProducer`` alone.
    """

    acks: int = _acks(_DEFAULTS)
    batch_size: int = _DEFAULTS["batch.size"]
    linger_s: float = _DEFAULTS["linger.ms"] / 1000
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    buffer_memory: int = _DEFAULTS["buffer.memory"]
    max_request_size: int = _DEFAULTS["max.request.size"]
    max_in_flight: int = _DEFAULTS[_MAX_IN_FLIGHT]
    idempotence: bool | None = None
    request_timeout_ms: int = _DEFAULTS["request.timeout.ms"]
    delivery_timeout_s: float = _DEFAULTS["delivery.timeout.ms"] / 1000
    retries: int = _DEFAULTS["retries"]
    retry_backoff_s: float = _DEFAULTS["retry.backoff.ms"] / 1000
    retry_backoff_max_s: float = _DEFAULTS["retry.backoff.max.ms"] / 1000
    transactional_id: str | None = None
    transaction_timeout_ms: int = _DEFAULTS["transaction.timeout.ms"]


def producer_config(
    properties: Mapping[str, str], *, source: str = "producer settings", is_transactional: bool = False
) -> ProducerConfig:
    """Parse a producer's properties and ignore others. Raise InvalidClientConfig with all problems.

    Only a caller that ``is_transactional`` accepts ``transactional.id``.
    """
    values, wrong = _DEFINITION.parse_given(properties)
    problems = [f"{source}: {error}" for error in wrong]
    refused = _REFUSED if is_transactional else _REFUSED | {"transactional.id": "this producer has no transactions"}
    problems += [
        f"{source}: {name} can't be used: {why}" for name, why in refused.items() if properties.get(name, "").strip()
    ]
    given = _DEFAULTS | values
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
        transactional_id=given["transactional.id"] or None,
        transaction_timeout_ms=given["transaction.timeout.ms"],
    )


def _contradictions(given: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    if given["transactional.id"]:
        if said.get("enable.idempotence") is False:
            problems.append("transactional.id needs enable.idempotence=true, but it is false")
        problems += _not_idempotent("transactional.id", given)
    elif said.get("enable.idempotence"):
        problems += _not_idempotent("enable.idempotence=true", given)
    needed = given["linger.ms"] + given["request.timeout.ms"]
    if given["delivery.timeout.ms"] < needed and "delivery.timeout.ms" in said:
        problems.append(
            f"delivery.timeout.ms={given['delivery.timeout.ms']} must be at least the sum of linger.ms and "
            f"request.timeout.ms, which is {needed}"
        )
    return problems


def _not_idempotent(what: str, given: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []
    if _acks(given) != -1:
        problems.append(f"{what} needs acks=all, but acks is {given['acks']}")
    if given["retries"] == 0:
        problems.append(f"{what} needs retries, but retries is 0")
    if given[_MAX_IN_FLIGHT] > _IDEMPOTENT_IN_FLIGHT:
        problems.append(
            f"{what} needs {_MAX_IN_FLIGHT} of at most {_IDEMPOTENT_IN_FLIGHT}, but it is {given[_MAX_IN_FLIGHT]}"
        )
    return problems
