"""Work on large groups of each kind is done in steps, between requests."""

from __future__ import annotations

from itertools import combinations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole
from barnabas.coordinator import coordinator_loader
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group import cluster_view, described_members, group_records, large_target
from barnabas.coordinator.group.assignor import group_spec
from barnabas.coordinator.group.classic import classic_group, classic_group_rebalance, classic_groups, parked_answers
from barnabas.protocol import stepped_writing
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_driver import GroupDriver
from tests.unit.coordinator.share_group_driver import QUEUE, ShareGroupDriver
from tests.unit.coordinator.streams_group_driver import StreamsGroupDriver, StreamsThread


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_target, "_SIZE_MAX", 2)
    monkeypatch.setattr(large_target, "_BATCH_PARTITIONS_MAX", 2)
    monkeypatch.setattr(described_members, "_MEMBERS_A_STEP", 1)


@pytest.fixture
def shares() -> ShareGroupDriver:
    driver = ShareGroupDriver()
    driver.load()
    driver.create("orders", 4)
    return driver


@pytest.fixture
def streams() -> StreamsGroupDriver:
    driver = StreamsGroupDriver()
    driver.load()
    driver.create_topics()
    return driver


def batch_count(driver: GroupDriver) -> int:
    return len(driver.topic.log(0).batches)


# -- share groups


def test_the_target_of_a_share_group_is_stored_in_steps(shares: ShareGroupDriver) -> None:
    for name in ("a", "b", "c"):
        assert shares.beat(name, 0, "orders").error_code == ErrorCode.NONE
    shares.initialized()
    before = batch_count(shares)
    assert shares.group.assignment_epoch < shares.group.epoch, "the request does not wait for the computation"
    shares.advance(100)
    assert batch_count(shares) > before + 2
    assert shares.group.assignment_epoch == shares.group.epoch
    for name in ("a", "b", "c"):
        shares.beat(name, shares.group.members[name].member_epoch)
    assigned = [set(shares.assigned(name)["orders"]) for name in ("a", "b", "c")]
    assert set.union(*assigned) == {0, 1, 2, 3}
    assert shares.restarted().described() == shares.described()


def test_a_share_group_computes_its_target_once_at_a_time(shares: ShareGroupDriver) -> None:
    for name in ("a", "b", "c"):
        shares.beat(name, 0, "orders")
    shares.initialized()
    shares.beat("a", shares.group.members["a"].member_epoch)
    shares.beat("b", shares.group.members["b"].member_epoch)
    shares.advance(100)
    epochs = [value for record_type, value in shares.written() if record_type == 12]
    assert len(epochs) == 1


