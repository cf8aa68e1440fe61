"""Publication of task configs, offsets, fencing, and the session key."""

from __future__ import annotations

import pytest

from barnabas.connect.decide.backing_stores.config_records import (
    session_key_record,
    target_state_record,
    task_count_record,
)
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.entities import ConnectorOffset
from barnabas.connect.errors import BadRequest, NotFound, NotLeader, RequestFailed
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from tests.unit.connect.decide.herder.herder_driver import (
    KEY_TTL_MS,
    OTHER_URL,
    SINK,
    SOURCE,
    WALL_MS,
    HerderDriver,
    connector,
    started,
)

TASK = ConnectorTaskId("c", 0)


def owner(*, leads: bool = True) -> HerderDriver:
    """Return a driver that runs a connector without tasks."""
    driver = started(leads=leads)
    connector(driver, "c")
    driver.member("c", leads=leads)
    return driver


# -- task configs


def test_the_leader_writes_tasks_then_their_commit() -> None:
    driver = owner()
    assert driver.keys_written()[-3:] == ["task-c-0", "task-c-1", "commit-c"]
    assert driver.calls_of("send_task_configs") == []
    assert driver.calls_of("rejoin_group")[-1].reason == "the tasks of connector c were configured"


def test_a_follower_sends_task_configs_to_the_leader() -> None:
    driver = owner(leads=False)
    (sent,) = driver.calls_of("send_task_configs")
    assert (sent.leader_url, sent.connector) == (OTHER_URL, "c")
    assert sent.configs == [{"number": "0"}, {"number": "1"}]


def test_the_same_tasks_are_not_published_again() -> None:
    driver = owner()
    driver.member("c")
    written = len(driver.topic)
    driver.herder.reconfiguration.request("c")
    driver.run()
    assert len(driver.topic) == written
    driver.outside.task_configs = lambda name, count: [{"number": "other"}]
    driver.herder.reconfiguration.request("c")
    driver.run()
    assert driver.keys_written()[written:] == ["task-c-0", "commit-c"]


def test_a_failed_publication_is_retried_with_growing_pauses() -> None:
    driver = started(leads=False)
    connector(driver, "c")
    driver.refuse("send_task_configs", RequestFailed(503, "starting"))
    driver.member("c", leads=False)
    times: list[float] = []
    for _ in range(200):
        before = len(driver.calls_of("send_task_configs"))
        driver.advance(250)
        if len(driver.calls_of("send_task_configs")) > before:
            times.append(driver.monotonic_ms)
    assert times[:5] == [250, 750, 1_750, 3_750, 7_750]
    driver.advance(300_000)
    before = len(driver.calls_of("send_task_configs"))
    driver.advance(120_000)
    assert len(driver.calls_of("send_task_configs")) - before == 2  # The attempts are at most a minute apart.
    driver.allow("send_task_configs")
    driver.advance(60_000)
    before = len(driver.calls_of("send_task_configs"))
    driver.advance(600_000)
    assert len(driver.calls_of("send_task_configs")) == before


def test_an_expired_key_is_logged_as_an_error_only_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    driver = started(leads=False)
    connector(driver, "c")
    driver.refuse("send_task_configs", RequestFailed(403, "Internal request contained invalid signature."))
    driver.member("c", leads=False)
    driver.advance(59_000)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    driver.advance(120_000)
    assert [record for record in caplog.records if record.levelname == "ERROR"]


def test_too_many_tasks_fail_the_connector_and_are_not_retried() -> None:
    driver = started()
    driver.outside.task_configs = lambda name, count: [{}] * (count + 1)
    connector(driver, "c")
    driver.member("c")
    driver.advance(600_000)
    assert len(driver.calls_of("generate_task_configs")) == 1
    assert b"more than tasks.max = 2" in (driver.statuses[b"status-connector-c"] or b"")
    assert "commit-c" not in driver.keys_written()


def test_too_many_tasks_are_accepted_if_allowed() -> None:
    driver = started()
    driver.outside.task_configs = lambda name, count: [{}] * (count + 1)
    connector(driver, "c", config={**SOURCE, "tasks.max.enforce": "false"})
    driver.member("c")
    assert driver.keys_written()[-1] == "commit-c"


def test_a_paused_connector_generates_no_tasks() -> None:
    driver = started()
    driver.written(target_state_record("c", TargetState.PAUSED))
    connector(driver, "c")
    driver.member("c")
    driver.herder.reconfiguration.request("c")
    driver.run()
    assert driver.calls_of("generate_task_configs") == []


