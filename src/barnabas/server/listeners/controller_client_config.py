"""The client settings of this node for its quorum's controllers, from the first controller listener.

As in Kafka, the client uses the settings of the listener itself: ``listener.name.<name>.ssl.*`` and
``listener.name.<name>.<mechanism>.sasl.jaas.config`` override the settings without a listener's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.clients.client_config import Address, ClientConfig, client_config
from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.server.settings.listener_values import listener_value
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["controller_client_config", "listener_client_values"]

_NO_PROPERTIES: dict[str, str] = {"bootstrap.servers": "localhost:1"}


def controller_client_config(config: NodeConfig, *, client_id: str, request_timeout_ms: int) -> ClientConfig:
    """Return client settings for requests to controllers. ``bootstrap`` is used by requests without an address.

    Raise NodeStartError for credentials that can't log in.
    """
    values = listener_client_values(
        config,
        config.first_controller_listener,
        config.controller_security_protocol,
        mechanism=str(config.value("sasl.mechanism.controller.protocol")),
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        peers="other controllers",
    )
    return ClientConfig([Address(server.host, server.port) for server in config.quorum_bootstrap_servers], values)


def listener_client_values(
    config: NodeConfig,
    listener: str,
    protocol: str,
    *,
    mechanism: str,
    client_id: str,
    request_timeout_ms: int,
    peers: str,
) -> dict[str, object]:
    """Return client settings that match one of this node's listeners, for peers with the same listener."""
    values = dict(client_config(_NO_PROPERTIES).values)
    for name in values:
        if name.startswith(("ssl.", "sasl.")) and name in BROKER_CONFIG_DEF:
            values[name] = listener_value(config, listener, name, mechanism if name.startswith("sasl.") else None)
    values["client.id"] = client_id
    values["security.protocol"] = protocol
    values["sasl.mechanism"] = mechanism
    values["request.timeout.ms"] = request_timeout_ms
    values["socket.connection.setup.timeout.ms"] = request_timeout_ms
    if protocol.startswith("SASL_") and values["sasl.jaas.config"] is None:
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise NodeStartError(f"this node can't log in at {peers} over {listener}: {name} is not set")
    return values
