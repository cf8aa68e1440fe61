"""Values derived from several settings: listeners and their protocols, directories, addresses for finding the leader.

The rules read these values before the settings are known to be consistent, ``node_config_rules.derive`` afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.settings.endpoints import (
    Endpoint,
    QuorumVoter,
    listener_protocols,
    parse_endpoint,
    parse_protocol_map,
    parse_voter,
)

if TYPE_CHECKING:
    from barnabas.server.settings.rule import Settings

__all__ = [
    "advertised_endpoints",
    "bootstrap_servers",
    "controller_listener_names",
    "cordoned_log_directories",
    "early_start_listeners",
    "endpoints",
    "inter_broker_listener",
    "log_directories",
    "metrics_endpoint",
    "protocols_by_listener",
]


def endpoints(settings: Settings, name: str) -> list[Endpoint]:
    return [parse_endpoint(text) for text in settings.texts(name)]


def advertised_endpoints(settings: Settings) -> list[Endpoint]:
    return endpoints(settings, "advertised.listeners" if settings.texts("advertised.listeners") else "listeners")


def controller_listener_names(settings: Settings) -> list[str]:
    return [name.upper() for name in settings.texts("controller.listener.names")]


def protocols_by_listener(settings: Settings) -> dict[str, str]:
    return listener_protocols(
        parse_protocol_map(settings.text("listener.security.protocol.map")),
        controller_listener_names(settings),
        [endpoint.listener for endpoint in endpoints(settings, "listeners")],
        given="listener.security.protocol.map" in settings,
    )


def inter_broker_listener(settings: Settings) -> str:
    return (settings.text("inter.broker.listener.name") or settings.text("security.inter.broker.protocol")).upper()


def early_start_listeners(settings: Settings) -> frozenset[str]:
    """Return the listeners that start early. An empty list means none; the default is the controller listeners."""
    if "early.start.listeners" not in settings:
        return frozenset(controller_listener_names(settings))
    return frozenset(name.upper() for name in settings.texts("early.start.listeners"))


def bootstrap_servers(settings: Settings, controllers: list[Endpoint]) -> list[QuorumVoter]:
    """Return the addresses for finding the leader: the configured ones, else the voters, else this node."""
    named = settings.texts("controller.quorum.bootstrap.servers") or settings.texts("controller.quorum.voters")
    servers = [parse_voter(text)._replace(id=-1) for text in named]
    return servers or [QuorumVoter(-1, controller.host, controller.port) for controller in controllers]


def log_directories(settings: Settings) -> list[str]:
    return settings.texts("log.dirs") or settings.texts("log.dir")


def cordoned_log_directories(settings: Settings) -> list[str]:
    named = settings.texts("cordoned.log.dirs")
    return log_directories(settings) if named == ["*"] else named


def metrics_endpoint(settings: Settings) -> tuple[str, int] | None:
    text = settings.text("barnabas.metrics.listener")
    if not text:
        return None
    address = parse_voter(text)
    return address.host, address.port
