"""Client properties: which are used, which are refused by name, and which only cause a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.clients.client_config import Address, client_config, parse_addresses, read_client_config
from barnabas.clients.errors import InvalidClientConfig
from barnabas.clients.sasl_login import sasl_client_maker
from barnabas.common.config_value import Password

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";'
SCRAM = PLAIN.replace("plain.PlainLoginModule", "scram.ScramLoginModule")
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def problems(properties: dict[str, str], bootstrap: str | None = "a:1") -> str:
    with pytest.raises(InvalidClientConfig) as caught:
        client_config(properties, bootstrap=bootstrap)
    return str(caught.value)


def test_addresses() -> None:
    assert parse_addresses("a:1, [::1]:9092,PLAINTEXT://b.c:65535,") == [("a", 1), ("::1", 9092), ("b.c", 65535)]
    assert [str(address) for address in (Address("a", 1), Address("::1", 2))] == ["a:1", "[::1]:2"]
    for wrong in ("", "a", "a:0", "a:65536", "::1:9092", "a:b", "a b:1", "a:1;b:2"):
        with pytest.raises(ValueError):
            parse_addresses(wrong)


def test_servers_on_the_command_line_win_and_controllers_suffice() -> None:
    assert client_config({"bootstrap.servers": "a:1"}, bootstrap="b:2").bootstrap == (("b", 2),)
    assert client_config({"bootstrap.servers": "a:1,b:2"}).bootstrap == (("a", 1), ("b", 2))
    assert client_config({"bootstrap.controllers": "c:3"}).bootstrap == (("c", 3),)
    assert "no server is given" in problems({}, bootstrap=None)


def test_values_are_typed_and_have_kafkas_defaults() -> None:
    config = client_config({"request.timeout.ms": " 1500 ", "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN",
                            "sasl.jaas.config": PLAIN}, bootstrap="a:1")  # fmt: skip
    assert (config.request_timeout_s, config.connect_timeout_s) == (1.5, 10)
    assert (config.security_protocol, config.uses_tls, config.uses_sasl) == ("SASL_SSL", True, True)
    assert config.client_id == "barnabas"
    assert "s3cret" not in repr(config) + str(config.values)


def test_unknown_settings_cause_a_warning_and_those_of_other_clients_do_not() -> None:
    config = client_config(
        {
            "requst.timeout.ms": "1",
            "my.own": "x",
            "acks": "all",
            "group.id": "g",
            "metrics.num.samples": "2",
            "metadata.max.age.ms": "1",
            "reconnect.backoff.max.ms": "1",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
        },
        bootstrap="a:1",
        source="client.properties",
    )
    assert config.warnings == (
        "client.properties: requst.timeout.ms is not a client setting; did you mean request.timeout.ms?",
        "client.properties: my.own is not a client setting",
    )


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"request.timeout.ms": "-1"}, "Value must be at least 0"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms"),
        ({"ssl.provider": "BC"}, "ssl.provider can't be used"),
        ({"sasl.kerberos.service.name": "kafka"}, "Kerberos (GSSAPI) is not supported"),
        ({"sasl.client.callback.handler.class": "my.Handler"}, "Java classes can't be used"),
        ({"config.providers": "file"}, "config.providers.file.class: is missing"),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": PLAIN}, "sasl.mechanism=GSSAPI can't be used"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs sasl.jaas.config"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "must be https, or empty"),
        ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, "client.dns.lookup"),
    ],
)
def test_unusable_settings_are_refused_by_name(properties: dict[str, str], message: str) -> None:
    assert message in problems(properties)


def test_all_problems_are_reported_together() -> None:
    assert len(problems({"ssl.provider": "BC", "retries": "x", "send.buffer.bytes": "-5"}).splitlines()) == 3


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nfoo=1\nclient.id=me\nclient.id=you\n")
    config = read_client_config(str(path))
    assert config.client_id == "you"
    assert [warning.startswith(str(path)) for warning in config.warnings] == [True, True]
    with pytest.raises(InvalidClientConfig, match="No such file"):
        read_client_config(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("mechanism", "jaas", "first"),
    [
        ("PLAIN", PLAIN, b"\0alice\0s3cret"),
        ("SCRAM-SHA-256", SCRAM, b"n,,n=alice,r="),
        ("SCRAM-SHA-512", SCRAM.replace(";", ' tokenauth="true";'), b"n,,n=alice,r="),
    ],
)
def test_the_jaas_line_contains_the_credentials(mechanism: str, jaas: str, first: bytes) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    client = sasl_client_maker(client_config(properties, bootstrap="a:1"))()
    message = client.evaluate_challenge(b"")
    assert message.startswith(first)
    assert message.endswith(b",tokenauth=true") == ("tokenauth" in jaas)


def test_a_token_is_read_from_its_file_for_each_login(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH.replace(";", ' extension_scope="x";'),
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
    }
    make = sasl_client_maker(client_config(properties, bootstrap="a:1"))
    for token in ("one", "two\n"):
        path.write_text(token)
        assert make().evaluate_challenge(b"") == f"n,,\1auth=Bearer {token.strip()}\1scope=x\1\1".encode()


@pytest.mark.parametrize(
    ("mechanism", "jaas", "message"),
    [
        ("PLAIN", SCRAM, "sasl.mechanism=PLAIN needs the login module PlainLoginModule"),
        ("SCRAM-SHA-256", PLAIN, "needs the login module ScramLoginModule"),
        ("PLAIN", "x.PlainLoginModule required;", "needs username and password"),
        ("PLAIN", "x.PlainLoginModule", "control flag not specified"),
        ("OAUTHBEARER", OAUTH, "takes a token from a file"),
    ],
)
def test_an_invalid_jaas_line_is_refused_without_showing_its_secrets(mechanism: str, jaas: str, message: str) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    with pytest.raises(InvalidClientConfig) as caught:
        sasl_client_maker(client_config(properties, bootstrap="a:1"))
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_secrets_may_be_stored_elsewhere(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=p w\n")
    package = "org.apache.kafka.common.config.provider."
    properties = {
        "bootstrap.servers": "localhost:9092",
        "ssl.key.password": f"${{file:{secrets}:password}}",
        "config.providers": "file",
        "config.providers.file.class": package + "FileConfigProvider",
    }
    found = client_config(properties)
    assert found.values["ssl.key.password"] == Password("p w")
    assert found.warnings == ()
    with pytest.raises(InvalidClientConfig, match=r"ssl\.key\.password: .*has no key other"):
        client_config({**properties, "ssl.key.password": f"${{file:{secrets}:other}}"})
