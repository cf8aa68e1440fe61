"""The settings of SASL listeners: which are refused, with which messages, and the resulting listeners."""

from __future__ import annotations

import pytest

from barnabas.server.listeners.security import listener_security
from barnabas.server.settings.node_config import Given, InvalidSettings, NodeConfig, node_config_of
from tests.peers.secure import TokenIssuer
from tests.unit.security.sasl.no_credentials import NoCredentials

PACKAGE = "org.apache.kafka.common.security"
PLAIN_LINE = f'{PACKAGE}.plain.PlainLoginModule required user_alice="alice-secret";'
PLAIN_KEY = "listener.name.external.plain.sasl.jaas.config"
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "EXTERNAL://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "EXTERNAL",
    "listener.security.protocol.map": "EXTERNAL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/nowhere",
    "sasl.enabled.mechanisms": "PLAIN",
    PLAIN_KEY: PLAIN_LINE,
}


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


def changed(name: str, value: str | None, *more: tuple[str, str | None]) -> NodeConfig:
    given: dict[str, str | None] = {**BASE, name: value, **dict(more)}
    return node_config_of({key: Given(text, "test") for key, text in given.items() if text is not None})


def problems(name: str, value: str | None, *more: tuple[str, str | None]) -> str:
    with pytest.raises(InvalidSettings) as caught:
        changed(name, value, *more)
    assert "alice-secret" not in str(caught.value)
    return str(caught.value)


def test_a_sasl_listener_offers_the_configured_mechanisms() -> None:
    made = changed(
        "listener.name.external.sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN",
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("listener.name.external.scram-sha-512.sasl.jaas.config", f"{PACKAGE}.scram.ScramLoginModule required;"),
        ("connections.max.reauth.ms", "5000"),
        ("listener.name.external.plain.connections.max.reauth.ms", "7000"),
        ("listener.name.external.sasl.server.max.receive.size", "4096"),
        ("connection.failed.authentication.delay.ms", "7"),
        ("barnabas.authentication.timeout.ms", "1234"),
    )  # fmt: skip
    security = listener_security(made, made.broker_listeners[0], credentials=NoCredentials(), clock=Clock())
    assert security is not None
    sasl = security.sasl
    assert sasl is not None
    assert list(sasl.mechanisms) == ["SCRAM-SHA-512", "PLAIN"]
    assert [mechanism.reauthentication_ms_max for mechanism in sasl.mechanisms.values()] == [5000, 7000]
    assert (sasl.receive_bytes_max, sasl.failure_delay_ms, sasl.authentication_timeout_ms) == (4096, 7, 1234)
    server = sasl.mechanisms["PLAIN"].make_server()
    server.evaluate_response(b"\0alice\0alice-secret")
    assert server.is_complete


def test_a_plaintext_listener_has_no_security() -> None:
    made = changed("listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT")
    assert listener_security(made, made.broker_listeners[0], credentials=NoCredentials(), clock=Clock()) is None


def test_gssapi_is_refused_by_name_also_as_the_default() -> None:
    found = problems("sasl.enabled.mechanisms", None)
    assert "GSSAPI is not supported on listener EXTERNAL (it is the default)" in found
    assert "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" in found
    assert "GSSAPI is not supported on listener EXTERNAL" in problems("sasl.enabled.mechanisms", "PLAIN,GSSAPI")
    assert "plain is not supported" in problems("sasl.enabled.mechanisms", "plain")


def test_a_missing_jaas_line_is_reported_with_the_searched_places() -> None:
    found = problems(PLAIN_KEY, None, ("sasl.jaas.config", PLAIN_LINE))
    assert PLAIN_KEY in found
    assert "sasl.jaas.config and KafkaServer files are not used" in found
    assert "PlainLoginModule required ...;" in found


