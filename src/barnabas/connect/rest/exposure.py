"""Secure by default: no listener accepts unauthenticated users from other machines, unless a setting allows it.

Users of a worker can read every configuration, and the worker runs what they configure. So access to it means full
control. ``check_exposure`` runs before any socket is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.connect.rest.rest_settings import RestSettings, UnusableRestSetting

__all__ = ["check_exposure", "exposure_warnings"]


def check_exposure(settings: RestSettings) -> None:
    """Raise UnusableRestSetting for listeners that are open to any client, or that no client can use."""
    ways = settings.authentication.ways
    open_to_all = [str(listener) for listener in settings.all_listeners if not listener.is_loopback]
    if not ways and open_to_all and not settings.is_insecure_allowed:
        raise UnusableRestSetting(
            f"listeners: {', '.join(open_to_all)} can be reached from other machines without authentication. "
            "Set barnabas.connect.authentication to basic, jwt or mtls; or listen on http://localhost:8083 only; "
            "or set barnabas.connect.insecure=true to let every client do everything."
        )
    _check_needed(settings, ways)


def _check_needed(settings: RestSettings, ways: frozenset[str]) -> None:
    needed = (
        ("basic", settings.authentication.users_file, "barnabas.connect.users.file"),
        ("jwt", settings.authentication.jwt_keys, "barnabas.connect.jwt.keys.file"),
    )
    for way, value, setting in needed:
        if way in ways and value is None:
            raise UnusableRestSetting(f"barnabas.connect.authentication has {way}, which needs {setting}")
    if ways == {"mtls"}:
        without = [str(listener) for listener in settings.all_listeners if not listener.is_https]
        if without:
            raise UnusableRestSetting(
                "barnabas.connect.authentication is mtls, which needs TLS, but these listeners have none: "
                f"{', '.join(without)}; use https, or also allow basic or jwt"
            )
    if "mtls" in ways and settings.tls.client_auth == "none":
        raise UnusableRestSetting(
            "barnabas.connect.authentication has mtls, but ssl.client.auth is none, so no certificate is requested; "
            "set listeners.https.ssl.client.auth to requested or required"
        )


def exposure_warnings(settings: RestSettings) -> Sequence[str]:
    """Return warnings about allowed settings."""
    found = []
    plain = [str(listener) for listener in settings.all_listeners if not listener.is_loopback and not listener.is_https]
    ways = settings.authentication.ways
    if plain and ways & {"basic", "jwt"}:
        found.append(f"passwords and tokens are sent unencrypted to {', '.join(plain)}; use https listeners")
    if not ways and any(not listener.is_loopback for listener in settings.all_listeners):
        found.append("barnabas.connect.insecure=true: every client that can connect may do everything")
    return found
