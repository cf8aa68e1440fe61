"""Settings of a task's Kafka clients: the worker's prefixes combined with the connector's overrides.

As in Kafka, a task's clients inherit only ``bootstrap.servers`` from the worker's own client. Security settings are
written with ``consumer.``, ``producer.``, ``admin.`` in the worker's file, or ``consumer.override.`` and so on in the
connector's. The same settings configure our own clients (positions, topics) and, with the prefix ``kafka.``, Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.connect.settings.plugin_config_def import ConfigException

__all__ = [
    "admin_settings",
    "consumer_settings",
    "producer_settings",
    "spark_consumer_options",
    "spark_producer_options",
]

_PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "2147483647",
    "max.in.flight.requests.per.connection": "5",
    "batch.size": "131072",
    "linger.ms": "5",
}
"""Records keep their order and arrive once per attempt. Kafka's workers disable idempotence to support brokers
without InitProducerId, and allow only one in-flight request instead. A task writes many records together, so requests
are larger than by default: a record of 1 KB then costs half as much. 5 ms is the default of Kafka 4."""

_CONSUMER_DEFAULTS = {"max.poll.records": "2000"}
"""Spark's reader requests the start and end offsets of its partition after each poll, so a poll takes more than Kafka's
500 records: of records of 1 KB all that is fetched together. Larger fetches would be slightly faster, but the records
that a batch does not use stay in memory until the next one, for each partition."""

_SET_BY_SPARK = frozenset(
    {"key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "enable.auto.commit"}
)
_REFUSED = {
    "transactional.id": "with exactly.once.source.support=enabled the worker sets it for each task",
    "interceptor.classes": "Spark's readers and writers take no interceptors",
    "partitioner.class": "the partition is chosen by Kafka's own partitioner, or by the record's partition",
}
_NOT_FOR_SPARK = _SET_BY_SPARK | {"group.id", "auto.offset.reset", "group.instance.id"}


def consumer_settings(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """Return a consumer's settings, with ``auto.offset.reset``: by default ``earliest``, as in Kafka's workers."""
    return {"auto.offset.reset": "earliest", **_settings("consumer", worker, connector)}


def producer_settings(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    return {**_PRODUCER_DEFAULTS, **_settings("producer", worker, connector)}


def admin_settings(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    return _settings("admin", worker, connector)


def spark_consumer_options(settings: Mapping[str, str], client_id: str) -> dict[str, str]:
    """Return the settings for Spark's reader, without a group and a reset policy: the worker keeps the positions."""
    options = {name: value for name, value in settings.items() if name not in _NOT_FOR_SPARK}
    return _prefixed({"client.id": client_id, **_CONSUMER_DEFAULTS, **options})


def spark_producer_options(settings: Mapping[str, str], client_id: str) -> dict[str, str]:
    options = {name: value for name, value in settings.items() if name not in _NOT_FOR_SPARK}
    return _prefixed({"client.id": client_id, **options})


def _settings(kind: str, worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """Return the settings. Raise ConfigException for those that would otherwise be ignored."""
    settings = {"bootstrap.servers": worker.get("bootstrap.servers", "")}
    for prefix, source in ((f"{kind}.", worker), (f"{kind}.override.", connector)):
        for name, value in source.items():
            if not name.startswith(prefix):
                continue
            setting = name.removeprefix(prefix)
            if setting in _REFUSED and value.strip():
                raise ConfigException(name, value, f"It can't be used: {_REFUSED[setting]}. Remove it")
            settings[setting] = value
    return settings


def _prefixed(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}
