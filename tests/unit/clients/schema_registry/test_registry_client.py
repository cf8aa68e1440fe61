"""Requests to a registry: over several servers, with pauses, and with errors that say what happened and to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from barnabas.clients.schema_registry.bounded_cache import BoundedCache
from barnabas.clients.schema_registry.errors import (
    RegistryRefused,
    RegistryUnreachable,
    SchemaError,
    SchemaNotFound,
)
from barnabas.clients.schema_registry.oauth_tokens import ClientCredentials, OauthTokens
from barnabas.clients.schema_registry.references import referenced_texts
from barnabas.clients.schema_registry.registry_client import Reference, RegistryAccess, SchemaRegistry, shown_url
from barnabas.clients.schema_registry.subject_names import SubjectNameStrategy

Answer = Callable[[str, str], httpx.Response]


class Server:
    """Answers requests instead of the network, and notes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.pauses: list[float] = []
        self.now_s = 0.0

        def request(method: str, url: str, **options: Any) -> httpx.Response:
            self.requests.append((method, url, options))
            return answer(method, url)

        monkeypatch.setattr(httpx, "request", request)

    def registry(self, *urls: str, **access: Any) -> SchemaRegistry:
        return SchemaRegistry(
            urls or ("http://a",), RegistryAccess(**access), sleep=self.pauses.append, clock=lambda: self.now_s
        )


def refusing(status: int, code: int, message: str) -> Answer:
    return lambda method, url: httpx.Response(status, json={"error_code": code, "message": message})


def unreachable(method: str, url: str) -> httpx.Response:
    raise httpx.ConnectError("Connection refused")


def test_a_schema_is_requested_once_and_the_next_server_follows_a_silent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, url: str) -> httpx.Response:
        return unreachable(method, url) if url.startswith("http://a") else httpx.Response(200, json={"schema": '"int"'})

    server = Server(monkeypatch, answer)
    registry = server.registry("http://a", "http://b/")
    assert [registry.schema(7).text for _ in range(2)] == ['"int"'] * 2
    assert [url for _, url, _ in server.requests] == ["http://a/schemas/ids/7", "http://b/schemas/ids/7"]


def test_pauses_grow_and_the_error_names_each_server_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, unreachable)
    registry = server.registry(
        "http://bob:secret@a", "http://b", retries=4, retry_wait_s=1.0, retry_wait_max_s=5.0, user_info="bob:secret"
    )
    with pytest.raises(RegistryUnreachable) as caught:
        registry.schema(7)
    assert server.pauses == [1, 2, 4, 5]
    assert caught.value.whole == (
        "the schema registry does not answer: http://a: Connection refused; http://b: Connection refused: "
        "check that it runs at the URL of schema.registry.url"
    )
    assert "secret" not in repr(registry._access)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_error_of_the_server_is_tried_again(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    server = Server(monkeypatch, refusing(status, 50001, "no leader"))
    with pytest.raises(RegistryUnreachable, match=r"no leader \(50001\)"):
        server.registry(retries=2).schema(1)
    assert len(server.requests) == 3


def test_a_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RegistryRefused, match="Unauthorized") as denied:
        Server(monkeypatch, refusing(401, 401, "Unauthorized")).registry().schema(1)
    assert "basic.auth.user.info" in denied.value.advice
    with pytest.raises(SchemaNotFound, match=r"refused GET /schemas/ids/9: Schema not found \(40403\)"):
        Server(monkeypatch, refusing(404, 40403, "Schema not found")).registry().schema(9)
    with pytest.raises(RegistryRefused, match="incompatible") as refused:
        Server(monkeypatch, refusing(409, 409, "incompatible")).registry().register("s", "AVRO", '"int"')
    assert refused.value.status == 409


def test_another_server_than_a_registry_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, lambda method, url: httpx.Response(200, text="<html>"))
    with pytest.raises(RegistryUnreachable, match="does not answer as a schema registry"):
        server.registry().schema(1)
    with pytest.raises(SchemaError, match="write a URL as in"):
        server.registry("localhost:8081")


