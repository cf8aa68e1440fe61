"""Exactly-once sources (KIP-618): who may write the config topic, and which tasks may start."""

from __future__ import annotations

import pytest

from barnabas.connect.decide.backing_stores.config_records import (
    target_state_record,
    task_count_record,
)
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport, RestartBudget
from barnabas.connect.decide.herder.outside import TaskToStart
from barnabas.connect.decide.tasks.task_runtime import TaskFailed
from barnabas.connect.errors import BadRequest, ConnectError, NotFound, RequestFailed
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from tests.unit.connect.decide.herder.herder_driver import (
    OTHER_URL,
    SINK,
    SOURCE,
    HerderDriver,
    commit,
    connector,
    started,
)

TASK = ConnectorTaskId("c", 0)
ENABLED = ExactlyOnceSupport.ENABLED


def once(*, leads: bool = True, support: ExactlyOnceSupport = ENABLED) -> HerderDriver:
    return started(leads=leads, exactly_once=support, budget=RestartBudget(max_attempts=0))


def confirm(driver: HerderDriver, start: TaskToStart) -> Exception | None:
    async def steps() -> None:
        assert start.confirm is not None
        await start.confirm()

    answer = driver.request(steps())
    error = answer.task.exception()
    assert error is None or isinstance(error, Exception)
    return error


class TestLeader:
    @pytest.mark.parametrize("support", [ENABLED, ExactlyOnceSupport.PREPARING])
    def test_a_leader_claims_the_topic_before_anything_is_requested(self, support: ExactlyOnceSupport) -> None:
        assert len(once(support=support).calls_of("claim_config_topic")) == 1

    def test_without_support_nothing_is_claimed(self) -> None:
        driver = once(support=ExactlyOnceSupport.DISABLED)
        driver.request(driver.herder.connectors.put("c", SOURCE))
        assert not driver.calls_of("claim_config_topic")
        assert not driver.calls_of("write_configs_as_leader")

    def test_a_follower_claims_nothing(self) -> None:
        assert not once(leads=False).calls_of("claim_config_topic")

    def test_a_leader_claims_again_after_each_rebalance(self) -> None:
        driver = once()
        driver.member()
        assert len(driver.calls_of("claim_config_topic")) == 2

    def test_configs_and_keys_are_written_in_transactions(self) -> None:
        driver = once()
        driver.request(driver.herder.connectors.put("c", SOURCE))
        written = [record.key for call in driver.calls_of("write_configs_as_leader") for record in call.records]
        assert written == [b"session-key", b"connector-c"]

    def test_a_target_state_is_written_by_any_worker(self) -> None:
        driver = once(leads=False)
        connector(driver, "c")
        driver.request(driver.herder.states.pause("c"))
        assert [call.records for call in driver.calls_of("write_configs")] == [
            (target_state_record("c", TargetState.PAUSED),)
        ]

    def test_a_request_is_decided_only_when_the_topic_is_claimed_and_read(self) -> None:
        driver = once(support=ENABLED)
        driver.hold("claim_config_topic")
        driver.member()
        answer = driver.request(driver.herder.connectors.put("c", SOURCE))
        assert not answer.has_arrived
        connector(driver, "c")  # An earlier leader writes it meanwhile.
        driver.release()
        assert answer.value[1] is False  # It is not new.

    def test_a_failed_write_is_answered_and_the_topic_is_claimed_again(self) -> None:
        driver = once()
        driver.refuse("write_configs_as_leader", ConnectError("fenced"))
        answer = driver.request(driver.herder.connectors.put("c", SOURCE))
        assert str(answer.error) == "fenced"
        driver.allow("write_configs_as_leader")
        claims = len(driver.calls_of("claim_config_topic"))
        assert driver.request(driver.herder.connectors.put("c", SOURCE)).value[1]
        assert len(driver.calls_of("claim_config_topic")) == claims + 1

    def test_a_claim_that_fails_is_repeated(self) -> None:
        driver = once()
        driver.refuse("claim_config_topic")
        driver.member()
        driver.allow("claim_config_topic")
        driver.advance(300)
        calls = [call.method for call in driver.calls if call.method == "claim_config_topic"]
        assert len(calls) == 3

    def test_a_former_leader_neither_claims_nor_writes(self) -> None:
        driver = once()
        driver.hold("claim_config_topic")
        driver.member()
        answer = driver.request(driver.herder.connectors.put("c", SOURCE))
        driver.member(leads=False)
        driver.release()
        assert answer.error is not None
        assert not driver.calls_of("write_configs_as_leader")[1:]  # The first one was the session key.


