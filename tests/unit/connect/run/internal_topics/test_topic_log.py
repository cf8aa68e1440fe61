"""Why a worker's topic can't be read at its start."""

from __future__ import annotations

import pytest

from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.connect.run.internal_topics import topic_log
from barnabas.connect.run.internal_topics.topic_admin import status_topic
from barnabas.connect.run.internal_topics.topic_log import ReadFailed, TopicLog
from tests.simulation.cluster.virtual_loop import VirtualLoop
from tests.unit.connect.run.internal_topics.test_topic_admin import SETTINGS


def failure_of(monkeypatch: pytest.MonkeyPatch, code: ErrorCode, refusal: str | None) -> str:
    """Return the text of the failure, if every look at the topic has this error and it could not be created."""

    async def ensure(*arguments: object, **options: object) -> str | None:
        return refusal

    async def load() -> None:
        raise admin_error(code, None, "statuses")

    async def story() -> None:
        log = TopicLog(status_topic(SETTINGS), {"bootstrap.servers": "127.0.0.1:1"}, lambda record: None)
        monkeypatch.setattr(log._source, "load", load)
        await log.start()

    monkeypatch.setattr(topic_log, "ensure_internal_topic", ensure)
    loop = VirtualLoop()
    task = loop.create_task(story())
    loop.run_until(loop.time() + 120)
    with pytest.raises(ReadFailed) as raised:
        task.result()
    return str(raised.value)


def test_a_topic_that_may_not_be_created_is_named_with_the_missing_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = failure_of(monkeypatch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "statuses: TOPIC_AUTHORIZATION_FAILED")
    assert text.startswith("topic statuses (status.storage.topic) does not exist, and the worker's principal may not")
    assert "TOPIC_AUTHORIZATION_FAILED" in text
    assert "allow the principal CREATE" in text
    assert 1 <= len(caplog.records) <= 3


def test_a_topic_that_may_not_be_read_fails_at_once_with_the_missing_rights(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = failure_of(monkeypatch, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    assert "(status.storage.topic) can't be read" in text
    assert "needs READ, WRITE and DESCRIBE" in text
    assert not caplog.records


def test_a_topic_without_leaders_is_named_with_that_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "LEADER_NOT_AVAILABLE" in failure_of(monkeypatch, ErrorCode.LEADER_NOT_AVAILABLE, None)
