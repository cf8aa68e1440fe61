"""Nodes with all four kinds of listeners, ours and real ones, and the properties with which clients reach them.

Every node knows the users of ``USERS`` for PLAIN and SCRAM, accepts tokens that ``TokenIssuer`` signs, and has a TLS
certificate of an authority created for the run. ``admin`` is a super user for tests that add an authorizer.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.peers import KAFKA_VERSION, KafkaNode
from tests.peers.certificates import Authority
from tests.peers.command_node import CommandNode
from tests.peers.node_process import NodeProcess, free_ports

__all__ = [
    "MECHANISMS",
    "USERS",
    "SecureNode",
    "TokenIssuer",
    "jaas_client",
    "running_secure_barnabas",
    "running_secure_kafka",
    "secure_settings",
]

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ISSUER = "https://issuer.test"
AUDIENCE = "kafka-tests"
_PACKAGE = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


class TokenIssuer:
    """Signs tokens with a key created for the run, and writes the key set that verifies them."""

    def __init__(self, folder: Path, *, key_id: str = "key-1") -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.key_id = key_id
        self.key_set = folder / "jwks.json"
        self.write_key_set(self.key_set)

    def description(self) -> dict[str, Any]:
        """The public key as a JSON Web Key."""
        numbers = self.key.public_key().public_numbers()
        return {
            "kty": "RSA", "use": "sig", "kid": self.key_id, "alg": "RS256",
            "n": _base64url(numbers.n), "e": _base64url(numbers.e),
        }  # fmt: skip

    def write_key_set(self, path: Path, *more: Mapping[str, Any]) -> None:
        path.write_text(json.dumps({"keys": [self.description(), *more]}))

    def token(self, subject: str, *, lifetime_s: float = 3600, **claims: Any) -> str:
        import jwt

        now = time.time()
        payload = {
            "sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now), "exp": int(now + lifetime_s),
            "scope": "kafka", **claims,
        }  # fmt: skip
        return jwt.encode(payload, self.key, algorithm="RS256", headers={"kid": self.key_id})


def _base64url(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class SecureNode:
    """A running node, its ports by security protocol, and the files that clients need."""

    def __init__(self, process: NodeProcess, ports: Mapping[str, int], authority: Path, issuer: TokenIssuer) -> None:
        self.process = process
        self.ports = ports
        self.authority = authority
        self.issuer = issuer

    def bootstrap(self, protocol: str) -> str:
        return f"localhost:{self.ports[protocol]}"

    def java_client(self, protocol: str, mechanism: str, user: str, folder: Path, **settings: str) -> Path:
        """A properties file for Kafka's own tools."""
        token_file = folder / f"{user}.token"
        token_file.write_text(self.issuer.token(user))
        properties = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas_client(mechanism, user, USERS.get(user, "")),
            "request.timeout.ms": "15000",
            "default.api.timeout.ms": "20000",
        }
        if mechanism == "OAUTHBEARER":
            properties |= {
                "sasl.login.callback.handler.class": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.jwt.retriever.class": f"{_PACKAGE}.oauthbearer.FileJwtRetriever",
                "sasl.oauthbearer.token.endpoint.url": token_file.as_uri(),
            }
        path = folder / f"{protocol}-{mechanism}-{user}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in {**properties, **settings}.items()))
        return path


def jaas_client(mechanism: str, user: str, password: str, *, token_auth: bool = False) -> str:
    """The JAAS line of a client."""
    if mechanism == "OAUTHBEARER":
        return f"{_MODULES[mechanism]} required;"
    more = " tokenauth=true" if token_auth else ""
    return f'{_MODULES[mechanism]} required username="{user}" password="{password}"{more};'


