"""Each kind of client receives the settings that it needs to reach a test node."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.clients.client_config import client_config
from barnabas.testing import NotPossible
from barnabas.testing.security import Security, TlsFiles

TLS = TlsFiles(Path("/t/ca.pem"), Path("/t/node.pem"), Path("/t"))
SECURE = Security(users={"admin": "root", "alice": "p w;=#'"}, node_password="own", tls=TLS)


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (Security(), "PLAINTEXT"),
        (Security(tls=TLS), "SSL"),
        (Security(users={"admin": "root"}), "SASL_PLAINTEXT"),
        (SECURE, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_users_and_tls(security: Security, protocol: str) -> None:
    assert security.protocol == protocol
    assert security.java(None, "PLAIN")["security.protocol"] == protocol


def test_without_a_user_clients_are_admin() -> None:
    assert SECURE.librdkafka(None, "PLAIN") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "root",
        "ssl.ca.location": "/t/ca.pem",
    }


def test_kafka_python_and_librdkafka_differ_in_names_only() -> None:
    assert SECURE.kafka_python("alice", "SCRAM-SHA-512") == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "p w;=#'",
        "ssl_cafile": "/t/ca.pem",
    }


def test_the_clients_of_barnabas_read_the_properties_for_java() -> None:
    properties = {"bootstrap.servers": "localhost:9092", **SECURE.java("alice", "SCRAM-SHA-256")}
    assert client_config(properties).warnings == ()


def test_an_unknown_user_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotPossible, match="user 'bob' is unknown; the users are: admin, alice"):
        SECURE.java("bob", "PLAIN")


def test_passwords_are_not_in_the_representation() -> None:
    assert "root" not in repr(SECURE)
    assert "own" not in repr(SECURE)
