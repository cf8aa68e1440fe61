"""TLS and principal builders of listeners in settings: the most specific one wins, and mistakes are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.broker_config import broker_config_key
from barnabas.common.clock import Clock
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import AuthenticationContext, DefaultPrincipalBuilder
from barnabas.security.sasl.credential_store import CredentialStore
from barnabas.server.listeners.security import listener_security
from barnabas.server.settings.listener_values import listener_value
from barnabas.server.settings.node_config import Given, InvalidSettings, NodeConfig, node_config_of
from barnabas.server.settings.tls import principal_builder_of, tls_settings_of
from tests.peers.certificates import PASSWORD, Authority

AUTHORITY = Authority()
NODE = AUTHORITY.issue("node")
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "SSL://localhost:9093,PUBLIC://localhost:9094,CONTROLLER://localhost:9095",
    "listener.security.protocol.map": "SSL:SSL,PUBLIC:SSL,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9095",
    "inter.broker.listener.name": "SSL",
    "log.dirs": "/tmp/x",
    "offsets.topic.replication.factor": "1",
    "ssl.keystore.type": "PEM",
}


class Teams(DefaultPrincipalBuilder):
    def build(self, context: AuthenticationContext) -> Principal:
        return Principal("Team", context.listener_name)


class WithoutSerde:
    def build(self, context: AuthenticationContext) -> Principal:
        return Principal("Team", "a")


class Unbuildable(DefaultPrincipalBuilder):
    def __init__(self, required: str) -> None:
        super().__init__()


def config(folder: Path, changes: dict[str, str | None] | None = None) -> NodeConfig:
    path = NODE.write_pem(folder / "node.pem")
    values = {**BASE, "ssl.keystore.location": str(path), **(changes or {})}
    return node_config_of(
        {name: Given(text, "a file") for name, text in values.items() if text is not None}, source="f"
    )


def problems(folder: Path, changes: dict[str, str | None]) -> dict[str, str]:
    with pytest.raises(InvalidSettings) as raised:
        config(folder, changes)
    assert PASSWORD not in str(raised.value)
    return {problem.name: str(problem) for problem in raised.value.problems}


def test_a_valid_configuration_has_no_problems_and_no_warnings(tmp_path: Path) -> None:
    assert config(tmp_path).warnings == []


def test_the_setting_of_a_listener_wins_over_the_general_one(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        {
            "ssl.client.auth": "requested",
            "listener.name.public.ssl.client.auth": "none",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": AUTHORITY.pem(),
        },
    )
    assert listener_value(made, "SSL", "ssl.client.auth") == "requested"
    assert listener_value(made, "PUBLIC", "ssl.client.auth") == "none"
    assert listener_value(made, "PUBLIC", "ssl.keystore.type") == "PEM"
    assert listener_value(made, "PUBLIC", "ssl.truststore.location") is None


def test_each_tls_listener_has_its_own_context(tmp_path: Path) -> None:
    made = config(tmp_path, {"listener.name.public.ssl.enabled.protocols": "TLSv1.3"})
    found = [_security(made, endpoint) for endpoint in (*made.broker_listeners, *made.controller_listeners)]
    assert found[2] is None
    assert [security.tls.settings.enabled_protocols for security in found if security and security.tls] == [
        ("TLSv1.2", "TLSv1.3"),
        ("TLSv1.3",),
    ]


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location", "is required for a TLS listener"),
        (
            {"listener.name.public.ssl.keystore.location": "/no/file"},
            "listener.name.public.ssl.keystore.location",
            "/no/file can't be read",
        ),
        ({"ssl.key.password": PASSWORD}, "ssl.key.password", "ssl.key.password=[hidden] (a file): the private key is"),
        (
            {"listener.name.public.ssl.key.password": PASSWORD},
            "listener.name.public.ssl.key.password",
            "[hidden] (a file): the private key is not encrypted",
        ),
        ({"ssl.client.auth": "required"}, "ssl.truststore.location", "is required with ssl.client.auth=required"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols", "TLSv1.1 can't be served"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol", "ssl.enabled.protocols sets the versions"),
        ({"ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class", "OpenSSL does TLS here"),
        ({"ssl.provider": "BC"}, "ssl.provider", "OpenSSL does TLS here"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth", "String must be one of"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules", "Invalid rule: `RULE:(`"),
        ({"listener.name.other.ssl.client.auth": "none"}, "listener.name.other.ssl.client.auth", "is not one of the"),
        (
            {"listener.name.PUBLIC.ssl.client.auth": "none"},
            "listener.name.PUBLIC.ssl.client.auth",
            "write it in lower case: listener.name.public.ssl.client.auth",
        ),
        ({"principal.builder.class": "com.acme.Builder"}, "principal.builder.class", "is a Java class"),
        ({"principal.builder.class": "no.such.module:X"}, "principal.builder.class", "can't be loaded: ModuleNot"),
        ({"principal.builder.class": f"{__name__}:Missing"}, "principal.builder.class", "can't be loaded: Attribute"),
        ({"principal.builder.class": f"{__name__}:WithoutSerde"}, "principal.builder.class", "serialize, deserialize"),
        ({"principal.builder.class": f"{__name__}:Unbuildable"}, "principal.builder.class", "can't be created: Type"),
        ({"inter.broker.listener.name": None}, "inter.broker.listener.name", "PLAINTEXT is not an advertised broker"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(
    tmp_path: Path, changes: dict[str, str | None], name: str, reason: str
) -> None:
    assert reason in problems(tmp_path, changes)[name]


def test_several_mistakes_are_reported_together_and_each_once(tmp_path: Path) -> None:
    wrong = {
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": "/no/file",
        "ssl.cipher.suites": "X",
        "ssl.principal.mapping.rules": "x",
    }
    assert set(problems(tmp_path, dict(wrong))) == set(wrong)


def test_sasl_ssl_listeners_request_client_certificates_only_if_configured_per_listener(tmp_path: Path) -> None:
    settings: dict[str, str | None] = {
        "listener.security.protocol.map": "SSL:SSL,PUBLIC:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.public.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem(),
    }
    general = config(tmp_path, settings)
    assert tls_settings_of(general, "SSL", "SSL").client_auth == "required"
    assert tls_settings_of(general, "PUBLIC", "SASL_SSL").client_auth == "none"
    assert any("set listener.name.public.ssl.client.auth" in warning for warning in general.warnings)
    special = config(tmp_path, settings | {"listener.name.public.ssl.client.auth": "requested"})
    assert tls_settings_of(special, "PUBLIC", "SASL_SSL").client_auth == "requested"
    assert special.warnings == []


def test_an_expiring_certificate_is_a_warning(tmp_path: Path) -> None:
    path = AUTHORITY.issue("old", days=-2).write_pem(tmp_path / "old.pem")
    made = config(tmp_path, {"ssl.keystore.location": str(path)})
    assert any("CN=old expired on" in warning for warning in made.warnings)


def test_the_protocol_between_brokers_names_a_listener(tmp_path: Path) -> None:
    made = config(tmp_path, {"inter.broker.listener.name": None, "security.inter.broker.protocol": "SSL"})
    assert made.inter_broker_listener_name == "SSL"


def test_a_custom_builder_serves_a_listener(tmp_path: Path) -> None:
    made = config(tmp_path, {"listener.name.public.principal.builder.class": f"{__name__}:Teams"})
    assert type(principal_builder_of(made, "PUBLIC")) is Teams
    assert type(principal_builder_of(made, "SSL")) is DefaultPrincipalBuilder


def test_kafkas_default_builder_name_selects_ours(tmp_path: Path) -> None:
    name = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    made = config(tmp_path, {"principal.builder.class": name})
    assert type(principal_builder_of(made, "SSL")) is DefaultPrincipalBuilder


def test_keys_and_passwords_are_sensitive_for_a_listener_too() -> None:
    for name in ("ssl.keystore.key", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.truststore.password"):
        key = broker_config_key(f"listener.name.public.{name}")
        assert key is not None
        assert key.sensitive


def test_a_node_without_tls_does_not_load_cryptography() -> None:
    code = "import sys, barnabas.cli.node, barnabas.server.node; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _security(made: NodeConfig, endpoint: Any) -> Any:
    class NoCredentials:
        pass

    credentials: CredentialStore = NoCredentials()  # type: ignore[assignment]
    clock: Clock = NoCredentials()  # type: ignore[assignment]
    return listener_security(made, endpoint, credentials=credentials, clock=clock)