def test_task_configs_for_a_stopped_or_unknown_connector_are_refused() -> None:
    driver = started()
    error = driver.request(driver.herder.internal.put_task_configs("none", [{}])).error
    assert isinstance(error, NotFound)
    driver.written(target_state_record("c", TargetState.STOPPED))
    connector(driver, "c")
    driver.member()
    assert isinstance(driver.request(driver.herder.internal.put_task_configs("c", [{}])).error, BadRequest)
    assert driver.request(driver.herder.internal.put_task_configs("c", [])).value is None
    follower = started(leads=False)
    assert isinstance(follower.request(follower.herder.internal.put_task_configs("c", [])).error, NotLeader)


# -- fences (KIP-618)


def test_only_sources_are_fenced_and_only_when_needed() -> None:
    driver = started()
    connector(driver, "sink", tasks=1, config=SINK)
    connector(driver, "c", tasks=2)
    driver.member()
    assert isinstance(driver.request(driver.herder.internal.fence_zombies("sink")).error, BadRequest)
    driver.request(driver.herder.internal.fence_zombies("c"))
    assert driver.calls_of("fence_producers") == []  # No earlier set of tasks existed.
    assert driver.keys_written()[-1] == "tasks-fencing-c"
    written = len(driver.topic)
    driver.request(driver.herder.internal.fence_zombies("c"))
    assert len(driver.topic) == written


def test_producers_of_the_previous_set_of_tasks_are_fenced() -> None:
    driver = started()
    connector(driver, "c", tasks=2)
    driver.written(task_count_record("c", 3))
    connector(driver, "c", tasks=1)
    driver.member()
    driver.request(driver.herder.internal.fence_zombies("c"))
    assert [call.transactional_ids for call in driver.calls_of("fence_producers")] == [
        ["workers-c-0", "workers-c-1", "workers-c-2"]
    ]


# -- offsets (KIP-875)


def test_offsets_can_be_changed_only_while_the_connector_is_stopped() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    driver.member()
    error = driver.request(driver.herder.offsets.reset("c")).error
    assert isinstance(error, BadRequest)
    assert "'/connectors/c/stop'" in str(error)
    driver.request(driver.herder.states.stop("c"))
    driver.member()
    assert driver.request(driver.herder.offsets.alter("c", [ConnectorOffset({}, None)])).value == "done"
    assert len(driver.calls_of("alter_offsets")) == 1


# -- the session key (KIP-507)


def test_a_leader_without_a_key_writes_one_and_uses_it_once_read_back() -> None:
    driver = HerderDriver()
    driver.herder.topics_read()
    driver.hold("write_configs")
    driver.member()
    assert driver.herder.keys.key is None
    driver.release()
    assert driver.herder.keys.key is not None
    assert driver.keys_written() == ["session-key"]


def test_a_follower_or_an_older_protocol_writes_no_key() -> None:
    follower = started(leads=False)
    follower.advance(10 * KEY_TTL_MS)
    assert follower.keys_written() == []
    driver = HerderDriver()
    driver.herder.topics_read()
    driver.member(protocol=ProtocolVersion.COMPATIBLE)
    driver.advance(10 * KEY_TTL_MS)
    assert driver.keys_written() == []


def test_a_key_is_replaced_when_it_expires() -> None:
    driver = started()
    driver.advance(KEY_TTL_MS - 1)
    assert len(driver.topic) == 1
    driver.advance(2)
    assert len(driver.topic) == 2


def test_a_new_leader_keeps_the_key_until_it_expires() -> None:
    driver = started(leads=False)
    driver.written(session_key_record(SessionKey(b"k" * 32, "HmacSHA256", WALL_MS - KEY_TTL_MS + 5_000)))
    driver.member(leads=True)
    assert len(driver.topic) == 1
    driver.advance(4_999)
    assert len(driver.topic) == 1
    driver.advance(2)
    assert len(driver.topic) == 2


def test_a_failed_key_write_is_retried_with_pauses() -> None:
    driver = HerderDriver()
    driver.herder.topics_read()
    driver.refuse("write_configs")
    driver.member()
    driver.advance(60_000)
    assert 5 < len(driver.calls_of("write_configs")) < 15
    driver.allow("write_configs")
    driver.advance(60_000)
    assert driver.herder.keys.key is not None


def test_a_key_that_was_written_but_not_read_back_is_found_by_a_later_read() -> None:
    driver = HerderDriver()
    driver.herder.topics_read()
    driver.refuse("read_configs_to_end")
    driver.member()
    driver.advance(5_000)
    driver.allow("read_configs_to_end")
    driver.advance(60_000)
    assert driver.keys_written() == ["session-key"]
