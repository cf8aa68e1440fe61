from __future__ import annotations

import pytest

from barnabas.connect.decide.group.membership_events import Joining
from barnabas.connect.errors import AlreadyExists, BadRequest, ConnectError, NotFound, NotLeader, RebalanceNeeded
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from tests.unit.connect.decide.herder.herder_driver import OTHER_URL, SOURCE, HerderDriver, connector, started


@pytest.fixture
def leader() -> HerderDriver:
    return started()


@pytest.fixture
def follower() -> HerderDriver:
    return started(leads=False)


def test_create_is_answered_after_its_records_are_written_and_read_back(leader: HerderDriver) -> None:
    leader.hold("read_configs_to_end")
    answer = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    assert "connector-c" in leader.keys_written()
    assert not answer.has_arrived
    leader.release()
    assert answer.value.name == "c"
    assert answer.value.type is ConnectorType.SOURCE
    assert answer.value.tasks == []


def test_an_initial_state_is_written_before_the_connector_in_the_same_batch(leader: HerderDriver) -> None:
    leader.request(leader.herder.connectors.create("c", SOURCE, TargetState.STOPPED))
    (batch,) = (call.records for call in leader.calls_of("write_configs") if len(call.records) == 2)
    assert [record.key for record in batch] == [b"target-state-c", b"connector-c"]


def test_an_existing_connector_is_not_created_again(leader: HerderDriver) -> None:
    connector(leader, "c")
    leader.member()
    error = leader.request(leader.herder.connectors.create("c", SOURCE, None)).error
    assert isinstance(error, AlreadyExists)
    assert str(error) == "Connector c already exists"


def test_of_two_concurrent_creates_the_second_is_refused(leader: HerderDriver) -> None:
    leader.hold("write_configs")
    first = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    second = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    leader.release()
    assert first.value.name == "c"
    assert isinstance(second.error, AlreadyExists)


def test_an_invalid_config_is_refused_with_all_errors(leader: HerderDriver) -> None:
    leader.outside.errors = ["bad one", "bad two"]
    error = leader.request(leader.herder.connectors.put("c", SOURCE)).error
    assert isinstance(error, BadRequest)
    assert str(error).splitlines() == [
        "Connector configuration is invalid and contains the following 2 error(s):",
        "bad one",
        "bad two",
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    ]
    assert leader.keys_written() == ["session-key"]


def test_a_follower_names_the_leader(follower: HerderDriver) -> None:
    requests = follower.herder.connectors
    for steps in (
        requests.create("c", SOURCE, None),
        requests.put("c", SOURCE),
        requests.patch("c", {}),
        requests.delete("c"),
    ):
        error = follower.request(steps).error
        assert isinstance(error, NotLeader)
        assert error.url == OTHER_URL


def test_a_request_waits_for_a_rebalance(leader: HerderDriver) -> None:
    leader.herder.notice(Joining("a member joined"), {}, ())
    answer = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    leader.advance(5_000)
    assert not answer.has_arrived
    leader.member()
    assert answer.value.name == "c"


def test_a_request_does_not_wait_forever(leader: HerderDriver) -> None:
    leader.herder.notice(Joining("a member joined"), {}, ())
    answer = leader.request(leader.herder.connectors.delete("c"))
    leader.advance(30_000)
    assert isinstance(answer.error, RebalanceNeeded)


def test_a_leader_that_has_lost_its_leadership_meanwhile_does_not_write(leader: HerderDriver) -> None:
    leader.herder.notice(Joining("a member joined"), {}, ())
    answer = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    leader.member(leads=False)
    assert isinstance(answer.error, NotLeader)


def test_an_unknown_connector_is_first_looked_up_in_the_topic(follower: HerderDriver) -> None:
    error = follower.request(follower.herder.connectors.info("c")).error
    assert isinstance(error, NotFound)
    assert str(error) == "Connector c not found"
    assert follower.calls_of("read_configs_to_end")
    follower.calls.clear()
    connector(follower, "c", tasks=2)
    info = follower.request(follower.herder.connectors.info("c")).value
    assert info.tasks == [ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)]
    assert not follower.calls_of("read_configs_to_end")


def test_reads_are_served_during_a_rebalance_and_writes_wait(leader: HerderDriver) -> None:
    connector(leader, "c")
    leader.herder.notice(Joining("a member joined"), {}, ())
    assert leader.request(leader.herder.connectors.config("c")).value == SOURCE
    assert leader.request(leader.herder.connectors.tasks("c")).value == []


def test_a_put_reports_whether_the_connector_is_new(leader: HerderDriver) -> None:
    info, is_new = leader.request(leader.herder.connectors.put("c", SOURCE)).value
    assert is_new
    leader.member()
    info, is_new = leader.request(leader.herder.connectors.put("c", {**SOURCE, "x": "y"})).value
    assert not is_new
    assert info.config == {**SOURCE, "x": "y"}


def test_a_patch_merges_and_null_removes(leader: HerderDriver) -> None:
    connector(leader, "c", config={**SOURCE, "a": "1", "b": "2"})
    leader.member()
    info = leader.request(leader.herder.connectors.patch("c", {"a": None, "b": "3", "d": "4", "e": None})).value
    assert info.config == {**SOURCE, "b": "3", "d": "4"}


def test_a_patch_is_repeated_after_a_concurrent_change(leader: HerderDriver) -> None:
    connector(leader, "c", config={**SOURCE, "a": "1"})
    leader.member()
    leader.hold("validate_config")
    answer = leader.request(leader.herder.connectors.patch("c", {"b": "2"}))
    connector(leader, "c", config={**SOURCE, "a": "9"})
    leader.member()
    leader.release()
    assert answer.value.config == {**SOURCE, "a": "9", "b": "2"}


def test_a_deletion_removes_the_target_state_too(leader: HerderDriver) -> None:
    connector(leader, "c")
    leader.member()
    leader.request(leader.herder.connectors.delete("c"))
    assert leader.keys_written()[-2:] == ["connector-c", "target-state-c"]
    assert leader.herder.connectors.names() == []


def test_a_failed_write_is_reported(leader: HerderDriver) -> None:
    leader.refuse("write_configs", ConnectError("no room"))
    assert str(leader.request(leader.herder.connectors.create("c", SOURCE, None)).error) == "no room"
    leader.allow("write_configs")
    assert (
        leader.request(leader.herder.connectors.create("c", SOURCE, None)).value.name == "c"
    )  # The turn is free again.


def test_a_health_check_waits_for_a_write_in_progress(leader: HerderDriver) -> None:
    leader.hold("write_configs")
    leader.request(leader.herder.connectors.create("c", SOURCE, None))
    answer = leader.request(leader.herder.health())
    assert not answer.has_arrived
    assert "writing to the config topic" in (leader.herder.context.stages.current() or "")
    leader.release()
    assert answer.has_arrived
    assert leader.herder.context.stages.current() is None


def test_a_cancelled_request_lets_the_next_one_continue(leader: HerderDriver) -> None:
    leader.hold("write_configs")
    given_up = leader.request(leader.herder.connectors.create("c", SOURCE, None))
    health = leader.request(leader.herder.health())
    assert not health.has_arrived
    given_up.task.cancel()
    leader.run()
    assert given_up.task.cancelled()
    assert health.has_arrived
