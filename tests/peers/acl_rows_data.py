"""The rows of the table about topics and their records."""

from __future__ import annotations

import time

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.peers.acl_matrix import FROM_ELSEWHERE, NOTHING, Fields, Row, Rows, variants

__all__ = ["BATCH", "rows"]

_RECORD = Record(0, int(time.time() * 1000), b"key", b"value", ())
BATCH = build_batch([_RECORD])
IN_TRANSACTION = build_batch([_RECORD], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)

SOME_OF_TWO = (
    "READ TOPIC orders; WRITE TOPIC orders; DELETE TOPIC orders; ALTER TOPIC orders",
    "ALL TOPIC ord...; deny ALL TOPIC orders-eu",
    "ALL TOPIC *; deny ALL TOPIC orders",
    "ALL TOPIC missing",
)
OPERATIONS = (
    "ALL TOPIC orders; deny READ TOPIC orders; deny DESCRIBE_CONFIGS TOPIC orders",
    "ALL TOPIC *",
    "ALL TOPIC ord...; deny DESCRIBE TOPIC orders",
    "ALL TOPIC ord...; deny WRITE TOPIC orders; deny CREATE TOPIC *",
    "ALTER_CONFIGS TOPIC orders; DESCRIBE TOPIC orders",
    "ALTER_CONFIGS TOPIC orders; DESCRIBE TOPIC orders; deny DESCRIBE_CONFIGS TOPIC orders",
    "READ TOPIC orders; WRITE TOPIC ord...; ALTER TOPIC *",
    "DESCRIBE TOPIC orders; READ TOPIC orders @127.0.0.2; WRITE TOPIC orders @127.0.0.1",
    "ALL TOPIC orders; deny WRITE TOPIC orders @127.0.0.2; deny READ TOPIC orders @127.0.0.1",
    "CREATE CLUSTER kafka-cluster; DESCRIBE TOPIC orders",
)


def topics(*names: str, **fields: object) -> list[Fields]:
    return [{"name": name, **fields} for name in names]


def produce(*names: str, acks: int = -1, batch: bytes = BATCH, **fields: object) -> Fields:
    data = [{"index": 0, "records": batch}]
    return {
        "acks": acks,
        "timeout_ms": 5000,
        "topic_data": [{"name": name, "topic_id": f"id:{name}", "partition_data": data} for name in names],
        **fields,
    }


def fetch(*names: str, **fields: object) -> Fields:
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}]
    return {
        "max_bytes": 1_000_000,
        "topics": [{"topic": name, "topic_id": f"id:{name}", "partitions": wanted} for name in names],
        **fields,
    }


def _produce_and_fetch() -> Rows:
    both = ("orders", "orders-eu")
    return [
        Row("Produce", ApiKey.PRODUCE, produce("orders"), variants("WRITE", "TOPIC", "orders"), (3, 12, 13)),
        Row("Produce to two", ApiKey.PRODUCE, produce(*both), SOME_OF_TWO, (12, 13)),
        Row("Produce to a missing topic", ApiKey.PRODUCE, produce("missing"), (NOTHING, *SOME_OF_TWO), (12, 13)),
        Row(
            "Produce without acknowledgement",
            ApiKey.PRODUCE,
            produce("orders", acks=0),
            variants("WRITE", "TOPIC", "orders"),
            (12,),
            is_answered=False,
        ),
        Row(
            "Produce two without acknowledgement",
            ApiKey.PRODUCE,
            produce(*both, acks=0),
            SOME_OF_TWO,
            (12,),
            is_answered=False,
        ),
        Row(
            "Produce with a transactional id",
            ApiKey.PRODUCE,
            produce("orders", transactional_id="tx1"),
            (NOTHING, "WRITE TOPIC orders", "DESCRIBE TRANSACTIONAL_ID tx1; WRITE TOPIC orders"),
            (3, 12),
        ),
        Row(
            "Produce transactional records",
            ApiKey.PRODUCE,
            produce("orders", batch=IN_TRANSACTION, transactional_id="tx1"),
            (NOTHING, "WRITE TOPIC orders", "DESCRIBE TRANSACTIONAL_ID tx1; WRITE TOPIC orders"),
            (3, 12),
        ),
        Row(
            "Produce transactional records without an id",
            ApiKey.PRODUCE,
            produce("orders", batch=IN_TRANSACTION),
            (NOTHING, "WRITE TOPIC orders; WRITE TRANSACTIONAL_ID *"),
            (12,),
        ),
        Row("Fetch", ApiKey.FETCH, fetch("orders"), variants("READ", "TOPIC", "orders"), (4, 12, 13, 17)),
        Row("Fetch two", ApiKey.FETCH, fetch(*both), SOME_OF_TWO, (12, 17)),
        Row("Fetch a missing topic", ApiKey.FETCH, fetch("missing", "orders"), (NOTHING, *SOME_OF_TWO), (12, 17)),
        Row(
            "Fetch as a follower",
            ApiKey.FETCH,
            fetch("orders", replica_id=5, replica_state={"replica_id": 5, "replica_epoch": -1}),
            (NOTHING, "READ TOPIC orders", "ALL TOPIC *; deny CLUSTER_ACTION CLUSTER kafka-cluster"),
            (12, 17),
        ),
    ]


