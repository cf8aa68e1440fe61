"""What each listener asks of those who connect: its protocol, its TLS, its SASL, and who builds the principal.

A setting may be given for one listener: ``listener.name.<listener in lower case>.<setting>``, and those of a SASL
mechanism for that too: ``listener.name.<listener>.<mechanism in lower case>.<setting>``. The nearest one that was given
wins, then the setting itself, then its default: ``listener_value`` is the one place that knows the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.security.principal_builder import KAFKA_DEFAULT_BUILDER, DefaultPrincipalBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.common.clock import Clock
    from barnabas.common.config_def import ConfigValue
    from barnabas.security.principal_builder import PrincipalBuilder
    from barnabas.security.sasl.credential_store import CredentialStore
    from barnabas.security.sasl.sasl_listener import SaslListener
    from barnabas.security.tls import ServerTls
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["GivenSettings", "ListenerSecurity", "listener_security", "listener_setting_name", "listener_value"]


class GivenSettings(Protocol):
    """A NodeConfig, or what will become one when it has been checked."""

    @property
    def values(self) -> Mapping[str, ConfigValue]: ...

    def value(self, name: str) -> ConfigValue: ...


def listener_setting_name(config: GivenSettings, listener: str, name: str, mechanism: str | None = None) -> str:
    """The name under which a listener's setting was given; ``name`` itself when it was not given for the listener."""
    prefix = f"listener.name.{listener.lower()}."
    names = (f"{prefix}{name}",) if mechanism is None else (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}")
    return next((each for each in names if each in config.values), name)


def listener_value(config: GivenSettings, listener: str, name: str, mechanism: str | None = None) -> ConfigValue:
    """The typed value of a setting for one listener (and one SASL mechanism)."""
    given = listener_setting_name(config, listener, name, mechanism)
    return config.values[given] if given in config.values else config.value(name)


class ListenerSecurity:
    """How one listener finds out who is calling. Made once, when the node opens the listener.

    ``tls`` is there for SSL and SASL_SSL; it follows its files. ``sasl`` is there for SASL_PLAINTEXT and SASL_SSL: it
    makes the state machine of a new connection (see ``security.sasl``).
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
    """None for a listener on which everybody is anonymous and nothing has to be decided (PLAINTEXT by default)."""
    protocol = endpoint.security_protocol
    uses_tls = protocol in ("SSL", "SASL_SSL")
    has_builder = listener_value(config, endpoint.listener, "principal.builder.class") != KAFKA_DEFAULT_BUILDER
    if protocol == "PLAINTEXT" and not has_builder:
        return None
    if uses_tls or has_builder:
        from barnabas.server.settings.tls import principal_builder_of, server_tls_of  # Others don't need it.

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
