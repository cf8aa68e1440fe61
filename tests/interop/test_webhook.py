"""The webhook against a web server that is slow, refuses, hangs, or does not exist. The herder never waits for it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.system_clock import SystemClock
from barnabas.connect.decide.backing_stores.status_records import Failure
from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.decide.notices.webhook_attempts import AttemptBudget
from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType
from barnabas.connect.run.webhook import Webhook, WebhookSettings
from barnabas.testing import Node
from tests.peers.http_receiver import LOST_AFTER, LOST_BEFORE, HttpReceiver, ReceivedRequest, running_receiver
from tests.peers.in_process_workers import TaskLedger, eventually, in_process_worker

pytestmark = pytest.mark.interop

SECRET = b"a secret of the operators"
ALL = frozenset(kind.value for kind in NoticeKind)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Return an event for which a server waits; it is set at the end, so that its threads end."""
    hold = threading.Event()
    yield hold
    hold.set()


def notice(connector: str = "orders", kind: NoticeKind = NoticeKind.FAILED) -> FailureNotice:
    failure = Failure("OSError: the disk is full", 1_000, 1, 10, "Restart 1 of 10 follows in 1 s.")
    return FailureNotice(kind, ConnectorTaskId(connector, 0), ConnectorType.SINK, failure, 2_000)


def run(url: str, story: Callable[[Webhook], Awaitable[None]], **settings: Any) -> Webhook:
    """Run a story with a webhook. Return the webhook, which is closed."""
    given: dict[str, Any] = {
        "secret": SECRET,
        "events": ALL,
        "timeout_s": 5.0,
        "budget": AttemptBudget(3, 10, 20),
        "queue_max": 5,
    }
    numbers = count(1)

    async def all_of_it() -> Webhook:
        webhook = Webhook(
            WebhookSettings(url, **{**given, **settings}),
            group="shop",
            worker="here:8083",
            clock=SystemClock(),
            new_id=lambda: f"msg_{next(numbers)}",
        )
        webhook.begin()
        await story(webhook)
        await webhook.close()
        return webhook

    return asyncio.run(all_of_it())


async def delivered(webhook: Webhook) -> None:
    webhook.notice(notice())


def test_a_notice_arrives_with_its_id_and_signature(receiver: HttpReceiver) -> None:
    webhook = run(receiver.url, delivered)
    [request] = receiver.requests
    assert request.key == json.loads(request.body)["id"] == "msg_1"
    assert request.headers["webhook-signature"].startswith("v1,")
    assert (webhook.sent, webhook.retries, sum(webhook.dropped.values()), webhook.waiting) == (1, 0, 0, 0)


def test_only_the_chosen_events_are_sent(receiver: HttpReceiver) -> None:
    async def story(webhook: Webhook) -> None:
        for kind in NoticeKind:
            webhook.notice(notice(kind=kind))

    run(receiver.url, story, events=frozenset({"exhausted"}))
    assert [json.loads(request.body)["type"] for request in receiver.requests] == ["task.exhausted"]


@pytest.mark.parametrize("failure", [500, 503, 429, LOST_BEFORE, LOST_AFTER])
def test_a_passing_failure_is_retried_with_the_same_id(receiver: HttpReceiver, failure: int) -> None:
    receiver.decide = lambda request: failure if len(receiver.requests) < 2 else 200
    webhook = run(receiver.url, delivered)
    assert [request.key for request in receiver.requests] == ["msg_1"] * 3
    assert list(receiver.taken) == ["msg_1"]
    assert (webhook.sent, webhook.retries) == (1, 2)


