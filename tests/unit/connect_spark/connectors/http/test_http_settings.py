"""Errors of settings, before a task starts."""

from __future__ import annotations

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.http.http_settings import HttpSettings, new_client, parse_headers
from barnabas.connect_spark.connectors.http.topic_to_http import TopicToHttp

URL = {"http.url": "https://hooks.test/in"}


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    return ConnectorKit(TopicToHttp, config).errors


def test_only_the_url_is_needed() -> None:
    assert errors(URL) == {}
    assert "http.url" in errors({})


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("hooks.test/in", "write http://host:port/path"),
        ("ftp://hooks.test", "write http://host:port/path"),
        ("http://u:p@hooks.test", "has credentials in it"),
        ("http://hooks.test:x", "it is not a URL"),
        ("http://hooks.test/#a", "a fragment"),
        ("http://${topic}.test/", "in its path or query only"),
    ],
)
def test_a_url_that_can_not_be_used_is_refused(url: str, part: str) -> None:
    assert part in errors({"http.url": url})["http.url"][0]


@pytest.mark.parametrize(
    ("config", "name", "part"),
    [
        ({"http.auth.type": "basic", "http.auth.user": "u"}, "http.auth.password", "basic needs it"),
        ({"http.auth.type": "bearer"}, "http.auth.token", "bearer needs it"),
        ({"http.auth.user": "u"}, "http.auth.user", "used only with http.auth.type=basic"),
        ({"http.headers": "X-Api-Key: 1"}, "http.headers", "may hold a secret: move it to http.headers.secret"),
        ({"http.headers": "no colon"}, "http.headers", "write headers as Name: value"),
        ({"http.headers": "Host: x"}, "http.headers", "is set by the connector"),
        ({"http.ssl.key.location": "/k"}, "http.ssl.keystore.location", "needs its certificate"),
        ({"retry.on.status.codes": "5xx"}, "retry.on.status.codes", "is not a status code"),
        ({"http.body.format": "xml"}, "http.body.format", "json-array"),
    ],
)
def test_rules_between_settings(config: dict[str, str], name: str, part: str) -> None:
    assert part in " ".join(errors(URL | config)[name])


@pytest.mark.parametrize(
    ("name", "text"),
    [("http.auth.token", "abc"), ("http.auth.password", "abc"), ("http.headers.secret", "X-Api-Key: abc")],
)
def test_a_secret_is_a_reference_to_a_config_provider(name: str, text: str) -> None:
    kinds = {"http.auth.token": "bearer", "http.auth.password": "basic"}
    config = {**URL, "http.auth.type": kinds.get(name, "none"), "http.auth.user": "u", name: text}
    found = errors(config)[name]
    assert any("write a reference such as ${file:/etc/secrets.properties:token}" in error for error in found)
    assert "abc" not in " ".join(found)


def test_headers_of_all_kinds_are_sent() -> None:
    config = {
        **URL,
        "http.headers": "X-A: 1 | X-B: two words",
        "http.headers.secret": "X-Key: k",
        "http.auth.type": "basic",
        "http.auth.user": "u",
        "http.auth.password": "p",
        "http.body.format": "json-lines",
    }
    assert HttpSettings.of(TopicToHttp.config_def.parse(config), "c").headers == {
        "Content-Type": "application/x-ndjson",
        "X-A": "1",
        "X-B": "two words",
        "X-Key": "k",
        "Authorization": "Basic dTpw",
    }
    with pytest.raises(ValueError, match="printable ASCII"):
        parse_headers("X-A: \u00e4")


def test_a_missing_certificate_is_named() -> None:
    settings = TopicToHttp.config_def.parse({**URL, "http.ssl.truststore.location": "/nowhere.pem"})
    with pytest.raises(TerminalError, match=r"http.ssl.truststore.location: /nowhere.pem does not exist"):
        new_client(settings, 1)