def _list_offsets() -> Rows:
    def fields(*names: str) -> Fields:
        return {
            "replica_id": -1,
            "topics": topics(*names, partitions=[{"partition_index": 0, "timestamp": -2}]),
        }

    return [
        Row("ListOffsets", ApiKey.LIST_OFFSETS, fields("orders"), variants("DESCRIBE", "TOPIC", "orders")),
        Row(
            "ListOffsets from another host",
            ApiKey.LIST_OFFSETS,
            fields("orders"),
            variants("DESCRIBE", "TOPIC", "orders"),
            (11,),
            host=FROM_ELSEWHERE,
        ),
        Row("ListOffsets of two", ApiKey.LIST_OFFSETS, fields("orders", "missing"), (NOTHING, *SOME_OF_TWO)),
    ]


def _metadata() -> Rows:
    def named(*names: str, **fields: object) -> Fields:
        return {"topics": topics(*names), "allow_auto_topic_creation": False, **fields}

    def by_id(*names: str, **fields: object) -> Fields:
        return {
            "topics": [{"topic_id": f"id:{name}", "name": None} for name in names],
            "allow_auto_topic_creation": False,
            **fields,
        }

    describe, with_bits = variants("DESCRIBE", "TOPIC", "orders"), {"include_topic_authorized_operations": True}
    everything: Fields = {"topics": None, "allow_auto_topic_creation": False}
    in_cluster: Fields = {"topics": [], "include_cluster_authorized_operations": True}
    return [
        Row("Metadata", ApiKey.METADATA, named("orders"), describe, (0, 1, 4, 8, 12, 13)),
        Row(
            "Metadata of several",
            ApiKey.METADATA,
            named("orders", "missing", "bad name"),
            (NOTHING, *SOME_OF_TWO),
            (4, 13),
        ),
        Row(
            "Metadata where others have rights too",
            ApiKey.METADATA,
            named("{me}-open", **with_bits),
            (
                "DESCRIBE TOPIC {me}-open %User:*",
                "READ TOPIC {me}... %User:* @127.0.0.1",
                "READ TOPIC {me}... %User:* @127.0.0.2",
                "DESCRIBE TOPIC {me}-open %Group:*",
                "DESCRIBE TOPIC {me}-open %Group:{me}",
                "DESCRIBE TOPIC {me}-open %User:{me}:",
                "DESCRIBE TOPIC {me}-open; deny DESCRIBE TOPIC {me}-open %User:*",
                "DESCRIBE TOPIC {me}-open; deny READ TOPIC {me}-open %User:*",
                "DESCRIBE TOPIC {me}-open; deny ALL TOPIC {me}... %User:* @127.0.0.2",
                "ALL TOPIC {me}-open %User:*; deny DESCRIBE TOPIC {me}-open",
                "DESCRIBE TOPIC {me}-open @::1",
                "DESCRIBE TOPIC {me}-open @127.0.0.0/8",
                "DESCRIBE TOPIC {me}-open @localhost",
                "DESCRIBE TOPIC {me}-OPEN",
                "DESCRIBE TOPIC {me}-open-more...",
                "DESCRIBE TOPIC {me}-open...",
                "DESCRIBE GROUP {me}-open; DESCRIBE CLUSTER kafka-cluster",
            ),
            (13,),
            topics=("{me}-open",),
        ),
        Row("Metadata by id", ApiKey.METADATA, by_id("orders", "missing"), (*describe, *SOME_OF_TWO), (12, 13)),
        Row("Metadata of all", ApiKey.METADATA, everything, (*describe, *SOME_OF_TWO), (1, 12, 13)),
        Row("Metadata with bits", ApiKey.METADATA, named("orders", **with_bits), (*describe, *OPERATIONS), (8, 12, 13)),
        Row(
            "Metadata of several with bits",
            ApiKey.METADATA,
            named("orders", "missing", "bad name", **with_bits),
            (NOTHING, "ALL TOPIC *", "DESCRIBE TOPIC missing; READ TOPIC bad...", "WRITE TOPIC *"),
            (8, 13),
        ),
        Row("Metadata by id with bits", ApiKey.METADATA, by_id("orders", "missing", **with_bits), OPERATIONS, (12, 13)),
        Row(
            "Metadata of all with bits", ApiKey.METADATA, {**everything, **with_bits}, (*describe, *OPERATIONS), (8, 13)
        ),
        Row("Metadata of the cluster", ApiKey.METADATA, in_cluster, _CLUSTER_BITS, (7, 8, 9, 10, 11, 13)),
        Row(
            "Metadata that creates",
            ApiKey.METADATA,
            {"topics": topics("{me}-auto"), "allow_auto_topic_creation": True, **with_bits},
            (
                NOTHING,
                "DESCRIBE TOPIC {me}-auto",
                "DESCRIBE TOPIC {me}-auto; CREATE TOPIC {me}-auto",
                "DESCRIBE TOPIC {me}-auto; CREATE CLUSTER kafka-cluster",
                "READ TOPIC {me}-auto; CREATE TOPIC {me}...",
                "CREATE TOPIC {me}-auto; CREATE CLUSTER kafka-cluster",
                "DESCRIBE TOPIC {me}-auto; CREATE CLUSTER kafka-cluster; deny CREATE TOPIC {me}-auto",
                "DESCRIBE TOPIC {me}-auto; CREATE TOPIC {me}-auto; deny CREATE CLUSTER kafka-cluster",
                "ALL TOPIC {me}-auto; deny CREATE TOPIC {me}-auto",
            ),
            (0, 4, 8, 13),
        ),
    ]


