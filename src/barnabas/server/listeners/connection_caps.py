"""Applies the connection limits of settings and client quotas to a broker's or a controller's listeners."""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from barnabas.network.connection_quotas import UNLIMITED, ConnectionCaps, ListenerCaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.network.connection_quotas import ConnectionQuotas
    from barnabas.server.settings.dynamic_broker_config import SettingsChange
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["ConnectionEffect", "IpRatePublisher", "connection_caps"]

log = logging.getLogger(__name__)

_TOTAL, _RATE, _OVERRIDES = "max.connections", "max.connection.creation.rate", "max.connections.per.ip.overrides"
_KEY = "connection_creation_rate"


def connection_caps(config: NodeConfig, listeners: Iterable[str], *, protected: str | None = None) -> ConnectionCaps:
    """Parse the limits. Raise ValueError for malformed overrides."""
    by_listener = {}
    for name in listeners:
        prefix = f"listener.name.{name.lower()}."
        total = config.values.get(prefix + _TOTAL, UNLIMITED)
        rate = config.values.get(prefix + _RATE, UNLIMITED)
        by_listener[name] = ListenerCaps(int(str(total)), int(str(rate)))
    return ConnectionCaps(
        connections_max=config.max_connections,
        creation_rate=config.max_connection_creation_rate,
        per_ip_max=config.max_connections_per_ip,
        per_ip_overrides=per_ip_overrides(config.max_connections_per_ip_overrides),
        by_listener=by_listener,
        protected_listener=protected,
    )


def per_ip_overrides(text: str) -> dict[str, int]:
    """Parse ``host:number`` pairs separated by commas. A name stands for all of its addresses."""
    overrides: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = item.rpartition(":")
        if not colon or not host.strip() or not number.strip().isdigit():
            raise ValueError(f"{_OVERRIDES} has {item!r}: write host:number, separated by commas")
        addresses = _addresses_of(host.strip().strip("[]"))
        if not addresses:
            raise ValueError(f"{_OVERRIDES} has {item!r}: the name {host.strip()!r} has no address")
        overrides.update(dict.fromkeys(addresses, int(number)))
    return overrides


def _addresses_of(host: str) -> Sequence[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


class ConnectionEffect:
    """Applies changes of the settings while the node runs."""

    def __init__(self, quotas: ConnectionQuotas, listeners: Iterable[str], protected: str | None) -> None:
        self._quotas = quotas
        self._listeners = tuple(listeners)
        self._protected = protected

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        before = connection_caps(change.old, self._listeners, protected=self._protected)
        after = connection_caps(change.new, self._listeners, protected=self._protected)
        return None if after == before else partial(self._quotas.follow, after)


class IpRatePublisher:
    """A MetadataPublisher. A thread resolves names; until then the default limit applies to their addresses."""

    def __init__(self, every: Sequence[ConnectionQuotas]) -> None:
        self._every = every
        self._generation = 0

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if not manifest.is_snapshot and delta.client_quotas is None:
            return
        default, limits, names = None, {}, {}
        for entity, quotas in new_image.client_quotas.by_entity.items():
            if len(entity) != 1 or entity[0][0] != "ip" or not quotas.get(_KEY, 0.0) > 0:
                continue
            host = entity[0][1]
            if host is None:
                default = quotas[_KEY]
            elif (address := _as_address(host)) is not None:
                limits[address] = quotas[_KEY]
            else:
                names[host] = quotas[_KEY]
        self._generation += 1
        self._log_limits(default, limits)
        if names:
            looking_up = asyncio.get_running_loop().run_in_executor(None, _look_up, names)
            looking_up.add_done_callback(partial(self._found, self._generation, default, limits))

    def _found(
        self,
        generation: int,
        default: float | None,
        limits: Mapping[str, float],
        looked_up: asyncio.Future[dict[str, float]],
    ) -> None:
        if generation == self._generation and not looked_up.cancelled():
            self._log_limits(default, {**looked_up.result(), **limits})

    def _log_limits(self, default: float | None, limits: Mapping[str, float]) -> None:
        for quotas in self._every:
            quotas.follow_ip_rates(default, limits)


def _as_address(host: str) -> str | None:
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _look_up(names: Mapping[str, float]) -> dict[str, float]:
    limits = {}
    for name, limit in names.items():
        addresses = _addresses_of(name)
        if not addresses:
            log.warning("the quota of ip %s is not in force: the name has no address", name)
        limits.update(dict.fromkeys(addresses, limit))
    return limits
