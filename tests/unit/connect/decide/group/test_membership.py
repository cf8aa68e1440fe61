"""A worker's membership with the real coordinator, one scenario per test. Times are simulated."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from barnabas.clients.client_config import Address
from barnabas.common.error_code import ErrorCode
from barnabas.connect.decide.group import group_requests
from barnabas.connect.decide.group.client_ids import default_client_id
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership import Phase
from barnabas.connect.decide.group.membership_events import (
    Assigned,
    Joining,
    Lost,
    MembershipFailed,
    MembershipProblem,
    ProtocolChanged,
    ReadConfigs,
    StopWork,
    WorkersChanged,
)
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tests.unit.connect.decide.group.memory_group import MemoryGroup, Worker

URL_OF = "http://%s:8083/"
EAGER, COMPATIBLE = ProtocolVersion.EAGER, ProtocolVersion.COMPATIBLE


@pytest.fixture
def group() -> MemoryGroup:
    group = MemoryGroup()
    group.configure(orders=3, flights=3)
    return group


def two(group: MemoryGroup, **options: Any) -> tuple[Worker, Worker]:
    first = group.add("first", **options)
    group.settle()
    second = group.add("second", **options)
    group.settle()
    return first, second


def has_agreed_on(worker: Worker, protocol: ProtocolVersion) -> bool:
    return worker.membership.protocol is protocol


def has_requested_reads(worker: Worker, times: int) -> bool:
    return len(worker.of_type(ReadConfigs)) > times


# -- joining


def test_one_worker_receives_everything_immediately(group: MemoryGroup) -> None:
    worker = group.add("first")
    assert group.settle() < 1_000
    (assigned,) = worker.of_type(Assigned)
    assert assigned.is_leader
    assert assigned.added_connectors == assigned.assignment.connectors
    assert worker.membership.member_id.startswith("connect-first-")


def test_a_second_worker_receives_its_half_only_after_the_first_has_stopped_it(group: MemoryGroup) -> None:
    first, second = two(group, stop_ms=700)
    (stop,) = first.of_type(StopWork)
    assert len(second.running) == len(first.running) == 4
    assert {*stop.connectors, *stop.tasks} == second.running
    assert not group.owner_problems


def test_a_new_connector_is_assigned_without_stopping_other_work(group: MemoryGroup) -> None:
    first, second = two(group)
    before = len(first.of_type(StopWork)) + len(second.of_type(StopWork))
    group.configure(orders=3, flights=3, planes=4)
    group.settle()
    assert len(first.of_type(StopWork)) + len(second.of_type(StopWork)) == before


def test_a_worker_that_has_read_less_than_the_leader_reads_on_before_it_starts_anything(group: MemoryGroup) -> None:
    first, second = two(group)
    second.configs = type(second.configs)(second.configs.offset - 2, {})
    group.configs = type(group.configs)(group.configs.offset, {"orders": 3, "flights": 3, "planes": 2})
    group.catch_up(first)
    group.settle()
    assert second.of_type(ReadConfigs)


def test_a_leader_that_has_read_less_than_another_member_reads_on_and_then_leads(group: MemoryGroup) -> None:
    first, second = two(group)
    newer = type(group.configs)(group.configs.offset + 2, {"orders": 3, "flights": 3, "planes": 2})
    group.configs = newer
    group.catch_up(second)
    group.settle()
    assert first.of_type(ReadConfigs)
    assert any("has read the config topic up to" in problem.message for problem in first.of_type(MembershipProblem))


def test_all_members_know_whether_the_group_consists_of_barnabas_workers_only(group: MemoryGroup) -> None:
    first = group.add("first")
    first.client_id = default_client_id("first:8083")
    group.settle()
    assert first.membership.are_all_members_ours
    javas = group.add("second")
    group.settle()
    assert not first.membership.are_all_members_ours
    assert not javas.membership.are_all_members_ours
    group.leave(javas)
    group.settle()
    assert first.membership.are_all_members_ours


# -- configs that can't be read


def test_a_follower_that_cannot_read_waits_longer_each_time_and_then_gives_up_its_work(group: MemoryGroup) -> None:
    first, second = two(group, scheduled_rebalance_max_delay_ms=30_000)
    second.reads_configs = False
    group.configure(orders=3, flights=3, planes=4)
    group.run_until(lambda: bool(second.of_type(ReadConfigs)), 10_000)
    requested_ms = []
    for count in range(len(second.of_type(ReadConfigs)), 6):
        group.run_until(partial(has_requested_reads, second, count), 40_000)
        requested_ms.append(group.now_ms)
    pauses = [later - earlier for earlier, later in pairwise(requested_ms)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 4_500 < pauses[-1]
    group.run_until(lambda: not second.running, 60_000)
    group.catch_up(second)
    group.settle()
    assert not group.owner_problems
    assert first.running


def test_a_leader_that_cannot_read_leaves_so_that_another_one_leads(group: MemoryGroup) -> None:
    first, second = two(group, scheduled_rebalance_max_delay_ms=30_000)
    first.reads_configs = False
    group.configure(orders=3, flights=3, planes=4)
    group.run_until(lambda: second.membership.is_leader and len(second.running) == 13, 20_000)
    assert not first.running
    first.reads_configs = True
    group.settle()
    assert not group.owner_problems


# -- messages that are lost while others arrive


def test_a_new_rebalance_ends_the_wait_for_a_lost_sync_group_response(group: MemoryGroup) -> None:
    first, second = two(group)
    second.lost_answers.append(ApiKey.SYNC_GROUP)
    group.configure(orders=3, flights=3, planes=2)
    group.run_until(lambda: not second.lost_answers, 10_000)
    group.configure(orders=3, flights=3, planes=3)
    assert group.settle() < 5_000
    assert not group.owner_problems
    assert not first.of_type(Lost)


def test_a_member_whose_join_group_was_lost_stops_before_the_group_continues_without_it(group: MemoryGroup) -> None:
    first, second = two(group)
    second.lost_requests.append(ApiKey.JOIN_GROUP)
    group.configure(orders=3, flights=3, planes=2)
    group.run_until(lambda: bool(second.of_type(Lost)), 60_000)
    assert "has been rebalancing without this worker" in second.of_type(Lost)[0].reason
    group.settle()
    assert first.running
    assert second.running
    assert not group.owner_problems


# -- leaving


def test_the_work_of_a_leaving_worker_moves_within_three_seconds(group: MemoryGroup) -> None:
    first, second = two(group)
    group.leave(second)
    assert group.settle() < 1_500
    assert len(first.running) == 8
    assert second.membership.phase is Phase.OUT


def test_the_work_of_a_leaving_leader_moves_within_three_seconds(group: MemoryGroup) -> None:
    first, second = two(group)
    group.leave(first)
    assert group.settle() < 1_500
    assert len(second.running) == 8


def test_a_killed_worker_is_replaced_when_its_session_has_ended(group: MemoryGroup) -> None:
    first, second = two(group)
    group.kill(second)
    took_ms = group.settle()
    assert 8_000 < took_ms < 11_500
    assert len(first.running) == 8


def test_the_leader_reports_workers_that_join_and_that_are_lost_and_who_takes_over(group: MemoryGroup) -> None:
    first, second = two(group)
    assert [change.joined for change in first.of_type(WorkersChanged)] == [(URL_OF % "second",)]
    lost = frozenset(second.running)
    group.kill(second)
    group.run_until(lambda: len(first.running) == 8)
    (gone,) = first.of_type(WorkersChanged)[-1].gone
    assert gone.url == URL_OF % "second"
    assert dict(gone.new_owners) == dict.fromkeys(lost, URL_OF % "first")
    assert not second.of_type(WorkersChanged)


def test_the_leader_reports_work_of_a_lost_worker_that_waits_for_its_return(group: MemoryGroup) -> None:
    first, second = two(group, reassign_immediately=False, scheduled_rebalance_max_delay_ms=60_000)
    group.kill(second)
    group.run_until(lambda: len(first.of_type(WorkersChanged)) == 2)
    change = first.of_type(WorkersChanged)[-1]
    assert change.delay_ms == 60_000
    assert set(change.gone[0].new_owners.values()) == {None}


def test_a_new_leader_reports_no_worker_as_lost_that_it_never_saw(group: MemoryGroup) -> None:
    first, second = two(group)
    group.leave(first)
    group.run_until(lambda: len(second.running) == 8)
    assert not [change for change in second.of_type(WorkersChanged) if change.gone]


def test_with_kafkas_delay_no_worker_takes_the_work_before_the_delay_ends(group: MemoryGroup) -> None:
    first, second = two(group, reassign_immediately=False, scheduled_rebalance_max_delay_ms=20_000)
    group.leave(second)
    group.run(15_000)
    assert len(first.running) == 4
    assert group.settle() < 8_000
    assert len(first.running) == 8


def test_a_worker_that_leaves_while_it_joins_is_removed(group: MemoryGroup) -> None:
    first = group.add("first")
    group.settle()
    second = group.add("second")
    group.run(200)
    group.leave(second)
    group.settle()
    assert len(first.running) == 8


def test_a_worker_that_cannot_reach_the_coordinator_stops_before_its_session_ends(group: MemoryGroup) -> None:
    first, second = two(group)
    second.is_cut_off = True
    stopped_ms = group.run_until(lambda: not second.running)
    assert 2_900 <= stopped_ms <= 5_500
    assert second.of_type(Lost)
    group.run_until(lambda: len(first.running) == 8)
    second.is_cut_off = False
    group.settle()
    assert len(second.running) == 4
    assert not group.owner_problems


def test_a_worker_that_is_slow_to_stop_stops_before_others_start(group: MemoryGroup) -> None:
    first, second = two(group, stop_ms=4_800)
    second.is_cut_off = True
    group.run_until(lambda: len(first.running) == 8)
    assert not group.owner_problems


def test_a_short_outage_of_the_coordinator_does_not_stop_work(group: MemoryGroup) -> None:
    first, _ = two(group)
    group.is_reachable = False
    group.run(2_000)
    group.is_reachable = True
    group.run(5_000)
    assert not first.of_type(Lost)
    assert group.is_settled


def test_a_longer_outage_of_the_coordinator_stops_and_restarts_all_work(group: MemoryGroup) -> None:
    first, second = two(group)
    group.is_reachable = False
    group.run(6_000)
    assert not first.running
    assert not second.running
    group.is_reachable = True
    group.settle()
    assert not group.owner_problems


def test_a_worker_that_hangs_leaves_and_reports_its_current_step(group: MemoryGroup) -> None:
    first, second = two(group)
    second.membership.poll(group.now_ms, "starting a session")
    second.polls = False
    group.run_until(lambda: len(first.running) == 8, 70_000)
    assert "and was starting a session" in second.of_type(MembershipProblem)[-1].message
    second.polls = True
    group.run_until(lambda: len(second.running) == 4)
    assert not group.owner_problems


# -- protocols


def test_with_the_eager_protocol_all_workers_stop_everything_before_every_round(group: MemoryGroup) -> None:
    first, second = two(group, protocol=EAGER)
    group.configure(orders=3, flights=3, planes=1)
    group.settle()
    assert len(first.of_type(StopWork)) >= 2
    assert len(second.of_type(StopWork)) >= 1
    assert not group.owner_problems


def test_the_group_uses_the_protocol_of_its_oldest_worker_until_that_worker_leaves(group: MemoryGroup) -> None:
    first, _ = two(group)
    for older in (COMPATIBLE, EAGER):
        third = group.add(older.name.lower(), protocol=older)
        group.run_until(partial(has_agreed_on, first, older))
        group.settle()
        group.leave(third)
        group.run_until(partial(has_agreed_on, first, ProtocolVersion.SESSIONED))
        group.settle()
    changes = first.of_type(ProtocolChanged)
    assert [change.is_warning for change in changes] == [True, False, True, False]
    assert "requests between workers are no longer verified" in changes[0].message
    assert "verified again" in changes[1].message


def test_a_worker_configured_for_an_older_protocol_reports_no_protocol_change(group: MemoryGroup) -> None:
    worker = group.add("first", protocol=COMPATIBLE)
    group.settle()
    assert not worker.of_type(ProtocolChanged)


# -- errors


def answer_with(worker: Worker, group: MemoryGroup, api_key: ApiKey, code: ErrorCode) -> None:
    """Answer the next request of this kind with this error."""
    handle = group._handle

    def refuse(sender: Worker, request: Any, answer: Any) -> None:
        if sender is worker and request.api_key is api_key:
            group._handle = handle  # type: ignore[method-assign]

            def refused(response: Any) -> None:
                response.error_code = code
                answer(response)

            handle(sender, request, refused)
        else:
            handle(sender, request, answer)

    group._handle = refuse  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("api_key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_the_group_settles_after_any_transient_error(group: MemoryGroup, api_key: ApiKey, code: ErrorCode) -> None:
    _, second = two(group)
    answer_with(second, group, api_key, code)
    group.configure(orders=3, flights=3, planes=2)
    group.run(3_000)
    group.settle(120_000)
    assert not group.owner_problems
    assert not second.of_type(MembershipFailed)


def test_a_member_that_the_coordinator_no_longer_knows_stops_immediately(group: MemoryGroup) -> None:
    _, second = two(group)
    answer_with(second, group, ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
    group.run_until(lambda: bool(second.of_type(Lost)), 2_000)
    group.settle()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "allow it READ on group.id=connect-cluster"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "set group.id to a name that no consumer group uses"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, "session.timeout.ms=10000"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (ErrorCode.INVALID_GROUP_ID, "choose another name"),
    ],
)
def test_a_permanent_error_ends_the_membership_and_has_advice(group: MemoryGroup, code: ErrorCode, advice: str) -> None:
    worker = group.add("first")
    answer_with(worker, group, ApiKey.JOIN_GROUP, code)
    group.run(1_000)
    (failed,) = worker.of_type(MembershipFailed)
    assert advice in failed.message
    group.run(60_000)
    assert worker.membership.phase is Phase.FAILED


def test_a_response_for_an_earlier_generation_is_ignored(group: MemoryGroup) -> None:
    first, _ = two(group)
    group.configure(orders=3, flights=3, planes=2)
    group.settle()
    count = len(first.of_type(Joining))
    group.run(10_000)
    assert len(first.of_type(Joining)) == count


def test_a_denied_find_coordinator_request_fails_the_membership(group: MemoryGroup) -> None:
    worker = group.add("first")
    membership = worker.membership
    found = Coordinator(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    membership.answered(1, FindCoordinatorResponse(coordinators=[found]), group.now_ms)
    assert membership.phase is Phase.FAILED


def test_a_terminal_connection_error_ends_a_membership_that_has_not_begun(group: MemoryGroup) -> None:
    worker = group.add("first")
    worker.membership.failed(1, "this client's password is wrong", group.now_ms, is_terminal=True)
    assert worker.membership.phase is Phase.FAILED


def test_a_member_whose_login_starts_to_fail_keeps_trying(group: MemoryGroup) -> None:
    worker = group.add("first")
    group.settle()
    worker.is_cut_off = True
    group.run_until(lambda: worker.membership._sent_heartbeat is not None, 3_000)
    heartbeat = worker.membership._sent_heartbeat
    assert heartbeat is not None
    worker.membership.failed(heartbeat.request_id, "this client's password is wrong", group.now_ms, is_terminal=True)
    assert worker.membership.phase is Phase.STABLE


@pytest.mark.parametrize("version", range(10))
def test_requests_can_be_encoded_in_every_version_that_a_broker_may_offer(version: int) -> None:
    settings, node = GroupSettings("group", "http://a/"), Address("localhost", 9092)
    requests = [
        group_requests.find_coordinator(1, settings),
        group_requests.join_group(1, settings, node, member_id="m", protocols=[("default", b"")], reason="why"),
        group_requests.sync_group(
            1, settings, node, member_id="m", generation=1, protocol_name="default", assignments=[("m", b"")]
        ),
        group_requests.heartbeat(1, settings, node, member_id="m", generation=1),
        group_requests.leave_group(1, settings, node, member_id="m", reason="why"),
    ]
    for request in requests:
        info = API_TABLE[request.api_key]
        if info.lowest <= version <= info.highest:
            assert request.message(version).encode(version)
