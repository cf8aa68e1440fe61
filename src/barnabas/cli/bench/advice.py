"""Advice for errors that a load can cause."""

from __future__ import annotations

from barnabas.common.error_code import ErrorCode

__all__ = ["ADVICE", "READER_ADVICE"]

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "'barnabas topics list' shows the topics that you may see; --create-topic creates it"
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: "'barnabas topics describe {item}' shows the partitions without a leader",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "the number of replicas in sync is below min.insync.replicas; 'barnabas topics describe {item} "
        "--under-min-isr-partitions' lists the partitions; --acks 1 does not wait for followers"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "the number of replicas in sync is below min.insync.replicas; 'barnabas topics describe {item} "
        "--under-min-isr-partitions' lists the partitions; --acks 1 does not wait for followers"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "the topic's max.message.bytes is smaller than a batch: use a smaller --record-size or --batch-size, "
        "or raise it: 'barnabas configs alter --topic {item} --config max.message.bytes=...'"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: "a batch is larger than a segment of the topic: use a smaller --batch-size",
    ErrorCode.INVALID_RECORD: ("the topic requires keys (cleanup.policy contains compact): use another topic"),
    ErrorCode.INVALID_TIMESTAMP: "the topic rejects this timestamp: check the clock of this machine",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be all, 1 or 0",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the cluster does not support this compression: change --compression-type",
    ErrorCode.POLICY_VIOLATION: (
        "a policy of the cluster refused this: change --partitions or --replication-factor, or ask its operators"
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "'barnabas cluster describe' shows the brokers; --replication-factor 1 needs only one"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic is internal, or its name is invalid: use another topic",
    ErrorCode.KAFKA_STORAGE_ERROR: "a disk of the leader failed: see the leader's log and 'barnabas log-dirs describe'",
}

READER_ADVICE = ADVICE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
}
