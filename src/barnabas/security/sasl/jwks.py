"""The keys that verify tokens: a JSON Web Key Set in a file or at a URL, fetched periodically.

A thread fetches them, so that no client waits for the provider: at the start, every ``refresh.ms``, and again when
a token names an unknown key (a provider that changed its keys), but at most once in ten seconds for all tokens
together. While fetches fail, the known keys stay valid and the pause between attempts grows.

A file is read before the node is ready, so that a wrong file is detected at the start. The node starts even if a URL
does not respond; until it does, no token is accepted.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, url2pathname

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.client import HTTPMessage
    from typing import IO

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey = RSAPublicKey | EllipticCurvePublicKey

__all__ = ["ALGORITHMS", "JsonWebKeys", "RefreshPolicy", "UnusableJwks", "UnusableJwksUrl", "check_jwks_url", "fetch"]

log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures that count: asymmetric ones."""

_EARLY_REFRESH_S = 10.0
_INTERVAL_MS_MIN = 1000
_FETCH_TIMEOUT_S = 10.0
_DOCUMENT_BYTES_MAX = 1024 * 1024
_KEYS_MAX = 1000
_RSA_BITS_MIN = 2048
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class UnusableJwksUrl(ValueError):
    """The setting is not a valid URL of keys; the message has the reason."""


class UnusableJwks(Exception):
    """The file or URL returned no usable key set."""


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    interval_ms: int = 3600000
    backoff_ms: int = 100
    backoff_ms_max: int = 10000


def check_jwks_url(url: str) -> None:
    """Raise UnusableJwksUrl for an invalid URL. A file must exist and hold a key set; other URLs are only parsed."""
    scheme = urlsplit(url).scheme.lower()
    if scheme not in ("file", "http", "https"):
        raise UnusableJwksUrl(f"its protocol '{scheme}' is none of file, http and https")
    if scheme != "file":
        if not urlsplit(url).hostname:
            raise UnusableJwksUrl("it names no host")
        return
    try:
        read_key_set(fetch(url))
    except UnusableJwks as error:
        raise UnusableJwksUrl(str(error)) from None


def fetch(url: str) -> bytes:
    """Return the document at a file:, http: or https: URL. Waits for the network. Raises UnusableJwks."""
    parts = urlsplit(url)
    try:
        if parts.scheme.lower() == "file":
            with Path(url2pathname(parts.path)).open("rb") as file:
                data = file.read(_DOCUMENT_BYTES_MAX + 1)
        else:
            data = _fetch_over_http(url)
    except (OSError, ValueError) as error:
        raise UnusableJwks(f"it cannot be read: {error}") from error
    if len(data) > _DOCUMENT_BYTES_MAX:
        raise UnusableJwks(f"it is longer than {_DOCUMENT_BYTES_MAX} bytes")
    return data


def _fetch_over_http(url: str) -> bytes:
    from http.client import HTTPException

    class SameSecurity(HTTPRedirectHandler):
        def redirect_request(
            self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
        ) -> Request | None:
            if req.full_url.lower().startswith("https:") and not newurl.lower().startswith("https:"):
                raise OSError("it redirects from https to something else")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener(SameSecurity).open(request, timeout=_FETCH_TIMEOUT_S) as response:
            data: bytes = response.read(_DOCUMENT_BYTES_MAX + 1)
            return data
    except HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error


