"""The client settings of this broker for other brokers, from the inter-broker listener.

As in Kafka, the client uses the settings of the listener itself: ``listener.name.<name>.ssl.*`` and
``listener.name.<name>.<mechanism>.sasl.jaas.config`` override the settings without a listener's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.clients.client_config import Address, ClientConfig
from barnabas.server.listeners.controller_client_config import listener_client_values

if TYPE_CHECKING:
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["inter_broker_address", "inter_broker_client_config"]

_BY_THE_SYSTEM = -1


def inter_broker_address(cluster: ClusterImage, broker_id: int, config: NodeConfig) -> Address | None:
    """Return a broker's address for other brokers; None if it is not registered or lacks the listener."""
    broker = cluster.broker(broker_id)
    listener = None if broker is None else broker.listeners.get(config.inter_broker_listener_name)
    return None if listener is None else Address(listener.host, listener.port)


def inter_broker_client_config(config: NodeConfig, *, client_id: str) -> ClientConfig:
    """Return client settings for requests between brokers. Each request names its address.

    Raise NodeStartError for credentials that can't log in.
    """
    listener = config.inter_broker_listener_name
    protocol = next(endpoint.security_protocol for endpoint in config.broker_listeners if endpoint.listener == listener)
    values = listener_client_values(
        config,
        listener,
        protocol,
        mechanism=config.sasl_mechanism_inter_broker_protocol,
        client_id=client_id,
        request_timeout_ms=config.replica_socket_timeout_ms,
        peers="other brokers",
    )
    values["socket.connection.setup.timeout.ms"] = config.socket_connection_setup_timeout_ms
    # The default is far too small for a fast network. Unless a size is configured, the operating system decides.
    values["receive.buffer.bytes"] = config.values.get("replica.socket.receive.buffer.bytes", _BY_THE_SYSTEM)
    return ClientConfig([], values)
