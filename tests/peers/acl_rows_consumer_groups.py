"""The rows of the table about groups of the consumer protocol. On the stage ``readers`` has one member."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.peers.acl_matrix import Fields, Row, Rows, variants
from tests.peers.acl_rows_groups import group_and_topics

__all__ = ["SETTINGS", "make_consumer_groups", "rows"]

SETTINGS = {
    # The member on the stage stays without heartbeats.
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "group.consumer.assignment.interval.ms": "0",
}
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAw"
_OF_A_MEMBER = "{me}-readers"


def make_consumer_groups(call: Callable[..., Any]) -> None:
    """Make ``readers``: its member reads ``orders`` and ``orders-eu``."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id=_MEMBER,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders", "orders-eu"],
        topic_partitions=[],
    )
    deadline = time.monotonic() + 30
    while (answer := call(request)).assignment is None or not answer.assignment.topic_partitions:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def rows() -> Rows:
    return [*_membership(), *_descriptions()]


def _membership() -> Rows:
    joining: Fields = {
        "group_id": _OF_A_MEMBER,
        "member_id": _MEMBER,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
    }
    following: Fields = {"group_id": _OF_A_MEMBER, "member_id": _MEMBER, "member_epoch": 3}
    leaving: Fields = {"group_id": "{me}-nobody", "member_id": _MEMBER, "member_epoch": -1}
    return [
        Row(
            "ConsumerGroupHeartbeat",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            {**joining, "subscribed_topic_names": ["orders", "missing"]},
            group_and_topics("READ", _OF_A_MEMBER, "DESCRIBE"),
        ),
        Row(
            "ConsumerGroupHeartbeat with a regular expression",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            {**joining, "subscribed_topic_regex": "orders.*"},
            variants("READ", "GROUP", _OF_A_MEMBER),
            versions=(1,),
        ),
        Row(
            "ConsumerGroupHeartbeat of an unknown member",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            following,
            variants("READ", "GROUP", _OF_A_MEMBER),
        ),
        Row(
            "ConsumerGroupHeartbeat of a member that leaves",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            leaving,
            variants("READ", "GROUP", "{me}-nobody"),
        ),
    ]


def _descriptions() -> Rows:
    both: Fields = {"group_ids": ["readers", "nobody"]}
    return [
        Row(
            "ConsumerGroupDescribe",
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            both,
            (*group_and_topics("DESCRIBE", "readers", "DESCRIBE"), "DESCRIBE GROUP *; DESCRIBE TOPIC orders..."),
        ),
        Row(
            "ConsumerGroupDescribe with bits",
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            {**both, "include_authorized_operations": True},
            (
                "ALL GROUP *; ALL TOPIC *",
                "ALL GROUP readers; deny DELETE GROUP readers; DESCRIBE GROUP nobody; DESCRIBE TOPIC *",
                "ALTER_CONFIGS GROUP *; DESCRIBE GROUP *; READ TOPIC *",
                "READ GROUP readers; DESCRIBE TOPIC orders",
                "ALL GROUP *; deny DESCRIBE GROUP readers",
            ),
        ),
    ]
