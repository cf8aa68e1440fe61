"""The settings of a topic: definitions, the broker settings that they fall back to, and a topic's resolved values.

A topic setting that has no override takes its broker's value, whose name often differs and sometimes comes in several
units (``retention.ms`` from ``log.retention.ms``, ``.minutes`` or ``.hours``): see ``TOPIC_SYNONYMS``.
``TopicConfig`` is what the log layer works with: every value typed and present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.common.config_def import (
    CLUSTER_WIDE,
    ConfigDef,
    ConfigException,
    ConfigRow,
    ConfigStateException,
    ConfigValue,
    raise_together,
)

__all__ = ["TOPIC_CONFIG_DEF", "TOPIC_SYNONYMS", "TopicConfig", "UnknownTopicConfig", "validate_topic_config"]

_MS_PER_HOUR: Final = 3_600_000
_MS_PER_MINUTE: Final = 60_000
_AS_TOTAL: Final = -2  # A local retention that is the same as the whole one.

_ROWS: tuple[ConfigRow, ...] = (
    ("cleanup.policy", "LIST", "delete", "list:compact|delete", "MEDIUM", CLUSTER_WIDE),
    ("compression.gzip.level", "INT", "-1", "gzip-level", "MEDIUM", CLUSTER_WIDE),
    ("compression.lz4.level", "INT", "9", "1..17", "MEDIUM", CLUSTER_WIDE),
    ("compression.type", "STRING", "producer", "uncompressed|zstd|lz4|snappy|gzip|producer", "MEDIUM", CLUSTER_WIDE),
    ("compression.zstd.level", "INT", "3", "-131072..22", "MEDIUM", CLUSTER_WIDE),
    ("delete.retention.ms", "LONG", "86400000", "0..", "MEDIUM", CLUSTER_WIDE),
    ("file.delete.delay.ms", "LONG", "60000", "0..", "MEDIUM", CLUSTER_WIDE),
    ("flush.messages", "LONG", "9223372036854775807", "1..", "MEDIUM", CLUSTER_WIDE),
    ("flush.ms", "LONG", "9223372036854775807", "0..", "MEDIUM", CLUSTER_WIDE),
    ("follower.replication.throttled.replicas", "LIST", "", "throttled-replicas", "MEDIUM", CLUSTER_WIDE),
    ("index.interval.bytes", "INT", "4096", "0..", "MEDIUM", CLUSTER_WIDE),
    ("internal.segment.bytes", "INT", None, "", "MEDIUM", CLUSTER_WIDE),
    ("leader.replication.throttled.replicas", "LIST", "", "throttled-replicas", "MEDIUM", CLUSTER_WIDE),
    ("local.retention.bytes", "LONG", "-2", "-2..", "MEDIUM", CLUSTER_WIDE),
    ("local.retention.ms", "LONG", "-2", "-2..", "MEDIUM", CLUSTER_WIDE),
    ("max.compaction.lag.ms", "LONG", "9223372036854775807", "1..", "MEDIUM", CLUSTER_WIDE),
    ("max.message.bytes", "INT", "1048588", "0..", "MEDIUM", CLUSTER_WIDE),
    ("message.timestamp.after.max.ms", "LONG", "3600000", "0..", "MEDIUM", CLUSTER_WIDE),
    ("message.timestamp.before.max.ms", "LONG", "9223372036854775807", "0..", "MEDIUM", CLUSTER_WIDE),
    ("message.timestamp.type", "STRING", "CreateTime", "CreateTime|LogAppendTime", "MEDIUM", CLUSTER_WIDE),
    ("min.cleanable.dirty.ratio", "DOUBLE", "0.5", "0..1", "MEDIUM", CLUSTER_WIDE),
    ("min.compaction.lag.ms", "LONG", "0", "0..", "MEDIUM", CLUSTER_WIDE),
    ("min.insync.replicas", "INT", "1", "1..", "MEDIUM", CLUSTER_WIDE),
    ("preallocate", "BOOLEAN", "false", "", "MEDIUM", CLUSTER_WIDE),
    ("remote.log.copy.disable", "BOOLEAN", "false", "", "MEDIUM", CLUSTER_WIDE),
    ("remote.log.delete.on.disable", "BOOLEAN", "false", "", "MEDIUM", CLUSTER_WIDE),
    ("remote.storage.enable", "BOOLEAN", "false", "", "MEDIUM", CLUSTER_WIDE),
    ("retention.bytes", "LONG", "-1", "", "MEDIUM", CLUSTER_WIDE),
    ("retention.ms", "LONG", "604800000", "-1..", "MEDIUM", CLUSTER_WIDE),
    ("segment.bytes", "INT", "1073741824", "1048576..", "MEDIUM", CLUSTER_WIDE),
    ("segment.index.bytes", "INT", "10485760", "4..", "MEDIUM", CLUSTER_WIDE),
    ("segment.jitter.ms", "LONG", "0", "0..", "MEDIUM", CLUSTER_WIDE),
    ("segment.ms", "LONG", "604800000", "1..", "MEDIUM", CLUSTER_WIDE),
    ("unclean.leader.election.enable", "BOOLEAN", "false", "", "MEDIUM", CLUSTER_WIDE),
)

TOPIC_CONFIG_DEF = ConfigDef(_ROWS, internal=("internal.segment.bytes",))

# topic setting -> (broker setting, factor to the topic setting's unit), the strongest first
TOPIC_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _MS_PER_HOUR)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _MS_PER_HOUR)),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MS_PER_MINUTE),
        ("log.retention.hours", _MS_PER_HOUR),
    ),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "segment.bytes": (("log.segment.bytes", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}


# The settings that some rule combines with others; without one of them among the overrides nothing can clash.
_COMBINED = frozenset(
    {
        "cleanup.policy",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "min.compaction.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
    }
)


class UnknownTopicConfig(ConfigStateException):
    """A name that no topic setting has."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, f"Unknown topic config name: {name}{TOPIC_CONFIG_DEF.hint(name)}")


