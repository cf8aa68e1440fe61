"""Parses listeners in the form of the configuration, ``NAME://host:port``, and the security protocol of each name.

Names are converted to upper case. An empty host means every interface; port 0 means that the system chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = [
    "META_ADDRESS",
    "Endpoint",
    "QuorumVoter",
    "listener_protocols",
    "parse_endpoint",
    "parse_protocol_map",
    "parse_voter",
]

META_ADDRESS = "0.0.0.0"
"""Every interface of a machine: an address to listen on, but not to connect to."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT = re.compile(
    r"(?P<name>.*)://(?:\[(?P<ipv6>[0-9a-zA-Z\-%._:]*)\]|(?P<host>[0-9a-zA-Z\-%._]*)):(?P<port>[0-9]+)"
)
_VOTER = re.compile(r"(?P<id>[0-9]+)@(?:\[(?P<ipv6>[0-9a-zA-Z%.:]+)\]|(?P<host>[^\s:@\[\]]+)):(?P<port>[0-9]+)")
_PORT_MAX = 65535


class Endpoint(NamedTuple):
    """One listener, bound or advertised."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.listener}://{_bracketed(self.host)}:{self.port}"


class QuorumVoter(NamedTuple):
    """One entry of controller.quorum.voters, or of controller.quorum.bootstrap.servers (then with id -1)."""

    id: int
    host: str
    port: int


def parse_endpoint(text: str) -> Endpoint:
    """Parse an endpoint. Raise ValueError with the reason."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not of the form NAME://host:port")
    name = match["name"].strip().upper()
    if not name:
        raise ValueError(f"'{text}' has no listener name in front of ://")
    return Endpoint(name, match["ipv6"] or match["host"] or "", _port(text, match["port"]))


def parse_voter(text: str) -> QuorumVoter:
    """Parse ``id@host:port`` or, for a bootstrap server, ``host:port``. Raise ValueError with the reason."""
    match = _VOTER.fullmatch(text if "@" in text else f"0@{text}")
    if match is None:
        raise ValueError(f"'{text}' is not of the form host:port or id@host:port")
    voter_id = int(match["id"]) if "@" in text else -1
    return QuorumVoter(voter_id, match["ipv6"] or match["host"], _port(text, match["port"]))


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse ``NAME:PROTOCOL,...`` to protocols by listener name. Raise ValueError with the reason."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ValueError(f"'{entry}' is not of the form LISTENER:PROTOCOL")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ValueError(f"'{entry}' names no security protocol; allowed are {', '.join(SECURITY_PROTOCOLS)}")
        if name.upper() in protocols:
            raise ValueError(f"listener {name.upper()} is mapped twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def listener_protocols(
    protocol_map: Mapping[str, str],
    controller_listener_names: Iterable[str],
    listener_names: Iterable[str],
    *,
    given: bool,
) -> dict[str, str]:
    """Return the security protocol of every listener name.

    If the map was not given, controller listeners are PLAINTEXT whatever their names, unless a listener is named after
    a secure protocol: then no protocol is assumed.
    """
    protocols = dict(protocol_map)
    names = {name.upper() for name in (*controller_listener_names, *listener_names)}
    if not given and names.isdisjoint(SECURITY_PROTOCOLS[1:]):
        for name in controller_listener_names:
            protocols.setdefault(name.upper(), "PLAINTEXT")
    return protocols


def _port(text: str, digits: str) -> int:
    port = int(digits) if len(digits) <= 5 else _PORT_MAX + 1
    if port > _PORT_MAX:
        raise ValueError(f"'{text}' has a port above {_PORT_MAX}")
    return port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
