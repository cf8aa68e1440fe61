"""What a cluster may say to a load, and what to do next."""

from __future__ import annotations

from barnabas.common.error_code import ErrorCode

__all__ = ["ADVICE", "READER_ADVICE"]

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "'barnabas topics list' shows the topics that you may see; --create-topic makes it"
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: "'barnabas topics describe {item}' shows the partitions without a leader",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "fewer replicas are in sync than min.insync.replicas; 'barnabas topics describe {item} "
        "--under-min-isr-partitions' shows where; --acks 1 does not ask for them"
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "fewer replicas are in sync than min.insync.replicas; 'barnabas topics describe {item} "
        "--under-min-isr-partitions' shows where; --acks 1 does not ask for them"
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "the topic's max.message.bytes is smaller than a batch: give a smaller --record-size or --batch-size, "
        "or raise it: 'barnabas configs alter --topic {item} --config max.message.bytes=...'"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: "a batch is larger than a segment of the topic: give a smaller --batch-size",
    ErrorCode.INVALID_RECORD: (
        "the topic takes no records without keys (cleanup.policy has compact): measure with another topic"
    ),
    ErrorCode.INVALID_TIMESTAMP: "the topic takes no records of this time: is this machine's clock right?",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks is all, 1 or 0",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the cluster is too old for this codec: give another --compression-type",
    ErrorCode.POLICY_VIOLATION: (
        "this is a rule of the cluster's operators: ask them, or give --partitions and --replication-factor by it"
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "'barnabas cluster describe' shows the brokers; --replication-factor 1 needs one"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "nobody may write to this topic, or no topic may have this name: give another",
    ErrorCode.KAFKA_STORAGE_ERROR: "a disk of the leader failed: see its log, and 'barnabas log-dirs'",
}

READER_ADVICE = ADVICE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
}