def test_a_share_group_of_many_new_topics_is_asked_to_wait(
    shares: ShareGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_PARTITIONS_AT_ONCE", 3)
    assert shares.beat("a", 0, "orders").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert shares.shard.share.find(QUEUE) is None
    shares.advance(100)
    assert shares.beat("a", 0, "orders").error_code == ErrorCode.NONE


def test_a_share_member_leaves_while_topics_are_read(shares: ShareGroupDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = shares.joined("a"), shares.joined("b")
    monkeypatch.setattr(cluster_view, "_PARTITIONS_AT_ONCE", 3)
    shares.grow("orders", 6)
    assert shares.beat("b", -1).error_code == ErrorCode.NONE
    assert list(shares.group.members) == ["a"]
    assert shares.beat("a", shares.group.members["a"].member_epoch).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shares.advance(100)
    assert shares.beat("a", shares.group.members["a"].member_epoch).error_code == ErrorCode.NONE
    assert (first, second) != (0, 0)


# -- streams groups


def test_the_target_of_a_streams_group_is_stored_in_steps(streams: StreamsGroupDriver) -> None:
    members = [StreamsThread(streams, f"thread-{number}") for number in range(3)]
    for member in members:
        response = member.join_group()
        assert response.error_code == ErrorCode.NONE
        assert not member.active, "the request does not wait for the computation"
    streams.settle(*members, rounds=20)
    tasks = [(name, partition) for member in members for name, of in member.active.items() for partition in of]
    assert sorted(tasks) == [(name, partition) for name in ("0", "1") for partition in range(3)]
    assert streams.group().state_name == "Stable"
    assert streams.restarted().describe_streams().members == streams.describe_streams().members


def test_at_every_step_no_task_has_two_members_as_its_target(streams: StreamsGroupDriver) -> None:
    members = streams.threads(2)
    streams.settle(*members, rounds=20)
    newcomer = StreamsThread(streams, "newcomer")
    newcomer.join_group()
    batches = 0
    while streams.group().assignment_epoch < streams.group().epoch:
        before = batch_count(streams)
        streams.advance(1)
        batches += batch_count(streams) - before
        targets = [target.active for target in streams.group().target.values()]
        for first, second in combinations(targets, 2):
            assert not any(first.get(name, set()) & second.get(name, set()) for name in first)
    assert batches > 2
    assert "newcomer" in streams.group().target


def test_a_streams_group_of_many_new_topics_is_asked_to_wait(
    streams: StreamsGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_PARTITIONS_AT_ONCE", 3)
    member = StreamsThread(streams, "thread")
    assert member.join_group().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    streams.advance(100)
    assert member.join_group().error_code == ErrorCode.NONE


def test_a_topology_that_was_sent_before_is_still_compared_with_the_groups(streams: StreamsGroupDriver) -> None:
    members = streams.threads(2)
    changed = StreamsThread(streams, "changed")
    changed.topology.subtopologies[0].source_topics = ["other"]
    assert changed.join_group().error_code == ErrorCode.INVALID_REQUEST
    assert StreamsThread(streams, "same").join_group().error_code == ErrorCode.NONE
    assert members[0].beat().error_code == ErrorCode.NONE


# -- descriptions


def test_members_are_described_as_they_were_when_the_description_began(shares: ShareGroupDriver) -> None:
    shares.joined("a")
    shares.joined("b")
    steps = shares.coordinator.share.describe(QUEUE)
    next(steps)
    shares.beat("b", -1)
    assert [member.member_id for member in whole(steps).members] == ["a", "b"]


# -- classic groups


def rejoined(group: GroupDriver, monkeypatch: pytest.MonkeyPatch) -> dict[str, Deferred[JoinGroupResponse]]:
    """Let the members of a stable group join again, one answer in a step."""
    leader, follower, _ = group.two_members()
    monkeypatch.setattr(parked_answers, "_ANSWERS_A_STEP", 1)
    return {member_id: group.join(member_id) for member_id in (leader, follower)}


def test_parked_requests_of_a_classic_group_are_answered_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupDriver().load()
    answers = rejoined(group, monkeypatch)
    assert [answer.is_complete for answer in answers.values()] == [True, False]
    group.advance(10)
    assert all(answer.value.error_code == ErrorCode.NONE for answer in answers.values())
    assert len({answer.value.generation_id for answer in answers.values()}) == 1


def test_answers_that_are_left_are_sent_when_the_coordinator_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupDriver().load()
    answers = rejoined(group, monkeypatch)
    group.coordinator.runtime.unload(0, group.now_ms)
    assert all(answer.is_complete for answer in answers.values())


def test_a_member_that_is_removed_before_its_answer_still_receives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupDriver().load()
    answers = rejoined(group, monkeypatch)
    follower = list(answers)[1]
    group.leave((follower, None))
    group.advance(10)
    assert answers[follower].value.member_id == follower


@pytest.fixture
def large_classic(monkeypatch: pytest.MonkeyPatch) -> GroupDriver:
    """Every group of two members is large, and a step is one member."""
    for module, name in (
        (classic_groups, "_MEMBERS_AT_ONCE"),
        (classic_group, "_MEMBERS_A_STEP"),
        (classic_group_rebalance, "_MEMBERS_A_STEP"),
        (group_records, "_ENCODED_AT_ONCE"),
        (stepped_writing, "ELEMENTS_A_STEP"),
    ):
        monkeypatch.setattr(module, name, 1)
    return GroupDriver().load()


ASSIGNED = (b"for the leader", b"for the follower")


def synced(group: GroupDriver) -> tuple[list[str], list[Deferred[SyncGroupResponse]], int]:
    """Let two members join and sync; return their ids, the leader's first, their syncs, and the generation."""
    leader, _ = group.stable_member()
    group.advance(10)
    follower, joined = group.join_known()
    group.join(leader)
    generation = joined.value.generation_id
    answers = [
        group.sync(follower, generation),
        group.sync(leader, generation, dict(zip((leader, follower), ASSIGNED, strict=True))),
    ]
    return [leader, follower], answers[::-1], generation


def test_the_assignments_of_a_large_classic_group_are_stored_and_answered_in_steps(large_classic: GroupDriver) -> None:
    group, before = large_classic, batch_count(large_classic)
    members, answers, generation = synced(group)
    assert group.state() == "CompletingRebalance"
    assert not any(answer.is_complete for answer in answers)
    complete = []
    for _ in range(20):
        group.advance(1)
        complete.append(sum(answer.is_complete for answer in answers))
    assert set(complete) == {0, 1, 2}
    assert [answer.value.assignment for answer in answers] == list(ASSIGNED)
    assert batch_count(group) == before + 2, "a batch for the first generation, and one for the second"
    assert group.state() == "Stable"
    restarted = group.restarted()
    assert restarted.describe() == group.describe()
    assert restarted.heartbeat(members[0], generation) == ErrorCode.NONE


def test_a_large_record_is_encoded_as_a_small_one_is(
    large_classic: GroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced(large_classic)
    large_classic.advance(100)
    in_steps = large_classic.topic.log(0).records()
    monkeypatch.setattr(classic_groups, "_MEMBERS_AT_ONCE", 1_000)
    at_once = GroupDriver().load()
    synced(at_once)
    at_once.advance(100)
    assert [key for key, _ in in_steps] == [key for key, _ in at_once.topic.log(0).records()]
    assert [len(value or b"") for _, value in in_steps] == [
        len(value or b"") for _, value in at_once.topic.log(0).records()
    ]


def test_a_rebalance_ends_the_encoding_of_a_large_classic_group(large_classic: GroupDriver) -> None:
    group = large_classic
    members, answers, _ = synced(group)
    group.advance(1)
    before = batch_count(group)
    group.leave((members[1], None))
    assert [answer.value.error_code for answer in answers] == [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    group.advance(100)
    assert batch_count(group) == before
    assert group.state() == "PreparingRebalance"


def test_assignments_of_a_large_classic_group_that_cannot_be_stored_begin_a_rebalance(
    large_classic: GroupDriver,
) -> None:
    group = large_classic
    _, answers, _ = synced(group)
    group.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    group.advance(100)
    assert {answer.value.error_code for answer in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert group.state() == "PreparingRebalance"


def test_a_member_that_syncs_again_before_its_answer_receives_its_assignment(large_classic: GroupDriver) -> None:
    group = large_classic
    members, answers, generation = synced(group)
    while not answers[0].is_complete:
        group.advance(1)
    assert not answers[1].is_complete
    assert group.sync(members[1], generation).value.assignment == ASSIGNED[1]
    group.advance(10)
    assert answers[1].value.assignment == ASSIGNED[1]


def test_members_that_wait_for_a_step_are_answered_when_the_coordinator_ends(large_classic: GroupDriver) -> None:
    group = large_classic
    _, answers, _ = synced(group)
    group.advance(1)
    group.coordinator.runtime.unload(0, group.now_ms)
    assert all(answer.is_complete for answer in answers)


# -- loading


def test_a_large_batch_is_loaded_in_steps(shares: ShareGroupDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    shares.joined("a")
    shares.joined("b")
    monkeypatch.setattr(coordinator_loader, "_STEP_WORK", 1)
    successor = ShareGroupDriver(topic=shares.topic)
    shard = successor.coordinator.runtime.start_loading(0, 1, shares.now_ms)
    assert shard is not None
    log = shares.topic.log(0)
    loader = CoordinatorLoader(successor.coordinator.runtime, 0, shard, log)
    steps = 0
    while not loader.step(shares.now_ms):
        steps += 1
    assert steps >= loader.record_count > 3
    assert list(successor.group.members) == ["a", "b"]


def test_the_sessions_of_loaded_members_start_in_steps(
    shares: ShareGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        shares.joined(name)
    monkeypatch.setattr(group_spec, "WORK_A_STEP", 1)
    successor = shares.restarted()
    successor.advance(10)
    assert len(successor.group.members) == 3
    successor.advance(60_000)
    assert not successor.group.members


def test_a_loaded_member_that_leaves_before_its_session_starts_is_gone(
    shares: ShareGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        shares.joined(name)
    monkeypatch.setattr(group_spec, "WORK_A_STEP", 1)
    successor = shares.restarted()
    assert successor.beat("c", -1).error_code == ErrorCode.NONE
    successor.advance(60_000)
    assert not successor.group.members
