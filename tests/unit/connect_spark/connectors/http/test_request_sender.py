"""Attempts, pauses, refusals and failures, with a server that is a function."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import RefusedRecord, TerminalError
from barnabas.connect_spark.connectors.http.http_settings import HttpSettings
from barnabas.connect_spark.connectors.http.record_spool import RecordSpool
from barnabas.connect_spark.connectors.http.request_batch import HttpRecord
from barnabas.connect_spark.connectors.http.request_sender import RequestFailed, RequestSender
from barnabas.connect_spark.connectors.http.topic_to_http import TopicToHttp
from barnabas.connect_spark.queries.batch_gate import BatchGate, QueryEnds

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
Server = Callable[[httpx.Request], httpx.Response]
TOKEN = "very-secret-token"


@dataclass
class NoPauses:
    waited: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    def ensure_unfenced(self) -> None:
        pass


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[RecordSpool]:
    with RecordSpool(tmp_path) as made:
        for offset in range(4):
            made.add(P0, HttpRecord(offset, "orders", str(offset).encode()))
        made.add(P1, HttpRecord(7, "orders", b"7"))
        yield made


def sender(server: Server, config: Mapping[str, str] | None = None, *, tolerates: bool = False) -> RequestSender:
    given = {"http.url": "http://hooks.test/secret-path", "retry.backoff.ms": "0", **(config or {})}
    settings = HttpSettings.of(TopicToHttp.config_def.parse(given), "c")
    client = httpx.Client(transport=httpx.MockTransport(server))
    return RequestSender(client, settings, name="c-0", tolerates=tolerates)


def numbers(request: httpx.Request) -> list[int]:
    found: list[int] = json.loads(request.content)
    return found


def test_a_partition_is_sent_in_order_with_a_key_for_each_request(spool: RecordSpool) -> None:
    seen: list[tuple[str, list[int]]] = []

    def server(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], numbers(request)))
        return httpx.Response(204)

    assert sender(server, {"batch.max.records": "3"}).send_all(spool, NoPauses()) == []
    assert [entry for entry in seen if "orders-0" in entry[0]] == [
        ("c:orders-0-0-2", [0, 1, 2]),
        ("c:orders-0-3-3", [3]),
    ]
    assert [entry for entry in seen if "orders-1" in entry[0]] == [("c:orders-1-7-7", [7])]


def test_a_request_is_repeated_with_its_key_until_it_is_accepted(spool: RecordSpool) -> None:
    answers: list[Exception | int] = [httpx.ConnectError("refused"), httpx.ReadTimeout("silent"), 429, 503, 200]
    keys = []

    def server(request: httpx.Request) -> httpx.Response:
        if "orders-1" in request.headers["Idempotency-Key"]:
            return httpx.Response(200)
        keys.append(request.headers["Idempotency-Key"])
        answer = answers[len(keys) - 1]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer)

    assert sender(server).send_all(spool, NoPauses()) == []
    assert keys == ["c:orders-0-0-3"] * 5


def test_retries_end_with_the_reason_and_other_requests_are_not_sent(spool: RecordSpool) -> None:
    def server(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, text="no\x1b[31m   capacity\n" + "x" * 500)

    one = {"max.retries": "2", "max.in.flight.requests": "1"}
    with pytest.raises(RequestFailed) as failure:
        sender(server, one).send_all(spool, NoPauses())
    text = str(failure.value)
    assert text.startswith(
        "http://hooks.test did not accept the records at orders-0, offsets 0 to 3 after 3 attempts: "
        "503 Service Unavailable: no?[31m capacity xxx"
    )
    assert text.endswith("x...")
    assert len(text) < 400


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_an_answer_about_the_settings_fails_without_a_retry(spool: RecordSpool, status: int) -> None:
    keys = []

    def server(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        return httpx.Response(status, text="go away")

    with pytest.raises(RequestFailed, match=rf"with {status} .*: go away"):
        sender(server, {"max.in.flight.requests": "1"}, tolerates=True).send_all(spool, NoPauses())
    assert keys == ["c:orders-0-0-3"]


def test_a_redirect_is_not_followed_and_shows_no_path(spool: RecordSpool) -> None:
    moved = httpx.Response(301, headers={"location": "https://new.test/secret-path"})
    with pytest.raises(RequestFailed, match="301 Moved Permanently, a redirect to https://new.test, which") as failure:
        sender(lambda request: moved).send_all(spool, NoPauses())
    assert "secret-path" not in str(failure.value)


def test_refused_records_are_found_and_the_others_arrive(spool: RecordSpool) -> None:
    accepted: list[int] = []

    def server(request: httpx.Request) -> httpx.Response:
        if 2 in numbers(request):
            return httpx.Response(422, text="2 is not a number")
        accepted.extend(numbers(request))
        return httpx.Response(200)

    refused = sender(server, tolerates=True).send_all(spool, NoPauses())
    assert refused == [RefusedRecord(P0, 2, "422 Unprocessable Entity: 2 is not a number")]
    assert sorted(accepted) == [0, 1, 3, 7]


def test_a_refused_record_fails_the_task_unless_it_is_tolerated(spool: RecordSpool) -> None:
    refusing = sender(lambda request: httpx.Response(400), {"max.in.flight.requests": "1"})
    with pytest.raises(TerminalError, match="refused the records at orders-0, offsets 0 to 3: 400 Bad Request"):
        refusing.send_all(spool, NoPauses())


def test_a_request_that_is_too_large_is_divided_even_without_tolerance(spool: RecordSpool) -> None:
    accepted: list[list[int]] = []

    def server(request: httpx.Request) -> httpx.Response:
        if len(numbers(request)) > 1:
            return httpx.Response(413)
        accepted.append(numbers(request))
        return httpx.Response(200)

    assert sender(server).send_all(spool, NoPauses()) == []
    assert sorted(accepted) == [[0], [1], [2], [3], [7]]


def test_secrets_of_the_settings_appear_in_no_message(spool: RecordSpool) -> None:
    def server(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, text=f"bad {request.headers['authorization']} and {request.headers['x-api-key']}")

    config = {
        "http.auth.type": "bearer",
        "http.auth.token": TOKEN,
        "http.headers.secret": "X-Api-Key: other-secret",
        "http.headers": "X-Plain: shown",
    }
    with pytest.raises(RequestFailed) as failure:
        sender(server, config).send_all(spool, NoPauses())
    assert "bad [hidden] and [hidden]" in str(failure.value)
    assert "secret" not in str(failure.value)


def test_a_pause_ends_when_the_task_is_to_stop(spool: RecordSpool, caplog: pytest.LogCaptureFixture) -> None:
    gate = BatchGate()
    gate.close(0)
    busy = httpx.Response(503, headers={"Retry-After": "600"})
    with caplog.at_level(logging.WARNING), pytest.raises(QueryEnds):
        sender(lambda request: busy).send_all(spool, gate)
    assert "task c-0: retry 1 of 10 for orders-0, offsets 0 to 3 in 600.0 s: 503 Service Unavailable" in caplog.text


def test_no_request_is_sent_after_the_batch_was_fenced(spool: RecordSpool) -> None:
    gate = BatchGate()
    gate.fence()
    sent: list[httpx.Request] = []

    def server(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200)

    with pytest.raises(QueryEnds):
        sender(server).send_all(spool, gate)
    assert sent == []
