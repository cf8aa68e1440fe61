"""The properties of the Java clients inside Spark that connectors override: name, type, default, importance.

A property that is not here is passed on unchecked, as clients ignore what they don't know.
"""
# A row is a line, whatever its length.

from __future__ import annotations

from functools import cache

from barnabas.common.config_value import ConfigType, Importance
from barnabas.connect.settings.plugin_config_def import ConfigKey
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF, worker_config_doc

__all__ = ["client_property"]

_Row = tuple[str, str, str | None, str, str]

_CONSUMER: tuple[_Row, ...] = (
    ("allow.auto.create.topics", "BOOLEAN", "true", "MEDIUM", "Whether asking for a topic may create it."),
    ("auto.commit.interval.ms", "INT", "5000", "LOW", "How often positions are committed by the client itself."),
    ("auto.offset.reset", "STRING", "latest", "MEDIUM", "Where to begin without a position: earliest, latest or none."),
    ("check.crcs", "BOOLEAN", "true", "LOW", "Whether checksums of records are checked."),
    ("client.rack", "STRING", "", "LOW", "The rack of the client, to read from a replica near it."),
    ("default.api.timeout.ms", "INT", "60000", "MEDIUM", "How long a call may take."),
    ("enable.auto.commit", "BOOLEAN", "true", "MEDIUM", "Whether the client commits positions by itself."),
    ("exclude.internal.topics", "BOOLEAN", "true", "MEDIUM", "Whether a pattern passes over internal topics."),
    ("fetch.max.bytes", "INT", "52428800", "MEDIUM", "How much a broker may answer at once."),
    ("fetch.max.wait.ms", "INT", "500", "LOW", "How long a broker may wait for more records."),
    ("fetch.min.bytes", "INT", "1", "HIGH", "How much a broker waits for."),
    ("group.id", "STRING", None, "HIGH", "The consumer group that the positions of the connector are kept for."),
    ("group.instance.id", "STRING", None, "MEDIUM", "The name of a static member."),
    ("isolation.level", "STRING", "read_uncommitted", "MEDIUM", "Whether records of open transactions are read."),
    ("max.partition.fetch.bytes", "INT", "1048576", "HIGH", "How much of one partition a broker may answer at once."),
    ("max.poll.interval.ms", "INT", "300000", "MEDIUM", "The longest time between two polls."),
    ("max.poll.records", "INT", "500", "MEDIUM", "How many records one poll gives at most."),
)  # fmt: skip

_PRODUCER: tuple[_Row, ...] = (
    ("acks", "STRING", "all", "LOW", "How many replicas must have a record before it counts as written."),
    ("batch.size", "INT", "16384", "MEDIUM", "The largest batch of a partition, in bytes."),
    ("buffer.memory", "LONG", "33554432", "HIGH", "How much memory unsent records may take."),
    ("compression.gzip.level", "INT", "-1", "MEDIUM", "How hard gzip tries."),
    ("compression.lz4.level", "INT", "9", "MEDIUM", "How hard lz4 tries."),
    ("compression.type", "STRING", "none", "HIGH", "How batches are compressed: none, gzip, snappy, lz4 or zstd."),
    ("compression.zstd.level", "INT", "3", "MEDIUM", "How hard zstd tries."),
    ("delivery.timeout.ms", "INT", "120000", "MEDIUM", "How long a record is tried to be sent."),
    ("enable.idempotence", "BOOLEAN", "true", "LOW", "Whether a record that is sent again is written once."),
    ("linger.ms", "LONG", "5", "MEDIUM", "How long a batch waits for more records."),
    ("max.block.ms", "LONG", "60000", "MEDIUM", "How long a send may wait for memory or metadata."),
    ("max.in.flight.requests.per.connection", "INT", "5", "LOW", "How many requests may be on their way at once."),
    ("max.request.size", "INT", "1048576", "MEDIUM", "The largest request, in bytes."),
    ("partitioner.class", "CLASS", None, "MEDIUM", "The Java class that picks partitions."),
    ("retries", "INT", "2147483647", "HIGH", "How often a record is sent again."),
    ("transactional.id", "STRING", None, "LOW", "The name of the producer's transactions."),
)  # fmt: skip

_ADMIN: tuple[_Row, ...] = (
    ("default.api.timeout.ms", "INT", "60000", "MEDIUM", "How long a call may take."),
    ("retries", "INT", "2147483647", "LOW", "How often a request is sent again."),
)

# What all clients have, and the worker, too. Defaults may differ, and stand here where they do.
_COMMON = ("bootstrap.servers", "client.", "metadata.", "reconnect.", "retry.", "request.", "connections.", "security.",
           "send.", "receive.", "socket.", "sasl.", "ssl.", "metric")  # fmt: skip
_DEFAULTS = {
    ("producer", "request.timeout.ms"): "30000",
    ("consumer", "request.timeout.ms"): "30000",
    ("admin", "request.timeout.ms"): "30000",
    ("consumer", "receive.buffer.bytes"): "65536",
    ("admin", "receive.buffer.bytes"): "65536",
    ("consumer", "session.timeout.ms"): "45000",
}


def client_property(kind: str, name: str) -> ConfigKey | None:
    """Of a ``producer``, ``consumer`` or ``admin`` client; None for one that is not known."""
    own = _own(kind)
    if name in own:
        return own[name]
    shares = name.startswith(_COMMON) or (
        kind == "consumer" and name in ("session.timeout.ms", "heartbeat.interval.ms")
    )
    worker_key = WORKER_CONFIG_DEF.get(name) if shares and name != "ssl.client.auth" else None
    if worker_key is None:
        return None
    default = _DEFAULTS.get((kind, name), "" if worker_key.required else worker_key.default_text)
    return ConfigKey(
        name,
        worker_key.type,
        default,
        worker_config_doc(name) or "",
        worker_key.validator if name != "bootstrap.servers" else None,
        worker_key.importance,
    )


@cache
def _own(kind: str) -> dict[str, ConfigKey]:
    rows = {"consumer": _CONSUMER, "producer": _PRODUCER, "admin": _ADMIN}[kind]
    return {
        name: ConfigKey(name, ConfigType[type_], default, doc, importance=Importance[importance])
        for name, type_, default, importance, doc in rows
    }
