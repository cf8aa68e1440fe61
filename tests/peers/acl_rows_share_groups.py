"""The rows of the table about share groups.

On the stage ``queue`` has offsets and no members, ``workers`` has one member, and ``idle`` has had one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.peers.acl_matrix import NOTHING, Fields, Row, Rows, variants
from tests.peers.acl_rows_groups import group_and_topics

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SETTINGS", "make_share_groups", "rows"]

SETTINGS = {
    # The member on the stage stays without heartbeats.
    "group.share.max.session.timeout.ms": "3600000",
    "group.share.session.timeout.ms": "3600000",
    # A member that joins another group in a case is answered alike whenever it is asked.
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
_OF_A_MEMBER = "{me}-queue"


def make_share_groups(call: Callable[..., Any], read: Iterable[str]) -> None:
    """Make the groups. ``queue`` has a start offset in ``orders``, ``other``, and in the topics ``read``."""
    worker, *_ = [_beat(call, group, 0) for group in ("workers", "queue", "idle")]
    while worker.assignment is None or not worker.assignment.topic_partitions:
        time.sleep(0.1)
        worker = _beat(call, "workers", worker.member_epoch)
    for group in ("queue", "idle"):
        _beat(call, group, -1)
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)],
        )
        for name in ("orders", "other", *read)
    ]
    answer = _settled(call, AlterShareGroupOffsetsRequest(group_id="queue", topics=topics))
    assert {part.error_code for topic in answer.responses for part in topic.partitions} == {0}, answer


def _beat(call: Callable[..., Any], group: str, epoch: int) -> Any:
    request = ShareGroupHeartbeatRequest(group_id=group, member_id=_MEMBER, member_epoch=epoch)
    if epoch == 0:
        request.subscribed_topic_names = ["orders-eu"] if group == "idle" else ["orders", "orders-eu"]
    return _settled(call, request)


def _settled(call: Callable[..., Any], request: Any) -> Any:
    """Return the answer once the coordinator is there."""
    deadline = time.monotonic() + 30
    while (answer := call(request)).error_code != 0:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


def rows() -> Rows:
    return [*_membership(), *_delivery(), *_offsets()]


def _membership() -> Rows:
    joining: Fields = {
        "group_id": _OF_A_MEMBER,
        "member_id": _MEMBER,
        "member_epoch": 0,
        "subscribed_topic_names": ["orders", "missing"],
    }
    both: Fields = {"group_ids": ["workers", "nobody"]}
    return [
        Row(
            "ShareGroupHeartbeat",
            ApiKey.SHARE_GROUP_HEARTBEAT,
            joining,
            group_and_topics("READ", _OF_A_MEMBER, "DESCRIBE"),
        ),
        Row(
            "ShareGroupDescribe",
            ApiKey.SHARE_GROUP_DESCRIBE,
            both,
            (*group_and_topics("DESCRIBE", "workers", "DESCRIBE"), "DESCRIBE GROUP *; DESCRIBE TOPIC orders..."),
        ),
        Row(
            "ShareGroupDescribe with bits",
            ApiKey.SHARE_GROUP_DESCRIBE,
            {**both, "include_authorized_operations": True},
            (
                "ALL GROUP *; ALL TOPIC *",
                "ALL GROUP workers; deny DELETE GROUP workers; DESCRIBE GROUP nobody; DESCRIBE TOPIC *",
                "ALTER_CONFIGS GROUP *; DESCRIBE GROUP *; READ TOPIC *",
                "READ GROUP workers; DESCRIBE TOPIC orders",
                "ALL GROUP *; deny DESCRIBE GROUP workers",
            ),
        ),
    ]


def _delivery() -> Rows:
    """Of topics of their own, which have no records, so that no case takes records from another."""
    topics = ("{me}-a", "{me}-b")
    partitions = [{"partition_index": 0}]
    reading: Fields = {
        "group_id": "queue",
        "member_id": _MEMBER,
        "share_session_epoch": 0,
        "max_bytes": 1_000_000,
        "max_records": 10,
        "batch_size": 10,
        "topics": [{"topic_id": f"id:{name}", "partitions": partitions} for name in topics],
    }
    unknown: Fields = {"group_id": "queue", "member_id": _MEMBER, "share_session_epoch": 1, "topics": []}
    read = variants("READ", "GROUP", "queue")
    return [
        Row(
            "ShareFetch",
            ApiKey.SHARE_FETCH,
            reading,
            (
                "READ GROUP queue; READ TOPIC *",
                "READ TOPIC *",
                *variants("READ", "TOPIC", "{me}-a", beside="READ GROUP queue"),
                NOTHING,
            ),
            topics=topics,
        ),
        Row("ShareFetch in an unknown session", ApiKey.SHARE_FETCH, unknown, read),
        Row("ShareAcknowledge", ApiKey.SHARE_ACKNOWLEDGE, unknown, read),
    ]


def _offsets() -> Rows:
    three = ("orders", "other", "missing")
    partitions = [{"partition_index": 0, "start_offset": 0}]
    described = [{"topic_name": name, "partitions": [0]} for name in three]
    return [
        Row(
            "DescribeShareGroupOffsets",
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            {"groups": [{"group_id": "queue", "topics": described}]},
            group_and_topics("DESCRIBE", "queue", "DESCRIBE"),
        ),
        Row(
            "DescribeShareGroupOffsets of all topics",
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            {"groups": [{"group_id": group, "topics": None} for group in ("queue", "idle", "nobody")]},
            (
                *group_and_topics("DESCRIBE", "queue", "DESCRIBE"),
                "DESCRIBE GROUP *; DESCRIBE TOPIC other",
                "DESCRIBE GROUP *; deny DESCRIBE GROUP queue; DESCRIBE TOPIC *",
            ),
        ),
        Row(
            "AlterShareGroupOffsets",
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            {"group_id": "queue", "topics": [{"topic_name": name, "partitions": partitions} for name in three]},
            group_and_topics("READ", "queue", "READ"),
        ),
        Row(
            "DeleteShareGroupOffsets",
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            {"group_id": "idle", "topics": [{"topic_name": name} for name in three]},
            group_and_topics("DELETE", "idle", "READ"),
        ),
    ]
