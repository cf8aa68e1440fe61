"""Listeners as ``listeners`` and ``admin.listeners`` write them, ``http://host:port``, and what is advertised of them.

An empty host means every interface. Listeners that other machines can reach need authentication, so ``is_loopback``
decides which hosts are only this machine. It checks the text without a name service, and accepts only ``localhost``
as a name.
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
    """The text says which one and what it should be."""


@dataclass(frozen=True, slots=True)
class Listener:
    """``host`` is empty for every interface; port 0 lets the system choose."""

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
    """Raises UnusableListener."""
    return tuple(_parse(setting, text) for text in texts)


def _parse(setting: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text.strip())
    if match is None or not 0 <= int(match["port"]) <= 65535:
        raise UnusableListener(
            f"{setting}: '{text}' is not a listener; write http://host:port or https://host:port, "
            "without a host for every interface"
        )
    return Listener(match["scheme"].lower(), match["ipv6"] or match["host"], int(match["port"]))


def is_loopback_host(host: str) -> bool:
    """Whether only this machine gets there."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def advertised_listener(listeners: Sequence[Listener], scheme: str | None) -> Listener:
    """The listener to advertise: with the requested scheme, else with http if one exists.

    Raises UnusableListener.
    """
    wanted = (scheme or ("http" if any(not listener.is_https for listener in listeners) else "https")).lower()
    for listener in listeners:
        if listener.scheme == wanted:
            return listener
    raise UnusableListener(
        f"rest.advertised.listener is {wanted}, but listeners has only: {', '.join(map(str, listeners))}"
    )


def worker_url(scheme: str, host: str, port: int) -> str:
    """The URL that workers exchange, with a slash at the end."""
    return f"{scheme}://{_bracketed(host)}:{port}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