class TopicConfig:
    """Every setting of one topic, typed, with broker defaults where the topic has no override of its own.

    Shared by all topics without overrides, so never changed after it was made.
    """

    __slots__ = (
        "cleanup_policy",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "follower_replication_throttled_replicas",
        "index_interval_bytes",
        "internal_segment_bytes",
        "leader_replication_throttled_replicas",
        "local_retention_bytes",
        "local_retention_ms",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "preallocate",
        "remote_log_copy_disable",
        "remote_log_delete_on_disable",
        "remote_storage_enable",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "unclean_leader_election_enable",
    )

    cleanup_policy: list[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: list[str]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: list[str]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    def __init__(self, values: Mapping[str, ConfigValue] | None = None) -> None:
        """``values`` by setting name, typed; those missing take the built-in default."""
        values = values or {}
        for name in TOPIC_CONFIG_DEF:
            value = values[name] if name in values else TOPIC_CONFIG_DEF[name].default
            object.__setattr__(self, name.replace(".", "_"), value)

    def with_overrides(self, overrides: Mapping[str, str]) -> TopicConfig:
        """This config with a topic's own settings on top.

        Names that are not known (a foreign controller may know more) and values that do not parse are left out:
        what is committed must be loadable, and validation happened before it was.
        """
        changed: dict[str, ConfigValue] = {}
        for name, text in overrides.items():
            key = TOPIC_CONFIG_DEF.get(name)
            if key is None:
                continue
            try:
                changed[name] = key.parse(text)
            except ConfigException:
                continue
        if not changed:
            return self
        config = object.__new__(TopicConfig)
        for attribute in TopicConfig.__slots__:
            object.__setattr__(config, attribute, getattr(self, attribute))
        for name, value in changed.items():
            object.__setattr__(config, name.replace(".", "_"), value)
        return config

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def segment_size(self) -> int:
        """The size at which a segment is rolled: tests and metadata logs may set one below the public minimum."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TopicConfig is shared and can't be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicConfig) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]


def validate_topic_config(
    configs: Mapping[str, object],
    *,
    previous: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    remote_storage_system_enabled: bool = False,
) -> None:
    """Raise ConfigException unless ``configs`` is an allowed set of overrides for one topic.

    With ``defaults`` (what the node's own settings give a topic that overrides nothing) the rules between remote
    storage settings are checked too, as the controller does; without, only names, values and compaction lags.
    """
    values, problems = TOPIC_CONFIG_DEF.parse_given(configs)
    raise_together([UnknownTopicConfig(name) for name in configs if name not in TOPIC_CONFIG_DEF] + problems)
    # What is not among the overrides may still have been: taking it away is a change too.
    if not _COMBINED.isdisjoint(values) or "remote.storage.enable" in (previous or {}):
        complete = _Complete(values, defaults or {})
        _validate_compaction_lags(complete)
        if defaults:
            _validate_remote_storage(complete, previous or {}, remote_storage_system_enabled)


class _Complete:
    """Overrides with what stands behind them, worked out only for the settings that a rule looks at."""

    def __init__(self, overrides: Mapping[str, ConfigValue], defaults: Mapping[str, object]) -> None:
        self._overrides = overrides
        self._defaults = defaults

    def __getitem__(self, name: str) -> ConfigValue:
        if name in self._overrides:
            return self._overrides[name]
        key = TOPIC_CONFIG_DEF[name]
        return key.parse(self._defaults[name]) if name in self._defaults else key.default


def _validate_compaction_lags(values: _Complete) -> None:
    least, most = _integer(values, "min.compaction.lag.ms"), _integer(values, "max.compaction.lag.ms")
    if least > most:
        raise ConfigStateException(
            "min.compaction.lag.ms",
            least,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )


def _validate_remote_storage(values: _Complete, previous: Mapping[str, object], system_enabled: bool) -> None:
    was_enabled = str(previous.get("remote.storage.enable", "false")).strip().lower() == "true"
    if not values["remote.storage.enable"]:
        if was_enabled and not values["remote.log.delete.on.disable"]:
            raise ConfigStateException(
                "remote.storage.enable",
                False,
                "It is invalid to disable remote storage without deleting remote data: "
                "set remote.log.copy.disable=true to keep it, or remote.log.delete.on.disable=true to delete it.",
            )
        return
    if not system_enabled:
        raise ConfigStateException(
            "remote.storage.enable", True, "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )  # fmt: skip
    if values["cleanup.policy"] not in ([], ["delete"]):
        raise ConfigStateException(
            "cleanup.policy", values["cleanup.policy"],
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        )  # fmt: skip
    for unit in ("bytes", "ms"):
        _validate_local_retention(values, unit)
    if values["remote.log.copy.disable"]:
        for unit in ("bytes", "ms"):
            _validate_nothing_is_left_behind(values, unit)


def _validate_local_retention(values: _Complete, unit: str) -> None:
    name = f"local.retention.{unit}"
    local, total = _integer(values, name), _integer(values, f"retention.{unit}")
    if total <= -1 or local == _AS_TOTAL:
        return
    if local == -1:
        raise ConfigException(name, local, f"Value must not be -1 as retention.{unit} value is set as {total}.")
    if local > total:
        raise ConfigException(name, local, f"Value must not be more than retention.{unit} property value: {total}")


def _validate_nothing_is_left_behind(values: _Complete, unit: str) -> None:
    """What is not copied any more must not be deleted locally before its time."""
    name = f"local.retention.{unit}"
    local, total = _integer(values, name), _integer(values, f"retention.{unit}")
    if local not in (_AS_TOTAL, total):
        raise ConfigException(
            name, local, f"With remote.log.copy.disable=true {name} must equal retention.{unit} (or be {_AS_TOTAL})"
        )


def _integer(values: _Complete, name: str) -> int:
    value = values[name]
    return value if isinstance(value, int) else 0
