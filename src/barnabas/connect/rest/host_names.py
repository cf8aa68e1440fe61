"""Check the host name of a request, on a loopback listener without authentication.

Any page can map its own name to this machine's address (DNS rebinding); to the browser the worker is then
part of that page. An IP address in the Host header can't be forged this way, nor can a name that only this machine has.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

__all__ = ["HostNames"]


@dataclass(frozen=True, slots=True)
class HostNames:
    """``names`` in lower case: the worker's names, besides ``localhost`` and every address."""

    names: frozenset[str] = frozenset()

    def may_be_asked_as(self, host_header: str) -> bool:
        host = _without_port(host_header).rstrip(".").lower()
        if not host or host == "localhost" or host in self.names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _without_port(host_header: str) -> str:
    if host_header.startswith("["):
        return host_header[1:].partition("]")[0]
    return host_header.partition(":")[0]
