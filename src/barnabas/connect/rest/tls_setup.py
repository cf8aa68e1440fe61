"""TLS of listeners, and of the clients that contact the listeners of other processes in the group."""

from __future__ import annotations

import httpx

from barnabas.connect.rest.rest_settings import UnusableRestSetting
from barnabas.connect.settings.listener_urls import Listener
from barnabas.security.tls import ServerTls, TlsError, client_context
from barnabas.security.tls_settings import TlsSettings

__all__ = ["http_client", "listener_tls"]


def listener_tls(listener: Listener, settings: TlsSettings) -> ServerTls | None:
    """Return the TLS of a listener, None for http. Raise UnusableRestSetting."""
    if not listener.is_https:
        return None
    try:
        return ServerTls(str(listener), settings)
    except TlsError as error:
        raise UnusableRestSetting(f"listener {listener}: {error}") from None


def http_client(tls: TlsSettings, timeout: httpx.Timeout) -> httpx.AsyncClient:
    """Return a client with the trust and the certificate of the listeners. Raise UnusableRestSetting."""
    try:
        context = client_context(tls if tls.has_key or tls.has_trust else TlsSettings())
    except TlsError as error:
        raise UnusableRestSetting(str(error)) from None
    return httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False, trust_env=False)
