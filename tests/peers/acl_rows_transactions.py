"""The rows of the table about transactions. No transactional id has a producer: an allowed request finds none."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from tests.peers.acl_matrix import NOTHING, Fields, Row, Rows, variants

__all__ = ["rows"]

_TOPICS: list[Fields] = [{"name": "orders", "partitions": [0, 1]}, {"name": "missing", "partitions": [0]}]
_ORDERS: list[Fields] = [{"name": "orders", "partitions": [0]}]
_OF_THE_ID = "WRITE TRANSACTIONAL_ID tx1"
_CLUSTER = (
    NOTHING,
    "CLUSTER_ACTION CLUSTER kafka-cluster",
    "ALTER CLUSTER kafka-cluster",
    "ALL CLUSTER kafka-cluster",
    "CLUSTER_ACTION CLUSTER kafka-cluster; deny ALL CLUSTER kafka-cluster",
    "WRITE TRANSACTIONAL_ID *; WRITE TOPIC *",
)


def rows() -> Rows:
    return [
        Row(
            "AddPartitionsToTxn",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _client(_ORDERS),
            (
                *variants("WRITE", "TRANSACTIONAL_ID", "tx1", beside="WRITE TOPIC *"),
                *variants("WRITE", "TOPIC", "orders", beside=_OF_THE_ID),
                NOTHING,
            ),
            (0, 3),
        ),
        Row(
            "AddPartitionsToTxn of several topics",
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _client(_TOPICS),
            (
                f"{_OF_THE_ID}; WRITE TOPIC *",
                f"{_OF_THE_ID}; WRITE TOPIC orders",
                f"{_OF_THE_ID}; WRITE TOPIC missing",
                f"{_OF_THE_ID}; DESCRIBE TOPIC *",
                NOTHING,
            ),
            (3,),
        ),
        Row("AddPartitionsToTxn of a broker", ApiKey.ADD_PARTITIONS_TO_TXN, _broker(), _CLUSTER, (4, 5)),
        Row(
            "AddOffsetsToTxn",
            ApiKey.ADD_OFFSETS_TO_TXN,
            {"transactional_id": "tx1", "group_id": "g1"},
            (
                *variants("WRITE", "TRANSACTIONAL_ID", "tx1", beside="READ GROUP g1"),
                *variants("READ", "GROUP", "g1", beside=_OF_THE_ID),
                NOTHING,
            ),
        ),
        Row("EndTxn", ApiKey.END_TXN, {"transactional_id": "tx1"}, variants("WRITE", "TRANSACTIONAL_ID", "tx1")),
        Row(
            "TxnOffsetCommit",
            ApiKey.TXN_OFFSET_COMMIT,
            _offsets(),
            (
                *variants("WRITE", "TRANSACTIONAL_ID", "tx1", beside="READ GROUP g1; READ TOPIC *"),
                *variants("READ", "GROUP", "g1", beside=f"{_OF_THE_ID}; READ TOPIC *"),
                f"{_OF_THE_ID}; READ GROUP g1; DESCRIBE TOPIC *",
                f"{_OF_THE_ID}; READ GROUP g1; READ TOPIC missing",
                NOTHING,
            ),
            (2, 4),
        ),
        Row("WriteTxnMarkers", ApiKey.WRITE_TXN_MARKERS, _markers(), _CLUSTER, (1, 2)),
        Row(
            "DescribeTransactions",
            ApiKey.DESCRIBE_TRANSACTIONS,
            {"transactional_ids": ["tx1", "tx2"]},
            (
                *variants("DESCRIBE", "TRANSACTIONAL_ID", "tx1"),
                "WRITE TRANSACTIONAL_ID tx1; deny DESCRIBE TRANSACTIONAL_ID tx2",
            ),
        ),
        Row(
            "ListTransactions",
            ApiKey.LIST_TRANSACTIONS,
            {"state_filters": ["Ongoing"]},
            (NOTHING, "DESCRIBE TRANSACTIONAL_ID *"),
            (0, 1),
        ),
        Row(
            "DescribeProducers",
            ApiKey.DESCRIBE_PRODUCERS,
            {
                "topics": [
                    {"name": "other", "partition_indexes": [7]},
                    {"name": "missing", "partition_indexes": [0]},
                ]
            },
            (*variants("READ", "TOPIC", "other"), "READ TOPIC *"),
        ),
    ]


def _client(topics: list[Fields]) -> Fields:
    return {"v3_and_below_transactional_id": "tx1", "v3_and_below_topics": topics}


def _broker() -> Fields:
    return {"transactions": [{"transactional_id": "tx1", "verify_only": True, "topics": _ORDERS}]}


def _offsets() -> Fields:
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    topics = [{"name": name, "partitions": partitions} for name in ("orders", "missing")]
    return {"transactional_id": "tx1", "group_id": "g1", "topics": topics}


def _markers() -> Fields:
    return {"markers": [{"producer_id": 987654, "topics": [{"name": "missing", "partition_indexes": [0]}]}]}