def secure_settings(
    ports: Mapping[str, int],
    controller_port: int,
    *,
    key_store: Path | None,
    issuer: TokenIssuer | None,
    mechanisms: Sequence[str] = MECHANISMS,
) -> dict[str, str]:
    """Return the common settings of both kinds of nodes. Without a key store, the TLS listeners are omitted."""
    listeners = [f"{protocol}://localhost:{port}" for protocol, port in ports.items()]
    listeners.append(f"CONTROLLER://localhost:{controller_port}")
    protocols = ["CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in ports)]
    settings = {
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(protocols),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"localhost:{controller_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
    }
    for listener in (protocol for protocol in ports if protocol.startswith("SASL_")):
        for mechanism in mechanisms:
            prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}"
            settings[f"{prefix}.sasl.jaas.config"] = _jaas_server(mechanism)
            if mechanism == "OAUTHBEARER":
                settings[f"{prefix}.sasl.server.callback.handler.class"] = (
                    f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
                )
    if issuer is not None:
        settings |= {
            "sasl.oauthbearer.jwks.endpoint.url": issuer.key_set.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
    if key_store is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}
    return settings


def _jaas_server(mechanism: str) -> str:
    users = "".join(f' user_{name}="{password}"' for name, password in USERS.items())
    return f"{_MODULES[mechanism]} required{users if mechanism == 'PLAIN' else ''};"


def _scram_options() -> list[str]:
    return [
        option
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for name, password in USERS.items()
        for option in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]


class _Files:
    """The keys of one run in a folder: authority, the node's store, the issuer of tokens."""

    def __init__(self, folder: Path, protocols: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority = Authority()
        self.authority = authority.write_pem(folder / "ca.pem")
        self.issuer = TokenIssuer(folder)
        self.ports = dict(zip(protocols, free_ports(len(protocols)), strict=True))
        has_tls = any(protocol.endswith("SSL") for protocol in protocols)
        self.key_store = authority.issue("node").write_pem(folder / "node.pem") if has_tls else None


PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")


@contextmanager
def running_secure_barnabas(
    folder: Path,
    *,
    protocols: Sequence[str] = PROTOCOLS,
    mechanisms: Sequence[str] = MECHANISMS,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SecureNode]:
    """Run our node for the duration of a ``with`` block."""
    files = _Files(folder, protocols)
    properties = folder / "server.properties"
    node = CommandNode(folder, properties=properties)
    node.port = files.ports["PLAINTEXT"]
    all_settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        **secure_settings(
            files.ports, node.controller_port, key_store=files.key_store, issuer=files.issuer, mechanisms=mechanisms
        ),
        **(settings or {}),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in all_settings.items()))
    node.change_settings({"listeners": all_settings["listeners"]})
    command = [str(Path(sys.executable).parent / "barnabas"), "storage"]
    cluster_id = subprocess.run([*command, "random-uuid"], check=True, capture_output=True, text=True).stdout.split()[
        -1
    ]
    formatted = subprocess.run(
        [*command, "format", "--standalone", "-t", cluster_id, "-c", str(properties), *_scram_options()],
        check=False, capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    node.start()
    try:
        yield SecureNode(node, files.ports, files.authority, files.issuer)
    finally:
        node.stop()


@contextmanager
def running_secure_kafka(
    folder: Path,
    *,
    protocols: Sequence[str] = PROTOCOLS,
    mechanisms: Sequence[str] = MECHANISMS,
    settings: Mapping[str, str] | None = None,
    version: str = KAFKA_VERSION,
) -> Iterator[SecureNode]:
    """Run the real node for the duration of a ``with`` block."""
    files = _Files(folder, protocols)
    allowed = {
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": files.issuer.key_set.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.files": str(files.issuer.key_set),
    }
    node = KafkaNode(folder, properties=allowed, version=version)
    node.port = files.ports["PLAINTEXT"]
    node.change_settings(
        {
            **secure_settings(
                files.ports, node.controller_port, key_store=files.key_store, issuer=files.issuer, mechanisms=mechanisms
            ),
            **(settings or {}),
        }
    )
    node.format(*_scram_options())
    node.start(timeout_s=90)
    try:
        yield SecureNode(node, files.ports, files.authority, files.issuer)
    finally:
        node.stop()