_CLUSTER_BITS = (
    *variants("DESCRIBE", "CLUSTER"),
    "ALTER CLUSTER kafka-cluster; ALTER_CONFIGS CLUSTER kafka-cluster; deny DESCRIBE_CONFIGS CLUSTER kafka-cluster",
    "ALL CLUSTER kafka-cluster; deny CREATE CLUSTER kafka-cluster; deny IDEMPOTENT_WRITE CLUSTER kafka-cluster",
    "ALL CLUSTER kafka-cluster; deny DESCRIBE CLUSTER kafka-cluster",
)


def _describe() -> Rows:
    def described(*names: str) -> Fields:
        return {"topics": topics(*names), "response_partition_limit": 2000}

    epoch = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    ends: Fields = {
        "replica_id": -1,
        "topics": [{"topic": name, "partitions": epoch} for name in ("orders", "missing")],
    }
    bits: Fields = {"include_cluster_authorized_operations": True}
    dirs: Fields = {"topics": [{"topic": "orders", "partitions": [0]}]}
    moves: Fields = {"dirs": [{"path": "/nowhere", "topics": [{"name": "orders", "partitions": [0]}]}]}
    of_topics = (*variants("DESCRIBE", "TOPIC", "orders"), *SOME_OF_TWO, *OPERATIONS)
    return [
        Row("DescribeTopicPartitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, described("orders", "missing"), of_topics),
        Row("DescribeTopicPartitions of all", ApiKey.DESCRIBE_TOPIC_PARTITIONS, described(), of_topics),
        Row(
            "OffsetForLeaderEpoch",
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ends,
            (*variants("DESCRIBE", "TOPIC", "orders"), *variants("CLUSTER_ACTION", "CLUSTER")[1:], *SOME_OF_TWO),
        ),
        Row("DescribeCluster", ApiKey.DESCRIBE_CLUSTER, {}, (NOTHING,)),
        Row("DescribeCluster with bits", ApiKey.DESCRIBE_CLUSTER, bits, _CLUSTER_BITS, (0, 2)),
        Row("DescribeCluster of controllers", ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": 2}, (NOTHING,)),
        Row("DescribeLogDirs", ApiKey.DESCRIBE_LOG_DIRS, dirs, variants("DESCRIBE", "CLUSTER"), (1, 2, 3, 4)),
        Row("AlterReplicaLogDirs", ApiKey.ALTER_REPLICA_LOG_DIRS, moves, variants("ALTER", "CLUSTER"), (1, 2)),
        Row("ApiVersions", ApiKey.API_VERSIONS, _CLIENT, (NOTHING,)),
        Row("SaslHandshake after login", ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}, (NOTHING,), (0, 1)),
        Row("SaslAuthenticate after login", ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0a\0b"}, (NOTHING,)),
    ]


_CLIENT: Fields = {"client_software_name": "acl-matrix", "client_software_version": "1"}


def _change() -> Rows:
    deletion: Fields = {
        "timeout_ms": 5000,
        "topics": topics("orders", "missing", partitions=[{"partition_index": 0, "offset": 0}]),
    }
    unpinned: Fields = {"transaction_timeout_ms": 60_000, "transactional_id": None}
    return [
        Row(
            "DeleteRecords",
            ApiKey.DELETE_RECORDS,
            deletion,
            (*variants("DELETE", "TOPIC", "orders"), *SOME_OF_TWO),
        ),
        Row("InitProducerId", ApiKey.INIT_PRODUCER_ID, unpinned, _ANY_TOPIC, (0, 4, 5)),
        Row(
            "InitProducerId of a transaction",
            ApiKey.INIT_PRODUCER_ID,
            {"transaction_timeout_ms": 60_000, "transactional_id": "tx-{me}"},
            variants("WRITE", "TRANSACTIONAL_ID", "tx-{me}"),
        ),
    ]


_ANY_TOPIC = (
    *variants("IDEMPOTENT_WRITE", "CLUSTER"),
    "WRITE TOPIC anything",
    "WRITE TOPIC any...",
    "WRITE TOPIC *",
    "ALL TOPIC anything",
    "READ TOPIC anything",
    "WRITE GROUP anything",
    "WRITE TOPIC anything @127.0.0.2",
    "WRITE TOPIC anything @127.0.0.1",
    "WRITE TOPIC anything; deny WRITE TOPIC *",
    "WRITE TOPIC *; deny WRITE TOPIC *",
    "WRITE TOPIC anything; deny WRITE TOPIC anything",
    "WRITE TOPIC anything; deny WRITE TOPIC any...",
    "WRITE TOPIC anything; deny ALL TOPIC any...",
    "WRITE TOPIC any...; deny WRITE TOPIC anything",
    "WRITE TOPIC any...; deny WRITE TOPIC any...",
    "WRITE TOPIC any...; deny WRITE TOPIC a...",
    "WRITE TOPIC any...; deny WRITE TOPIC anyth...",
    "WRITE TOPIC anything; WRITE TOPIC other; deny WRITE TOPIC anything",
    "WRITE TOPIC anything; deny READ TOPIC *",
    "WRITE TOPIC anything; deny WRITE TOPIC * @127.0.0.2",
    "WRITE TOPIC anything; deny IDEMPOTENT_WRITE CLUSTER kafka-cluster",
    "IDEMPOTENT_WRITE CLUSTER kafka-cluster; deny WRITE TOPIC *",
)


def rows() -> Rows:
    return [*_produce_and_fetch(), *_list_offsets(), *_metadata(), *_describe(), *_change()]
