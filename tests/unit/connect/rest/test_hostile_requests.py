"""Requests of unknown clients are cheap: bodies are bounded, verified before parsing, and do not fill the log."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from starlette.types import Message

from barnabas.connect.rest.application import ListenerKind, RestRules
from barnabas.connect.rest.authentication import Authenticator
from barnabas.connect.rest.internal_client import InternalClient
from barnabas.connect.rest.request_body import SMALL_BYTES, BodyLimits, BodyMemory, RequestBody, Sender
from barnabas.connect.rest.request_log import LineBudget
from barnabas.connect.rest.request_signature import ALGORITHM_HEADER, SIGNATURE_HEADER, signed_headers
from barnabas.connect.rest.resources import internal
from barnabas.connect.rest.responses import Refused
from tests.peers.rest_workers import RestWorkers
from tests.unit.connect.rest.test_application import Passwords, as_user

TASKS = "/connectors/c/tasks"
MIB = 1024 * 1024
LIMITS = BodyLimits(bytes_max=400_000, anonymous_bytes_max=100_000, memory_bytes_max=1_000_000)
BOGUS = {SIGNATURE_HEADER: base64.b64encode(b"x" * 32).decode(), ALGORITHM_HEADER: "HmacSHA256"}


class Upload:
    """A body that arrives in pieces and counts the bytes read."""

    def __init__(self, length: int, piece: bytes = b"[" * 10_000) -> None:
        self.left = length
        self.piece = piece
        self.read = 0
        self.is_held = asyncio.Event()

    async def receive(self) -> Message:
        data = self.piece[: self.left]
        self.left -= len(data)
        self.read += len(data)
        return {"type": "http.request", "body": data, "more_body": self.left > 0}


async def send(
    workers: RestWorkers,
    method: str,
    path: str,
    body: Upload,
    headers: Mapping[str, str] | None = None,
    *,
    address: str = "192.0.2.7",
) -> tuple[int, Any]:
    """Send directly to the application of worker A. Return the status and the body of the answer."""
    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "server": ("127.0.0.1", 8083),
        "client": (address, 1234),
        "headers": [(name.lower().encode(), text.encode()) for name, text in (headers or {}).items()],
    }

    async def keep(message: Message) -> None:
        sent.append(message)

    await workers.applications["A"].on_listener(ListenerKind())(scope, body.receive, keep)
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(content) if content else None


def workers_with_roles() -> RestWorkers:
    return RestWorkers(rules=RestRules(Authenticator(passwords=Passwords()), body_limits=LIMITS))  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_an_unsigned_internal_request_is_refused_before_its_body_is_read() -> None:
    body = Upload(16 * MIB)
    status, answer = await send(RestWorkers(), "POST", TASKS, body)
    assert (status, answer["message"]) == (400, "Internal request missing required signature")
    assert body.read == 0


@pytest.mark.anyio
async def test_a_body_with_a_wrong_signature_is_never_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(body: bytes) -> Any:
        raise AssertionError("parsed")

    monkeypatch.setattr(internal, "read_task_configs", parse)
    status, answer = await send(RestWorkers(), "POST", TASKS, Upload(200_000), BOGUS)
    assert (status, answer["message"]) == (403, "Internal request contained invalid signature.")


@pytest.mark.anyio
async def test_an_unreadable_signed_body_is_refused() -> None:
    workers = RestWorkers()
    body = b"[" * 10
    headers = signed_headers("HmacSHA256", workers.cluster.session.key, body)
    answer = await workers.send("A", "POST", TASKS, headers, body)
    assert answer.status_code in (403, 500)  # 403 if the group requires freshness.
    assert "parsed" not in answer.text


@pytest.mark.anyio
async def test_an_unknown_client_may_send_less_than_a_known_user() -> None:
    workers = RestWorkers(rules=RestRules(body_limits=LIMITS))
    assert (await send(workers, "POST", "/connectors", Upload(100_001)))[0] == 413
    assert (await send(workers, "POST", "/connectors", Upload(100_000)))[0] == 500  # The body is not JSON.
    workers = workers_with_roles()
    body = Upload(300_000)
    assert (await send(workers, "POST", "/connectors", body))[0] == 401
    assert body.read == 0
    assert (await send(workers, "POST", "/connectors", Upload(300_000), as_user("admin")))[0] == 500
    assert (await send(workers, "POST", "/connectors", Upload(400_001), as_user("admin")))[0] == 413


@pytest.mark.anyio
async def test_a_request_that_needs_no_body_may_have_only_a_small_one() -> None:
    workers = RestWorkers()
    assert (await send(workers, "GET", "/health", Upload(SMALL_BYTES + 10_000)))[0] == 413
    assert (await send(workers, "GET", "/health", Upload(100)))[0] == 200


@pytest.mark.anyio
async def test_large_bodies_are_parsed_on_a_thread_and_small_ones_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.connect.rest.resources import connectors

    threads: list[str] = []
    read: Callable[[bytes], Any] = connectors.read_create  # type: ignore[attr-defined]

    def watched(body: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return read(body)

    monkeypatch.setattr(connectors, "read_create", watched)
    workers = RestWorkers()
    for length in (100, 10 * SMALL_BYTES):
        await send(workers, "POST", "/connectors", Upload(length))
    assert threads[0] == threading.main_thread().name
    assert threads[1].startswith("rest-bodies")


@pytest.mark.anyio
async def test_a_refused_body_is_freed_without_the_garbage_collector() -> None:
    workers = RestWorkers()
    settings = b",".join(b'"setting.%d": 1' % number for number in range(20_000))
    body = Upload(len(settings) + 28, b'{"name": "c", "config": {' + settings + b"}} ")
    gc.collect()
    gc.disable()
    try:
        assert (await send(workers, "POST", "/connectors", body))[0] == 400
        assert not [object_ for object_ in gc.get_objects() if isinstance(object_, dict) and "setting.19999" in object_]
    finally:
        gc.enable()


@pytest.mark.anyio
async def test_bodies_share_a_limit_and_unknown_clients_leave_room_for_users() -> None:
    memory = BodyMemory(LIMITS)
    bodies = []

    async def read(address: str, *, is_proven: bool) -> None:
        body = RequestBody(Upload(300_000).receive, memory)
        bodies.append(body)
        await body.read(LIMITS.bytes_max, Sender(address, is_proven))

    await read("a", is_proven=False)
    with pytest.raises(Exception, match="memory for request bodies is full"):
        await read("a", is_proven=False)  # One address may use at most the size of the largest body.
    bodies.pop().release()
    with pytest.raises(Exception, match="memory for request bodies is full"):
        await read("b", is_proven=False)  # Unknown clients may use half of the memory.
    bodies.pop().release()
    await read("b", is_proven=True)
    await read("b", is_proven=True)
    with pytest.raises(Exception, match=r"barnabas\.connect\.request\.memory\.max\.bytes"):
        await read("c", is_proven=True)
    assert memory.taken <= LIMITS.memory_bytes_max
    for body in bodies:
        body.release()
    assert memory.taken == 0


@pytest.mark.anyio
async def test_memory_is_released_however_a_request_ends() -> None:
    memory = BodyMemory(LIMITS)
    body = RequestBody(Upload(500_000).receive, memory)
    with pytest.raises(Refused):
        await body.read(LIMITS.bytes_max, Sender("a", True))
    body.release()
    body.release()
    assert memory.taken == 0


@pytest.mark.anyio
async def test_unknown_clients_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    workers = workers_with_roles()
    for number in range(2000):
        await send(workers, "POST", f"/{'x' * 5000}{number}\n", Upload(0))
    assert sum(len(record.getMessage()) for record in caplog.records) < 20_000
    assert all("\n" not in record.getMessage() for record in caplog.records)


@pytest.mark.anyio
async def test_each_request_of_a_known_user_has_a_log_line_of_limited_length(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    for _ in range(200):
        await send(workers_with_roles(), "POST", f"/{'x' * 5000}", Upload(0), as_user("admin"))
    lines = [record.getMessage() for record in caplog.records if ": 404 after" in record.getMessage()]
    assert len(lines) == 200
    assert max(map(len, lines)) < 400


def test_omitted_log_lines_are_counted() -> None:
    now = [0.0]
    budget = LineBudget(2, lambda: now[0])
    assert [budget.take() for _ in range(5)] == [True, True, False, False, False]
    now[0] = 10.0
    assert budget.take()
    assert budget.since_last() == " (and 3 more that are not logged)"
    assert budget.since_last() == ""


@pytest.mark.anyio
async def test_a_refused_follower_names_the_worker_and_the_refused_request() -> None:
    """The leader's message says "this worker"; a follower must not repeat that in its log and states."""
    workers = RestWorkers()
    client: InternalClient = workers.clients["B"]
    client._algorithm = "HmacSHA512"
    for send_request in (
        lambda: client.post_task_configs(workers.urls["A"], "c", [{"a": "b"}]),
        lambda: client.put_fence(workers.urls["A"], "c"),
    ):
        with pytest.raises(Exception, match="does not support the 'HmacSHA512' key signing algorithm") as raised:
            await send_request()
        text = str(raised.value)
        assert text.startswith(f"the worker at {workers.urls['A']} refused (400) ")
        assert "signed with HmacSHA512" in text
        assert "inter.worker.signature.algorithm" in text
        assert getattr(raised.value, "http_status", 0) == 400
    await workers.close()


def test_the_http_server_logs_few_lines_about_unknown_clients(caplog: pytest.LogCaptureFixture) -> None:
    import barnabas.connect.rest.http_listener  # noqa: F401 - installs the limit.

    server = logging.getLogger("uvicorn.error")
    for _ in range(1000):
        server.warning("Invalid HTTP request received.")
    assert 0 < len(caplog.records) <= 20


@pytest.mark.anyio
async def test_a_configuration_with_too_many_settings_is_refused() -> None:
    config = {f"setting.{number}": "1" for number in range(10_001)}
    body = json.dumps(config).encode()
    answer = await RestWorkers().send("A", "PUT", "/connectors/c/config", {}, body)
    assert (answer.status_code, "10000 settings" in answer.text) == (400, True)
