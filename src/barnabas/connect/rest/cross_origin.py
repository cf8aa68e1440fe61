"""Decide which pages of other origins may use the API (``access.control.allow.origin``, ``.methods``).

Before a request that is not simple, browsers send a preflight, which is answered here. They send a simple request
directly, so a page could still restart a connector with the password that the browser stores. ``is_forgery`` detects
such a request by the origin that the browser reports, and it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["CrossOriginRules"]

_DEFAULT_METHODS = ("GET", "POST", "HEAD")
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_ALLOWED_HEADERS = "X-Requested-With,Content-Type,Accept,Origin,Authorization"
_PREFLIGHT_AGE_S = 1800


@dataclass(frozen=True, slots=True)
class CrossOriginRules:
    """``origins`` is empty if no other origin is allowed, and has ``*`` if all are."""

    origins: frozenset[str] = frozenset()
    methods: tuple[str, ...] = _DEFAULT_METHODS

    @classmethod
    def of(cls, origins: tuple[str, ...], methods: tuple[str, ...]) -> CrossOriginRules:
        return cls(
            frozenset(origin.rstrip("/").lower() if origin != "*" else origin for origin in origins),
            tuple(method.upper() for method in methods) or _DEFAULT_METHODS,
        )

    def is_allowed(self, origin: str) -> bool:
        return "*" in self.origins or origin.rstrip("/").lower() in self.origins

    def headers(self, method: str, request: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of the answer to this request."""
        origin = request.get("origin")
        if not self.origins:
            return {}
        if origin is None or not self.is_allowed(origin):
            return {"Vary": "Origin"}
        answer = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if "*" not in self.origins:
            # A page of another origin must not act with the credentials that the browser stores for this user.
            answer["Access-Control-Allow-Credentials"] = "true"
        if method == "OPTIONS" and "access-control-request-method" in request:
            answer["Access-Control-Allow-Methods"] = ",".join(self.methods)
            answer["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
            answer["Access-Control-Max-Age"] = str(_PREFLIGHT_AGE_S)
        return answer

    def is_forgery(self, method: str, request: Mapping[str, str]) -> bool:
        """Return whether a page of a forbidden origin has made a browser send this request."""
        if method in _SAFE_METHODS:
            return False
        origin = request.get("origin")
        if origin is None:
            return request.get("sec-fetch-site") == "cross-site"
        return not self.is_allowed(origin) and not _is_own(origin, request.get("host", ""))


def _is_own(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
