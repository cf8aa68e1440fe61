"""Histories and loads of a whole group: each worker answers for itself, the leader merges, and no part is lost
silently."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.rest.application import RestRules
from barnabas.connect.rest.authentication import Authenticator, NotAuthenticated
from barnabas.connect.rest.roles import Role, User
from tests.peers.rest_workers import START_MS, RestWorkers

pytestmark = pytest.mark.anyio

CONFIG = {"connector.class": "FileStreamSink", "topics": "t", "name": "orders"}
PATH = "/connectors/orders/history"


@pytest.fixture
async def workers() -> RestWorkers:
    return await _filled(RestWorkers())


async def _filled(workers: RestWorkers) -> RestWorkers:
    await workers.herders["A"].connectors.create("orders", CONFIG, None)
    for name, records in (("A", 100), ("B", 40)):
        workers.figures[name].past.note("orders", Figure.RECORDS, records, START_MS - 60_000)
    workers.figures["A"].past.note("orders", Figure.LAG, 7, START_MS - 60_000)
    workers.figures["B"].past.failed(ConnectorTaskId("orders", 1), "the disk is full", START_MS - 60_000)
    return workers


@pytest.mark.parametrize("asked", ["A", "B"])
async def test_any_worker_returns_the_history_of_the_group(workers: RestWorkers, asked: str) -> None:
    found = (await workers.send(asked, "GET", PATH)).json()
    index = (START_MS - 60_000 - found["begin"]) // found["interval_ms"]
    assert [found[name][index] for name in ("records", "lag", "failures")] == [140, 7, 1]
    assert (sum(value or 0 for value in found["records"]), len(found["records"])) == (140, 360)
    assert found["workers"] == ["127.0.0.1:29511", "127.0.0.1:29512"]
    assert [past["reason"] for past in found["last_failures"]] == ["the disk is full"]
    assert found["missing"] == []


async def test_with_scope_worker_each_answers_for_itself(workers: RestWorkers) -> None:
    found = (await workers.send("B", "GET", f"{PATH}?scope=worker&hours=7")).json()
    assert (found["interval_ms"], found["workers"]) == (300_000, ["127.0.0.1:29512"])
    assert workers.forwarded == []
    other = (await workers.send("B", "GET", "/connectors/none/history?scope=worker")).json()
    assert set(other["records"]) == {None}  # Another worker may know it already.


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("hours=0", "'hours' is '0'; it must be 1 to 168"),
        ("hours=169", "'hours' is '169'"),
        ("hours=1.5", "'hours' is '1.5'"),
        ("scope=all", "'scope' is 'all'; it must be worker or cluster"),
    ],
)
async def test_an_invalid_query_is_refused(workers: RestWorkers, query: str, text: str) -> None:
    answer = await workers.send("A", "GET", f"{PATH}?{query}")
    assert answer.status_code == 400
    assert text in answer.json()["message"]


async def test_an_unknown_connector_has_no_history(workers: RestWorkers) -> None:
    answer = await workers.send("B", "GET", "/connectors/none/history")
    assert (answer.status_code, answer.json()["message"]) == (404, "Connector none not found")


async def test_a_worker_that_does_not_answer_is_named_and_the_others_are_returned(workers: RestWorkers) -> None:
    workers.cluster.worker_urls.append("http://127.0.0.1:29599/")
    found = (await workers.send("A", "GET", PATH)).json()
    assert sum(value or 0 for value in found["records"]) == 140
    assert [gone["worker_id"] for gone in found["missing"]] == ["127.0.0.1:29599"]
    assert "can't be contacted" in found["missing"][0]["reason"]
    loads = (await workers.send("A", "GET", "/workers")).json()
    assert [load["worker_id"] for load in loads["workers"]] == ["127.0.0.1:29511", "127.0.0.1:29512"]
    assert [gone["worker_id"] for gone in loads["missing"]] == ["127.0.0.1:29599"]


async def test_a_worker_without_a_history_says_so(workers: RestWorkers) -> None:
    workers.figures["B"].is_kept = False
    found = (await workers.send("A", "GET", PATH)).json()
    assert "127.0.0.1:29512 keeps no history" in found["missing"][0]["reason"]
    own = await workers.send("B", "GET", f"{PATH}?scope=worker")
    assert (own.status_code, "keeps no history" in own.json()["message"]) == (404, True)


async def test_a_worker_of_kafkas_is_named_with_its_reason(workers: RestWorkers) -> None:
    def without_path(path: str) -> bool:
        return path.endswith("/history") or path == "/workers"

    _without_paths(workers, "B", without_path)
    for path in (PATH, "/workers"):
        found = (await workers.send("A", "GET", path)).json()
        assert "it is a worker of Kafka's" in found["missing"][0]["reason"]


async def test_a_leader_of_kafkas_can_not_answer_for_the_group(workers: RestWorkers) -> None:
    _without_paths(workers, "A", lambda _: True)
    answer = await workers.send("B", "GET", PATH)
    assert answer.status_code == 404
    assert "with scope=worker each worker answers for itself" in answer.json()["message"]


async def test_loads_name_the_workers_of_the_group(workers: RestWorkers) -> None:
    for asked in ("A", "B"):
        loads = (await workers.send(asked, "GET", "/workers")).json()["workers"]
        assert [load["url"] for load in loads] == list(workers.urls.values())
        assert loads[0] == {
            "worker_id": "127.0.0.1:29511",
            "url": "http://127.0.0.1:29511/",
            "version": "0.1",
            "is_leader": False,
            "started": START_MS,
            "connectors": 2,
            "tasks": 3,
            "failed_tasks": 1,
            "records_per_second": 100 / 60,
        }
    own = (await workers.send("B", "GET", "/workers?scope=worker")).json()["workers"]
    assert [load["worker_id"] for load in own] == ["127.0.0.1:29512"]


class _Passwords:
    async def __call__(self, name: str, password: str, address: str) -> User:
        if name != "reader":
            raise NotAuthenticated("The user name or the password is wrong.")
        return User(name, Role.READ)


async def test_other_workers_check_the_user_again() -> None:
    rules = RestRules(Authenticator(passwords=_Passwords()))  # type: ignore[arg-type]
    workers = await _filled(RestWorkers(rules=rules))
    header = {"Authorization": "Basic " + base64.b64encode(b"reader:x").decode()}
    found = (await workers.send("B", "GET", PATH, header)).json()
    assert found["missing"] == []
    assert len(found["workers"]) == 2
    assert {request.headers["authorization"] for request in workers.forwarded} == {header["Authorization"]}
    assert (await workers.send("B", "GET", PATH)).status_code == 401


def _without_paths(workers: RestWorkers, name: str, is_unknown: object) -> None:
    """Have a worker answer as Kafka's does for paths that it does not have."""
    application = workers.applications[name]
    serve = application.on_listener

    def on_listener(kind: object) -> object:
        inner = serve(kind)  # type: ignore[arg-type]

        async def answer(scope: dict, receive: object, send: object) -> None:
            if not is_unknown(scope["path"]):  # type: ignore[operator]
                await inner(scope, receive, send)  # type: ignore[arg-type]
                return
            body = json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"}).encode()
            response = httpx.Response(404, content=body)
            await send({"type": "http.response.start", "status": 404, "headers": []})  # type: ignore[operator]
            await send({"type": "http.response.body", "body": response.content})  # type: ignore[operator]

        return answer

    application.on_listener = on_listener  # type: ignore[assignment, method-assign]
