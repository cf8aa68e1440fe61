"""A classic group's rebalances: joining, syncing, leaving, timing out."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from tests.unit.coordinator.group_driver import GROUP, RANGE, SESSION_MS, GroupDriver, subscription


@pytest.fixture
def group() -> GroupDriver:
    return GroupDriver().load()


def test_a_new_dynamic_member_first_receives_its_id(group: GroupDriver) -> None:
    answer = group.join(version=4).value
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "client-uuid-1"
    assert answer.generation_id == -1
    assert group.state() == "Empty"


def test_before_version_4_a_new_member_joins_immediately(group: GroupDriver) -> None:
    answer = group.join(version=3)
    assert answer.value.error_code == ErrorCode.NONE
    assert answer.value.generation_id == 1
    assert answer.value.leader == answer.value.member_id
    assert [member.member_id for member in answer.value.members] == [answer.value.member_id]
    assert group.state() == "CompletingRebalance"


def test_the_leaders_sync_stabilizes_the_group_and_distributes_its_assignments(group: GroupDriver) -> None:
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


def test_a_follower_learns_its_assignment_when_the_leader_has_synced(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    follower, joined = group.join_known()
    group.join(leader)
    generation = joined.value.generation_id
    assert joined.value.members == []
    waiting = group.sync(follower, generation)
    assert not waiting.is_complete
    group.sync(leader, generation, {leader: b"a", follower: b"b"})
    assert waiting.value.assignment == b"b"
    assert waiting.value.protocol_name == "range"
    assert waiting.value.protocol_type == "consumer"


def test_a_member_without_an_assignment_receives_an_empty_one(group: GroupDriver) -> None:
    member, joined = group.join_known()
    assert group.sync(member, joined.value.generation_id, {}).value.assignment == b""
    assert group.state() == "Stable"


def test_syncing_again_in_a_stable_group_returns_the_same_assignment(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    assert group.sync(member, generation).value.assignment == b"everything"


def test_the_initial_delay_lets_more_members_join(group: GroupDriver) -> None:
    group = GroupDriver(
        GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3_000, offsets_topic_num_partitions=1)
    ).load()
    _, first = group.join_known()
    group.advance(2_000)
    _, second = group.join_known()
    group.advance(1_000)
    assert not first.is_complete  # A member joined meanwhile: another delay.
    group.advance(2_999)
    assert not first.is_complete
    group.advance(1)
    assert first.value.generation_id == second.value.generation_id == 1
    assert len(first.value.members) == 2


def test_the_initial_delay_ends_with_the_rebalance_timeout_however_many_members_come(group: GroupDriver) -> None:
    group = GroupDriver(
        GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3_000, offsets_topic_num_partitions=1)
    ).load()
    _, first = group.join_known(rebalance_ms=7_000)
    for _ in range(7):
        group.advance(1_000)
        assert first.is_complete == (group.now_ms - 1_000_000 >= 7_000)
        group.join_known(rebalance_ms=7_000)


def test_a_second_member_causes_the_first_to_rejoin(group: GroupDriver) -> None:
    leader, generation = group.stable_member()
    _, joined = group.join_known()
    assert group.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state() == "PreparingRebalance"
    assert not joined.is_complete
    group.join(leader)
    assert joined.value.generation_id == generation + 1
    assert group.state() == "CompletingRebalance"


def test_a_dynamic_member_that_does_not_rejoin_in_time_is_removed(group: GroupDriver) -> None:
    leader, generation = group.stable_member(session_ms=60_000, rebalance_ms=5_000)
    follower, joined = group.join_known(session_ms=60_000, rebalance_ms=5_000)
    group.advance(4_999)
    assert not joined.is_complete
    group.advance(1)
    assert joined.value.leader == follower
    assert [member.member_id for member in joined.value.members] == [follower]
    assert group.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_session_ends_is_removed_and_the_group_rebalances(group: GroupDriver) -> None:
    leader, follower, generation = group.two_members()
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(leader, generation) == ErrorCode.NONE
    group.advance(1)
    assert group.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_session_open(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    for _ in range(10):
        group.advance(SESSION_MS - 1)
        assert group.heartbeat(member, generation) == ErrorCode.NONE
    group.advance(SESSION_MS)
    assert group.state() == "Empty"


def test_a_session_does_not_end_while_the_member_waits_for_the_others_to_join(group: GroupDriver) -> None:
    leader, follower, _ = group.two_members()
    waiting = group.join(leader)
    group.advance(SESSION_MS - 1)
    assert group.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    group.advance(SESSION_MS - 1)
    assert not waiting.is_complete
    group.join(follower)
    assert waiting.value.error_code == ErrorCode.NONE


def test_a_new_members_parked_join_ends_after_five_minutes(group: GroupDriver) -> None:
    leader, generation = group.stable_member(rebalance_ms=600_000, session_ms=600_000)
    _, waiting = group.join_known(rebalance_ms=600_000, session_ms=600_000)
    group.advance(300_000)
    assert waiting.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_never_rejoins_with_its_id_is_forgotten(group: GroupDriver) -> None:
    member_id = group.join().value.member_id
    group.advance(SESSION_MS)
    assert group.join(member_id).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_members_that_received_an_id(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    pending = group.join().value.member_id
    rejoined = group.join(leader)
    assert not rejoined.is_complete
    group.join(pending)
    assert len(rejoined.value.members) == 2


def test_a_pending_member_that_leaves_lets_the_rebalance_complete(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    pending = group.join().value.member_id
    rejoined = group.join(leader)
    assert group.leave((pending, None)).value.members[0].error_code == ErrorCode.NONE
    assert rejoined.value.error_code == ErrorCode.NONE


def test_members_that_do_not_sync_in_time_are_removed(group: GroupDriver) -> None:
    leader, _ = group.stable_member(session_ms=60_000, rebalance_ms=5_000)
    follower, joined = group.join_known(session_ms=60_000, rebalance_ms=5_000)
    group.join(leader, session_ms=60_000, rebalance_ms=5_000)
    generation = joined.value.generation_id
    waiting = group.sync(follower, generation)
    group.advance(5_000)
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_leaving_answers_the_members_waiting_requests(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    joining, waiting = group.join_known()
    assert group.leave((joining, None)).value.members[0].error_code == ErrorCode.NONE
    assert waiting.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    follower, joined = group.join_known()
    group.join(leader)
    syncing = group.sync(follower, joined.value.generation_id)
    group.leave((follower, None))
    assert syncing.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group_of_the_next_generation(group: GroupDriver) -> None:
    member, _ = group.stable_member()
    group.leave((member, None))
    described = group.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
    _, again = group.join_known()
    assert again.value.generation_id == 3


def test_leaving_is_answered_member_by_member(group: GroupDriver) -> None:
    member, _ = group.stable_member()
    outcomes = group.leave((member, None), ("stranger", None), ("", "nobody")).value.members
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_leaving_an_unknown_group_is_an_error_of_each_member(group: GroupDriver) -> None:
    answer = group.leave(("x", None), group="unknown").value
    assert (answer.error_code, answer.members[0].error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def test_the_leader_may_ask_for_a_rebalance_by_joining_again(group: GroupDriver) -> None:
    leader, follower, generation = group.two_members()
    unchanged = group.join(follower)
    assert (unchanged.value.generation_id, unchanged.value.members) == (generation, [])
    assert group.state() == "Stable"
    group.join(leader)
    assert group.state() == "PreparingRebalance"


def test_a_follower_with_other_metadata_causes_a_rebalance(group: GroupDriver) -> None:
    _, follower, _ = group.two_members()
    assert not group.join(follower, protocols={"range": subscription("orders", "payments")}).is_complete
    assert group.state() == "PreparingRebalance"


def test_a_member_that_missed_its_join_response_receives_it_again(group: GroupDriver) -> None:
    member, joined = group.join_known()
    again = group.join(member)
    assert again.value == joined.value
    assert len(again.value.members) == 1


def test_joining_while_others_wait_to_sync_restarts_the_rebalance(group: GroupDriver) -> None:
    leader, _ = group.stable_member()
    follower, joined = group.join_known()
    group.join(leader)
    syncing = group.sync(follower, joined.value.generation_id)
    group.join_known()
    assert syncing.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state() == "PreparingRebalance"


def test_a_join_sent_twice_answers_the_first_with_a_retriable_error(group: GroupDriver) -> None:
    _, _, _ = group.two_members()
    joining, first = group.join_known()
    second = group.join(joining)
    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.is_complete


def test_the_protocol_with_most_votes_among_the_common_ones_wins(group: GroupDriver) -> None:
    meta = subscription("orders")
    first, _ = group.stable_member(protocols={"range": meta, "roundrobin": meta})
    group.join_known(protocols={"roundrobin": meta, "range": meta})
    _, third = group.join_known(protocols={"sticky": meta, "roundrobin": meta, "range": meta})
    rejoined = group.join(first, protocols={"range": meta, "roundrobin": meta})
    assert third.is_complete
    assert rejoined.value.protocol_name == "roundrobin"


def test_a_member_with_no_protocol_in_common_is_refused(group: GroupDriver) -> None:
    group.stable_member()
    for options in (
        {"protocols": {"roundrobin": b""}},
        {"protocol_type": "connect"},
        {"protocols": {}},
    ):
        assert group.join(**options).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("options", [{"protocols": {}}, {"protocol_type": ""}])
def test_an_empty_group_requires_a_protocol_type_and_a_protocol(group: GroupDriver, options: dict[str, object]) -> None:
    assert group.join(**options).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_session_timeouts_outside_the_brokers_limits_are_refused(group: GroupDriver) -> None:
    assert group.join(session_ms=5_999).value.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert group.join(session_ms=1_800_001).value.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_the_empty_group_id_can_not_be_joined(group: GroupDriver) -> None:
    assert group.join(group="").value.error_code == ErrorCode.INVALID_GROUP_ID
    assert group.sync("m", 1, group="").value.error_code == ErrorCode.INVALID_GROUP_ID
    assert group.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert group.leave(("m", None), group="").value.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_full_group_accepts_no_more_members() -> None:
    group = GroupDriver(
        GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=2, offsets_topic_num_partitions=1)
    ).load()
    leader, follower, _ = group.two_members()
    refused = group.join(version=3)
    assert refused.value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.state() == "Stable"
    assert group.join(leader).is_complete is False
    assert group.join(follower).value.error_code == ErrorCode.NONE


def test_a_group_over_a_lowered_limit_shrinks_when_it_is_loaded() -> None:
    group = GroupDriver().load()
    leader, follower, _ = group.two_members()
    smaller = GroupDriver(
        GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, group_max_size=1, offsets_topic_num_partitions=1),
        group.topic,
    )
    smaller.load(leader_epoch=1)
    assert smaller.state() == "PreparingRebalance"
    joined = smaller.join(leader)
    assert smaller.join(follower).value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined.value.error_code == ErrorCode.NONE


SYNC_ERRORS = [
    ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
    ("PreparingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
    ("CompletingRebalance", ErrorCode.NONE),
    ("Stable", ErrorCode.NONE),
]


def in_state(group: GroupDriver, state: str) -> tuple[str, int]:
    """Bring the group to a state; return its member and generation, as far as they exist."""
    if state == "Empty":
        member, generation = group.stable_member()
        group.leave((member, None))
        return member, generation + 1
    if state == "CompletingRebalance":
        member, joined = group.join_known()
        return member, joined.value.generation_id
    member, generation = group.stable_member()
    if state == "PreparingRebalance":
        group.join_known()
    return member, generation


@pytest.mark.parametrize(("state", "code"), SYNC_ERRORS)
def test_sync_in_each_state(group: GroupDriver, state: str, code: ErrorCode) -> None:
    member, generation = in_state(group, state)
    assert group.state() == state
    assert group.sync(member, generation, {member: b""}).value.error_code == code


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("CompletingRebalance", ErrorCode.NONE),
        ("Stable", ErrorCode.NONE),
    ],
)
def test_heartbeat_in_each_state(group: GroupDriver, state: str, code: ErrorCode) -> None:
    member, generation = in_state(group, state)
    assert group.heartbeat(member, generation) == code


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", ErrorCode.NONE),
        ("CompletingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("Stable", ErrorCode.NONE),
    ],
)
def test_a_members_offset_commit_in_each_state(group: GroupDriver, state: str, code: ErrorCode) -> None:
    member, generation = in_state(group, state)
    assert group.commit_code(member_id=member, generation=generation) == code


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Empty", ErrorCode.NONE),
        ("PreparingRebalance", ErrorCode.UNKNOWN_MEMBER_ID),
        ("CompletingRebalance", ErrorCode.UNKNOWN_MEMBER_ID),
        ("Stable", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_without_a_member_in_each_state(group: GroupDriver, state: str, code: ErrorCode) -> None:
    in_state(group, state)
    assert group.commit_code() == code


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_only_an_empty_group_can_be_deleted(group: GroupDriver, state: str) -> None:
    in_state(group, state)
    (result,) = group.delete_groups(GROUP)
    assert result.error_code == (ErrorCode.NONE if state == "Empty" else ErrorCode.NON_EMPTY_GROUP)
    assert (group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND) == (state == "Empty")


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_strangers_and_old_generations_are_refused_in_each_state(group: GroupDriver, state: str) -> None:
    member, generation = in_state(group, state)
    assert group.heartbeat("stranger", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync("stranger", generation).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join("stranger").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    if state != "Empty":
        assert group.heartbeat(member, generation - 1) == ErrorCode.ILLEGAL_GENERATION
        assert group.sync(member, generation + 1).value.error_code == ErrorCode.ILLEGAL_GENERATION
        assert group.commit_code(member_id=member, generation=generation - 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_with_another_protocol_than_the_generations_is_refused(group: GroupDriver) -> None:
    member, generation = group.stable_member()
    assert group.sync(member, generation, protocol_name="sticky").value.error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert group.sync(member, generation, protocol_type="connect").value.error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert group.sync(member, generation, protocol_name=None, protocol_type=None).value.error_code == ErrorCode.NONE


def test_requests_about_an_unknown_group_fail(group: GroupDriver) -> None:
    assert group.join("member").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync("member", 1).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("member", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_of_version_0_is_the_session_timeout(group: GroupDriver) -> None:
    joined = group.join(version=0, session_ms=6_000, rebalance_ms=-1)
    member, generation = joined.value.member_id, joined.value.generation_id
    group.sync(member, generation, {member: b""})
    waiting = group.join(version=0, session_ms=6_000, rebalance_ms=-1)
    for _ in range(2):
        group.advance(2_900)
        group.heartbeat(member, generation)
    assert not waiting.is_complete
    group.advance(200)
    assert waiting.value.error_code == ErrorCode.NONE


def test_a_heartbeat_sets_a_deadline_even_when_the_last_one_passed_unheeded(group: GroupDriver) -> None:
    leader, follower, generation = group.two_members()
    group.join(leader)
    group.advance(SESSION_MS - 1)
    group.heartbeat(follower, generation)
    group.advance(1)  # The leader's session has expired, but it waits for a response of the coordinator.
    assert group.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    deadline_ms = group.coordinator.runtime.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= group.now_ms + SESSION_MS


def test_the_number_of_pending_member_ids_of_a_group_is_limited() -> None:
    group = GroupDriver(GroupCoordinatorConfig(group_max_pending_members=2, offsets_topic_num_partitions=1)).load()
    ids = [group.join(version=4).value for _ in range(3)]
    assert [answer.error_code for answer in ids] == [
        ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]  # fmt: skip
    group.advance(SESSION_MS + 1)
    assert group.join(version=4).value.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_the_number_of_pending_member_ids_of_all_groups_is_limited() -> None:
    group = GroupDriver(GroupCoordinatorConfig(groups_max_pending_members=2, offsets_topic_num_partitions=1)).load()
    assert group.join(version=4).value.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert group.join(version=4).value.error_code == ErrorCode.MEMBER_ID_REQUIRED
    refused = group.join(version=4).value
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.advance(SESSION_MS + 1)
    assert group.join(version=4).value.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_rejoins_with_its_id_makes_room_for_another() -> None:
    group = GroupDriver(GroupCoordinatorConfig(groups_max_pending_members=1, offsets_topic_num_partitions=1)).load()
    given = group.join(version=4).value
    assert group.join(version=4).value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.join(given.member_id, version=4)
    assert group.join(version=4).value.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert group.join(version=4).value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_deleted_group_forgets_members_that_have_not_joined_yet(group: GroupDriver) -> None:
    """As in Kafka: only the log knows a group, and pending members are not in it."""
    pending = group.join().value.member_id
    assert [result.error_code for result in group.delete_groups(GROUP)] == [ErrorCode.NONE]
    assert group.state() == "Dead"
    assert group.join(pending).value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
