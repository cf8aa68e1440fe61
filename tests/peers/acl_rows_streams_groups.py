"""The rows of the table about streams groups. On the stage ``builders`` has one member, and no internal topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology
from barnabas.protocol.messages.streams_group_heartbeat import Topology as SentTopology
from tests.peers.acl_matrix import Fields, Row, Rows, variants
from tests.peers.acl_rows_groups import group_and_topics

__all__ = ["SETTINGS", "make_streams_groups", "rows"]

SETTINGS = {
    # The member on the stage stays without heartbeats.
    "group.streams.max.session.timeout.ms": "3600000",
    "group.streams.session.timeout.ms": "3600000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAg"
_OF_A_MEMBER = "{me}-app"
_INTERNAL = "{me}-app-words-repartition"
_MAY_CREATE = f"CREATE TOPIC {_INTERNAL}"


def make_streams_groups(call: Callable[..., Any]) -> None:
    """Make ``builders``: its member reads ``orders`` and ``orders-eu``."""
    topics = ["orders", "orders-eu"]
    request = StreamsGroupHeartbeatRequest(
        group_id="builders",
        member_id=_MEMBER,
        process_id="process",
        rebalance_timeout_ms=60_000,
        topology=SentTopology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=topics)]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    deadline = time.monotonic() + 30
    while not (answer := call(request)).active_tasks:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def rows() -> Rows:
    return [*_membership(), *_descriptions()]


def _membership() -> Rows:
    following = {"group_id": _OF_A_MEMBER, "member_id": _MEMBER, "member_epoch": 3}
    needed = f"READ GROUP {_OF_A_MEMBER}; DESCRIBE TOPIC *"
    return [
        Row(
            "StreamsGroupHeartbeat",
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            _joining([{"subtopology_id": "0", "source_topics": ["orders", "missing"]}]),
            group_and_topics("READ", _OF_A_MEMBER, "DESCRIBE"),
        ),
        Row(
            "StreamsGroupHeartbeat that needs an internal topic",
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            _joining(
                [
                    {"subtopology_id": "0", "source_topics": ["orders"], "repartition_sink_topics": [_INTERNAL]},
                    {"subtopology_id": "1", "repartition_source_topics": [{"name": _INTERNAL}]},
                ]
            ),
            (
                *variants("CREATE", "CLUSTER", beside=needed),
                *variants("CREATE", "TOPIC", _INTERNAL, beside=needed),
                *variants("DESCRIBE", "TOPIC", _INTERNAL, beside=f"READ GROUP *; DESCRIBE TOPIC orders; {_MAY_CREATE}"),
            ),
        ),
        Row(
            "StreamsGroupHeartbeat of an unknown member",
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            following,
            variants("READ", "GROUP", _OF_A_MEMBER),
        ),
    ]


def _joining(subtopologies: list[Fields]) -> Fields:
    return {
        "group_id": _OF_A_MEMBER,
        "member_id": _MEMBER,
        "process_id": "process",
        "rebalance_timeout_ms": 60_000,
        "topology": {"epoch": 1, "subtopologies": subtopologies},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


def _descriptions() -> Rows:
    both: Fields = {"group_ids": ["builders", "nobody"]}
    return [
        Row(
            "StreamsGroupDescribe",
            ApiKey.STREAMS_GROUP_DESCRIBE,
            both,
            (*group_and_topics("DESCRIBE", "builders", "DESCRIBE"), "DESCRIBE GROUP *; DESCRIBE TOPIC orders..."),
        ),
        Row(
            "StreamsGroupDescribe with bits",
            ApiKey.STREAMS_GROUP_DESCRIBE,
            {**both, "include_authorized_operations": True},
            (
                "ALL GROUP *; ALL TOPIC *",
                "ALL GROUP builders; deny DELETE GROUP builders; DESCRIBE GROUP nobody; DESCRIBE TOPIC *",
                "ALTER_CONFIGS GROUP *; DESCRIBE GROUP *; READ TOPIC *",
                "READ GROUP builders; DESCRIBE TOPIC orders",
                "ALL GROUP *; deny DESCRIBE GROUP builders",
            ),
        ),
    ]
