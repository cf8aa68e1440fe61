"""Sessions on a Spark Connect server: their ids, and the reports of their failures."""

from __future__ import annotations

import re
import uuid
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.sessions import remote_session
from barnabas.connect_spark.sessions.remote_session import RemoteSession, RemoteSessions, session_ids
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.spark.errors import SparkUnavailable

TASK = ConnectorTaskId("c", 0)
SETTINGS = SparkSettings.of({"barnabas.connect.spark.master": "sc://h:1/;token=hidden7"}, worker_id="h:8083")


def test_workers_of_a_group_derive_the_same_session_ids_which_are_unique_to_the_task() -> None:
    ids = list(islice(session_ids("cluster", "group", TASK), 3))
    assert ids == list(islice(session_ids("cluster", "group", TASK), 3))
    assert all(str(uuid.UUID(session_id, version=4)) == session_id for session_id in ids)
    others = [
        next(session_ids("other", "group", TASK)),
        next(session_ids("cluster", "other", TASK)),
        next(session_ids("cluster", "group", ConnectorTaskId("c", 1))),
    ]
    assert len({*ids, *others}) == 6


def _remote(session: Any, *, ids: int = 3) -> RemoteSession:
    found = RemoteSession(SETTINGS, TASK, lambda: ("user", islice(session_ids("cluster", "group", TASK), ids)))
    found._try = session  # type: ignore[method-assign]
    return found


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_session, "_require_packages", lambda: None)
    monkeypatch.setattr(RemoteSession, "_prepare", lambda self, session: None)
    monkeypatch.setattr(remote_session.os, "environ", {})  # type: ignore[attr-defined]


@pytest.mark.usefixtures("prepared")
def test_an_id_whose_session_has_ended_is_skipped() -> None:
    tried: list[str] = []

    def attempt(user: str, session_id: str) -> Any:
        tried.append(session_id)
        return None if len(tried) < 3 else SimpleNamespace(version="4.0.5")

    remote = _remote(attempt)
    assert remote.session() is remote.session()
    assert tried == list(islice(session_ids("cluster", "group", TASK), 3))


@pytest.mark.usefixtures("prepared")
def test_a_server_that_accepts_none_of_the_ids_is_reported() -> None:
    with pytest.raises(SparkUnavailable, match=r"sc://h:1 has ended .* sessions of task c-0"):
        _remote(lambda user, session_id: None).session()


@pytest.mark.usefixtures("prepared")
def test_a_session_that_has_ended_meanwhile_is_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    sessions = [SimpleNamespace(version="4.0.5", client=SimpleNamespace(close=lambda: None)) for _ in range(2)]
    left = list(sessions)
    remote = _remote(lambda user, session_id: left.pop(0))
    assert remote.session() is sessions[0]
    sessions[0].version = ""
    assert remote.session() is sessions[1]
    ready, again, _ = caplog.messages
    assert re.fullmatch(r"the Spark session of task c-0 on sc://h:1 is ready after \d+\.\d s", ready)
    assert again == "opening the Spark session of task c-0 again"


@pytest.mark.usefixtures("prepared")
def test_a_task_stopped_while_waiting_changes_nothing_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteSession, "_prepare", lambda self, session: pytest.fail("its successor may run there"))
    closed: list[bool] = []

    def attempt(user: str, session_id: str) -> Any:
        remote.release()  # On the event loop, meanwhile.
        return SimpleNamespace(version="4.0.5", client=SimpleNamespace(close=lambda: closed.append(True)))

    remote = _remote(attempt)
    with pytest.raises(SparkUnavailable, match="task c-0 was stopped"):
        remote.session()
    assert closed == [True]


@pytest.mark.usefixtures("prepared")
def test_an_abandoned_session_is_ended_on_the_server_and_has_a_reason() -> None:
    done: list[str] = []
    client = SimpleNamespace(close=lambda: done.append("closed"), release_session=lambda: done.append("released"))
    remote = _remote(lambda user, session_id: SimpleNamespace(version="4.0.5", client=client))
    remote.session()
    remote.abandon("it hangs")
    assert (done, remote.failure()) == (["released", "closed"], "it hangs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UNAVAILABLE: no server\nmore", "does not answer: UNAVAILABLE: no server. Start it"),
        ("StatusCode.UNAUTHENTICATED", "requires another token"),
        ("something else", "can't be used: something else"),
    ],
)
def test_a_refusal_names_the_server_but_never_its_token(text: str, message: str) -> None:
    answer = _remote(None)._refusal(Exception(text))
    assert "sc://h:1" in answer
    assert message in answer
    assert "hidden7" not in answer


def test_the_network_error_inside_a_spark_error_is_found() -> None:
    class RpcError(Exception):
        def details(self) -> str:
            return "Connection refused (111)"

    def call() -> None:
        try:
            raise RpcError
        except RpcError as error:
            raise RuntimeError("[RETRIES_EXCEEDED] The maximum number of retries") from error

    with pytest.raises(RuntimeError) as raised:
        call()
    assert "does not answer: Connection refused (111). Start it" in _remote(None)._refusal(raised.value)


def test_nothing_is_opened_while_the_worker_stops() -> None:
    sessions = RemoteSessions(SETTINGS, "group", lambda: "cluster")
    sessions.close()
    with pytest.raises(SparkUnavailable, match="the worker is stopping"):
        sessions._ids(TASK)


def test_a_missing_package_is_named_with_its_extra() -> None:
    def find(name: str) -> object:
        return None if name == "grpc" else object()

    with pytest.raises(SparkUnavailable, match=r"grpc \(of the extra spark-connect\) is missing: pip install"):
        remote_session._require_packages(find)
