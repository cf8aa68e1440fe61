"""The security of each listener: its protocol, its TLS, its SASL, and its principal builder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.security.principal_builder import KAFKA_DEFAULT_BUILDER, DefaultPrincipalBuilder
from barnabas.server.settings.listener_values import listener_value

if TYPE_CHECKING:
    from barnabas.common.clock import Clock
    from barnabas.security.principal_builder import PrincipalBuilder
    from barnabas.security.sasl.credential_store import CredentialStore
    from barnabas.security.sasl.sasl_listener import SaslListener
    from barnabas.security.tls import ServerTls
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["ListenerSecurity", "listener_security"]


class ListenerSecurity:
    """Identifies the callers of one listener. Created once, when the node opens the listener.

    ``tls`` is set for SSL and SASL_SSL; it reloads changed files. ``sasl`` is set for SASL_PLAINTEXT and SASL_SSL: it
    creates the state machine of a new connection (see ``security.sasl``).
    """

    __slots__ = ("listener", "principal_builder", "protocol", "sasl", "tls")

    def __init__(
        self,
        listener: str,
        protocol: str,
        *,
        principal_builder: PrincipalBuilder,
        tls: ServerTls | None = None,
        sasl: SaslListener | None = None,
    ) -> None:
        self.listener = listener
        self.protocol = protocol
        self.principal_builder = principal_builder
        self.tls = tls
        self.sasl = sasl

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def listener_security(
    config: NodeConfig, endpoint: Endpoint, *, credentials: CredentialStore, clock: Clock
) -> ListenerSecurity | None:
    """Return None for a listener on which all clients are anonymous (PLAINTEXT with the default builder)."""
    protocol = endpoint.security_protocol
    uses_tls = protocol in ("SSL", "SASL_SSL")
    has_builder = listener_value(config, endpoint.listener, "principal.builder.class") != KAFKA_DEFAULT_BUILDER
    if protocol == "PLAINTEXT" and not has_builder:
        return None
    if uses_tls or has_builder:
        from barnabas.server.settings.tls import principal_builder_of, server_tls_of  # Other listeners don't need it.

        builder = principal_builder_of(config, endpoint.listener)
    else:
        builder = DefaultPrincipalBuilder()
    return ListenerSecurity(
        endpoint.listener,
        protocol,
        principal_builder=builder,
        tls=server_tls_of(config, endpoint.listener, protocol) if uses_tls else None,
        sasl=_sasl_of(config, endpoint, credentials, clock) if protocol.startswith("SASL_") else None,
    )


def _sasl_of(config: NodeConfig, endpoint: Endpoint, credentials: CredentialStore, clock: Clock) -> SaslListener:
    from barnabas.server.settings.sasl import sasl_listener

    return sasl_listener(config, endpoint.listener, credentials=credentials, clock=clock)
