"""How a broker connects to others: the inter-broker listener determines the client's settings."""

from __future__ import annotations

import pytest

from barnabas.common.config_value import Password
from barnabas.server.listeners.inter_broker_client_config import inter_broker_client_config
from barnabas.server.settings.node_config import NodeConfig, node_config_of
from barnabas.server.settings.problem import Given
from barnabas.server.start_errors import NodeStartError

BROKER = {
    "process.roles": "broker",
    "node.id": "1",
    "listeners": "CLIENTS://127.0.0.1:9092,INTERNAL://127.0.0.1:9094",
    "inter.broker.listener.name": "INTERNAL",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "/data",
}
PROTOCOLS = "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:{}"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=node password={};"


def _config(protocol: str = "PLAINTEXT", **changes: str) -> NodeConfig:
    texts = {**BROKER, "listener.security.protocol.map": PROTOCOLS.format(protocol)}
    texts.update({name.replace("__", "-").replace("_", "."): text for name, text in changes.items()})
    return node_config_of({name: Given(text, "a file") for name, text in texts.items()}, source="a file")


def test_the_protocol_is_that_of_the_listener_between_brokers() -> None:
    client = inter_broker_client_config(_config(), client_id="broker-1-fetcher-0")
    assert (client.security_protocol, client.client_id, client.request_timeout_s) == (
        "PLAINTEXT",
        "broker-1-fetcher-0",
        30.0,
    )


def test_without_an_inter_broker_listener_the_protocol_names_the_listener() -> None:
    texts = {**BROKER, "listeners": "PLAINTEXT://127.0.0.1:9092"}
    del texts["inter.broker.listener.name"]
    config = node_config_of({name: Given(text, "a file") for name, text in texts.items()}, source="a file")
    assert inter_broker_client_config(config, client_id="x").security_protocol == "PLAINTEXT"


def test_jaas_lines_of_listener_and_mechanism_precede_those_of_the_listener() -> None:
    config = _config(
        "SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        sasl_mechanism_inter_broker_protocol="PLAIN",
        listener_name_internal_plain_sasl_jaas_config=PLAIN.format("near"),
    )
    client = inter_broker_client_config(config, client_id="x")
    assert (client.security_protocol, client.sasl_mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert client.values["sasl.jaas.config"] == Password(PLAIN.format("near"))


def test_an_impossible_login_names_the_missing_setting() -> None:
    config = _config(
        "SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512",
        listener_name_internal_scram__sha__256_sasl_jaas_config=SCRAM,
    )
    with pytest.raises(NodeStartError, match=r"other brokers.*internal\.scram-sha-512\.sasl\.jaas\.config is not set"):
        inter_broker_client_config(config, client_id="x")


def test_the_operating_system_sizes_buffers_unless_a_size_is_set() -> None:
    assert inter_broker_client_config(_config(), client_id="x").values["receive.buffer.bytes"] == -1
    sized = _config(replica_socket_receive_buffer_bytes="65536", replica_socket_timeout_ms="7000")
    client = inter_broker_client_config(sized, client_id="x")
    assert client.values["receive.buffer.bytes"] == 65536
    assert client.request_timeout_s == 7.0
