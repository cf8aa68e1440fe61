"""Bearer tokens for a registry from a token endpoint, by OAuth's grant of client credentials (RFC 6749, 4.4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import msgspec

from barnabas.clients.schema_registry.errors import RegistryRefused, RegistryUnreachable, SchemaError

__all__ = ["ClientCredentials", "OauthTokens"]

_TIMEOUT_S = 10.0
_USED_PART = 0.8
"""A token is replaced after this part of its life."""
_LIFE_S = 300.0
"""The life of a token whose endpoint does not say it."""


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float = _LIFE_S


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""


class OauthTokens:
    """Call it for a token that is valid now."""

    def __init__(self, credentials: ClientCredentials, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._clock = clock
        self._token, self._replaced_at_s = "", 0.0

    def __call__(self) -> str:
        """Return a token. Raise SchemaError."""
        if not self._token or self._clock() >= self._replaced_at_s:
            answer = self._requested()
            self._token = answer.access_token
            self._replaced_at_s = self._clock() + answer.expires_in * _USED_PART
        return self._token

    def _requested(self) -> _Answer:
        wanted = self._credentials
        form = {"grant_type": "client_credentials"} | ({"scope": wanted.scope} if wanted.scope else {})
        try:
            response = httpx.post(
                wanted.endpoint, data=form, auth=(wanted.client_id, wanted.client_secret), timeout=_TIMEOUT_S
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RegistryUnreachable(
                f"the token endpoint {wanted.endpoint} does not answer: {error or type(error).__name__}",
                "check bearer.auth.issuer.endpoint.url",
            ) from None
        if response.status_code >= 500:
            raise RegistryUnreachable(f"the token endpoint {wanted.endpoint} answers HTTP {response.status_code}")
        if response.status_code >= 300:
            raise RegistryRefused(
                f"the token endpoint {wanted.endpoint} refused the client {wanted.client_id}: "
                f"HTTP {response.status_code}",
                "check bearer.auth.client.id, bearer.auth.client.secret and bearer.auth.scope",
                status=response.status_code,
            )
        try:
            return msgspec.json.decode(response.content, type=_Answer)
        except msgspec.DecodeError as error:
            raise SchemaError(f"the token endpoint {wanted.endpoint} returned no token: {error}") from None
