"""A member of a share group: what it sends, what it is assigned, and how it rejoins."""

from __future__ import annotations

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.membership import Answer
from barnabas.clients.membership.share_membership import ShareMembership
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

ORDERS = Uuid.from_int(1 << 90)
INTERVAL_MS = 5000


def member() -> ShareMembership:
    return ShareMembership(
        "g", "m-1", ["orders", "bills"], HeartbeatSchedule(backoff_ms=100, backoff_ms_max=1000), rack_id="r"
    )


def answer(
    epoch: int, partitions: list[int] | None = None, code: ErrorCode = ErrorCode.NONE
) -> ShareGroupHeartbeatResponse:
    assigned = [TopicPartitions(topic_id=ORDERS, partitions=partitions)] if partitions else []
    return ShareGroupHeartbeatResponse(
        member_id="m-1", member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, error_code=code,
        assignment=None if partitions is None else Assignment(topic_partitions=assigned),
    )  # fmt: skip


def test_a_member_joins_with_its_topics_and_sends_only_its_ids_later() -> None:
    membership = member()
    first = membership.request(0)
    assert (first.member_id, first.member_epoch, first.rack_id) == ("m-1", 0, "r")
    assert first.subscribed_topic_names == ["bills", "orders"]
    membership.receive(answer(3, [0, 1]), 0)
    assert membership.assigned == {ORDERS: {0, 1}}
    assert membership.due_ms() == INTERVAL_MS
    later = membership.request(INTERVAL_MS)
    assert (later.member_epoch, later.rack_id, later.subscribed_topic_names) == (3, None, None)


def test_the_first_assignment_is_learnt_soon() -> None:
    membership = member()
    membership.request(0)
    membership.receive(answer(2, []), 0)
    assert membership.due_ms() == 500
    membership.request(500)
    membership.receive(answer(3, [0]), 500)
    assert membership.due_ms() == 500 + INTERVAL_MS


def test_a_member_without_partitions_does_not_hurry_for_ever() -> None:
    membership = member()
    now_ms = 0
    for _ in range(40):
        membership.request(now_ms)
        membership.receive(answer(2, []), now_ms)
        before, now_ms = now_ms, membership.due_ms() or 0
    assert now_ms - before == INTERVAL_MS


def test_a_fenced_member_joins_again() -> None:
    membership = member()
    membership.request(0)
    membership.receive(answer(3, [0]), 0)
    membership.request(INTERVAL_MS)
    fenced = membership.receive(answer(0, code=ErrorCode.UNKNOWN_MEMBER_ID), INTERVAL_MS)
    assert fenced is Answer.FENCED
    assert membership.assigned == {}
    again = membership.request(INTERVAL_MS)
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ["bills", "orders"])


def test_a_refused_member_ends() -> None:
    membership = member()
    membership.request(0)
    with pytest.raises(AdminError):
        membership.receive(answer(0, code=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0)
    assert membership.due_ms() is None
    assert membership.leave() is None


def test_a_member_leaves() -> None:
    membership = member()
    membership.request(0)
    membership.receive(answer(3, [0]), 0)
    request = membership.leave()
    assert request is not None
    assert (request.member_id, request.member_epoch) == ("m-1", -1)
