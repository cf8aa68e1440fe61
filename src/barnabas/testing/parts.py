"""Builds the parts of a test cluster: folder, ports, certificates, proxy, and the nodes, none of them started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from barnabas.common.uuid import Uuid
from barnabas.testing.cluster_node import ClusterNode
from barnabas.testing.folders import new_folder, remove_folder
from barnabas.testing.launch import Launch
from barnabas.testing.layout import CLIENTS, CONTROLLER, INTERNAL, Member, initial_controllers, node_settings
from barnabas.testing.link_proxy import LinkProxy
from barnabas.testing.options import Options
from barnabas.testing.ports import HeldPort
from barnabas.testing.security import ADMIN, Security, TlsFiles

if TYPE_CHECKING:
    from barnabas.testing.certificates import CertificateAuthority

__all__ = ["Parts"]

_FIRST_CONTROLLER_ID = 3001
_VOTERS_MAX = 3

_Ports = Mapping[str, tuple[HeldPort, HeldPort]]
"""The bound and the advertised port of each listener: two if a proxy is in between."""


class Parts:
    """``close`` ends everything that was built here."""

    def __init__(self, options: Options, *, on_resumed: Callable[[], None]) -> None:
        """``on_resumed`` is called when a node ran again after a pause."""
        self._options = options
        self._on_resumed = on_resumed
        self._open = ExitStack()
        self._authority: CertificateAuthority | None = None
        self.proxy: LinkProxy | None = None
        try:
            self._build()
        except BaseException:
            self._open.close()
            raise

    def _build(self) -> None:
        options = self._options
        self.folder = self._new_folder()
        self.users = dict(options.users or {})
        if options.users is not None:
            self.users.setdefault(ADMIN, token_urlsafe(12))
        self.security = self._new_security()
        if self._has_links():
            self.proxy = LinkProxy()
            self._open.callback(self.proxy.close)
        roles = list(self._roles())
        ports = [self._new_ports(*role) for role in roles]
        members = [_member(*role, of_node) for role, of_node in zip(roles, ports, strict=True)]
        self._cluster_id = options.cluster_id or _random_id()
        self.nodes = [self._node(member, members, of_node) for member, of_node in zip(members, ports, strict=True)]
        self.brokers = [node for node, member in zip(self.nodes, members, strict=True) if member.is_broker]
        self.controllers = [node for node, member in zip(self.nodes, members, strict=True) if member.is_controller]

    def close(self) -> None:
        """End all nodes: in order if their data stays, else without regard to it."""
        with self._open:
            for node in reversed(self.nodes):
                node.close(in_order=self._options.folder is not None)

    def ensure_certificate(self, user: str | None) -> None:
        """Create the certificate of a client, if clients need one."""
        name = user or ADMIN
        if self._authority is not None and not (self.folder / "tls" / f"{name}.pem").exists():
            self._authority.issue(name)

    # --- pieces

    def _new_folder(self) -> Path:
        given = self._options.data_folder
        if given is not None:
            given.mkdir(parents=True, exist_ok=True)
            return given
        folder = new_folder(in_memory=self._options.in_memory)
        self._open.callback(remove_folder, folder)
        return folder

    def _new_security(self) -> Security:
        options = self._options
        tls = None
        if options.tls:
            folder = self.folder / "tls"
            folder.mkdir()
            # Imported here, because OpenSSL takes as long to load as a node to start.
            module = import_module("barnabas.testing.certificates")
            authority: CertificateAuthority = module.CertificateAuthority(folder)
            tls = TlsFiles(authority=authority.path, node=authority.issue("node"), clients=folder)
            self._authority = authority if options.client_certificates else None
        return Security(
            users=self.users,
            node_password=token_urlsafe(12),
            tls=tls,
            client_certificates=options.client_certificates,
            has_acls=options.acls is not None,
        )

    def _has_links(self) -> bool:
        """Whether connections between nodes lead through a proxy, which finds the process at the other end."""
        node_count = self._options.brokers + (self._options.controllers or 0)
        return node_count > 1 and not self._options.in_process and sys.platform == "linux"

    def _roles(self) -> Iterator[tuple[int, bool, bool]]:
        """Yield node id, whether it is a broker, and whether it is a controller."""
        brokers, controllers = self._options.brokers, self._options.controllers
        voters = 0 if controllers is not None else _VOTERS_MAX if brokers >= _VOTERS_MAX else 1
        for index in range(controllers or 0):
            yield _FIRST_CONTROLLER_ID + index, False, True
        for index in range(brokers):
            yield 1 + index, True, index < voters

    def _new_ports(self, node_id: int, is_broker: bool, is_controller: bool) -> _Ports:
        names = [CLIENTS] if is_broker else []
        if is_broker and (self._options.brokers > 1 or self.security.protocol != "PLAINTEXT"):
            names.append(INTERNAL)
        if is_controller:
            names.append(CONTROLLER)
        return {name: self._port(node_id, name) for name in names}

    def _port(self, node_id: int, listener: str) -> tuple[HeldPort, HeldPort]:
        bound = self._held_port()
        if listener == CLIENTS or self.proxy is None:
            return bound, bound
        advertised = self._held_port()
        self.proxy.add(_name(node_id), port=advertised.number, target_port=bound.number)
        return bound, advertised

    def _held_port(self) -> HeldPort:
        port = HeldPort()
        self._open.callback(port.close)
        return port

    def _node(self, member: Member, members: Sequence[Member], ports: _Ports) -> ClusterNode:
        options = self._options
        name = _name(member.node_id)
        folder = self.folder / name
        launch = Launch(
            name=name,
            settings=node_settings(
                member,
                members,
                self.security,
                log_dir=str(folder / "data"),
                replication=options.default_replication,
                settings=options.settings_text(),
            ),
            cluster_id=self._cluster_id,
            folder=str(folder),
            initial_controllers=initial_controllers(members) if member.is_controller else None,
            users=self.users,
            to_remove=str(self.folder) if options.folder is None else None,
        )
        return ClusterNode(
            member.node_id,
            launch,
            client_port=ports[CLIENTS][0] if CLIENTS in ports else None,
            controller_port=ports[CONTROLLER][0] if CONTROLLER in ports else None,
            ports=[bound for bound, _ in ports.values()],
            in_process=options.in_process,
            timeout_s=options.timeout_s,
            proxy=self.proxy,
            on_resumed=self._on_resumed,
        )


def _member(node_id: int, is_broker: bool, is_controller: bool, ports: _Ports) -> Member:
    numbers = {name: (bound.number, advertised.number) for name, (bound, advertised) in ports.items()}
    return Member(node_id, is_broker, is_controller, _random_id(), numbers)


def _name(node_id: int) -> str:
    return f"node-{node_id}"


def _random_id() -> str:
    """Return a random id in Kafka's form. It begins with no dash, so that commands take it as a value."""
    while (found := str(Uuid(os.urandom(16)))).startswith("-"):
        continue
    return found