def read_key_set(data: bytes) -> list[dict[str, object]]:
    """Return the entries of a JSON Web Key Set, unparsed. Raises UnusableJwks."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise UnusableJwks("it is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise UnusableJwks("it is not a JSON Web Key Set: the list 'keys' is missing")
    return keys[:_KEYS_MAX]


class _Key:
    """One public key for signatures, and its algorithms."""

    __slots__ = ("_algorithm", "_curve", "_type", "id", "key")

    def __init__(self, description: dict[str, object], key: PublicKey) -> None:
        key_id, algorithm = description.get("kid"), description.get("alg")
        self.id = key_id if isinstance(key_id, str) else None
        self.key = key
        self._algorithm = algorithm if isinstance(algorithm, str) else None
        self._type = description.get("kty")
        self._curve = description.get("crv")

    def fits(self, algorithm: str) -> bool:
        if self._algorithm is not None and self._algorithm != algorithm:
            return False
        if algorithm in _CURVES:
            return self._type == "EC" and self._curve == _CURVES[algorithm]
        return self._type == "RSA"


class JsonWebKeys:
    """``fetch_document`` receives the URL and returns the document's bytes or raises UnusableJwks.

    ``setting`` names the setting with the URL, for the log.
    """

    def __init__(
        self,
        url: str,
        policy: RefreshPolicy,
        *,
        fetch_document: Callable[[str], bytes] = fetch,
        now: Callable[[], float] = monotonic,
        setting: str = "sasl.oauthbearer.jwks.endpoint.url",
    ) -> None:
        self._url = url
        self._setting = setting
        self._policy = policy
        self._fetch = fetch_document
        self._now = now
        self._keys: tuple[_Key, ...] = ()
        self._early_from = 0.0
        self._failures = 0
        self._wake = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if urlsplit(self._url).scheme.lower() == "file":
            self.refresh()
        self._thread = threading.Thread(target=self._run, name="jwks-refresh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop. The thread may still be waiting for a response; it ends with the process at the latest."""
        self._is_closed = True
        self._wake.set()

    def candidates(self, key_id: str | None, algorithm: str) -> list[PublicKey]:
        """The keys that a token with this key id (or without one) may be signed with."""
        keys = self._keys
        found = [key.key for key in keys if (key_id is None or key.id == key_id) and key.fits(algorithm)]
        if not found:
            self._refresh_early()
        return found

    def refresh(self) -> bool:
        """Fetch now; return False if that failed and the old keys stay."""
        try:
            self._keys = _usable_keys(read_key_set(self._fetch(self._url)))
        except UnusableJwks as error:
            self._failures += 1
            level = logging.WARNING if self._failures == 1 else logging.DEBUG
            log.log(level, "the keys of %s=%s can't be used: %s", self._setting, self._url, error)
            return False
        except Exception:
            # Catch everything: without this thread the keys would never change again.
            self._failures += 1
            log.exception("the keys of %s=%s can't be fetched", self._setting, self._url)
            return False
        if self._failures:
            log.info("the keys of %s=%s have been fetched", self._setting, self._url)
        self._failures = 0
        return True

    @property
    def pause_s(self) -> float:
        """Seconds until the next attempt, unless one is requested earlier."""
        policy = self._policy
        if not self._failures:
            return max(policy.interval_ms, _INTERVAL_MS_MIN) / 1000
        backoff_ms: int = policy.backoff_ms << min(self._failures - 1, 30)
        return max(min(backoff_ms, policy.backoff_ms_max), 10) / 1000

    def _refresh_early(self) -> None:
        now = self._now()
        if now >= self._early_from:
            self._early_from = now + _EARLY_REFRESH_S
            self._wake.set()

    def _run(self) -> None:
        is_due = not self._keys
        while not self._is_closed:
            if is_due:
                self.refresh()
            self._wake.wait(self.pause_s)
            self._wake.clear()
            is_due = True


def _usable_keys(descriptions: list[dict[str, object]]) -> tuple[_Key, ...]:
    keys = []
    for description in descriptions:
        try:
            key = _public_key(description)
        except (ValueError, TypeError, KeyError):
            log.warning("a key of the JSON Web Key Set can't be used; it is skipped", exc_info=True)
        else:
            if key is not None:
                keys.append(_Key(description, key))
    return tuple(keys)


def _public_key(description: dict[str, object]) -> PublicKey | None:
    """Return the key; None if it has another purpose. Raises ValueError, TypeError or KeyError."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from jwt import PyJWTError
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm

    if description.get("use", "sig") != "sig" or description.get("alg", ALGORITHMS[0]) not in ALGORITHMS:
        return None
    public = {name: value for name, value in description.items() if name not in _PRIVATE_PARTS}
    key: object = None
    try:
        if description.get("kty") == "RSA":
            key = RSAAlgorithm.from_jwk(public)
        elif description.get("kty") == "EC":
            key = ECAlgorithm.from_jwk(public)
    except PyJWTError as error:
        raise ValueError(str(error)) from None
    if isinstance(key, RSAPublicKey) and key.key_size < _RSA_BITS_MIN:
        raise ValueError(f"an RSA key of {key.key_size} bits is too short: {_RSA_BITS_MIN} at least")
    return key if isinstance(key, RSAPublicKey | EllipticCurvePublicKey) else None


_PRIVATE_PARTS = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))