def test_the_latest_version_is_kept_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, lambda method, url: httpx.Response(200, json={"schema": '"int"', "id": 3}))
    registry = server.registry(latest_max_age_s=10.0)
    for now_s in (0, 9, 10):
        server.now_s = now_s
        assert registry.latest("s").schema_id == 3
    assert [url.rpartition("/")[2] for _, url, _ in server.requests] == ["latest", "3", "latest"]


def test_a_text_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, lambda method, url: httpx.Response(200, json={"schema": '"int"', "id": 3}))
    registry = server.registry(token=lambda: "t", headers={"target-sr-cluster": "c"})
    for _ in range(2):
        assert registry.register("a/b", "JSON", "{}", normalize=True).schema_id == 3
    posted = [(url, options) for method, url, options in server.requests if method == "POST"]
    assert [url for url, _ in posted] == ["http://a/subjects/a%2Fb/versions"]
    assert posted[0][1]["params"] == {"normalize": "true"}
    assert posted[0][1]["headers"]["Authorization"] == "Bearer t"
    assert posted[0][1]["headers"]["target-sr-cluster"] == "c"


def test_a_cache_forgets_what_was_unused_for_longest() -> None:
    cache: BoundedCache[int, str] = BoundedCache(2)
    for key in (1, 2):
        cache.put(key, str(key))
    assert cache.get(1) == "1"
    cache.put(3, "3")
    assert [cache.get(key) for key in (1, 2, 3)] == ["1", None, "3"]


def test_references_are_followed_and_a_circle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"schema": '"Own"', "id": 1, "references": [{"name": "Own", "subject": "s", "version": 1}]}
    registry = Server(monkeypatch, lambda method, url: httpx.Response(200, json=body)).registry()
    with pytest.raises(SchemaError, match="levels deep"):
        referenced_texts(registry, registry.referenced(Reference("Own", "s", 1), is_protobuf=False))


def test_subjects_are_named_by_each_strategy() -> None:
    topic, record, both = (
        SubjectNameStrategy.of(name)
        for name in (
            "io.confluent.kafka.serializers.subject.TopicNameStrategy",
            "RecordNameStrategy",
            "TopicRecordNameStrategy",
        )
    )
    assert topic.subject("t", None, is_key=True) == "t-key"
    assert topic.subject("t", "r.R", is_key=False) == "t-value"
    assert record.subject("t", "r.R", is_key=False) == "r.R"
    assert both.subject("t", "r.R", is_key=False) == "t-r.R"
    with pytest.raises(SchemaError, match="the key of topic t has none"):
        record.subject("t", None, is_key=True)


def test_urls_are_shown_without_secrets() -> None:
    assert shown_url("https://bob:se@cret@host:1/path@x") == "https://host:1/path@x"
    assert shown_url("host") == "host"


def test_a_token_is_requested_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[dict[str, Any]] = []

    def post(url: str, **options: Any) -> httpx.Response:
        posted.append({"url": url, **options})
        return httpx.Response(200, json={"access_token": f"t{len(posted)}", "expires_in": 100})

    monkeypatch.setattr(httpx, "post", post)
    now_s = [0.0]
    tokens = OauthTokens(ClientCredentials("http://idp", "me", "hidden", "s"), clock=lambda: now_s[0])
    found = []
    for now_s[0] in (0.0, 79.0, 80.0):
        found.append(tokens())
    assert found == ["t1", "t1", "t2"]
    assert posted[0]["data"] == {"grant_type": "client_credentials", "scope": "s"}
    assert posted[0]["auth"] == ("me", "hidden")
    monkeypatch.setattr(httpx, "post", lambda url, **options: httpx.Response(401))
    now_s[0] = 1000.0
    with pytest.raises(RegistryRefused, match="refused the client me: HTTP 401"):
        tokens()