class TestFencing:
    def test_the_first_set_of_tasks_needs_only_a_record(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.request(driver.herder.internal.fence_zombies("c"))
        assert not driver.calls_of("fence_producers")
        assert driver.topic[-1] == task_count_record("c", 2)

    def test_producers_of_the_set_before_are_fenced_once(self) -> None:
        driver = once()
        connector(driver, "c", 3)
        driver.request(driver.herder.internal.fence_zombies("c"))
        commit(driver, "c", 2)
        for _ in range(2):
            assert driver.request(driver.herder.internal.fence_zombies("c")).value is None
        (fencing,) = driver.calls_of("fence_producers")
        assert fencing.transactional_ids == ["workers-c-0", "workers-c-1", "workers-c-2"]
        assert driver.topic[-1] == task_count_record("c", 2)

    def test_one_task_after_one_is_fenced_by_its_successor(self) -> None:
        driver = once()
        for _ in range(2):
            connector(driver, "c", 1)
            driver.request(driver.herder.internal.fence_zombies("c"))
        assert not driver.calls_of("fence_producers")

    def test_new_configs_during_the_fencing_are_a_conflict(self) -> None:
        driver = once()
        connector(driver, "c", 3)
        driver.request(driver.herder.internal.fence_zombies("c"))
        commit(driver, "c", 2)
        driver.hold("fence_producers")
        answer = driver.request(driver.herder.internal.fence_zombies("c"))
        commit(driver, "c", 4)
        driver.release()
        assert isinstance(answer.error, ConnectError)
        assert answer.error.http_status == 409
        assert driver.topic[-1] != task_count_record("c", 2)

    def test_only_an_existing_source_is_fenced(self) -> None:
        driver = once()
        assert isinstance(driver.request(driver.herder.internal.fence_zombies("c")).error, NotFound)
        connector(driver, "c", config=SINK)
        assert isinstance(driver.request(driver.herder.internal.fence_zombies("c")).error, BadRequest)

    def test_positions_change_only_after_the_fencing(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.request(driver.herder.internal.fence_zombies("c"))
        driver.request(driver.herder.states.stop("c"))
        driver.request(driver.herder.offsets.reset("c"))
        methods = [call.method for call in driver.calls if call.method in ("fence_producers", "reset_offsets")]
        assert methods == ["fence_producers", "reset_offsets"]


class TestTasks:
    def test_a_task_of_the_leader_starts_after_the_fencing(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.hold("write_configs_as_leader")
        driver.member(TASK)
        assert not driver.calls_of("start_task")
        driver.release()
        (start,) = driver.calls_of("start_task")
        assert start.start.transactional_id == "workers-c-0"
        assert driver.topic[-1] == task_count_record("c", 2)
        assert confirm(driver, start.start) is None

    def test_a_follower_has_the_leader_fence(self) -> None:
        driver = once(leads=False)
        connector(driver, "c", 1)
        driver.hold("send_fence")
        driver.member(TASK, leads=False)
        (request,) = driver.calls_of("send_fence")
        assert (request.leader_url, request.connector) == (OTHER_URL, "c")
        assert not driver.calls_of("start_task")
        driver.release()
        assert len(driver.calls_of("start_task")) == 1

    def test_a_refused_fencing_fails_the_task(self) -> None:
        driver = once(leads=False)
        connector(driver, "c", 1)
        driver.refuse("send_fence", RequestFailed(400, "Internal request missing required signature"))
        driver.member(TASK, leads=False)
        assert not driver.calls_of("start_task")
        assert b"FAILED" in (driver.statuses[b"status-task-c-0"] or b"")
        assert b"missing required signature" in (driver.statuses[b"status-task-c-0"] or b"")

    def test_a_conflict_is_tried_again(self) -> None:
        driver = once(leads=False)
        connector(driver, "c", 1)
        driver.refuse("send_fence", RequestFailed(409, "a rebalance is expected"))
        driver.member(TASK, leads=False)
        driver.allow("send_fence")
        driver.advance(300)
        assert len(driver.calls_of("start_task")) == 1

    def test_a_task_that_is_taken_away_waits_for_no_fencing(self) -> None:
        driver = once(leads=False)
        connector(driver, "c", 1)
        driver.hold("send_fence")
        driver.member(TASK, leads=False)
        driver.member(leads=False)
        assert not driver.herder.work.running()
        driver.release()
        assert not driver.calls_of("start_task")

    @pytest.mark.parametrize("support", [ExactlyOnceSupport.DISABLED, ExactlyOnceSupport.PREPARING])
    def test_without_support_nothing_is_fenced(self, support: ExactlyOnceSupport) -> None:
        driver = once(support=support)
        connector(driver, "c", 2)
        driver.member(TASK)
        (start,) = driver.calls_of("start_task")
        assert start.start.transactional_id is None
        assert not any(record.key.startswith(b"tasks-fencing") for record in driver.topic)

    def test_a_sink_is_not_fenced(self) -> None:
        driver = once()
        connector(driver, "c", 2, SINK)
        driver.member(TASK)
        assert driver.calls_of("start_task")[0].start.transactional_id is None

    def test_a_task_with_newer_configs_must_not_run(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.member(TASK)
        start = driver.calls_of("start_task")[0].start
        commit(driver, "c", 2)
        assert str(confirm(driver, start)) == (
            "Cannot start source task c-0 with exactly-once support as the connector has already generated a new set "
            "of task configs"
        )

    def test_a_task_of_another_worker_must_not_run(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.member(TASK)
        start = driver.calls_of("start_task")[0].start
        driver.member()
        assert str(confirm(driver, start)) == (
            "Cannot start source task c-0 as it has already been revoked from this worker"
        )

    def test_a_check_reads_the_topic_to_its_end(self) -> None:
        driver = once()
        connector(driver, "c", 2)
        driver.member(TASK)
        start = driver.calls_of("start_task")[0].start
        driver.refuse("read_configs_to_end")
        assert isinstance(confirm(driver, start), ConnectError)


def test_a_task_that_fails_while_it_is_taken_away_starts_again_when_it_comes_back() -> None:
    """Found by the simulation: its failure counted for the next assignment, so no worker ran it."""
    driver = started(budget=RestartBudget(max_attempts=0))
    connector(driver, "c", 1)
    driver.member(TASK)
    (first,) = driver.calls_of("start_task")
    driver.hold("stop_tasks")
    driver.member()
    first.listener(TaskFailed(TASK, "it was interrupted"))
    driver.release()
    driver.member(TASK)
    assert len(driver.calls_of("start_task")) == 2
