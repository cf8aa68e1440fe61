"""The listeners of a node. All are bound at the start; each reads requests once its part of the node is ready."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from barnabas.network.listener import ConnectionLimits, Listener
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import DefaultPrincipalBuilder
from barnabas.server.listeners.security import listener_security
from barnabas.server.settings.dynamic_effects import ListenerEffect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.network.connection_quotas import ConnectionQuotas
    from barnabas.network.request_dispatcher import RequestDispatcher
    from barnabas.security.request_context import RequestContext
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.endpoints import Endpoint

__all__ = ["NodeListeners"]


class NodeListeners:
    def __init__(self, core: NodeCore) -> None:
        config = core.config
        self._core = core
        self._limits = ConnectionLimits(
            requests=core.request_limits,
            idle_ms_max=config.connections_max_idle_ms,
            total_max=core.descriptors.connections_max,
            handshake_ms_max=config.barnabas_authentication_timeout_ms,
        )
        self.by_name: dict[str, Listener] = {}
        self.dispatchers: list[RequestDispatcher] = []

    async def open(self, endpoint: Endpoint, dispatcher: RequestDispatcher, quotas: ConnectionQuotas) -> None:
        """Bind the port without serving connections yet. Raise OSError that names the endpoint if it can't be bound."""
        core, config = self._core, self._core.config
        security = listener_security(config, endpoint, credentials=core.credentials, clock=core.clock)
        listener = Listener(endpoint.listener, dispatcher, self._limits, security, quotas)
        try:
            await listener.bind(endpoint.host, endpoint.port, config.socket_listen_backlog_size)
        except OSError as error:
            raise OSError(error.errno, f"{endpoint}: {error.strerror or error}") from error
        if security is not None and endpoint in config.broker_listeners:
            core.dynamic_settings.add_effect(ListenerEffect(security))
        core.authorization.guard(listener, dispatcher)
        self.dispatchers.append(dispatcher)
        self.by_name[endpoint.listener] = listener

    async def start(self, *, early: bool) -> None:
        """Start the listeners that read requests before the metadata log is read (``early``), or the others."""
        for name, listener in self.by_name.items():
            if self._core.authorization.reads_early(name) is early:
                await listener.start()

    async def close(self) -> None:
        for listener in self.by_name.values():
            await listener.close()

    def serialize_principal(self, context: RequestContext) -> bytes:
        """Serialize with the principal builder of the client's listener; its exceptions pass through."""
        security = self.by_name[context.listener_name].security
        builder = DefaultPrincipalBuilder() if security is None else security.principal_builder
        return builder.serialize(context.principal)

    def deserialize_principal(self, listener_name: str, data: bytes | None) -> Principal:
        """Read the client's principal in an envelope of the listener. Raise ValueError if it is unreadable."""
        if data is None:
            raise ValueError("the envelope has no principal")
        security = self.by_name[listener_name].security
        builder = DefaultPrincipalBuilder() if security is None else security.principal_builder
        try:
            principal = builder.deserialize(data)
        except ValueError:
            raise
        except Exception as error:  # A user's class may raise anything.
            raise ValueError(f"{type(builder).__qualname__}: {type(error).__name__}: {error}") from error
        if not isinstance(principal, Principal):
            raise ValueError(f"{type(builder).__qualname__} returned a {type(principal).__name__}")
        return principal

    def advertised(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Return the advertised endpoints. An empty host becomes this machine's name, port 0 the bound port."""
        return [
            endpoint._replace(
                host=endpoint.host or socket.getfqdn(), port=endpoint.port or self.by_name[endpoint.listener].port
            )
            for endpoint in endpoints
        ]
