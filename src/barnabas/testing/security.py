"""How clients reach test nodes: users, TLS, and the settings of nodes and of each kind of client that follow from them.

Each user may log in with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. There is always a super user, ``admin``. Nodes log in
to each other as ``node``.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from barnabas.testing.errors import NotPossible

__all__ = ["ADMIN", "MECHANISMS", "NODE_USER", "Mechanism", "Security", "TlsFiles", "check_users"]

ADMIN = "admin"
NODE_USER = "node"
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS: tuple[Mechanism, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_PACKAGE = "org.apache.kafka.common.security"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PASSWORD = re.compile(r"[^\"\\\x00-\x1f\x7f]+")
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authority's certificate, and the node's key with its certificate."""

    authority: Path
    node: Path
    clients: Path
    """The folder of client certificates: ``alice.pem`` with certificate and key, ``alice.key``."""


def check_users(users: Mapping[str, str]) -> None:
    """Raise NotPossible for a name or a password that can't be used."""
    for name, password in users.items():
        if not _NAME.fullmatch(name):
            raise NotPossible(f"users: {name!r} is not a usable name: use letters, digits, '.', '_' and '-'")
        if name == NODE_USER:
            raise NotPossible(f"users: {name!r} is the name with which nodes log in to each other: use another name")
        if not _PASSWORD.fullmatch(password):
            raise NotPossible(
                f"users: the password of {name!r} is empty, or contains a quotation mark, a backslash or a control "
                "character: use other characters"
            )


@dataclass(frozen=True, slots=True)
class Security:
    """``users`` is empty without SASL; ``tls`` is None without TLS."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    node_password: str = field(default="", repr=False)
    tls: TlsFiles | None = None
    client_certificates: bool = False
    """Whether each client must present a certificate."""
    has_acls: bool = False

    @property
    def protocol(self) -> str:
        """The security protocol of the listener for clients."""
        name = "SSL" if self.tls is not None else "PLAINTEXT"
        return f"SASL_{name}" if self.users else name

    # --- nodes

    def node_settings(self, *, internal_listeners: tuple[str, ...]) -> dict[str, str]:
        """Return the settings of a node whose clients use the listener CLIENTS. ``internal_listeners`` are the others:
        on them nodes log in with PLAIN if there are users."""
        internal = "SASL_PLAINTEXT" if self.users else "PLAINTEXT"
        protocols = {"CLIENTS": self.protocol, **dict.fromkeys(internal_listeners, internal)}
        settings = {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
        }
        if self.users:
            settings |= self._login_settings(internal_listeners)
        if self.tls is not None:
            settings |= {
                "listener.name.clients.ssl.keystore.type": "PEM",
                "listener.name.clients.ssl.keystore.location": str(self.tls.node),
            }
            if self.client_certificates:
                settings |= {
                    "listener.name.clients.ssl.client.auth": "required",
                    "listener.name.clients.ssl.truststore.type": "PEM",
                    "listener.name.clients.ssl.truststore.location": str(self.tls.authority),
                }
        if self.has_acls:
            settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": f"User:{ADMIN};User:{NODE_USER}"}
        return settings

    def _login_settings(self, internal_listeners: tuple[str, ...]) -> dict[str, str]:
        plain = self._plain_login()
        scram = f"{_PACKAGE}.scram.ScramLoginModule required;"
        settings = {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
        }
        for mechanism in MECHANISMS:
            name = f"listener.name.clients.{mechanism.lower()}.sasl.jaas.config"
            settings[name] = plain if mechanism == "PLAIN" else scram
        for listener in internal_listeners:
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = "PLAIN"
            settings[f"{prefix}.plain.sasl.jaas.config"] = plain
        return settings

    def _plain_login(self) -> str:
        known = {**self.users, NODE_USER: self.node_password}
        entries = "".join(f' user_{name}="{password}"' for name, password in known.items())
        own = f'username="{NODE_USER}" password="{self.node_password}"'
        return f"{_PACKAGE}.plain.PlainLoginModule required {own}{entries};"

    # --- clients

    def password_of(self, user: str) -> str:
        """Raise NotPossible for an unknown user."""
        if user not in self.users:
            known = ", ".join(self.users) or "none, because the node was started without users={...}"
            raise NotPossible(f"user {user!r} is unknown; the users are: {known}")
        return self.users[user]

    def java(self, user: str | None, mechanism: Mechanism) -> dict[str, str]:
        """Return Kafka's client properties, as its Java clients and those of barnabas read them."""
        properties = {"security.protocol": self.protocol}
        if self.users:
            name = user or ADMIN
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            login = f'username="{name}" password="{self.password_of(name)}"'
            properties |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f"{_PACKAGE}.{module} required {login};",
            }
        if self.tls is not None:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls.authority)}
            if self.client_certificates:
                properties |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(self.tls.clients / f"{user or ADMIN}.pem"),
                }
        return properties

    def librdkafka(self, user: str | None, mechanism: Mechanism) -> dict[str, str]:
        """Return the properties of confluent-kafka and other clients that use librdkafka."""
        properties = {"security.protocol": self.protocol}
        if self.users:
            name = user or ADMIN
            properties |= {
                "sasl.mechanism": mechanism,
                "sasl.username": name,
                "sasl.password": self.password_of(name),
            }
        if self.tls is not None:
            properties["ssl.ca.location"] = str(self.tls.authority)
            if self.client_certificates:
                properties |= {
                    "ssl.certificate.location": str(self.tls.clients / f"{user or ADMIN}.pem"),
                    "ssl.key.location": str(self.tls.clients / f"{user or ADMIN}.key"),
                }
        return properties

    def kafka_python(self, user: str | None, mechanism: Mechanism) -> dict[str, object]:
        """Return the keyword arguments of kafka-python."""
        arguments = self._python(user, mechanism)
        if self.tls is not None:
            arguments |= {"ssl_cafile": str(self.tls.authority)}
            if self.client_certificates:
                certificate = self.tls.clients / f"{user or ADMIN}.pem"
                arguments |= {"ssl_certfile": str(certificate), "ssl_keyfile": str(certificate.with_suffix(".key"))}
        return arguments

    def aiokafka(self, user: str | None, mechanism: Mechanism) -> dict[str, object]:
        """Return the keyword arguments of aiokafka, which takes an SSL context."""
        arguments = self._python(user, mechanism)
        if self.tls is not None:
            context = ssl.create_default_context(cafile=str(self.tls.authority))
            if self.client_certificates:
                context.load_cert_chain(self.tls.clients / f"{user or ADMIN}.pem")
            arguments["ssl_context"] = context
        return arguments

    def _python(self, user: str | None, mechanism: Mechanism) -> dict[str, object]:
        arguments: dict[str, object] = {"security_protocol": self.protocol}
        if self.users:
            name = user or ADMIN
            arguments |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": name,
                "sasl_plain_password": self.password_of(name),
            }
        return arguments
