"""The rows of the table about groups: ``g1`` and ``g2`` have committed offsets and no members."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from tests.peers.acl_matrix import NOTHING, Fields, Row, Rows, variants

__all__ = ["rows"]

READ_G1 = "READ GROUP g1"
SOME_TOPICS = (
    "{also}; READ TOPIC orders",
    "{also}; READ TOPIC ord...; READ TOPIC missing",
    "{also}; READ TOPIC *; deny READ TOPIC orders",
    "{also}; DESCRIBE TOPIC orders; READ TOPIC other",
)

NAMED_BY_ASTERISK = (
    "DESCRIBE GROUP *",
    "DESCRIBE GROUP *...",
    "ALL GROUP *; deny READ GROUP *...",
    "READ GROUP *...; deny DESCRIBE GROUP *a",
    "DESCRIBE GROUP *a; deny ALL GROUP *",
)


def some_topics(also: str) -> tuple[str, ...]:
    return tuple(rights.format(also=also) for rights in SOME_TOPICS)


def group_and_topics(group_right: str, group: str, topic_right: str) -> tuple[str, ...]:
    """Return each set of rights on the group together with all topics, and each on a topic together with the group."""
    return (
        *variants(group_right, "GROUP", group, beside=f"{topic_right} TOPIC *"),
        *variants(topic_right, "TOPIC", "orders", beside=f"{group_right} GROUP {group}"),
        *some_topics(f"{group_right} GROUP {group}"),
        NOTHING,
    )


def _offsets() -> Rows:
    def committed(*names: str) -> Fields:
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        return {
            "group_id": "g1",
            "topics": [{"name": name, "topic_id": f"id:{name}", "partitions": partitions} for name in names],
        }

    def fetched(*names: str) -> Fields:
        wanted = [{"name": name, "topic_id": f"id:{name}", "partition_indexes": [0, 7]} for name in names]
        return {
            "group_id": "g1",
            "topics": [{"name": name, "partition_indexes": [0, 7]} for name in names],
            "groups": [{"group_id": "g1", "topics": wanted}],
        }

    everything: Fields = {"group_id": "g1", "topics": None, "groups": [{"group_id": "g1", "topics": None}]}
    several: Fields = {"groups": [{"group_id": group, "topics": None} for group in ("g1", "g2", "nobody")]}
    deleted: Fields = {
        "group_id": "g2",
        "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("orders", "missing")],
    }
    three = ("orders", "other", "missing")
    return [
        Row(
            "OffsetCommit",
            ApiKey.OFFSET_COMMIT,
            committed(*three),
            group_and_topics("READ", "g1", "READ"),
            (2, 9, 10),
        ),
        Row(
            "OffsetFetch",
            ApiKey.OFFSET_FETCH,
            fetched(*three),
            group_and_topics("DESCRIBE", "g1", "DESCRIBE"),
            (1, 7, 9, 10),
        ),
        Row(
            "OffsetFetch of all topics",
            ApiKey.OFFSET_FETCH,
            everything,
            group_and_topics("DESCRIBE", "g1", "DESCRIBE"),
            (2, 8, 10),
        ),
        Row(
            "OffsetFetch of several groups",
            ApiKey.OFFSET_FETCH,
            several,
            (
                "READ GROUP g1; READ TOPIC *",
                "DESCRIBE GROUP g...; DESCRIBE TOPIC orders",
                "DESCRIBE GROUP *; deny READ GROUP *; READ TOPIC other",
                "DESCRIBE GROUP *; deny DESCRIBE GROUP g1; READ TOPIC *",
            ),
            (8, 10),
        ),
        Row(
            "OffsetDelete",
            ApiKey.OFFSET_DELETE,
            deleted,
            (
                *variants("DELETE", "GROUP", "g2", beside="READ TOPIC *"),
                *variants("READ", "TOPIC", "orders", beside="DELETE GROUP g2"),
                *some_topics("DELETE GROUP g2"),
                NOTHING,
            ),
        ),
    ]


def _members() -> Rows:
    read = variants("READ", "GROUP", "g1")
    join: Fields = {
        "group_id": "{me}-group",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    sync: Fields = {
        "group_id": "g1",
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    leave: Fields = {"group_id": "g1", "member_id": "nobody", "members": [{"member_id": "nobody"}]}
    beat: Fields = {"group_id": "g1", "generation_id": 1, "member_id": "nobody"}
    return [
        Row("JoinGroup", ApiKey.JOIN_GROUP, join, variants("READ", "GROUP", "{me}-group"), (4, 6, 9)),
        Row("JoinGroup before version 4", ApiKey.JOIN_GROUP, join, (NOTHING, "READ GROUP {me}-group"), (2,)),
        Row("SyncGroup", ApiKey.SYNC_GROUP, sync, read, (0, 5)),
        Row("Heartbeat", ApiKey.HEARTBEAT, beat, read, (0, 4)),
        Row("LeaveGroup", ApiKey.LEAVE_GROUP, leave, read, (0, 3, 5)),
    ]


def _administration() -> Rows:
    describe = variants("DESCRIBE", "GROUP", "g1")
    both: Fields = {"groups": ["g1", "nobody"]}
    with_bits: Fields = {**both, "include_authorized_operations": True}
    bits = (
        "ALL GROUP *",
        "ALL GROUP g1; deny DELETE GROUP g1; ALL GROUP nob...; deny READ GROUP nobody",
        "ALTER_CONFIGS GROUP *; DESCRIBE GROUP *",
        "READ GROUP g1; DELETE GROUP nobody",
        "ALL GROUP *; deny DESCRIBE GROUP g1",
        "READ GROUP *; DELETE GROUP * @127.0.0.2; ALTER_CONFIGS GROUP * @127.0.0.1",
    )
    return [
        Row("DescribeGroups", ApiKey.DESCRIBE_GROUPS, both, describe, (0, 2, 5, 6)),
        Row(
            "DescribeGroups named by an asterisk",
            ApiKey.DESCRIBE_GROUPS,
            {"groups": ["*", "a"], "include_authorized_operations": True},
            NAMED_BY_ASTERISK,
            (5, 6),
        ),
        Row(
            "DescribeGroups with an asterisk before the name",
            ApiKey.DESCRIBE_GROUPS,
            {"groups": ["*a"], "include_authorized_operations": True},
            NAMED_BY_ASTERISK,
            (5, 6),
        ),
        Row("DescribeGroups with bits", ApiKey.DESCRIBE_GROUPS, with_bits, (*describe, *bits), (2, 3, 5, 6)),
        Row(
            "ListGroups",
            ApiKey.LIST_GROUPS,
            {},
            (*describe, *variants("DESCRIBE", "CLUSTER")[1:], "READ GROUP g...", "DESCRIBE GROUP *; deny ALL GROUP g1"),
            (0, 4, 5),
        ),
        Row(
            "DeleteGroups",
            ApiKey.DELETE_GROUPS,
            {"groups_names": ["nobody", "{me}-group", "nobody"]},
            (*variants("DELETE", "GROUP", "nobody"), "DELETE GROUP {me}..."),
        ),
        Row("FindCoordinator", ApiKey.FIND_COORDINATOR, _coordinator(0, "g1"), describe, (0, 1, 3, 4, 6)),
        Row(
            "FindCoordinator of several",
            ApiKey.FIND_COORDINATOR,
            {"key_type": 0, "coordinator_keys": ["g1", "g2"]},
            (NOTHING, "READ GROUP g2", "DESCRIBE GROUP g...; deny DESCRIBE GROUP g2"),
            (4, 6),
        ),
        Row(
            "FindCoordinator of a transaction",
            ApiKey.FIND_COORDINATOR,
            _coordinator(1, "tx1"),
            (
                NOTHING,
                "DESCRIBE TRANSACTIONAL_ID tx1; deny DESCRIBE TRANSACTIONAL_ID tx...",
                "DESCRIBE GROUP tx1",
                "WRITE TRANSACTIONAL_ID tx1",
                "DESCRIBE TRANSACTIONAL_ID *",
            ),
            (1, 6),
        ),
        Row(
            "FindCoordinator of a share group",
            ApiKey.FIND_COORDINATOR,
            {"key_type": 2, "coordinator_keys": ["g1:AAAAAAAAAAAAAAAAAAAAAQ:0"]},
            (NOTHING, "DESCRIBE GROUP *", "CREATE CLUSTER kafka-cluster"),
            (6,),
        ),
    ]


def _coordinator(kind: int, key: str) -> Fields:
    return {"key": key, "key_type": kind, "coordinator_keys": [key]}


def rows() -> Rows:
    return [*_offsets(), *_members(), *_administration()]
