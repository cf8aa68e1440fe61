"""Requests that another worker answers, and requests during a rebalance."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import parse_qs

import httpx
import msgspec
import pytest

from barnabas.connect.errors import ConnectError, RequestFailed
from barnabas.connect.rest.internal_client import InternalClient, request_body
from barnabas.connect.rest.request_freshness import FRESHNESS_HEADER
from barnabas.connect.rest.request_signature import SIGNATURE_HEADER
from tests.peers.rest_workers import RestWorkers

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def body(**fields: object) -> bytes:
    return msgspec.json.encode({"name": "c", "config": CONFIG, **fields})


@pytest.mark.anyio
async def test_a_follower_forwards_a_request_and_answers_with_its_own_url_as_location() -> None:
    workers = RestWorkers()
    answer = await workers.send("B", "POST", "/connectors", {"Authorization": "Basic x", "X-Other": "y"}, body())
    assert answer.status_code == 201
    assert answer.headers["location"] == "http://127.0.0.1:29512/connectors/c"
    assert answer.json()["name"] == "c"
    (sent,) = workers.forwarded
    assert str(sent.url) == "http://127.0.0.1:29511/connectors?forward=true"
    assert sent.headers["authorization"] == "Basic x"
    assert "x-other" not in sent.headers
    assert msgspec.json.decode(sent.content)["initial_state"] is None


@pytest.mark.anyio
@pytest.mark.parametrize(("forward", "sent"), [("", "true"), ("?forward=true", "false"), ("?forward=TRUE", "false")])
async def test_a_request_is_forwarded_at_most_twice(forward: str, sent: str) -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    assert (await workers.send("B", "DELETE", f"/connectors/c{forward}")).status_code == 204
    assert parse_qs(workers.forwarded[0].url.query.decode()) == {"forward": [sent]}


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["false", "no", ""])
async def test_a_request_that_must_not_be_forwarded_is_a_conflict(text: str) -> None:
    workers = RestWorkers()
    answer = await workers.send("B", "DELETE", f"/connectors/c?forward={text}")
    assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)
    assert workers.forwarded == []


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "named"), [("B", "Worker 127.0.0.1:29511"), ("A", "This worker")])
async def test_a_message_about_this_worker_that_another_one_shows_names_it(asked: str, named: str) -> None:
    workers = RestWorkers()

    async def refused(name: str) -> None:
        raise ConnectError("This worker does not have the connector class X")

    workers.herders["A"].connectors.delete = refused  # type: ignore[method-assign]
    answer = await workers.send(asked, "DELETE", "/connectors/c")
    assert answer.json()["message"] == f"{named} does not have the connector class X"


@pytest.mark.anyio
async def test_status_and_message_of_the_leader_are_forwarded() -> None:
    workers = RestWorkers()
    answer = await workers.send("B", "DELETE", "/connectors/none")
    assert answer.json() == {"error_code": 404, "message": "Connector none not found"}


@pytest.mark.anyio
async def test_names_are_encoded_when_forwarded() -> None:
    workers = RestWorkers()
    assert (await workers.send("B", "POST", "/connectors", None, body(name="a/b c%é"))).status_code == 201
    path = "/connectors/a%2Fb%20c%25%C3%A9"
    assert (await workers.send("B", "GET", path)).json()["name"] == "a/b c%é"
    assert (await workers.send("B", "PUT", f"{path}/stop")).status_code == 204
    assert workers.forwarded[-1].url.raw_path == f"{path}/stop?forward=true".encode()


@pytest.mark.anyio
async def test_parameters_of_a_restart_are_forwarded() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    answer = await workers.send("B", "POST", "/connectors/c/restart?includeTasks=TRUE&onlyFailed=maybe")
    assert answer.status_code == 202
    assert workers.herders["A"].calls == ["restart c True False"]


@pytest.mark.anyio
async def test_an_unreachable_leader_is_a_500() -> None:
    workers = RestWorkers()
    workers.cluster.leader_url = "http://127.0.0.1:1/"
    answer = await workers.send("B", "DELETE", "/connectors/c")
    assert answer.status_code == 500
    assert "http://127.0.0.1:1/" in answer.json()["message"]


@pytest.mark.anyio
async def test_without_a_leader_a_request_waits_for_one() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    workers.cluster.leader_url = None
    workers.herders["B"].rebalancing = asyncio.Event()
    pending = asyncio.create_task(workers.send("B", "DELETE", "/connectors/c"))
    await asyncio.sleep(0)
    workers.cluster.leader_url = workers.urls["A"]
    event = workers.herders["B"].rebalancing
    assert event is not None
    event.set()
    assert (await pending).status_code == 204


@pytest.mark.anyio
async def test_a_plain_get_waits_for_the_end_of_a_rebalance_too() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    event = workers.herders["A"].rebalancing = asyncio.Event()
    pending = asyncio.create_task(workers.send("A", "GET", "/connectors/c"))
    await asyncio.sleep(0.01)
    assert not pending.done()
    event.set()
    assert (await pending).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "path"), [("GET", "/connectors/c"), ("PUT", "/connectors/c/stop")])
async def test_a_request_that_waits_too_long_is_a_conflict(method: str, path: str) -> None:
    workers = RestWorkers(wait_s=0.01)
    workers.herders["A"].rebalancing = asyncio.Event()
    answer = await workers.send("A", method, path)
    assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)


# --- signed requests between workers ---


@pytest.mark.anyio
async def test_a_follower_sends_task_configs_to_the_leader_over_rest() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body(name="a/b"))
    configs: list[dict[str, str | None]] = [{"k": "é\n/"}, {"k": None}]
    await workers.clients["B"].post_task_configs(workers.urls["A"], "a/b", configs)
    assert workers.cluster.task_writes == [("a/b", configs)]
    await workers.clients["B"].put_fence(workers.urls["A"], "a/b")
    assert workers.cluster.fenced == ["a/b"]
    written, fenced = workers.forwarded
    assert written.headers["content-type"] == "application/json"
    assert written.headers["user-agent"] == "kafka-connect"
    assert written.url.raw_path == b"/connectors/a%2Fb/tasks"
    assert "content-type" not in fenced.headers


def test_the_signed_bytes_are_compact_json_in_utf8() -> None:
    assert request_body([{"k": "é/\x01"}]) == '[{"k":"é/\\u0001"}]'.encode()
    assert request_body([]) == b"[]"


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "status"), [(b"the previous key", 403), (None, 400)])
async def test_a_refusal_of_the_leader_has_its_status(key: bytes | None, status: int) -> None:
    workers = RestWorkers()
    session = replace(workers.cluster.session, key=key)
    workers.clients["B"]._session = lambda: session
    with pytest.raises(RequestFailed) as caught:
        await workers.clients["B"].post_task_configs(workers.urls["A"], "c", [])
    assert caught.value.http_status == status


@pytest.mark.anyio
async def test_an_intercepted_request_cannot_be_replayed() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    await workers.send("A", "POST", "/connectors", None, body(name="d"))
    await workers.clients["B"].put_fence(workers.urls["A"], "c")
    (captured,) = workers.forwarded
    again = await workers.send("A", "PUT", "/connectors/c/fence", captured.headers)
    assert (again.status_code, "received before" in again.json()["message"]) == (403, True)
    other = await workers.send("A", "PUT", "/connectors/d/fence", captured.headers)
    assert other.status_code == 403
    assert workers.cluster.fenced == ["c"]


@pytest.mark.anyio
@pytest.mark.parametrize(("only_ours", "status"), [(False, 204), (True, 403)])
async def test_requests_without_the_header_are_accepted_only_in_a_mixed_group(only_ours: bool, status: int) -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    await workers.clients["B"].put_fence(workers.urls["A"], "c")
    workers.cluster.session = replace(workers.cluster.session, do_all_members_send_freshness=only_ours)
    stripped = {SIGNATURE_HEADER: workers.forwarded[0].headers[SIGNATURE_HEADER]}
    stripped["X-Connect-Request-Signature-Algorithm"] = "HmacSHA256"
    assert FRESHNESS_HEADER not in stripped
    answer = await workers.send("A", "PUT", "/connectors/c/fence", stripped)
    assert answer.status_code == status


@pytest.mark.anyio
async def test_unsigned_requests_are_accepted_without_verification() -> None:
    workers = RestWorkers()
    await workers.send("A", "POST", "/connectors", None, body())
    workers.cluster.session = replace(workers.cluster.session, is_verification_in_force=False)
    assert (await workers.send("B", "PUT", "/connectors/c/fence")).status_code == 204


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (httpx.Response(302, headers={"Location": "http://elsewhere/"}), 500, "302"),
        (httpx.Response(409, json={"error_code": 40901, "message": "why"}), 409, "why"),
        (httpx.Response(502, text="<html>"), 502, "502"),
        (httpx.Response(400, content=b"\xff"), 400, "400"),
        (httpx.Response(400, json={"message": 5}), 400, "400"),
    ],
)
async def test_an_unsuccessful_answer_is_an_error(answer: httpx.Response, status: int, message: str) -> None:
    client = _client(httpx.MockTransport(lambda request: answer))
    with pytest.raises(RequestFailed, match=message) as caught:
        await client.put_fence("http://127.0.0.1:8083/", "c")
    assert caught.value.http_status == status


@pytest.mark.anyio
@pytest.mark.parametrize("error", [httpx.ConnectError("no"), httpx.ReadTimeout("late"), httpx.RemoteProtocolError("x")])
async def test_every_transport_error_is_a_500(error: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    for url in ("http://127.0.0.1:8083/", "http://[::bad/", "nonsense"):
        with pytest.raises(RequestFailed) as caught:
            await _client(httpx.MockTransport(fail)).put_fence(url, "c")
        assert caught.value.http_status == 500


def _client(transport: httpx.AsyncBaseTransport) -> InternalClient:
    workers = RestWorkers()
    return InternalClient(
        httpx.AsyncClient(transport=transport, verify=False),
        session=lambda: workers.cluster.session,
        signature_algorithm="HmacSHA256",
        now_ms=workers.clock.now_ms,
        random_bytes=bytes,
    )