@pytest.mark.parametrize("name", ["sasl.jaas.config", "listener.name.external.sasl.jaas.config"])
def test_a_jaas_line_without_its_mechanism_is_reported_as_without_effect(name: str) -> None:
    warnings = [warning for warning in changed(name, PLAIN_LINE).warnings if warning.startswith(name)]
    assert len(warnings) == 1
    assert "listener.name.<listener>.<mechanism>.sasl.jaas.config" in warnings[0]
    assert "alice-secret" not in warnings[0]
    assert not any("jaas" in warning for warning in changed(PLAIN_KEY, PLAIN_LINE).warnings)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "control flag not specified"),
        (PLAIN_LINE * 2, "2 login modules, should be 1 module"),
        (f"{PACKAGE}.scram.ScramLoginModule required;", "is not a login module of PLAIN"),
        (f"{PACKAGE}.plain.PlainLoginModule required user_alice=alice-secret.5 x;", "key=value"),
    ],
)
def test_an_unusable_jaas_line_is_refused(line: str, reason: str) -> None:
    shown = problems(PLAIN_KEY, line)
    assert reason in shown
    assert "[hidden]" in shown


def test_java_code_is_not_loaded() -> None:
    found = problems("listener.name.external.plain.sasl.server.callback.handler.class", "com.example.Handler")
    assert "com.example.Handler can't be loaded" in found
    changed(
        "listener.name.external.plain.sasl.server.callback.handler.class",
        f"{PACKAGE}.plain.internals.PlainServerCallbackHandler",
    )


OAUTH = (
    ("listener.name.external.oauthbearer.sasl.jaas.config", f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"),
    (PLAIN_KEY, None),
)


def test_oauthbearer_requires_keys() -> None:
    found = problems("sasl.enabled.mechanisms", "OAUTHBEARER", *OAUTH)
    assert "sasl.oauthbearer.jwks.endpoint.url" in found
    assert "unsigned tokens are never accepted" in found
    wrong = ("sasl.oauthbearer.jwks.endpoint.url", "file:///no/such/file")
    assert "cannot be read" in problems("sasl.enabled.mechanisms", "OAUTHBEARER", *OAUTH, wrong)


def test_oauthbearer_uses_the_settings_of_the_mechanism(tmp_path_factory: pytest.TempPathFactory) -> None:
    issuer = TokenIssuer(tmp_path_factory.mktemp("keys"))
    url = ("listener.name.external.oauthbearer.sasl.oauthbearer.jwks.endpoint.url", issuer.key_set.as_uri())
    audience = ("sasl.oauthbearer.expected.audience", "kafka-tests")
    handler = (
        "listener.name.external.oauthbearer.sasl.server.callback.handler.class",
        f"{PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    )
    made = changed("sasl.enabled.mechanisms", "OAUTHBEARER", *OAUTH, url, audience, handler)
    security = listener_security(made, made.broker_listeners[0], credentials=NoCredentials(), clock=Clock())
    assert security is not None
    assert security.sasl is not None
    try:
        server = security.sasl.mechanisms["OAUTHBEARER"].make_server()
        server.evaluate_response(f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode())
        assert server.authorization_id == "alice"
    finally:
        security.sasl.close()


def test_accepting_tokens_of_any_issuer_causes_a_warning(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = TokenIssuer(tmp_path_factory.mktemp("keys"))
    url = ("sasl.oauthbearer.jwks.endpoint.url", issuer.key_set.as_uri())
    made = changed("sasl.enabled.mechanisms", "OAUTHBEARER", *OAUTH, url)
    security = listener_security(made, made.broker_listeners[0], credentials=NoCredentials(), clock=Clock())
    assert security is not None
    assert security.sasl is not None
    security.sasl.close()
    assert "sasl.oauthbearer.expected.audience is not set" in caplog.text
    assert "sasl.oauthbearer.expected.issuer is not set" in caplog.text


def test_kerberos_is_refused_and_its_settings_are_accepted_with_a_warning() -> None:
    assert "GSSAPI" in problems("sasl.enabled.mechanisms", "GSSAPI")
    made = changed("sasl.kerberos.service.name", "kafka")
    assert any("sasl.kerberos.service.name has no effect here" in warning for warning in made.warnings)
