"""Static members (KIP-345): a restart under the same instance id causes no rebalance."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from tests.unit.coordinator.group_driver import SESSION_MS, GroupDriver, subscription


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver().load()


def static_pair(group: GroupDriver) -> tuple[str, str, int]:
    """Create a Stable group with the static leader i-1 and the static follower i-2."""
    first = group.join(instance="i-1").value
    group.sync(first.member_id, 1, {first.member_id: b"all"}, instance="i-1")
    second = group.join(instance="i-2")
    group.join(first.member_id, instance="i-1")
    follower, generation = second.value.member_id, second.value.generation_id
    group.sync(follower, generation, instance="i-2")
    group.sync(first.member_id, generation, {first.member_id: b"one", follower: b"two"}, instance="i-1")
    return first.member_id, follower, generation


def test_a_static_member_joins_with_one_request(group: GroupDriver) -> None:
    joined = group.join(instance="i-1").value
    assert joined.error_code == ErrorCode.NONE
    assert joined.member_id == "i-1-uuid-1"
    assert joined.members[0].group_instance_id == "i-1"


def test_a_returning_follower_takes_its_place_without_a_rebalance(group: GroupDriver) -> None:
    leader, follower, generation = static_pair(group)
    back = group.join(instance="i-2").value
    assert (back.error_code, back.generation_id, back.leader) == (ErrorCode.NONE, generation, leader)
    assert back.member_id not in (leader, follower)
    assert (back.skip_assignment, back.members) == (False, [])
    assert group.state() == "Stable"
    assert group.sync(back.member_id, generation, instance="i-2").value.assignment == b"two"


def test_a_returning_leader_skips_the_assignment(group: GroupDriver) -> None:
    _, follower, generation = static_pair(group)
    back = group.join(instance="i-1").value
    assert back.leader == back.member_id
    assert back.skip_assignment
    assert {member.member_id for member in back.members} == {back.member_id, follower}
    assert group.sync(back.member_id, generation, instance="i-1").value.assignment == b"one"


def test_a_returning_leader_that_cannot_skip_is_answered_as_a_follower(group: GroupDriver) -> None:
    leader, _, _ = static_pair(group)
    back = group.join(instance="i-1", version=8).value
    assert (back.leader, back.members, back.skip_assignment) == (leader, [], False)


def test_the_replaced_member_id_is_fenced(group: GroupDriver) -> None:
    _, follower, generation = static_pair(group)
    back = group.join(instance="i-2").value.member_id
    assert group.heartbeat(follower, generation, instance="i-2") == ErrorCode.FENCED_INSTANCE_ID
    assert group.sync(follower, generation, instance="i-2").value.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.join(follower, instance="i-2").value.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.commit_code(member_id=follower, generation=generation, instance="i-2") == ErrorCode.FENCED_INSTANCE_ID
    assert group.leave((follower, "i-2")).value.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat(back, generation, instance="i-2") == ErrorCode.NONE


def test_the_new_member_id_is_committed(group: GroupDriver) -> None:
    static_pair(group)
    back = group.join(instance="i-2").value.member_id
    members = {member.group_instance_id: member for member in group.restarted().describe().members}
    assert members["i-2"].member_id == back
    assert members["i-2"].member_assignment == b"two"


def test_the_old_id_is_restored_when_the_new_one_cannot_be_committed(group: GroupDriver) -> None:
    _, follower, generation = static_pair(group)
    group.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    failed = group.join(instance="i-2").value
    assert failed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.topic.refuse_with = None
    assert group.heartbeat(follower, generation, instance="i-2") == ErrorCode.NONE
    assert group.sync(follower, generation, instance="i-2").value.assignment == b"two"


def test_a_static_member_that_changes_the_groups_protocols_causes_a_rebalance(group: GroupDriver) -> None:
    both = {"range": subscription("orders"), "sticky": subscription("orders")}
    member = group.join(instance="i-1", protocols=both).value.member_id
    group.sync(member, 1, {member: b"all"}, instance="i-1")
    back = group.join(instance="i-1", protocols=dict(reversed(both.items())))
    assert (back.value.generation_id, back.value.protocol_name) == (2, "sticky")


def test_a_return_before_the_assignment_restarts_the_rebalance(group: GroupDriver) -> None:
    first = group.join(instance="i-1").value
    waiting = group.join(instance="i-1")
    assert waiting.value.generation_id == first.generation_id + 1
    assert group.state() == "CompletingRebalance"


def test_waiting_requests_of_the_replaced_member_are_fenced(group: GroupDriver) -> None:
    leader, _, _ = static_pair(group)
    parked = group.join(leader, instance="i-1")
    again = group.join(instance="i-1")
    assert parked.value.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert not again.is_complete


def test_a_static_member_stays_through_a_rebalance_that_it_does_not_join(group: GroupDriver) -> None:
    leader, follower, generation = static_pair(group)
    for _ in range(4):  # Beyond the rebalance timeout, with both sessions alive.
        group.advance(SESSION_MS - 1)
        group.heartbeat(leader, generation, instance="i-1")
        group.heartbeat(follower, generation, instance="i-2")
    waiting = group.join(leader, instance="i-1")
    for _ in range(4):
        group.advance(SESSION_MS - 1)
        if not waiting.is_complete:
            assert group.heartbeat(follower, generation, instance="i-2") == ErrorCode.REBALANCE_IN_PROGRESS
    assert {member.member_id for member in waiting.value.members} == {leader, follower}


def test_a_silent_static_member_is_removed_with_its_session(group: GroupDriver) -> None:
    leader, _, generation = static_pair(group)
    group.advance(SESSION_MS - 1)
    group.heartbeat(leader, generation, instance="i-1")
    group.advance(1)
    assert group.heartbeat(leader, generation, instance="i-1") == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(group.describe().members) == 1


def test_an_admin_removes_a_static_member_by_its_instance_id(group: GroupDriver) -> None:
    leader, _, generation = static_pair(group)
    (outcome,) = group.leave(("", "i-2")).value.members
    assert (outcome.error_code, outcome.group_instance_id) == (ErrorCode.NONE, "i-2")
    assert group.heartbeat(leader, generation, instance="i-1") == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unknown_instance_id_is_an_unknown_member(group: GroupDriver) -> None:
    leader, _, generation = static_pair(group)
    assert group.heartbeat(leader, generation, instance="i-9") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_cannot_become_static(group: GroupDriver) -> None:
    pending = group.join().value.member_id
    assert group.join(pending, instance="i-1").value.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
