"""Settings of the REST API: parsing, refusals with their messages, and no listener open to unknown clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.rest.exposure import check_exposure, exposure_warnings
from barnabas.connect.rest.response_headers import HeaderRule, UnusableHeaderRule, parse_header_rules
from barnabas.connect.rest.rest_settings import RestSettings, UnusableRestSetting
from barnabas.connect.settings.listener_urls import (
    Listener,
    UnusableListener,
    advertised_listener,
    is_loopback_host,
    parse_listeners,
    worker_url,
)

LOCAL = {"listeners": "http://localhost:8083"}
MTLS = {"barnabas.connect.authentication": "mtls"}


def test_the_defaults_are_those_of_kafka() -> None:
    settings = RestSettings.read({})
    assert settings.listeners == (Listener("http", "", 8083),)
    assert settings.admin_listeners is None
    assert settings.verification_algorithms == ("HmacSHA256",)
    assert settings.authentication.ways == frozenset()


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "foo"}, "'foo'"),
        ({"listeners": "http://host:99999"}, "99999"),
        ({"listeners": "ftp://host:1"}, "ftp"),
        ({"admin.listeners": "bar"}, "admin.listeners"),
        ({"rest.advertised.listener": "https"}, "rest.advertised.listener"),
        ({"rest.advertised.port": "x"}, "rest.advertised.port is x"),
        ({"response.http.headers.config": "bogus x"}, "Invalid header config action: 'bogus'"),
        ({"barnabas.connect.authentication": "none,basic"}, "barnabas.connect.authentication"),
        ({"barnabas.connect.authentication": "kerberos"}, "kerberos"),
        ({"barnabas.connect.insecure": "yes"}, "barnabas.connect.insecure is yes"),
        ({"barnabas.connect.require.fresh.signatures": "maybe"}, "auto, true, false"),
        ({"barnabas.connect.fresh.signature.max.age.ms": "0"}, "from 1"),
        ({"listeners.https.ssl.client.auth": "often"}, "listeners.https.ssl.client.auth is often"),
    ],
)
def test_unusable_settings_are_named(properties: dict[str, str], named: str) -> None:
    with pytest.raises(UnusableRestSetting, match=named):
        RestSettings.read(properties)


def test_tls_settings_with_the_prefix_replace_all_others() -> None:
    settings = RestSettings.read(
        {"ssl.keystore.location": "/plain", "ssl.key.password": "x", "listeners.https.ssl.keystore.location": "/own"}
    )
    assert settings.tls.key_store_location == "/own"
    assert settings.tls.key_password is None
    assert settings.admin_tls.key_store_location == "/plain"
    assert settings.tls.enabled_protocols == ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    ("texts", "listeners"),
    [
        (["http://:8083"], (Listener("http", "", 8083),)),
        (["https://[::1]:0", " http://a.b:1 "], (Listener("https", "::1", 0), Listener("http", "a.b", 1))),
    ],
)
def test_listeners_are_read(texts: list[str], listeners: tuple[Listener, ...]) -> None:
    assert parse_listeners("listeners", texts) == listeners


@given(st.text(max_size=30))
def test_any_listener_is_parsed_or_refused(text: str) -> None:
    try:
        (listener,) = parse_listeners("listeners", [text])
    except UnusableListener:
        return
    assert parse_listeners("listeners", [str(listener)]) == (listener,)


def test_the_http_listener_is_advertised_unless_configured_otherwise() -> None:
    https, http = Listener("https", "a", 1), Listener("http", "b", 2)
    assert advertised_listener((https, http), None) is http
    assert advertised_listener((https, http), "HTTPS") is https
    assert advertised_listener((https,), None) is https
    assert worker_url("https", "::1", 5) == "https://[::1]:5/"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_hosts_are_recognized(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "example", "127.0.0.1.example"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback_host(host)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"listeners": "http://0.0.0.0:8083"},
        {"listeners": "https://worker1:8443"},
        {"listeners": "http://localhost:8083,http://:8084"},
        {**LOCAL, "admin.listeners": "http://:9000"},
    ],
)
def test_an_exposed_listener_without_authentication_is_refused(
    properties: dict[str, str],
) -> None:
    with pytest.raises(UnusableRestSetting) as caught:
        check_exposure(RestSettings.read(properties))
    for word in ("barnabas.connect.authentication", "barnabas.connect.insecure=true", "localhost"):
        assert word in str(caught.value)
    insecure = RestSettings.read({**properties, "barnabas.connect.insecure": "true"})
    check_exposure(insecure)
    assert "every client" in exposure_warnings(insecure)[0]
    basic = {"barnabas.connect.authentication": "basic", "barnabas.connect.users.file": "/users"}
    check_exposure(RestSettings.read({**properties, **basic}))


def test_a_loopback_listener_needs_no_authentication() -> None:
    settings = RestSettings.read(LOCAL)
    check_exposure(settings)
    assert exposure_warnings(settings) == []


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({**LOCAL, "barnabas.connect.authentication": "basic"}, "users.file"),
        ({**LOCAL, "barnabas.connect.authentication": "jwt"}, "jwt.keys.file"),
        ({**LOCAL, **MTLS}, "needs TLS"),
        ({"listeners": "https://localhost:1", **MTLS}, "ssl.client.auth"),
    ],
)
def test_an_authentication_method_that_no_client_could_use_is_refused(properties: dict[str, str], named: str) -> None:
    with pytest.raises(UnusableRestSetting, match=named):
        check_exposure(RestSettings.read(properties))


def test_plain_text_passwords_cause_a_warning() -> None:
    basic = {"barnabas.connect.authentication": "basic", "barnabas.connect.users.file": "/users"}
    assert "unencrypted" in exposure_warnings(RestSettings.read(basic))[0]


def test_header_rules_are_parsed() -> None:
    assert parse_header_rules('add A: b, "set C: d, e",addDate E: 0') == (
        HeaderRule("A", "b", is_added=True, is_date=False),
        HeaderRule("C", "d, e", is_added=False, is_date=False),
        HeaderRule("E", "0", is_added=True, is_date=True),
    )
    assert parse_header_rules(" ") == ()


@pytest.mark.parametrize("text", ["set A", "set : b", "set A b", "set A:b\r\nC:d", "setDate A: soon", "SET A: b", ","])
def test_invalid_header_rules_are_refused(text: str) -> None:
    with pytest.raises(UnusableHeaderRule):
        parse_header_rules(text)
