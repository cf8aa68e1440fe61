"""The principal of a node's own broker for its controller, by the protocol of the first controller listener."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.principal_builder import AuthenticationContext, DefaultPrincipalBuilder, PrincipalRefused
from barnabas.server.controller_channel.broker_principal import own_principal
from barnabas.server.settings.node_config import NodeConfig, node_config_of
from barnabas.server.settings.problem import Given
from barnabas.server.start_errors import NodeStartError
from tests.peers.certificates import Authority

JAAS = 'org.apache.kafka.common.security.{module} required username="{user}" password="x" user_{user}="x";'


def config(protocol: str, settings: dict[str, str]) -> NodeConfig:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "data",
        **settings,
    }
    return node_config_of({name: Given(text, "a file") for name, text in texts.items()}, source="a file")


def sasl(mechanism: str, module: str, user: str) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        f"listener.name.controller.{mechanism.lower()}.sasl.jaas.config": JAAS.format(module=module, user=user),
    }


def test_on_a_plaintext_listener_the_broker_is_anonymous() -> None:
    assert own_principal(config("PLAINTEXT", {})) == ANONYMOUS


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_with_sasl_the_principal_is_the_user_of_the_listeners_jaas_line(mechanism: str, module: str) -> None:
    assert own_principal(config("SASL_PLAINTEXT", sasl(mechanism, module, "broker1"))) == Principal("User", "broker1")


def tls(folder: Path, **settings: str) -> dict[str, str]:
    authority = Authority()
    pem = authority.issue("broker-1").write_pem(folder / "broker.pem")
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(folder / "ca.pem")),
    }
    return {f"listener.name.controller.{name}": text for name, text in {**given, **settings}.items()}


def test_on_a_tls_listener_the_principal_is_the_name_in_the_nodes_certificate(tmp_path: Path) -> None:
    assert own_principal(config("SSL", tls(tmp_path))) == Principal("User", "CN=broker-1")


def test_the_name_in_the_certificate_is_mapped_by_the_rules(tmp_path: Path) -> None:
    settings = tls(tmp_path, **{"ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/U"})
    assert own_principal(config("SSL", settings)) == Principal("User", "BROKER-1")


class Suffixed(DefaultPrincipalBuilder):
    def build(self, context: AuthenticationContext) -> Principal:
        if context.authorization_id == "nobody":
            raise PrincipalRefused("nobody is not accepted")
        return Principal("Node", f"{context.authorization_id}@{context.listener_name}")

    def configure(self, configs: Any) -> None: ...


def test_a_custom_builder_decides() -> None:
    settings = sasl("PLAIN", "plain.PlainLoginModule", "broker1")
    settings["listener.name.controller.principal.builder.class"] = f"{__name__}:Suffixed"
    assert own_principal(config("SASL_PLAINTEXT", settings)) == Principal("Node", "broker1@CONTROLLER")


def test_a_builder_that_refuses_the_broker_stops_the_start() -> None:
    settings = sasl("PLAIN", "plain.PlainLoginModule", "nobody")
    settings["listener.name.controller.principal.builder.class"] = f"{__name__}:Suffixed"
    with pytest.raises(NodeStartError, match="nobody is not accepted"):
        own_principal(config("SASL_PLAINTEXT", settings))