def test_a_refusal_is_final_and_logged_without_the_path(
    receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    receiver.decide = lambda request: 403
    webhook = run(receiver.url, delivered)
    assert len(receiver.requests) == 1
    assert webhook.dropped["refused"] == 1
    [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.endswith("did not accept a notice after 1 attempts: it answered with 403")
    assert "/in" not in line


def test_a_redirect_is_not_followed(receiver: HttpReceiver) -> None:
    receiver.decide = lambda request: 307
    assert run(receiver.url, delivered).dropped["refused"] == 1


def test_a_server_that_does_not_exist_costs_the_attempts_and_no_more() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound and not listening: connections are refused.
        webhook = run(f"http://127.0.0.1:{unused.getsockname()[1]}/", delivered)
    assert (webhook.dropped["unanswered"], webhook.retries, webhook.waiting) == (1, 3, 0)


def test_a_slow_answer_is_too_late_and_the_next_attempt_arrives(receiver: HttpReceiver, hold: threading.Event) -> None:
    seen: list[str] = []

    def slow(request: ReceivedRequest) -> int:
        seen.append(request.key)
        if len(seen) == 1:
            hold.wait()
        return 200

    receiver.decide = slow
    webhook = run(receiver.url, delivered, timeout_s=0.2)
    assert seen == ["msg_1", "msg_1"]
    assert (webhook.sent, webhook.retries) == (1, 1)


def test_while_a_server_hangs_notices_are_taken_and_the_oldest_are_dropped(
    receiver: HttpReceiver, hold: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas")
    hangs = threading.Event()

    def hang(request: ReceivedRequest) -> int:
        hangs.set()
        hold.wait()
        return 200

    receiver.decide = hang

    async def story(webhook: Webhook) -> None:
        webhook.notice(notice("first"))
        await asyncio.to_thread(hangs.wait)
        for number in range(100):
            webhook.notice(notice(str(number)))  # Nothing is awaited: the herder's call returns at once.
        assert (webhook.waiting, webhook.dropped["queue"]) == (6, 95)
        hold.set()

    webhook = run(receiver.url, story)
    arrived = [json.loads(request.body)["data"]["connector"] for request in receiver.requests]
    assert arrived == ["first", "95", "96", "97", "98", "99"]
    assert webhook.sent == 6
    lines = [record.getMessage() for record in caplog.records if "is too slow" in record.getMessage()]
    assert "1 notices were dropped, because 5 wait already" in lines[0]
    assert len(lines) == 1  # The others are in the next line, which follows half a minute later at the earliest.


def test_a_worker_that_stops_does_not_wait_for_a_server_that_hangs(
    receiver: HttpReceiver, hold: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.connect.run.webhook._CLOSE_WAIT_S", 0.1)
    receiver.decide = lambda request: 200 if hold.wait() else 500
    webhook = run(receiver.url, delivered)
    assert webhook.dropped["stopped"] == 1


def test_an_answer_that_never_ends_has_a_limit() -> None:
    """A server that sends one byte of its headers after the other is never silent, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        is_over = threading.Event()

        def drip() -> None:
            connections = []
            while not is_over.is_set():
                try:
                    connections.append(server.accept()[0])
                except TimeoutError:
                    pass
                for connection in connections:
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        pass
                time.sleep(0.02)
            for connection in connections:
                connection.close()

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            webhook = run(url, delivered, timeout_s=0.3, budget=AttemptBudget(0, 1, 1))
        finally:
            is_over.set()
            thread.join()
    assert webhook.sent == 0
    assert sum(webhook.dropped.values()) == 1


def test_a_worker_reports_failures_and_the_recovery_of_a_task(
    barnabas_node: Node, receiver: HttpReceiver, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"webhook={SECRET.decode()}\n")
    settings: dict[str, Any] = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "barnabas.connect.webhook.url": receiver.url,
        "barnabas.connect.webhook.secret": f"${{file:{secrets}:webhook}}",
        "barnabas.connect.task.restart.max.attempts": "1",
        "barnabas.connect.task.restart.backoff.ms": "50",
    }
    task = ConnectorTaskId("orders", 0)

    def types() -> list[str]:
        return [json.loads(body)["type"] for body in list(receiver.taken.values())]

    async def story() -> None:
        ledger = TaskLedger()
        ledger.failing.add("orders")
        async with in_process_worker(barnabas_node.bootstrap_servers, "reporting", ledger, **settings) as worker:
            config = {"connector.class": "MockSource", "tasks.max": "1"}
            (await worker.request("PUT", "/connectors/orders/config", config)).raise_for_status()
            await eventually(lambda: types() == ["task.failed", "task.exhausted"])
            ledger.failing.clear()
            await worker.request("POST", "/connectors/orders/tasks/0/restart")
            await eventually(lambda: task in ledger.owners)
            ledger.listeners[task](BatchSucceeded(task))
            await eventually(lambda: types() == ["task.failed", "task.exhausted", "task.recovered"])
            webhook = worker.running._webhook
            assert webhook is not None
            await eventually(lambda: webhook.sent == 3)
            assert receiver.url not in worker.running._secrets.hide(f"HTTP Request: POST {receiver.url}")
            page = (await worker.client.get(f"{worker.url}/metrics")).text
            assert "barnabas_connect_webhook_sent_total 3.0" in page

    asyncio.run(asyncio.wait_for(story(), 100))
    data = json.loads(receiver.requests[0].body)["data"]
    assert (data["group"], data["connector"], data["task"], data["reason"]) == ("reporting", "orders", 0, "it broke")
    for request in receiver.requests:
        signed = f"{request.key}.{request.headers['webhook-timestamp']}.".encode() + request.body
        digest = hmac.new(SECRET, signed, hashlib.sha256).digest()
        assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
