"""The layout of a development cluster on one machine: its nodes, their ports and their settings.

Controllers have the ids 1, 2, ..., and brokers 101, 102, .... Each node is a process with its own folder. Ports never
change after the cluster is created, because the metadata log contains the ports of the voters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from barnabas.common.uuid import Uuid

__all__ = [
    "HOST",
    "NODES_MAX",
    "NODE_USER",
    "PLAIN_USER",
    "SUPER_USER",
    "LocalCluster",
    "LocalNode",
    "NoFreePorts",
    "choose_ports",
    "new_cluster",
]

HOST = "127.0.0.1"
NODES_MAX = 9
"""The maximum number of nodes of each role. A development machine needs no more, and each node takes 50 MiB."""
FIRST_PORT = 9092
FIRST_BROKER_ID = 101
_FIRST_OUTGOING_PORT = 32_768
"""Linux assigns ports from here on to outgoing connections, so a client could take the port of a restarting node."""
_BETWEEN_CLUSTERS = 100
PORT_MAX = 65_535

_INTERNAL_REPLICATION_FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_INTERNAL_MIN_ISRS = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")

NODE_USER = "node"
"""The user as which nodes authenticate to each other."""
SUPER_USER = "admin"
PLAIN_USER = "alice"
"""A user without rights, to test ACLs."""
USERS = (NODE_USER, SUPER_USER, PLAIN_USER)
_SASL = "SASL_PLAINTEXT"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

Role = Literal["controller", "broker"]


class NoFreePorts(ValueError):
    """Ports of the nodes can't be used. The message lists the ports."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    role: Role
    node_id: int
    port: int
    directory_id: str = ""
    """The directory id of a voter. All controllers are formatted with it. A broker generates its own."""

    @property
    def name(self) -> str:
        """The node's name in messages, and the name of its folder."""
        return f"{self.role}-{self.node_id}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class LocalCluster:
    cluster_id: str
    nodes: tuple[LocalNode, ...]
    """Nodes in the order in which they start: controllers first."""
    is_formatted: bool = False
    """If True, an empty folder means a lost disk, and a voter must not be formatted again as if it had never voted."""
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user; empty in a cluster without an authorizer, which accepts every client."""

    @property
    def has_acls(self) -> bool:
        return bool(self.passwords)

    def client_properties(self, user: str) -> dict[str, str]:
        """Return the Kafka client properties to authenticate as one of the users."""
        login = f'username="{user}" password="{self.passwords[user]}"'
        return {
            "security.protocol": _SASL,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_PLAIN_MODULE} required {login};",
        }

    def of(self, role: Role) -> tuple[LocalNode, ...]:
        return tuple(node for node in self.nodes if node.role == role)

    @property
    def bootstrap_server(self) -> str:
        return ",".join(node.address for node in self.of("broker"))

    @property
    def bootstrap_controller(self) -> str:
        return ",".join(node.address for node in self.of("controller"))

    @property
    def initial_controllers(self) -> str:
        return ",".join(f"{node.node_id}@{node.address}:{node.directory_id}" for node in self.of("controller"))

    def stages_of_stop(self) -> list[tuple[LocalNode, ...]]:
        """Return groups of nodes to stop, in order: brokers need a running controller to shut down cleanly."""
        return [self.of("broker"), self.of("controller")]

    def settings(self, node: LocalNode) -> dict[str, str]:
        """Return the node's server.properties. ``log.dirs`` is relative to the node's folder, where the node starts."""
        listener = "CONTROLLER" if node.role == "controller" else "CLIENTS" if self.has_acls else "PLAINTEXT"
        settings = {
            "process.roles": node.role,
            "node.id": str(node.node_id),
            "listeners": f"{listener}://{node.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": self.bootstrap_controller,
            "log.dirs": "data",
        }
        if node.role == "broker":
            copies = min(3, len(self.of("broker")))
            settings |= dict.fromkeys(_INTERNAL_REPLICATION_FACTORS, str(copies))
            settings |= dict.fromkeys(_INTERNAL_MIN_ISRS, str(min(2, copies)))
            settings["group.initial.rebalance.delay.ms"] = "0"
        return settings | self._login_settings(node.role)

    def _login_settings(self, role: Role) -> dict[str, str]:
        """Return the login settings, with all users for brokers and controllers.

        Brokers authenticate to controllers, and an admin client may contact either.
        """
        if not self.has_acls:
            return {}
        users = "".join(f' user_{name}="{password}"' for name, password in self.passwords.items())
        own = f'username="{NODE_USER}" password="{self.passwords[NODE_USER]}"'
        jaas = f"{_PLAIN_MODULE} required {own}{users};"
        settings = {
            "listener.security.protocol.map": f"CONTROLLER:{_SASL},PLAINTEXT:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": jaas,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{NODE_USER};User:{SUPER_USER}",
        }
        if role == "broker":
            settings |= {
                "listener.security.protocol.map": f"CONTROLLER:{_SASL},CLIENTS:{_SASL}",
                "inter.broker.listener.name": "CLIENTS",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": jaas,
                "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
            }
        return settings

    def document(self) -> dict[str, Any]:
        """Return the content of ``cluster.json``, which ``from_document`` reads."""
        nodes = [
            {"role": node.role, "id": node.node_id, "port": node.port, "directory_id": node.directory_id}
            for node in self.nodes
        ]
        document = {"version": 1, "cluster_id": self.cluster_id, "is_formatted": self.is_formatted, "nodes": nodes}
        return document | ({"passwords": dict(self.passwords)} if self.has_acls else {})

    @classmethod
    def from_document(cls, document: Any) -> LocalCluster:
        """Create a cluster from a document. Raise ValueError, TypeError or KeyError for an invalid one."""
        if document["version"] != 1:
            raise ValueError(f"version {document['version']} is not 1")
        nodes = tuple(
            LocalNode(_role(node["role"]), int(node["id"]), int(node["port"]), str(node["directory_id"]))
            for node in document["nodes"]
        )
        passwords = {str(name): str(password) for name, password in document.get("passwords", {}).items()}
        return cls(str(document["cluster_id"]), nodes, bool(document["is_formatted"]), passwords)


def new_cluster(
    controllers: int,
    brokers: int,
    ports: list[int],
    new_uuid: Callable[[], Uuid],
    new_password: Callable[[], str] | None = None,
) -> LocalCluster:
    """Create a new cluster. ``ports`` lists ports of brokers, then of controllers. ``new_password`` is for ACLs."""
    nodes = [
        LocalNode("controller", 1 + index, ports[brokers + index], str(new_uuid())) for index in range(controllers)
    ]
    nodes += [LocalNode("broker", FIRST_BROKER_ID + index, ports[index]) for index in range(brokers)]
    passwords = {} if new_password is None else {user: new_password() for user in USERS}
    return LocalCluster(str(new_uuid()), tuple(nodes), passwords=passwords)


def choose_ports(count: int, base: int | None, is_free: Callable[[int], bool]) -> list[int]:
    """Return consecutive ports from ``base`` on; without it, the first free range, from 9092 on if possible.

    Raise NoFreePorts.
    """
    if base is None:
        for first in range(FIRST_PORT, _FIRST_OUTGOING_PORT - count, _BETWEEN_CLUSTERS):
            if all(map(is_free, _neighbours(first, count))):
                return list(_neighbours(first, count))
        raise NoFreePorts(f"can't find {count} consecutive free ports: choose the first port with --port-base")
    if not 1 <= base <= PORT_MAX + 1 - count:
        raise NoFreePorts(f"--port-base {base}: with {count} nodes it must be 1 to {PORT_MAX + 1 - count}")
    if taken := [str(port) for port in _neighbours(base, count) if not is_free(port)]:
        raise NoFreePorts(f"--port-base {base}: {', '.join(taken)} can't be used: choose another, or omit the option")
    return list(_neighbours(base, count))


def _neighbours(first: int, count: int) -> Iterator[int]:
    return iter(range(first, first + count))


def _role(text: object) -> Role:
    if text == "controller":
        return "controller"
    if text == "broker":
        return "broker"
    raise ValueError(f"{text!r} is not a role")
