"""Checks, before a node writes anything, that it can open its listeners.

Otherwise a node whose port is taken would format its directories, or read its logs, and then stop.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["require_free_ports"]

_PRIVILEGED = 1024
_REASONS = {
    errno.EADDRINUSE: "the port is in use: another process listens there; change the setting, or stop that process",
    errno.EADDRNOTAVAIL: "this machine does not have this address; change the host in the setting",
}


def require_free_ports(config: NodeConfig) -> None:
    """Open and close each listener of the settings. Raise NodeStartError that names all that can't be opened."""
    wanted = [
        ("listeners", str(endpoint), endpoint.host, endpoint.port)
        for endpoint in (*config.broker_listeners, *config.controller_listeners)
    ]
    if config.metrics_endpoint is not None:
        host, port = config.metrics_endpoint
        wanted.append(("barnabas.metrics.listener", f"{host}:{port}", host, port))
    problems = [problem for setting, name, host, port in wanted if (problem := _problem(setting, name, host, port))]
    if problems:
        raise NodeStartError("; ".join(problems))


def _problem(setting: str, name: str, host: str, port: int) -> str:
    """Return why an address can't be opened, or an empty text."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            _open(family, kind, protocol, address)
    except socket.gaierror as error:
        return f"{setting}: cannot open {name}: the host can't be resolved ({error.strerror})"
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
            return ""  # Without IPv6 the listener opens its IPv4 addresses only.
        if error.errno == errno.EACCES and port < _PRIVILEGED:
            return f"{setting}: cannot open {name}: only root may open ports below {_PRIVILEGED}; choose a higher one"
        return f"{setting}: cannot open {name}: {_REASONS.get(error.errno or 0, error.strerror or str(error))}"
    return ""


def _open(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> None:
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        trial.bind(address)
