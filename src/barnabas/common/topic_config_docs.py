"""What each setting of a topic, a group and a client-metrics subscription means: for describe calls that ask for it,
and for the reference page. Loaded only then.
"""
# A setting's text is one line, whatever its length.
# ruff: noqa: E501

from __future__ import annotations

__all__ = ["CLIENT_METRICS_CONFIG_DOCS", "GROUP_CONFIG_DOCS", "TOPIC_CONFIG_DOCS"]

TOPIC_CONFIG_DOCS: dict[str, str] = {
    "cleanup.policy": "What happens to old records: 'delete' drops whole segments by age and size, 'compact' keeps the last record of each key; both may be given, and with neither records stay for ever.",
    "compression.gzip.level": "How hard gzip tries, from 1 (fast) to 9 (small); -1 leaves it to the library. Used when compression.type is gzip.",
    "compression.lz4.level": "How hard lz4 tries, from 1 (fast) to 17 (small). Used when compression.type is lz4.",
    "compression.type": "How batches are stored: 'producer' keeps what the producer chose, 'uncompressed' undoes it, a codec's name recompresses with that codec.",
    "compression.zstd.level": "How hard zstd tries, from -131072 (fast) to 22 (small). Used when compression.type is zstd.",
    "delete.retention.ms": "How long compaction keeps a tombstone (a record without value), so that readers can still learn of the deletion.",
    "file.delete.delay.ms": "How long the files of a deleted segment stay on disk under another name before they are removed.",
    "flush.messages": "After how many records the log is forced to disk. Normally left to the operating system.",
    "flush.ms": "After how many milliseconds the log is forced to disk. Normally left to the operating system.",
    "follower.replication.throttled.replicas": "Which replicas are throttled on the following side, as partition:broker pairs, or * for all.",
    "index.interval.bytes": "How many bytes of log lie between two entries of the offset index: smaller is more exact and takes more room.",
    "internal.segment.bytes": "The size of a segment for tests, free of the lower limit of segment.bytes.",
    "leader.replication.throttled.replicas": "Which replicas are throttled on the leading side, as partition:broker pairs, or * for all.",
    "local.retention.bytes": "How many bytes of a tiered partition stay on local disk; -2 means as many as retention.bytes.",
    "local.retention.ms": "How long records of a tiered partition stay on local disk; -2 means as long as retention.ms.",
    "max.compaction.lag.ms": "The longest time that a record may stay uncompacted, however little there is to gain.",
    "max.message.bytes": "The largest record batch (after compression) that the topic takes.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may lie after the broker's clock before the record is refused. Not checked for LogAppendTime.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may lie before the broker's clock before the record is refused. Not checked for LogAppendTime.",
    "message.timestamp.type": "Whose time a record carries: CreateTime is the producer's, LogAppendTime the broker's.",
    "min.cleanable.dirty.ratio": "The share of the log that must be uncompacted before compaction is worth while.",
    "min.compaction.lag.ms": "The shortest time that a record stays uncompacted, so that a reader can see it.",
    "min.insync.replicas": "How many replicas, the leader among them, must have a record before a producer with acks=all is told that it is safe.",
    "preallocate": "Whether a new segment's file gets its full size at once.",
    "remote.log.copy.disable": "Whether the topic stops copying segments to remote storage and only reads what is there.",
    "remote.log.delete.on.disable": "Whether switching remote storage off deletes what is there.",
    "remote.storage.enable": "Whether old segments move to remote storage.",
    "retention.bytes": "How large a partition may grow before its oldest segments are deleted; -1 is without limit. Used when cleanup.policy has 'delete'.",
    "retention.ms": "How long records are kept before their segment is deleted; -1 is for ever. Used when cleanup.policy has 'delete'.",
    "segment.bytes": "The size at which a segment is closed and a new one begun. Retention and compaction work on whole segments.",
    "segment.index.bytes": "The largest size of a segment's offset index. A full index closes the segment.",
    "segment.jitter.ms": "At most how much earlier than segment.ms a segment is closed, drawn at random, so that many topics don't do it at once.",
    "segment.ms": "The age at which a segment is closed even if it is not full, so that retention and compaction can get at it.",
    "unclean.leader.election.enable": "Whether a replica that lags behind may become leader when no other is left: available again, at the price of lost records.",
}

GROUP_CONFIG_DOCS: dict[str, str] = {
    "consumer.assignment.interval.ms": "The shortest time between two computations of a consumer group's assignment.",
    "consumer.heartbeat.interval.ms": "How often members of a consumer group are told to send heartbeats.",
    "consumer.session.timeout.ms": "After how long without heartbeats a member leaves its consumer group.",
    "share.assignment.interval.ms": "The shortest time between two computations of a share group's assignment.",
    "share.auto.offset.reset": "Where a new share group starts: at the latest or earliest record, or as long ago as a duration says.",
    "share.delivery.count.limit": "How often a record is delivered to a share group before it is given up.",
    "share.heartbeat.interval.ms": "How often members of a share group are told to send heartbeats.",
    "share.isolation.level": "Whether a share group sees records of open and aborted transactions.",
    "share.partition.max.record.locks": "How many records of a partition a share group may have in delivery at once.",
    "share.record.lock.duration.ms": "How long a record that was delivered to a share group is kept from its other members.",
    "share.renew.acknowledge.enable": "Whether members of a share group may prolong their lock on a record.",
    "share.session.timeout.ms": "After how long without heartbeats a member leaves its share group.",
    "streams.assignment.interval.ms": "The shortest time between two computations of a streams group's assignment.",
    "streams.heartbeat.interval.ms": "How often members of a streams group are told to send heartbeats.",
    "streams.initial.rebalance.delay.ms": "How long a new streams group waits for more members before its first assignment.",
    "streams.num.standby.replicas": "How many standby copies of each stateful task a streams group keeps.",
    "streams.session.timeout.ms": "After how long without heartbeats a member leaves its streams group.",
}

CLIENT_METRICS_CONFIG_DOCS: dict[str, str] = {
    "interval.ms": "How often clients that match push their metrics.",
    "match": "Which clients: pairs of a client attribute and a regular expression; all of them must match. Nothing collects client metrics yet.",
    "metrics": "Which metrics: prefixes of their names; nothing means none, * all.",
}
