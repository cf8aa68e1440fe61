"""Settings of a topic, and the node settings that they fall back to."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from typing import Final

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MEDIUM,
    STRING,
    SettingTable,
    no_effect_because,
    rows_of,
    setting,
)

__all__ = ["FILES_GROW", "TIERED_ONLY", "TOPIC_SYNONYMS", "TopicSettings"]

FILES_GROW = "Files grow as they are written."
TIERED_ONLY = "It matters with remote.storage.enable only, which is refused."

_MS_PER_HOUR: Final = 3_600_000
_MS_PER_MINUTE: Final = 60_000


class TopicSettings(SettingTable):
    __slots__ = ()

    cleanup_policy: list[str] = setting(LIST, "delete", "list:compact|delete", MEDIUM, CLUSTER_WIDE,
        "What happens to old records: 'delete' drops whole segments by age and size, 'compact' keeps the last record of each key; both may be set, and with neither records are kept forever.",
        fallbacks=(("log.cleanup.policy", 1),))
    compression_gzip_level: int = setting(INT, "-1", "gzip-level", MEDIUM, CLUSTER_WIDE,
        "The compression level of gzip, from 1 (fast) to 9 (small); -1 is the library's default. Used when compression.type is gzip.",
        fallbacks=(("compression.gzip.level", 1),))
    compression_lz4_level: int = setting(INT, "9", "1..17", MEDIUM, CLUSTER_WIDE,
        "The compression level of lz4, from 1 (fast) to 17 (small). Used when compression.type is lz4.",
        fallbacks=(("compression.lz4.level", 1),))
    compression_type: str = setting(STRING, "producer", "uncompressed|zstd|lz4|snappy|gzip|producer", MEDIUM, CLUSTER_WIDE,
        "How batches are stored: 'producer' keeps the producer's compression, 'uncompressed' decompresses them, a codec's name recompresses them with that codec.",
        fallbacks=(("compression.type", 1),))
    compression_zstd_level: int = setting(INT, "3", "-131072..22", MEDIUM, CLUSTER_WIDE,
        "The compression level of zstd, from -131072 (fast) to 22 (small). Used when compression.type is zstd.",
        fallbacks=(("compression.zstd.level", 1),))
    delete_retention_ms: int = setting(LONG, "86400000", "0..", MEDIUM, CLUSTER_WIDE,
        "How long compaction keeps a tombstone (a record without value), so that readers can still learn of the deletion.",
        fallbacks=(("log.cleaner.delete.retention.ms", 1),))
    file_delete_delay_ms: int = setting(LONG, "60000", "0..", MEDIUM, CLUSTER_WIDE,
        "How long the files of a deleted segment stay on disk under another name before they are removed.",
        fallbacks=(("log.segment.delete.delay.ms", 1),))
    flush_messages: int = setting(LONG, "9223372036854775807", "1..", MEDIUM, CLUSTER_WIDE,
        "After how many records the log is forced to disk. Normally left to the operating system.",
        fallbacks=(("log.flush.interval.messages", 1),))
    flush_ms: int = setting(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE,
        "After how many milliseconds the log is forced to disk. Normally left to the operating system.",
        fallbacks=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)))
    follower_replication_throttled_replicas: list[str] = setting(LIST, "", "throttled-replicas", MEDIUM, CLUSTER_WIDE,
        "Which replicas are throttled on the following side, as partition:broker pairs, or * for all.")
    index_interval_bytes: int = setting(INT, "4096", "0..", MEDIUM, CLUSTER_WIDE,
        "How many bytes of log lie between two entries of the offset index: smaller is more exact and takes more room.",
        fallbacks=(("log.index.interval.bytes", 1),))
    internal_segment_bytes: int | None = setting(INT, None, "", MEDIUM, CLUSTER_WIDE,
        "The size of a segment for tests, free of the lower limit of segment.bytes.",
        internal=True)
    leader_replication_throttled_replicas: list[str] = setting(LIST, "", "throttled-replicas", MEDIUM, CLUSTER_WIDE,
        "Which replicas are throttled on the leading side, as partition:broker pairs, or * for all.")
    local_retention_bytes: int = setting(LONG, "-2", "-2..", MEDIUM, CLUSTER_WIDE,
        "How many bytes of a tiered partition stay on local disk; -2 means as many as retention.bytes.",
        support=no_effect_because(TIERED_ONLY), fallbacks=(("log.local.retention.bytes", 1),))
    local_retention_ms: int = setting(LONG, "-2", "-2..", MEDIUM, CLUSTER_WIDE,
        "How long records of a tiered partition stay on local disk; -2 means as long as retention.ms.",
        support=no_effect_because(TIERED_ONLY), fallbacks=(("log.local.retention.ms", 1),))
    max_compaction_lag_ms: int = setting(LONG, "9223372036854775807", "1..", MEDIUM, CLUSTER_WIDE,
        "The longest time that a record may stay uncompacted, however little there is to gain.",
        fallbacks=(("log.cleaner.max.compaction.lag.ms", 1),))
    max_message_bytes: int = setting(INT, "1048588", "0..", MEDIUM, CLUSTER_WIDE,
        "The largest record batch (after compression) that the topic accepts.",
        fallbacks=(("message.max.bytes", 1),))
    message_timestamp_after_max_ms: int = setting(LONG, "3600000", "0..", MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie after the broker's clock before the record is refused. Not checked for LogAppendTime.",
        fallbacks=(("log.message.timestamp.after.max.ms", 1),))
    message_timestamp_before_max_ms: int = setting(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie before the broker's clock before the record is refused. Not checked for LogAppendTime.",
        fallbacks=(("log.message.timestamp.before.max.ms", 1),))
    message_timestamp_type: str = setting(STRING, "CreateTime", "CreateTime|LogAppendTime", MEDIUM, CLUSTER_WIDE,
        "Whose time a record carries: CreateTime is the producer's, LogAppendTime the broker's.",
        fallbacks=(("log.message.timestamp.type", 1),))
    min_cleanable_dirty_ratio: float = setting(DOUBLE, "0.5", "0..1", MEDIUM, CLUSTER_WIDE,
        "The share of the log that must be uncompacted before compaction is worth while.",
        fallbacks=(("log.cleaner.min.cleanable.ratio", 1),))
    min_compaction_lag_ms: int = setting(LONG, "0", "0..", MEDIUM, CLUSTER_WIDE,
        "The shortest time that a record stays uncompacted, so that a reader can see it.",
        fallbacks=(("log.cleaner.min.compaction.lag.ms", 1),))
    min_insync_replicas: int = setting(INT, "1", "1..", MEDIUM, CLUSTER_WIDE,
        "How many replicas, the leader among them, must have a record before it is acknowledged to a producer with acks=all.",
        fallbacks=(("min.insync.replicas", 1),))
    preallocate: bool = setting(BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether a new segment's file is allocated with its full size immediately.",
        support=no_effect_because(FILES_GROW), fallbacks=(("log.preallocate", 1),))
    remote_log_copy_disable: bool = setting(BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether the topic stops copying segments to remote storage and only reads the existing ones.",
        support=no_effect_because(TIERED_ONLY))
    remote_log_delete_on_disable: bool = setting(BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether disabling remote storage deletes the topic's segments there.",
        support=no_effect_because(TIERED_ONLY))
    remote_storage_enable: bool = setting(BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether old segments move to remote storage.")
    retention_bytes: int = setting(LONG, "-1", "", MEDIUM, CLUSTER_WIDE,
        "How large a partition may grow before its oldest segments are deleted; -1 is without limit. Used when cleanup.policy has 'delete'.",
        fallbacks=(("log.retention.bytes", 1),))
    retention_ms: int = setting(LONG, "604800000", "-1..", MEDIUM, CLUSTER_WIDE,
        "How long records are kept before their segment is deleted; -1 is forever. Used when cleanup.policy has 'delete'.",
        fallbacks=(("log.retention.ms", 1), ("log.retention.minutes", _MS_PER_MINUTE), ("log.retention.hours", _MS_PER_HOUR)))
    segment_bytes: int = setting(INT, "1073741824", "1048576..", MEDIUM, CLUSTER_WIDE,
        "The size at which a segment is closed and a new one begun. Retention and compaction work on whole segments.",
        fallbacks=(("log.segment.bytes", 1),))
    segment_index_bytes: int = setting(INT, "10485760", "4..", MEDIUM, CLUSTER_WIDE,
        "The largest size of a segment's offset index. A full index closes the segment.",
        fallbacks=(("log.index.size.max.bytes", 1),))
    segment_jitter_ms: int = setting(LONG, "0", "0..", MEDIUM, CLUSTER_WIDE,
        "The maximum random time by which a segment is closed before segment.ms, so that many topics don't close segments at the same time.",
        fallbacks=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _MS_PER_HOUR)))
    segment_ms: int = setting(LONG, "604800000", "1..", MEDIUM, CLUSTER_WIDE,
        "The age at which a segment is closed even if it is not full, so that retention and compaction can process it.",
        fallbacks=(("log.roll.ms", 1), ("log.roll.hours", _MS_PER_HOUR)))
    unclean_leader_election_enable: bool = setting(BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether a replica that lags behind may become leader when no in-sync replica is left: the partition becomes available again, but records may be lost.",
        fallbacks=(("unclean.leader.election.enable", 1),))


# topic setting -> (node setting, factor to the unit of the topic setting), the strongest first
TOPIC_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    row.name: row.fallbacks for row in rows_of(TopicSettings) if row.fallbacks
}
