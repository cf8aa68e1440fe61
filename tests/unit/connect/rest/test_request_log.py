"""A line for a request: who sent it from where, its answer, and for a refused one the reason as a warning."""

from __future__ import annotations

import logging

import pytest

from barnabas.connect.errors import AlreadyExists
from barnabas.connect.rest.application import ListenerKind
from tests.peers.rest_workers import RestWorkers
from tests.unit.connect.rest.test_application import as_user
from tests.unit.connect.rest.test_hostile_requests import Upload, send, workers_with_roles


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "barnabas.connect.rest.application")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records if "192.0.2.7" in record.message]


@pytest.mark.anyio
async def test_a_change_names_its_user_and_peer(caplog: pytest.LogCaptureFixture) -> None:
    workers = workers_with_roles()

    async def done(name: str) -> None:
        pass

    workers.herders["A"].states.pause = done  # type: ignore[method-assign]
    await send(workers, "PUT", "/connectors/c/pause", Upload(0), as_user("admin"))
    (line,) = lines(caplog)
    assert line.startswith("INFO PUT /connectors/c/pause by admin from 192.0.2.7:1234: 202 after ")


@pytest.mark.anyio
async def test_a_read_is_a_line_of_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    await send(RestWorkers(), "GET", "/connectors", Upload(0))
    (line,) = lines(caplog)
    assert line.startswith("DEBUG GET /connectors by anonymous from 192.0.2.7:1234: 200 after ")


@pytest.mark.anyio
async def test_an_object_that_does_not_exist_is_not_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    status, _ = await send(RestWorkers(), "GET", "/admin/loggers/none", Upload(0))
    assert status == 404
    assert lines(caplog)[0].startswith("DEBUG GET /admin/loggers/none by anonymous from 192.0.2.7:1234: 404 after ")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "user", "status", "reason"),
    [
        ("GET", "/connectors", None, 401, "by an unknown user: 401 The request needs credentials"),
        (
            "GET",
            "/connectors",
            "nobody",
            403,
            "by nobody from 192.0.2.7:1234: 403 after 0 ms: nobody has no role; this",
        ),
        ("POST", "/nowhere", "admin", 404, "by admin from 192.0.2.7:1234: 404 after 0 ms: HTTP 404 Not Found"),
        ("POST", "/connectors/c/status", "admin", 405, "by admin from 192.0.2.7:1234: 405 after 0 ms: HTTP 405"),
    ],
)
async def test_refused_requests_are_warnings_with_the_reason(
    method: str, path: str, user: str | None, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    headers = None if user is None else as_user(user)
    assert (await send(workers_with_roles(), method, path, Upload(0), headers))[0] == status
    (line,) = lines(caplog)
    assert line.startswith("WARNING ")
    assert reason.split(" after ")[0] in line
    assert reason.split(" ms: ")[-1] in line


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("listener", "path", "reason"),
    [
        (ListenerKind(has_admin=False), "/admin/loggers", "404 HTTP 404 Not Found"),
        (ListenerKind(), "/connectors/c/tasks", "400 Internal request missing required signature"),
    ],
)
async def test_a_refused_request_of_an_unknown_client_is_logged_once_a_minute(
    listener: ListenerKind, path: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    workers = RestWorkers(kind=listener)
    for _ in range(5):
        await workers.send("A", "POST", path)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith(f"POST {path} by anonymous: {reason}")


@pytest.mark.anyio
async def test_a_conflict_says_what_conflicts_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    workers = RestWorkers()

    async def refused(name: str) -> None:
        raise AlreadyExists("Connector c\nis busy")

    workers.herders["A"].states.pause = refused  # type: ignore[method-assign]
    assert (await workers.send("A", "PUT", "/connectors/c/pause")).status_code == 409
    assert "PUT /connectors/c/pause by anonymous: 409 Connector c is busy" in caplog.text
