"""Prevent replays of internal requests between Barnabas workers, which KIP-507's signature does not prevent.

A signature covers only the body, so a reader of a signed request can repeat it, or use it for another connector,
until the session key changes. Barnabas workers therefore add one header, which other workers ignore:

    X-Barnabas-Request-Freshness: v1 t=1795260583353 n=Zk1v... u=operator r=operate mac=...

``t`` is the sender's time in milliseconds, ``n`` a number used once. The MAC, made with the session key, covers these,
the method, the path with its query, the URL of the target worker, and the bytes of the body. ``u`` and
``r`` exist only in a forwarded request whose user is not identified by its headers (a client
certificate): they are the user's name and role.

The receiver refuses (403) a wrong MAC, a time that differs by more than the allowed age, a time before its own start
(it has no memory of earlier requests), and a number seen before. Numbers are remembered as long as their time is valid,
so their count is limited by the requests that members of the group have sent within that time.

Without the header only KIP-507 applies, because a Java worker never sends it. So removing the header turns a request
into one of Java's. This is refused only if every member is known to send the header
(``barnabas.connect.require.fresh.signatures``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from barnabas.connect.rest.request_signature import InvalidSignature

__all__ = ["FRESHNESS_HEADER", "Freshness", "FreshnessGuard", "SentRequest"]

FRESHNESS_HEADER = "X-Barnabas-Request-Freshness"

_DIGEST = "sha256"
_CONTEXT = b"barnabas request freshness v1"
_NONCE_BYTES_MIN, _NONCE_BYTES_MAX = 12, 64
_SEEN_MAX = 100_000
_HEADER_LENGTH_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """The parts of a request that the MAC covers. ``target``: path and query as sent; ``worker_url``: as advertised."""

    method: str
    target: str
    worker_url: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Freshness:
    """``user`` and ``role`` are empty except in forwarded requests of a user with a certificate."""

    time_ms: int
    nonce: bytes
    user: str = ""
    role: str = ""

    def header(self, key: bytes, request: SentRequest) -> str:
        parts = ["v1", f"t={self.time_ms}", f"n={_text(self.nonce)}"]
        if self.user:
            parts += [f"u={quote(self.user, safe='')}", f"r={self.role}"]
        return " ".join([*parts, f"mac={_text(self._mac(key, request))}"])

    def _mac(self, key: bytes, request: SentRequest) -> bytes:
        # Every part has a fixed length or a length prefix: no two requests have the same bytes.
        parts = (
            _CONTEXT,
            str(self.time_ms).encode(),
            self.nonce,
            self.user.encode(),
            self.role.encode(),
            request.method.upper().encode(),
            request.target.encode(),
            _canonical(request.worker_url).encode(),
            hashlib.sha256(request.body).digest(),
        )
        covered = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(key, covered, _DIGEST)

    @classmethod
    def verified(cls, header: str, key: bytes, request: SentRequest) -> Freshness:
        """Return the header's content, if its MAC is right. Raise InvalidSignature."""
        fields = _fields(header)
        try:
            found = cls(
                int(fields["t"]),
                _bytes(fields["n"]),
                unquote(fields.get("u", ""), errors="strict"),
                fields.get("r", ""),
            )
            claimed = _bytes(fields["mac"])
        except (KeyError, ValueError):
            raise _malformed() from None
        if not _NONCE_BYTES_MIN <= len(found.nonce) <= _NONCE_BYTES_MAX:
            raise _malformed()
        if not hmac.compare_digest(found._mac(key, request), claimed):
            raise InvalidSignature(
                f"Internal request contained an invalid {FRESHNESS_HEADER}: it was created for another request, for "
                "another worker or with another session key."
            )
        return found


class FreshnessGuard:
    """Accepts every request once. ``started_ms`` is when this worker began to remember requests."""

    def __init__(self, *, age_ms_max: int, started_ms: int) -> None:
        self._age_ms_max = age_ms_max
        self._started_ms = started_ms
        self._seen: dict[bytes, int] = {}
        self._swept_ms = started_ms
        self._lock = threading.Lock()

    def admit(self, freshness: Freshness, now_ms: int) -> None:
        """Raise InvalidSignature for a request that is too old, from the future, or repeated. Thread-safe."""
        with self._lock:
            self._admit(freshness, now_ms)

    def _admit(self, freshness: Freshness, now_ms: int) -> None:
        if abs(now_ms - freshness.time_ms) > self._age_ms_max:
            raise InvalidSignature(
                f"Internal request is not fresh: it was created at {freshness.time_ms} ms, it is now {now_ms} ms, and "
                f"barnabas.connect.fresh.signature.max.age.ms is {self._age_ms_max}. Check the workers' clocks."
            )
        if freshness.time_ms < self._started_ms:
            raise InvalidSignature("Internal request was created before this worker started; send it again.")
        self._sweep(now_ms)
        if freshness.nonce in self._seen:
            raise InvalidSignature("Internal request was received before; a repeated request is ignored.")
        if len(self._seen) >= _SEEN_MAX:
            # Only members of the group, whose MAC was right, reach this point; forgetting numbers would allow replays.
            raise InvalidSignature("Too many internal requests at once; send it again later.")
        self._seen[freshness.nonce] = freshness.time_ms

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms < self._age_ms_max and len(self._seen) < _SEEN_MAX:
            return
        self._swept_ms = now_ms
        oldest_ms = now_ms - self._age_ms_max
        self._seen = {nonce: time_ms for nonce, time_ms in self._seen.items() if time_ms >= oldest_ms}


def _canonical(url: str) -> str:
    return url.rstrip("/").lower()


def _fields(header: str) -> Mapping[str, str]:
    words = header.split(" ")
    if len(header) > _HEADER_LENGTH_MAX or words[0] != "v1":
        raise _malformed()
    pairs = [word.partition("=")[::2] for word in words[1:]]
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _malformed()
    return fields


def _malformed() -> InvalidSignature:
    return InvalidSignature(f"Internal request contained a malformed {FRESHNESS_HEADER}.")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _text(data) != text:
        raise ValueError(text)
    return data
