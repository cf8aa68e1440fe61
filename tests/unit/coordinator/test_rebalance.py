"""A classic group's rebalances: joining, syncing, leaving, timing out."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from tests.unit.coordinator.group_driver import RANGE, GroupDriver


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver().load()


def test_a_new_dynamic_member_is_first_given_its_id(group: GroupDriver) -> None:
    answer = group.join(version=4).value
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "client-uuid-1"
    assert answer.generation_id == -1
    assert group.state() == "Empty"


def test_before_version_4_a_new_member_joins_at_once(group: GroupDriver) -> None:
    answer = group.join(version=3)
    assert answer.value.error_code == ErrorCode.NONE
    assert answer.value.generation_id == 1
    assert answer.value.leader == answer.value.member_id
    assert [member.member_id for member in answer.value.members] == [answer.value.member_id]
    assert group.state() == "CompletingRebalance"


def test_the_leaders_sync_makes_the_group_stable_and_hands_out_its_assignments(group: GroupDriver) -> None:
    leader, follower, generation = group.two_members()
    described = group.describe()
    assert described.group_state == "Stable"
    assert described.protocol_data == "range"
    assert {member.member_id: member.member_assignment for member in described.members} == {
        leader: b"for the leader",
        follower: b"for the follower",
    }
    assert generation == 2
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.members[0].member_metadata == RANGE["range"]
