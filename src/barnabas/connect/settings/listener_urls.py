"""Parse ``listeners`` and ``admin.listeners`` (``http://host:port``), and choose the listener to advertise.

An empty host means all interfaces. Listeners that other machines can reach need authentication, so ``is_loopback``
decides whether only this machine can reach a host. It does not resolve names; the only accepted name is ``localhost``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Listener", "UnusableListener", "advertised_listener", "is_loopback_host", "parse_listeners", "worker_url"]

_LISTENER = re.compile(
    r"(?P<scheme>(?i:https?))://(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:/\[\]\s]*)):(?P<port>-?[0-9]+)/?"
)


class UnusableListener(ValueError):
    """A listener is invalid. The message contains the listener and the valid form."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of the REST API. An empty ``host`` means all interfaces; the system replaces port 0 by a free port."""

    scheme: str
    host: str
    port: int

    @property
    def is_https(self) -> bool:
        return self.scheme == "https"

    @property
    def is_loopback(self) -> bool:
        return is_loopback_host(self.host)

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


def parse_listeners(setting: str, texts: Sequence[str]) -> tuple[Listener, ...]:
    """Parse the URLs of a listener setting. Raise UnusableListener."""
    return tuple(_parse(setting, text) for text in texts)


def _parse(setting: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text.strip())
    if match is None or not 0 <= int(match["port"]) <= 65535:
        raise UnusableListener(
            f"{setting}: '{text}' is not a listener; write http://host:port or https://host:port, "
            "or omit the host to listen on all interfaces"
        )
    return Listener(match["scheme"].lower(), match["ipv6"] or match["host"], int(match["port"]))


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def advertised_listener(listeners: Sequence[Listener], scheme: str | None) -> Listener:
    """Return the listener to advertise: with the requested scheme; without one, with http if such a listener exists.

    Raise UnusableListener if no listener has the scheme.
    """
    wanted = (scheme or ("http" if any(not listener.is_https for listener in listeners) else "https")).lower()
    for listener in listeners:
        if listener.scheme == wanted:
            return listener
    raise UnusableListener(
        f"rest.advertised.listener is {wanted}, but listeners contains only {', '.join(map(str, listeners))}"
    )


def worker_url(scheme: str, host: str, port: int) -> str:
    """Return the URL that workers exchange, with a slash at the end."""
    return f"{scheme}://{_bracketed(host)}:{port}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
